// Schedules of the learning rate: f64 scalars in the plan, from the count of updates made.
#include <numbers>

#include "windrow/optim.h"

namespace wr::optim::schedule {
namespace {

void expect_positive(const char* name, const char* what, double value) {
  if (!(value > 0)) throw Error(std::string(name) + ": " + what + " must be positive, is " + std::to_string(value));
}

/// From `from` to `to` along half a cosine as the part goes from 0 to 1.
Tensor half_cosine(double from, double to, const Tensor& part) {
  return to + (from - to) / 2 * (1 + cos(part * std::numbers::pi));
}

}  // namespace

Schedule constant(double factor) {
  return [=](const Tensor& updates) { return full(updates.shape(), factor, updates.dtype()); };
}

Schedule step(double every, double gamma) {
  expect_positive("schedule::step", "the number of updates", every);
  expect_positive("schedule::step", "gamma", gamma);
  return [=](const Tensor& updates) { return pow(gamma, floor(updates / every)); };
}

Schedule cosine(double total, double floor) {
  expect_positive("schedule::cosine", "the number of updates", total);
  return [=](const Tensor& updates) { return half_cosine(1, floor, minimum(updates / total, 1)); };
}

Schedule warm_up(double updates, Schedule then, double start) {
  expect_positive("schedule::warm_up", "the number of updates", updates);
  return [=, then = std::move(then)](const Tensor& made) {
    const Tensor rising = start + (1 - start) * (made / updates);
    const Tensor after = then ? then(maximum(made - updates, 0)) : full(made.shape(), 1, made.dtype());
    return where(made < updates, rising, after);
  };
}

Schedule one_cycle(double total, double rise, double divide, double final_divide) {
  expect_positive("schedule::one_cycle", "the number of updates", total);
  expect_positive("schedule::one_cycle", "divide", divide);
  expect_positive("schedule::one_cycle", "final_divide", final_divide);
  const double top = rise * total - 1, end = total - 1;  // the updates with the highest and the lowest rate
  if (!(top > 0 && top < end))
    throw Error("schedule::one_cycle: of " + std::to_string(total) + " updates the first " + std::to_string(rise) +
                " leave no room to go up and down");
  return [=](const Tensor& made) {
    const Tensor up = half_cosine(1 / divide, 1, made / top);
    const Tensor down = half_cosine(1, 1 / (divide * final_divide), minimum((made - top) / (end - top), 1));
    return where(made <= top, up, down);
  };
}

}  // namespace wr::optim::schedule
