// LSTM and GRU: layers and directions of the ops lstm and gru. What the input gives to all gates at all moments is one
// product before them.
#include <fmt/format.h>

#include "nn/sizes.h"

namespace wr::nn {
namespace {

void expect_options(const char* layer, std::int64_t in, std::int64_t hidden, const RecurrentOptions& options,
                    const Where& where) {
  expect_positive(layer, "in", in, where);
  expect_positive(layer, "hidden", hidden, where);
  expect_positive(layer, "layers", options.layers, where);
}

int directions(const RecurrentOptions& options) { return options.directions == Directions::both ? 2 : 1; }

/// "" for the first layer forwards, then "_back", "_1", "_1_back", ...
std::string suffix(int layer, int direction) {
  return (layer > 0 ? "_" + std::to_string(layer) : "") + (direction > 0 ? "_back" : "");
}

std::string kind_of(const char* name, const State& w_x, const State& w_h, const RecurrentOptions& options) {
  std::string text = fmt::format("{}({}, {}", name, w_x.shape()[0], w_h.shape()[0]);
  if (options.layers > 1) text += fmt::format(", {} layers", options.layers);
  if (options.directions == Directions::both) text += ", both directions";
  return text + ")";
}

Array start_value(const Shape& shape, std::int64_t hidden, DType dtype, const Where& where) {
  return initial(init::fan_in_uniform(), shape, {hidden, hidden}, dtype, where);
}

void expect_sequence(const char* layer, const Tensor& x, const State& w, const Where& where) {
  expect_rank(layer, x, 3, "[batch, time, features]", where);
  expect_features(layer, x, 3, w.shape()[0], w.spec().dtype, where);
  if (x.size(1) < 1) fail(where, std::string(layer) + ": the input has no time steps: " + to_string(x.shape()));
}

/// One layer in one direction: a sequence and its states before to what comes after.
using Layer = std::function<Recurrence(std::size_t number, const Tensor& x, const Tensor& h, const Tensor& c,
                                       const RecurrenceOptions& options)>;

/// What the layers are run on.
struct Stack {
  const char* name;
  const RecurrentOptions& options;
  std::int64_t hidden;
  const RecurrentStart& start;
  const Where& where;

  RecurrentRun run(const Tensor& x, const Layer& layer) const {
    const auto states = static_cast<std::size_t>(options.layers * directions(options));
    const std::vector<Tensor> h = states_of(start.h, "h", x, states), c = states_of(start.c, "c", x, states);
    const Tensor taken = mask(x);
    std::vector<Tensor> last_h, last_c;
    Tensor now = x;
    for (std::size_t number = 0; number < states;) {
      std::vector<Tensor> sides;
      for (int direction = 0; direction < directions(options); ++direction, ++number) {
        const Recurrence made = kept_or_not(layer, number, now, h[number], c[number], direction > 0);
        sides.push_back(made.h);
        last_h.push_back(made.last_h);
        if (!made.last_c.empty()) last_c.push_back(made.last_c);
      }
      now = sides.size() > 1 ? concat(sides, 2, where) : sides[0];
      if (!taken.empty()) now = wr::where(taken, Operand(now, where), 0);
    }
    return {now, stack(last_h, 0, where), last_c.empty() ? Tensor() : stack(last_c, 0, where)};
  }

 private:
  /// The op and what leads to it, computed again for the backward pass if that is wanted.
  Recurrence kept_or_not(const Layer& layer, std::size_t number, const Tensor& x, const Tensor& h, const Tensor& c,
                         bool reverse) const {
    const RecurrenceOptions how{.reverse = reverse, .lengths = start.lengths};
    if (options.recompute == Recompute::no) return layer(number, x, h, c, how);
    Recurrence made;
    checkpoint(
        [&](const std::vector<Tensor>& in) {
          made = layer(number, in[0], in[1], in[2], how);
          return std::vector<Tensor>{made.h};
        },
        {x, h, c}, where);
    return made;
  }

  std::vector<Tensor> states_of(const Tensor& given, const char* what, const Tensor& x, std::size_t count) const {
    const Shape one{x.size(0), hidden};
    if (given.empty()) return std::vector<Tensor>(count, full(one, 0, x.dtype(), where));
    const Spec want{x.dtype(), {static_cast<std::int64_t>(count), x.size(0), hidden}};
    if (!(given.spec() == want))
      fail(where, fmt::format("{}: the state {} to begin with must be {}, is {}", name, what, to_string(want),
                              to_string(given.spec())));
    std::vector<Tensor> list;
    for (std::int64_t i = 0; i < want.shape[0]; ++i)
      list.push_back(reshape(slice(given, 0, i, i + 1, 1, where), one, where));
    return list;
  }

  /// Moments before the end of their row, [b,t,1]; nothing if all are.
  Tensor mask(const Tensor& x) const {
    if (start.lengths.empty()) return {};
    const Spec want{DType::i32, {x.size(0)}};
    if (!(start.lengths.spec() == want))
      fail(where,
           fmt::format("{}: the lengths must be {}, are {}", name, to_string(want), to_string(start.lengths.spec())));
    const Tensor lengths =
        broadcast_to(reshape(start.lengths, {x.size(0), 1, 1}, where), {x.size(0), x.size(1), 1}, where);
    return Operand(iota({x.size(0), x.size(1), 1}, 1, DType::i32, where), where) < lengths;
  }
};

/// The state at the end, of the last layer, both directions side by side.
Tensor end_of(const RecurrentRun& run, const RecurrentOptions& options, const Where& where) {
  const auto sides = directions(options);
  const auto count = run.h.size(0), batch = run.h.size(1), hidden = run.h.size(2);
  std::vector<Tensor> list;
  for (int i = 0; i < sides; ++i)
    list.push_back(
        reshape(slice(run.h, 0, count - sides + i, count - sides + i + 1, 1, where), {batch, hidden}, where));
  return sides > 1 ? concat(list, 1, where) : list[0];
}

Tensor from_input(const Tensor& x, const State& w_x, const State& b, const Where& where) {
  return Operand(matmul(x, w_x, where), where) + b;
}

}  // namespace

Lstm::Lstm(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options, Where where) : options_(options) {
  expect_options("Lstm", in, hidden, options, where);
  for (int layer = 0; layer < options.layers; ++layer)
    for (int side = 0; side < directions(options); ++side) {
      const auto name = [&](const char* what) { return what + suffix(layer, side); };
      const std::int64_t width = layer == 0 ? in : hidden * directions(options);
      weights.push_back({parameter(name("w_x"), start_value({width, 4 * hidden}, hidden, options.dtype, where)),
                         parameter(name("w_h"), start_value({hidden, 4 * hidden}, hidden, options.dtype, where)),
                         parameter(name("b"), start_value({4 * hidden}, hidden, options.dtype, where))});
    }
  w_x = weights[0].w_x;
  w_h = weights[0].w_h;
  b = weights[0].b;
}

std::string Lstm::kind() const { return kind_of("Lstm", w_x, w_h, options_); }

RecurrentRun Lstm::run(const Tensor& x, const RecurrentStart& start, Where where) const {
  expect_sequence("Lstm", x, w_x, where);
  return Stack{"Lstm", options_, w_h.shape()[0], start, where}.run(
      x, [&](std::size_t number, const Tensor& in, const Tensor& h, const Tensor& c, const RecurrenceOptions& how) {
        const Weights& w = weights[number];
        return lstm(from_input(in, w.w_x, w.b, where), w.w_h, h, c, how, where);
      });
}

Tensor Lstm::forward(const Tensor& x, Mode, const Where& where) const {
  const RecurrentRun made = run(x, {}, where);
  return options_.returns == Returns::last ? end_of(made, options_, where) : made.outputs;
}

Gru::Gru(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options, Where where) : options_(options) {
  expect_options("Gru", in, hidden, options, where);
  for (int layer = 0; layer < options.layers; ++layer)
    for (int side = 0; side < directions(options); ++side) {
      const auto name = [&](const char* what) { return what + suffix(layer, side); };
      const std::int64_t width = layer == 0 ? in : hidden * directions(options);
      weights.push_back({parameter(name("w_x"), start_value({width, 3 * hidden}, hidden, options.dtype, where)),
                         parameter(name("w_h"), start_value({hidden, 3 * hidden}, hidden, options.dtype, where)),
                         parameter(name("b_x"), start_value({3 * hidden}, hidden, options.dtype, where)),
                         parameter(name("b_h"), start_value({3 * hidden}, hidden, options.dtype, where))});
    }
  w_x = weights[0].w_x;
  w_h = weights[0].w_h;
  b_x = weights[0].b_x;
  b_h = weights[0].b_h;
}

std::string Gru::kind() const { return kind_of("Gru", w_x, w_h, options_); }

RecurrentRun Gru::run(const Tensor& x, const RecurrentStart& start, Where where) const {
  expect_sequence("Gru", x, w_x, where);
  if (!start.c.empty()) fail(where, "Gru: it has no state c to begin with, only h");
  return Stack{"Gru", options_, w_h.shape()[0], start, where}.run(
      x, [&](std::size_t number, const Tensor& in, const Tensor& h, const Tensor&, const RecurrenceOptions& how) {
        const Weights& w = weights[number];
        return gru(from_input(in, w.w_x, w.b_x, where), w.w_h, w.b_h, h, how, where);
      });
}

Tensor Gru::forward(const Tensor& x, Mode, const Where& where) const {
  const RecurrentRun made = run(x, {}, where);
  return options_.returns == Returns::last ? end_of(made, options_, where) : made.outputs;
}

}  // namespace wr::nn
