// A convolutional net with batch norm, dropout, shifted images and a one-cycle schedule, on Fashion-MNIST where it is
// installed (Debian: dataset-fashion-mnist), else on drawn digits.
//
//   cnn [images] [epochs]
#include <windrow/windrow.h>

#include <cstdio>
#include <cstdlib>

using namespace wr;
using namespace wr::nn;

int main(int argc, char** argv) try {
  const std::int64_t images = argc > 1 ? std::atoll(argv[1]) : 12000;
  const int epochs = argc > 2 ? std::atoi(argv[2]) : 3;
  const data::Split set = data::load_images();
  const data::Dataset some = set.train.range(0, std::min(images, set.train.count()));

  const Sequential net{Conv2D(1, 16, 3, {.padding = 1}),
                       BatchNorm(16),
                       Relu(),
                       MaxPool(2),
                       Conv2D(16, 32, 3, {.padding = 1}),
                       BatchNorm(32),
                       Relu(),
                       MaxPool(2),
                       Flatten(),
                       Dropout(0.2),
                       Dense(7 * 7 * 32, 10)};

  // The last batch of an epoch is a short one: the steps take any number of images.
  const auto keep = data::LoaderOptions::Rest::keep;
  data::Loader loader(some, {.batch = 64, .rest = keep, .example = {28, 28, 1}, .augment = {.shift = 1}});
  const double steps = double(loader.batches_per_epoch()) * epochs;
  optim::AdamW adam({.lr = 4e-3, .weight_decay = 1e-2, .schedule = optim::schedule::one_cycle(steps)});
  auto train = compile(
      [&](Tensor image, Tensor label) {
        const Tensor loss = loss::cross_entropy(net(image), label);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      f32(any, 28, 28, 1), i32(any));
  // The same parameters, used otherwise: no dropout, running statistics.
  auto classify = compile([&](Tensor image) { return argmax(net(image, Mode::eval), 1); }, f32(any, 28, 28, 1));

  std::printf("%s, %lld images\n", some.name.c_str(), static_cast<long long>(some.count()));
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    double sum = 0;
    for (auto& [image, label] : loader) sum += double{train(image, label)};
    std::printf("epoch %d  loss %.3f\n", epoch, sum / double(loader.batches_per_epoch()));
  }

  double hits = 0;
  data::Loader tests(set.test, {.batch = 96, .shuffle = false, .rest = keep, .example = {28, 28, 1}});
  for (auto& [image, label] : tests) hits += double{sum(cast(eq(classify(image)[0], label), DType::f32)).item<float>()};
  const double accuracy = hits / double(set.test.count());
  std::printf("%.1f %% of %lld test images are right\n", 100 * accuracy, static_cast<long long>(set.test.count()));
  return accuracy > 0.8 ? 0 : 1;
} catch (const Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
