// A ten-line program that trains with an installed Windrow: fits y = 3x - 1.
#include <windrow/windrow.h>

#include <cmath>
#include <cstdio>

int main() {
  const wr::State w(wr::Array::zeros({1, 1}), "w"), b(wr::Array::zeros({1}), "b");
  wr::optim::Sgd sgd({.lr = 0.1});
  auto train = wr::compile(
      [&](wr::Tensor x) {
        const wr::Tensor loss = wr::mse(wr::matmul(x, w) + b, 3 * x - 1);
        sgd.minimize(loss, {w, b});
        return loss;
      },
      wr::f32(64, 1));
  const wr::Array x = wr::Array::linspace(-1, 1, 64).reshape({64, 1});
  float loss = 0;
  for (int i = 0; i < 500; ++i) loss = train(x);
  std::printf("w %.3f  b %.3f  loss %.2g\n", w.value().item<float>(), b.value().item<float>(),
              static_cast<double>(loss));
  return std::abs(w.value().item<float>() - 3) < 1e-3 && std::abs(b.value().item<float>() + 1) < 1e-3 ? 0 : 1;
}
