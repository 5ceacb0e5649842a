// Updates of cellular automata made of logic gates, checked against plain loops in double.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <regex>

#include "bench/case.h"
#include "windrow/logic.h"

namespace wr::bench {
namespace {

using Values = std::vector<double>;

Values numbers(const Array& a) { return a.astype(DType::f64).to_vector<double>(); }

/// One layer of gates by plain loops.
struct PlainLayer {
  const Wiring* wiring;
  Values logits, coefficients, slopes;  // slopes: of the loss by the coefficients

  PlainLayer(const Wiring& w, const Array& z) : wiring(&w), logits(numbers(z)), slopes(logits.size() / 4, 0) {
    for (std::size_t i = 0; i < logits.size(); i += 16) {
      const Values p = shares(i);
      for (int c = 0; c < 4; ++c) {
        double sum = 0;
        for (std::size_t f = 0; f < 16; ++f) sum += p[f] * of_function(f, c);
        coefficients.push_back(sum);
      }
    }
  }

  Values shares(std::size_t first) const {
    Values p(16);
    double total = 0;
    for (std::size_t f = 0; f < 16; ++f) total += p[f] = std::exp(logits[first + f]);
    for (double& x : p) x /= total;
    return p;
  }
  /// Of 1, a, b, ab, from the function's truth table.
  static double of_function(std::size_t f, int c) {
    auto at = [&](bool a, bool b) { return static_cast<double>(logic::apply(static_cast<int>(f), a, b)); };
    const double one = at(false, false), a = at(true, false) - one, b = at(false, true) - one;
    return c == 0 ? one : c == 1 ? a : c == 2 ? b : at(true, true) - one - a - b;
  }
  const double* row(std::size_t gate) const { return &coefficients[gate * 4 % coefficients.size()]; }

  Values forward(const Values& x, std::size_t cells) const {
    Values out(wiring->size() * cells);
    for (std::size_t i = 0; i < wiring->size(); ++i) {
      const double *a = &x[(*wiring)[i].a * cells], *b = &x[(*wiring)[i].b * cells], *c = row(i);
      for (std::size_t j = 0; j < cells; ++j)
        out[i * cells + j] = c[0] + c[1] * a[j] + c[2] * b[j] + c[3] * a[j] * b[j];
    }
    return out;
  }
  Values backward(const Values& x, const Values& g, std::size_t cells) {
    Values dx(x.size(), 0);
    for (std::size_t i = 0; i < wiring->size(); ++i) {
      const std::size_t a = (*wiring)[i].a * cells, b = (*wiring)[i].b * cells;
      const double* c = row(i);
      double* s = &slopes[i * 4 % slopes.size()];
      for (std::size_t j = 0; j < cells; ++j) {
        const double d = g[i * cells + j], xa = x[a + j], xb = x[b + j];
        dx[a + j] += d * (c[1] + c[3] * xb);
        dx[b + j] += d * (c[2] + c[3] * xa);
        s[0] += d;
        s[1] += d * xa;
        s[2] += d * xb;
        s[3] += d * xa * xb;
      }
    }
    return dx;
  }
  Values by_logits() const {
    Values out;
    for (std::size_t i = 0; i < logits.size(); i += 16) {
      const Values p = shares(i);
      double d[16], mean = 0;
      for (std::size_t f = 0; f < 16; ++f) {
        d[f] = 0;
        for (int c = 0; c < 4; ++c) d[f] += slopes[i / 4 + static_cast<std::size_t>(c)] * of_function(f, c);
        mean += p[f] * d[f];
      }
      for (std::size_t f = 0; f < 16; ++f) out.push_back(p[f] * (d[f] - mean));
    }
    return out;
  }
};

/// A whole rollout by plain loops: the loss, and then the layers' slopes.
class PlainRollout {
 public:
  PlainRollout(const logic::Automaton& automaton, std::int64_t side, std::int64_t batch)
      : side_(static_cast<std::size_t>(side)),
        cells_(static_cast<std::size_t>(batch) * side_ * side_),
        channels_(static_cast<std::size_t>(automaton.options().channels)) {
    for (std::size_t i = 0; i < automaton.spread().size(); ++i)
      layers.emplace_back(automaton.spread()[i], automaton.perception()[i].logits.value());
    kernel_layers_ = layers.size();
    for (const logic::Layer& l : automaton.update()) layers.emplace_back(l.wiring, l.logits.value());
  }

  double run(Values state, const Values& target, int steps) {
    std::vector<Values> grids{std::move(state)};
    for (int t = 0; t < steps; ++t) grids.push_back(activations(grids.back()).back());
    double loss = 0;
    Values g(grids.back().size(), 0);
    for (std::size_t j = 0; j < cells_; ++j) {
      const double d = grids.back()[j] - target[j];
      loss += d * d;
      g[j] = 2 * d;
    }
    for (int t = steps - 1; t >= 0; --t) g = step_back(grids[t], std::move(g));
    return loss;
  }

  std::vector<PlainLayer> layers;

 private:
  /// Calls f(position in the state, position in the patches).
  template <class F>
  void for_each_neighbour(F f) const {
    const auto n = static_cast<std::ptrdiff_t>(side_);
    for (std::size_t c = 0; c < channels_; ++c)
      for (std::size_t j = 0; j < cells_; ++j)
        for (std::ptrdiff_t k = 0; k < 9; ++k) {
          const auto at = static_cast<std::ptrdiff_t>(j), y = at / n % n + k / 3 - 1, x = at % n + k % 3 - 1;
          if (y < 0 || y >= n || x < 0 || x >= n) continue;
          const auto from = static_cast<std::size_t>(at + (k / 3 - 1) * n + k % 3 - 1);
          f(c * cells_ + from, (c * 9 + static_cast<std::size_t>(k)) * cells_ + j);
        }
  }

  /// What each layer reads, and last what the step gives.
  std::vector<Values> activations(const Values& state) const {
    Values patches(channels_ * 9 * cells_, 0);
    for_each_neighbour([&](std::size_t from, std::size_t to) { patches[to] = state[from]; });
    std::vector<Values> all{std::move(patches)};
    for (std::size_t i = 0; i < layers.size(); ++i) {
      if (i == kernel_layers_) all.back().insert(all.back().begin(), state.begin(), state.end());
      all.push_back(layers[i].forward(all.back(), cells_));
    }
    return all;
  }

  Values step_back(const Values& state, Values g) {
    const auto read = activations(state);
    Values ds(state.size(), 0);
    for (std::size_t i = layers.size(); i-- > 0;) {
      g = layers[i].backward(read[i], g, cells_);
      if (i != kernel_layers_) continue;
      ds.assign(g.begin(), g.begin() + static_cast<std::ptrdiff_t>(state.size()));
      g.erase(g.begin(), g.begin() + static_cast<std::ptrdiff_t>(state.size()));
    }
    for_each_neighbour([&](std::size_t from, std::size_t to) { ds[from] += g[to]; });
    return ds;
  }

  std::size_t side_, cells_, channels_, kernel_layers_;
};

struct Size {
  std::int64_t side = 16, steps = 20, batch = 2;
  Recompute recompute = Recompute::yes;
};

Array bits(const Shape& shape, std::uint64_t seed) { return random_integers(shape, 2, seed).astype(DType::f32); }

Array checkerboard(const Size& s) {
  std::vector<float> target;
  for (std::int64_t i = 0; i < s.batch * s.side * s.side; ++i)
    target.push_back(static_cast<float>((i % s.side / 2 + i / s.side % s.side / 2) % 2));
  return Array::from(target, {s.batch * s.side * s.side});
}

/// Logits far from pass-through, so that gradients reach every gate and can be compared.
logic::AutomatonOptions mixed_gates() {
  logic::AutomatonOptions o;
  o.start = {.pass = 2, .noise = 2};
  return o;
}

Prepared prepare_update(int threads, const Size& s) {
  const auto automaton = std::make_shared<logic::Automaton>(mixed_gates());
  const auto adam = std::make_shared<optim::AdamW>(
      optim::Adam::Options{.lr = 0.05, .beta2 = 0.99, .weight_decay = 0.01, .clip = {.value = 100}});
  const auto cells = s.batch * s.side * s.side;
  const Array start = bits({8, cells}, 1), target = checkerboard(s);
  CompileOptions options;
  options.threads = threads;
  options.name = "logic_ca";
  Prepared p{compile(
                 options,
                 [&](const Tensor& state, const Tensor& wanted) {
                   const auto rule = automaton->rule();
                   const Tensor last = repeat(
                       static_cast<int>(s.steps),
                       [&](int, const std::vector<Tensor>& c) {
                         return std::vector<Tensor>{automaton->step(rule, c[0], s.side, s.side, Border::zero)};
                       },
                       {state}, s.recompute)[0];
                   const Tensor loss = sum(square(reshape(slice(last, 0, 0, 1), {cells}) - wanted));
                   adam->minimize(loss, automaton->parameters());
                   return loss;
                 },
                 f32(8, cells), f32(cells)),
             {start, target},
             {},
             0};
  p.check = [automaton, adam, s](Step& step, const std::vector<Array>& arguments) -> std::string {
    PlainRollout plain(*automaton, s.side, s.batch);
    const double wanted = plain.run(numbers(arguments[0]), numbers(arguments[1]), static_cast<int>(s.steps));
    const double got = step(arguments[0], arguments[1]);
    if (!(std::abs(got - wanted) <= 1e-4 * wanted))
      return fmt::format("the loss is {}, plain loops have {}", got, wanted);
    std::size_t layer = 0;
    for (const State& state : adam->states()) {  // after one update a mean is a tenth of the gradient
      if (state.name().find("mean.") == std::string::npos || state.name().find("square") != std::string::npos) continue;
      const Values mean = numbers(state.value()), gradient = plain.layers[layer++].by_logits();
      double largest = 1e-12;
      for (double g : gradient) largest = std::max(largest, std::abs(g));
      for (std::size_t i = 0; i < mean.size(); ++i)
        if (!(std::abs(10 * mean[i] - gradient[i]) <= 2e-3 * largest))
          return fmt::format("{}: gradient {} is {}, plain loops have {}", state.name(), i, 10 * mean[i], gradient[i]);
    }
    return layer == plain.layers.size() ? "" : fmt::format("{} of {} layers were compared", layer, plain.layers.size());
  };
  p.bytes = compulsory_bytes(p.step, p.arguments);
  return p;
}

Case update_case(const std::string& name, const Size& size) {
  const char* mode = size.recompute == Recompute::yes ? "gates recomputed going back" : "all activations kept";
  return {name,
          fmt::format("logic automaton, 3040 gates, {0}x{0}, {1} steps, batch {2}; {3}", size.side, size.steps,
                      size.batch, mode),
          [size](int threads) { return prepare_update(threads, size); }};
}

}  // namespace

std::vector<Case> logic_cases() {
  return {update_case("logic_ca_checkerboard_update", {}),
          update_case("logic_ca_checkerboard_update_kept", {.recompute = Recompute::no})};
}

std::optional<Case> logic_case(const std::string& name) {
  std::smatch found;
  const std::regex form("logic_ca_checkerboard_update(_kept)?_([1-9][0-9]{0,3})_s([1-9][0-9]{0,3})_b([1-9][0-9]{0,3})");
  if (!std::regex_match(name, found, form)) return std::nullopt;
  return update_case(name, {std::stoll(found[2]), std::stoll(found[3]), std::stoll(found[4]),
                            found[1].matched ? Recompute::no : Recompute::yes});
}

}  // namespace wr::bench
