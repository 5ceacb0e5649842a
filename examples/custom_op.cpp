// Ops of one's own. A composition of ops needs nothing: it is differentiated and fused like any other function. Where
// the derivative is not the one that is wanted, custom_gradient() states another.
//
// Here a net learns with weights that are only -1 or 1. sign() has no useful derivative, so the gradient goes straight
// through it (Courbariaux and Bengio, 2016).
#include <windrow/windrow.h>

#include <cstdio>

namespace {

/// x * tanh(log(1 + exp(x))): an activation as a composition.
wr::Tensor mish(const wr::Tensor& x) { return x * wr::tanh(wr::softplus(x)); }

/// -1 or 1, with the gradient of clamp(x, -1, 1).
wr::Tensor binary(const wr::Tensor& x) {
  return wr::custom_gradient(
      wr::where(x < 0, -1, wr::full(x.shape(), 1)), x,
      [](const wr::Tensor& at, const wr::Tensor&, const wr::Tensor& g) { return wr::where(wr::abs(at) <= 1, g, 0); });
}

/// A layer of one's own: parameters, and what it computes.
class BinaryDense : public wr::nn::Module {
 public:
  BinaryDense(std::int64_t in, std::int64_t out)
      : w(parameter("w",
                    wr::nn::init::uniform(-1, 1)({in, out}, {in, out}, wr::nn::next_seed()).astype(wr::DType::f32))),
        scale(parameter("scale", wr::Array::full({out}, 0.1))),
        b(parameter("b", wr::Array::zeros({out}))) {}
  std::string kind() const override { return "BinaryDense"; }
  wr::State w, scale, b;

 private:
  wr::Tensor forward(const wr::Tensor& x, wr::nn::Mode, const wr::nn::Where&) const override {
    return wr::matmul(x, binary(w)) * scale + b;
  }
};

}  // namespace

int main() try {
  const wr::data::Dataset train_set = wr::data::draw_digits(8000, 1), test_set = wr::data::draw_digits(1000, 2);
  const wr::nn::Lambda activation("Mish", [](const wr::Tensor& x, const wr::nn::Where&) { return mish(x); });
  const wr::nn::Sequential net{BinaryDense(784, 64), wr::nn::LayerNorm(64), activation, BinaryDense(64, 10)};
  wr::optim::Adam adam({.lr = 5e-3});
  auto train = wr::compile(
      [&](wr::Tensor image, wr::Tensor label) {
        const wr::Tensor loss = wr::loss::cross_entropy(net(image), label);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      wr::f32(64, 784), wr::i32(64));
  wr::data::Loader loader(train_set, {.batch = 64, .offset = -0.5f, .example = {784}});
  for (int epoch = 1; epoch <= 6; ++epoch) {
    float loss = 0;
    for (auto& [image, label] : loader) loss = train(image, label);
    std::printf("epoch %d  loss %.3f\n", epoch, double{loss});
  }

  auto hits = wr::compile(
      [&](wr::Tensor image, wr::Tensor label) {
        return wr::mean(wr::cast(wr::eq(wr::argmax(net(image), 1), label), wr::DType::f32));
      },
      wr::f32(1000, 784), wr::i32(1000));
  wr::data::Loader tests(test_set, {.batch = 1000, .shuffle = false, .offset = -0.5f, .example = {784}});
  auto& [image, label] = tests.next();
  const float accuracy = hits(image, label);
  std::printf("%.1f %% of unseen digits are read with weights of one bit\n", 100 * double{accuracy});

  // On arrays, outside any step, apply() takes a plain function of one number.
  const wr::Array curve = wr::apply(wr::Array::linspace(-1, 1, 5), [](double x) { return x * x * x; });
  std::printf("cubes of -1, -0.5, 0, 0.5, 1: ");
  for (const float y : curve.to_vector<float>()) std::printf("%g ", double{y});
  std::printf("\n");
  return accuracy > 0.8f ? 0 : 1;
} catch (const wr::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
