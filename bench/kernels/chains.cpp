// What fusing a chain of elementwise ops is worth on whole training steps: an activation written as a user would, one
// op after the other, beside the one op of the table that computes it in one loop and has one op for its gradient.
// Usage: chains [SECONDS]   CPU time of a step, both lanes on one thread, the two ways in turns; the best of each.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "windrow/attention.h"
#include "windrow/windrow.h"

namespace {

using namespace wr;  // NOLINT(google-build-using-namespace): a program of its own
using Activation = std::function<Tensor(const Tensor&)>;

struct TwoWays {
  Activation chain, one;
};
const TwoWays kGelu{[](const Tensor& x) { return 0.5 * x * (1 + erf(x * 0.7071067811865476)); },
                    [](const Tensor& x) { return gelu(x); }};
const TwoWays kSilu{[](const Tensor& x) { return x / (1 + exp(-x)); }, [](const Tensor& x) { return silu(x); }};
const TwoWays kSoftplus{[](const Tensor& x) { return maximum(x, 0.0) + log1p(exp(-abs(x))); },
                        [](const Tensor& x) { return softplus(x); }};

double seconds_used() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::vector<State> joined(std::vector<State> a, const std::vector<State>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Array values(const Shape& shape) {
  Tensor x = iota(shape, shape.rank() - 1, DType::f32);
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) x = x + 0.7 * iota(shape, axis, DType::f32);
  return eval(sin(x));
}

const CompileOptions kOptions{.threads = 1, .lanes = 2};
using Run = std::function<void()>;

Run transformer(std::int64_t batch, std::int64_t time, std::int64_t width, const Activation& f) {
  const nn::LayerNorm a(width), b(width);
  const nn::Attention attention(width, width / 32);
  const nn::Dense up(width, 4 * width), down(4 * width, width);
  optim::Adam adam;
  const Spec spec = f32(batch, time, width);
  auto step = compile(
      kOptions,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor h = x + attention(a(x));
        const Tensor loss = loss::mse(h + down(f(up(b(h)))), y);
        adam.minimize(loss, joined(joined(joined(a.parameters(), b.parameters()), attention.parameters()),
                                   joined(up.parameters(), down.parameters())));
        return loss;
      },
      spec, spec);
  return [step = std::make_shared<decltype(step)>(std::move(step)), x = values(spec.shape)] { (*step)(x, x); };
}

Run mlp(std::int64_t batch, std::int64_t width, const Activation& f) {
  const nn::Dense first(144, width), second(width, width), last(width, 6);
  optim::Adam adam;
  auto step = compile(
      kOptions,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = loss::mse(last(f(second(f(first(x))))), y);
        adam.minimize(loss, joined(joined(first.parameters(), second.parameters()), last.parameters()));
        return loss;
      },
      f32(batch, 144), f32(batch, 6));
  return [step = std::make_shared<decltype(step)>(std::move(step)), x = values({batch, 144}), y = values({batch, 6})] {
    (*step)(x, y);
  };
}

/// The decoder's likelihood is where the chain stands: 784 numbers a sample.
Run autoencoder(std::int64_t batch, std::int64_t width, const Activation& f) {
  const nn::Dense in(784, width), code(width, 20), back(20, width), out(width, 784);
  optim::Adam adam;
  auto step = compile(
      kOptions,
      [&](const Tensor& x) {
        const Tensor logits = out(relu(back(code(relu(in(x))))));
        const Tensor loss = mean(sum(f(logits) - x * logits, 1));
        adam.minimize(loss,
                      joined(joined(in.parameters(), code.parameters()), joined(back.parameters(), out.parameters())));
        return loss;
      },
      f32(batch, 784));
  return [step = std::make_shared<decltype(step)>(std::move(step)), x = values({batch, 784})] { (*step)(x); };
}

void compare(const char* name, double budget, const TwoWays& ways, const std::function<Run(const Activation&)>& make) {
  const Run runs[] = {make(ways.chain), make(ways.one)};
  double best[] = {1e9, 1e9}, spent = 0;
  for (const Run& run : runs) run();
  while (spent < budget)
    for (int i = 0; i < 2; ++i) {
      const double start = seconds_used();
      runs[i]();
      const double taken = seconds_used() - start;
      best[i] = std::min(best[i], taken);
      spent += taken;
    }
  std::printf("%-46s chain %8.3f ms   one loop %8.3f ms   %5.1f %%\n", name, 1e3 * best[0], 1e3 * best[1],
              100 * (1 - best[1] / best[0]));
}

}  // namespace

int main(int argc, char** argv) {
  const double budget = argc > 1 ? std::atof(argv[1]) : 1;
  compare("transformer block, 8 x 128, width 64, GELU", budget, kGelu,
          [](const Activation& f) { return transformer(8, 128, 64, f); });
  compare("transformer block, 16 x 64, width 128, GELU", budget, kGelu,
          [](const Activation& f) { return transformer(16, 64, 128, f); });
  compare("MLP 144-256-256-6, batch 64, SiLU", budget, kSilu, [](const Activation& f) { return mlp(64, 256, f); });
  compare("MLP 144-512-512-6, batch 256, SiLU", budget, kSilu, [](const Activation& f) { return mlp(256, 512, f); });
  compare("autoencoder 784-200-20, batch 64, softplus", budget, kSoftplus,
          [](const Activation& f) { return autoencoder(64, 200, f); });
  compare("autoencoder 784-400-20, batch 128, softplus", budget, kSoftplus,
          [](const Activation& f) { return autoencoder(128, 400, f); });
}
