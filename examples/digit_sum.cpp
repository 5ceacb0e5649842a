// A net learns to read digits though nobody tells it a digit: of each pair of images it is told the sum alone. What a
// sum is says a rule, traced into the same step as the net.
//
//   digit_sum [FOLDER with MNIST's four files]     without one: digits drawn by the program
#include <windrow/rules.h>
#include <windrow/windrow.h>

#include <cstdio>

namespace {

constexpr std::int64_t kPairs = 64;

constexpr const char* kProgram = R"(
domain Pair = 64.
domain Digit = 10.
domain Total = 19.
tensor First[Pair, Digit] input.
tensor Second[Pair, Digit] input.
tensor Sum[Pair, Total].
Sum[n, s] = First[n, a] Second[n, b] eq(a + b, s).
)";

double accuracy(const wr::nn::Module& net, const wr::data::Dataset& images) {
  auto hits = wr::compile(
      [&](wr::Tensor image, wr::Tensor label) {
        const wr::Tensor guess = wr::argmax(net(image, wr::nn::Mode::eval), 1);
        return wr::mean(wr::cast(wr::eq(guess, label), wr::DType::f32));
      },
      wr::f32(100, 784), wr::i32(100));
  wr::data::Loader batches(images, {.batch = 100, .shuffle = false, .example = {784}});
  double sum = 0;
  for (auto& [image, label] : batches) sum += double{hits(image, label)};
  return sum / double(batches.batches_per_epoch());
}

}  // namespace

int main(int argc, char** argv) try {
  const wr::data::Split images = argc > 1
                                     ? wr::data::read_mnist(argv[1])
                                     : wr::data::Split{wr::data::draw_digits(10000, 1), wr::data::draw_digits(2000, 2)};
  wr::rules::Program program = wr::rules::Program::parse(kProgram, "sum");
  const wr::nn::Sequential net{wr::nn::Dense(784, 128), wr::nn::Relu(), wr::nn::Dense(128, 10)};
  wr::optim::Adam adam({.lr = 2e-3});
  auto train = wr::compile(
      [&](wr::Tensor image, wr::Tensor label) {
        const wr::Tensor digits = wr::softmax(net(image), 1);
        const wr::Tensor sums = program.trace(
            "Sum", {{"First", wr::slice(digits, 0, 0, kPairs)}, {"Second", wr::slice(digits, 0, kPairs, 2 * kPairs)}});
        const wr::Tensor told = wr::slice(label, 0, 0, kPairs) + wr::slice(label, 0, kPairs, 2 * kPairs);
        const wr::Tensor right = wr::take_along(sums, wr::expand_dims(told, 1), 1);
        const wr::Tensor loss = -wr::mean(wr::log(right + 1e-7));
        adam.minimize(loss, net.parameters());
        return loss;
      },
      wr::f32(2 * kPairs, 784), wr::i32(2 * kPairs));

  wr::data::Loader loader(images.train, {.batch = 2 * kPairs, .example = {784}});
  double read = 0;
  for (int epoch = 1; epoch <= 10; ++epoch) {
    float loss = 0;
    for (auto& [image, label] : loader) loss = train(image, label);
    read = accuracy(net, images.test);
    std::printf("epoch %2d  loss %.3f  single digits read right: %.1f %%\n", epoch, double{loss}, 100 * read);
  }
  return read > 0.9 ? 0 : 1;
} catch (const wr::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
