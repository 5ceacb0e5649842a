// From gates that are mixtures to hard ones that work: a search that slopes lead.
#include "apps/automaton/polish.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "windrow/ops.h"
#include "windrow/random.h"

namespace wr::apps {

using namespace logic;

namespace {

struct Choice {
  std::size_t layer, gate;
  int function;
};

/// Likely functions of each gate, where there are several.
std::vector<Choice> choices(const std::vector<State>& layers, double likely) {
  std::vector<Choice> all;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const Array z = layers[layer].value().astype(DType::f64);
    const double* row = z.data<double>();
    for (std::size_t gate = 0; gate < static_cast<std::size_t>(z.size(0)); ++gate, row += kFunctions) {
      const double top = *std::max_element(row, row + kFunctions);
      double sum = 0;
      for (int f = 0; f < kFunctions; ++f) sum += std::exp(row[f] - top);
      if (1 / sum > 1 - likely) continue;
      for (int f = 0; f < kFunctions; ++f)
        if (std::exp(row[f] - top) / sum >= likely) all.push_back({layer, gate, f});
    }
  }
  return all;
}

/// Any function for any gate that does something.
std::vector<Choice> working_gates(const Functions& functions) {
  std::vector<Choice> all;
  for (std::size_t layer = 0; layer < functions.size(); ++layer)
    for (std::size_t gate = 0; gate < functions[layer].size(); ++gate)
      for (int f = 0; f < kFunctions && functions[layer][gate] != kPassA; ++f) all.push_back({layer, gate, f});
  return all;
}

Choice any_choice(const Functions& functions, Rng& draw) {
  std::size_t gates = 0, layer = 0;
  for (const auto& of_layer : functions) gates += of_layer.size();
  auto gate = static_cast<std::size_t>(draw.below(gates));
  for (; gate >= functions[layer].size(); ++layer) gate -= functions[layer].size();
  return {layer, gate, static_cast<int>(draw.below(kFunctions))};
}

/// Gates that nothing seen depends on.
std::vector<Choice> unseen_gates(const Automaton& automaton, const Functions& functions, std::int64_t visible) {
  const Circuit circuit = circuit_of(automaton, functions);
  const std::vector<bool> seen = seen_wires(circuit, visible);
  auto wire = seen.begin() + static_cast<std::ptrdiff_t>(circuit.inputs);
  std::vector<Choice> unseen;
  const std::vector<std::size_t> counts = gates_by_layer(automaton);
  for (std::size_t layer = 0; layer < functions.size(); ++layer) {
    std::vector<bool> any(functions[layer].size(), false);
    for (std::size_t i = 0; i < counts[layer]; ++i, ++wire)
      if (*wire) any[i % any.size()] = true;
    for (std::size_t gate = 0; gate < any.size(); ++gate)
      if (!any[gate]) unseen.push_back({layer, gate, functions[layer][gate]});
  }
  return unseen;
}

/// c0 + c1 a + c2 b + c3 ab.
std::array<double, 4> coefficients_of(int function) {
  const auto f = [&](bool a, bool b) { return apply(function, a, b) ? 1.0 : 0.0; };
  const double at_0 = f(false, false), by_a = f(true, false) - at_0, by_b = f(false, true) - at_0;
  return {at_0, by_a, by_b, f(true, true) - at_0 - by_a - by_b};
}

/// What slopes say that a change will change.
class Forecast {
 public:
  explicit Forecast(const std::vector<Array>& slopes) {
    for (const Array& of_layer : slopes) slopes_.push_back(of_layer.astype(DType::f64));
  }
  double operator()(const Choice& choice, int function_now) const {
    const double* slope = slopes_[choice.layer].data<double>() + 4 * choice.gate;
    double change = 0;
    for (std::size_t k = 0; k < 4; ++k) change += slope[k] * (at(choice.function)[k] - at(function_now)[k]);
    return change;
  }

 private:
  static const std::array<double, 4>& at(int function) {
    static const auto all = [] {
      std::array<std::array<double, 4>, kFunctions> of_functions;
      for (int f = 0; f < kFunctions; ++f) of_functions[f] = coefficients_of(f);
      return of_functions;
    }();
    return all[function];
  }
  std::vector<Array> slopes_;
};

/// Changes of one gate, by what they promise.
struct Promises {
  std::vector<Choice> better;  // less wrong, the most promising first
  std::vector<Choice> mends;   // something that is wrong becomes right, but other things become wrong, not too many
};

Promises promises(const PolishExam::Slopes& slopes, const Functions& functions) {
  constexpr double kSurely = 0.5, kMostBroken = 64;
  const Forecast of_all(slopes.of_all), of_wrong(slopes.of_wrong);
  // What promises more than there is to mend adds up several ways that are one: it says nothing.
  const double most = static_cast<double>(slopes.wrong) + kSurely;
  std::vector<std::pair<double, Choice>> better;
  Promises found;
  for (std::size_t layer = 0; layer < functions.size(); ++layer)
    for (std::size_t gate = 0; gate < functions[layer].size(); ++gate)
      for (int f = 0; f < kFunctions; ++f) {
        const Choice choice{layer, gate, f};
        const double change = of_all(choice, functions[layer][gate]);
        if (change < -kSurely && change > -most)
          better.emplace_back(change, choice);
        else if (change < kMostBroken && of_wrong(choice, functions[layer][gate]) < -kSurely)
          found.mends.push_back(choice);
      }
  std::stable_sort(better.begin(), better.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [change, choice] : better) found.better.push_back(choice);
  return found;
}

class Polisher {
 public:
  Polisher(const Automaton& automaton, const PolishExam& exam, const PolishOptions& options)
      : automaton_(automaton),
        exam_(exam),
        options_(options),
        told_(functions_of(automaton)),
        now_(told_),
        best_(told_),
        likely_(choices(automaton.parameters(), options.likely)),
        working_(working_gates(told_)),
        left_(exam.errors(now_)),
        least_(left_),
        draw_(Rng::stream(options.seed, 0)) {}

  std::int64_t run() {
    for (int away = 0; goes_on();) {  // rounds since more is wrong than was
      const std::int64_t before = left_;
      if (exam_.slopes) shake();
      const Promises found = look();
      for (const Choice& choice : found.better)
        if (!is_kicked(choice)) attempt({choice}, left_);
      for (int i = 0; i < kWander; ++i) attempt(any_changes(), left_);
      away = left_ > least_ ? away + 1 : 0;
      if (left_ < before || !exam_.slopes) continue;
      if (away < patience_)
        kick(found.mends);
      else
        go_back();
    }
    now_ = best_;
    tell();
    return least_;
  }

 private:
  static constexpr int kWander = 100;  // tries at random between looks at the slopes
  static constexpr int kRounds = 4;    // at least, to come back to the fewest errors after something was broken
  static constexpr int kKicks = 200;   // tries to find what breaks little
  static constexpr std::int64_t kBroken = 3;
  static constexpr double kShaken = 0.2;

  bool goes_on() const { return tried_ < options_.tries && least_ > 0; }

  /// The automaton has the functions found so far.
  void tell() {
    exchange_functions(automaton_, told_, now_);
    told_ = now_;
  }

  /// What nobody sees may be anything: new signals for other gates to use.
  void shake() {
    const double share = kShaken * draw_.inside();
    for (const Choice& gate : unseen_gates(automaton_, now_, exam_.visible))
      if (draw_.inside() < share) now_[gate.layer][gate.gate] = static_cast<int>(draw_.below(kFunctions));
    if (left_ == least_) best_ = now_;
  }

  Promises look() {
    if (!exam_.slopes) return {};
    tell();
    return promises(exam_.slopes(), now_);
  }

  void go_back() {
    now_ = best_;
    left_ = least_;
    kicked_.clear();
    patience_ = kRounds << draw_.below(4);
  }

  /// The first that breaks little, or the one that breaks least.
  void kick(std::vector<Choice> mends) {
    std::erase_if(mends, [&](const Choice& choice) { return is_kicked(choice); });
    shuffle(mends, Rng::stream(draw_.bits(), 0));
    if (std::ssize(mends) > kKicks) mends.resize(kKicks);
    const std::int64_t before = left_;
    std::int64_t fewest = 0;
    const Choice* found = nullptr;
    for (const Choice& choice : mends) {
      if (!goes_on()) return;
      const std::int64_t left = errors_with(choice);
      if (found == nullptr || left < fewest) {
        found = &choice;
        fewest = left;
      }
      if (fewest <= before + kBroken) break;
    }
    if (found == nullptr) return;
    attempt({*found}, fewest);
    kicked_.push_back(*found);
  }

  std::int64_t errors_with(const Choice& choice) {
    ++tried_;
    int& function = now_[choice.layer][choice.gate];
    const int before = std::exchange(function, choice.function);
    const std::int64_t found = exam_.errors(now_);
    function = before;
    return found;
  }

  /// What is mended by breaking something else is not to be undone as the next best thing.
  bool is_kicked(const Choice& choice) const {
    return std::any_of(kicked_.begin(), kicked_.end(), [&](const Choice& kicked) {
      return kicked.layer == choice.layer && kicked.gate == choice.gate;
    });
  }

  std::vector<Choice> any_changes() {
    std::vector<Choice> changes;
    do changes.push_back(any_change());
    while (draw_.inside() < options_.more);
    return changes;
  }

  Choice any_change() {
    const double kind = draw_.inside();
    if (kind < options_.idle || (working_.empty() && likely_.empty())) return any_choice(now_, draw_);
    const bool working = likely_.empty() || (!working_.empty() && kind < options_.idle + options_.any);
    const std::vector<Choice>& from = working ? working_ : likely_;
    return from[draw_.below(from.size())];
  }

  /// Changes gates if it leaves no more than `most` errors.
  void attempt(const std::vector<Choice>& changes, std::int64_t most) {
    if (!goes_on()) return;
    ++tried_;
    std::vector<Choice> before;
    for (const Choice& choice : changes) {
      int& function = now_[choice.layer][choice.gate];
      before.push_back({choice.layer, choice.gate, function});
      function = choice.function;
    }
    const std::int64_t found = exam_.errors(now_);
    if (found > most) {
      for (auto old = before.rbegin(); old != before.rend(); ++old) now_[old->layer][old->gate] = old->function;
      return;
    }
    left_ = found;
    if (left_ <= least_) {
      if (left_ < least_) kicked_.clear();
      least_ = left_;
      best_ = now_;
    }
  }

  const Automaton& automaton_;
  const PolishExam& exam_;
  const PolishOptions& options_;
  Functions told_, now_, best_;  // what the automaton has, what is tried, and what leaves the fewest errors
  std::vector<Choice> likely_, working_, kicked_;
  std::int64_t left_, least_, tried_ = 0;
  int patience_ = kRounds;
  Rng draw_;
};

}  // namespace

void exchange_functions(const Automaton& automaton, const Functions& before, const Functions& now) {
  const std::vector<State> layers = automaton.parameters();
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (before[layer] == now[layer]) continue;
    Array z = layers[layer].value().astype(DType::f64);
    double* row = z.mutable_data<double>();
    for (std::size_t gate = 0; gate < now[layer].size(); ++gate, row += kFunctions)
      std::swap(row[before[layer][gate]], row[now[layer][gate]]);
    State(layers[layer]).set(z.astype(layers[layer].spec().dtype));
  }
}

std::vector<Tensor> PolishExam::Slopes::trace(const Automaton::Rule& rule, const Tensor& shown, const Tensor& target) {
  std::vector<Tensor> coefficients = rule.perception;
  coefficients.insert(coefficients.end(), rule.update.begin(), rule.update.end());
  const Tensor away = shown * (1 - 2 * target), wrong = stop_gradient(abs(shown - target));
  std::vector<Tensor> results = grad(sum(away), coefficients);
  for (const Tensor& slope : grad(sum(away * wrong), coefficients)) results.push_back(slope);
  results.push_back(sum(wrong));
  return results;
}

PolishExam::Slopes::Slopes(const Step::Results& results) {
  const std::size_t layers = results.size() / 2;
  for (std::size_t i = 0; i < layers; ++i) {
    of_all.push_back(results[i].clone());
    of_wrong.push_back(results[layers + i].clone());
  }
  wrong = std::llround(results[2 * layers].astype(DType::f64).item<double>());
}

std::int64_t polish(const Automaton& automaton, const PolishExam& exam, const PolishOptions& options) {
  return Polisher(automaton, exam, options).run();
}

}  // namespace wr::apps
