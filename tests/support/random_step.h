// Random training steps for property tests: every family of ops, views, gradients and state updates, on odd shapes.
#pragma once

#include <algorithm>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "windrow/windrow.h"

namespace wr::test {

/// What a random step is made from; leaving ops out is how a failing one is made smaller.
struct Recipe {
  unsigned seed = 0;
  int ops = 12;
  std::set<int> without;
};

/// Arguments, states and a function over them that does the same each time it is traced. Values stay small, and only
/// arguments and states decide branches (conditions, argmax), so that rounding does not.
class RandomStep {
 public:
  explicit RandomStep(const Recipe& recipe);

  DType dtype() const { return dtype_; }
  const std::vector<Spec>& specs() const { return specs_; }
  std::vector<Array> arguments(unsigned run) const;
  /// Traces the step.
  std::vector<Tensor> operator()(const std::vector<Tensor>& arguments);

 private:
  int draw(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool chance(int percent) { return draw(100) < percent; }
  /// Half the time one of the latest, so that ops follow one another.
  const Tensor& any() {
    const int n = static_cast<int>(pool_.size()), recent = draw(2) ? std::min(n, 3) : n;
    return pool_[n - 1 - draw(recent)];
  }
  const Tensor& leaf() { return leaves_[draw(static_cast<int>(leaves_.size()))]; }
  /// One that has the batch as its first axis, if the luck of the draw allows.
  const Tensor& row_wise();
  State state(const Shape& shape, const char* name);
  Tensor fit(const Tensor& x, const Shape& shape);
  Tensor partner(const Tensor& x);

  Tensor op();
  Tensor unary(const Tensor& x);
  Tensor binary();
  Tensor several();
  Tensor view(const Tensor& x);
  Tensor reduction(const Tensor& x);
  Tensor composition(const Tensor& x);
  Tensor layer();
  Tensor contraction();
  Tensor choice();
  Tensor indexed();
  Tensor image();
  Tensor recomputed();
  Tensor rolled(const Tensor& x);
  Tensor cell();
  void update_states();
  void differentiate();
  std::vector<Tensor> outputs();

  Recipe recipe_;
  std::mt19937 random_;
  DType dtype_;
  std::int64_t batch_, width_, out_;
  std::vector<Spec> specs_;
  std::vector<State>
      states_;  // weights, bias, like the first argument, another such, a number, one of the batch's rows
  std::vector<Tensor> leaves_, pool_, extra_;
  Tensor rows_, table_;  // i32 indices [batch] and [batch,3]
  optim::Adam adam_;
  optim::Sgd sgd_;
};

}  // namespace wr::test
