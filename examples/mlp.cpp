// A multi-layer perceptron learns to read digits, is saved, and is loaded into a second net that reads as well.
//
//   mlp [FOLDER with MNIST's four files]     without one: digits drawn by the program
#include <windrow/windrow.h>

#include <cstdio>
#include <filesystem>

namespace {

wr::nn::Sequential make_net() {
  return wr::nn::Sequential{wr::nn::Dense(784, 128), wr::nn::Relu(), wr::nn::Dense(128, 10)};
}

double accuracy(const wr::nn::Module& net, const wr::data::Dataset& images) {
  auto hits = wr::compile(
      [&](wr::Tensor image, wr::Tensor label) {
        const wr::Tensor guess = wr::argmax(net(image, wr::nn::Mode::eval), 1);
        return wr::sum(wr::cast(wr::eq(guess, label), wr::DType::f32));
      },
      wr::f32(wr::any, 784), wr::i32(wr::any));
  wr::data::Loader batches(
      images, {.batch = 96, .shuffle = false, .rest = wr::data::LoaderOptions::Rest::keep, .example = {784}});
  double sum = 0;
  for (auto& [image, label] : batches) sum += double{hits(image, label)};
  return sum / double(images.count());
}

}  // namespace

int main(int argc, char** argv) try {
  const wr::data::Split images = argc > 1
                                     ? wr::data::read_mnist(argv[1])
                                     : wr::data::Split{wr::data::draw_digits(10000, 1), wr::data::draw_digits(2000, 2)};

  const wr::nn::Sequential net = make_net();
  std::printf("%s\n", to_string(wr::nn::summary(net, wr::f32(64, 784))).c_str());
  wr::optim::Adam adam({.lr = 2e-3});
  auto train = wr::compile(
      [&](wr::Tensor image, wr::Tensor label) {
        const wr::Tensor loss = wr::loss::cross_entropy(net(image), label);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      wr::f32(wr::any, 784), wr::i32(wr::any));  // any number of rows: the last batch of an epoch is a short one

  wr::data::Loader loader(images.train, {.batch = 64, .rest = wr::data::LoaderOptions::Rest::keep, .example = {784}});
  for (int epoch = 1; epoch <= 5; ++epoch) {
    float loss = 0;
    for (auto& [image, label] : loader) loss = train(image, label);
    std::printf("epoch %d  loss %.3f  accuracy %.1f %%\n", epoch, double{loss}, 100 * accuracy(net, images.test));
  }

  // A checkpoint holds the states by name; Python's safetensors reads it too.
  const std::string file = (std::filesystem::temp_directory_path() / "windrow_mlp.safetensors").string();
  wr::CheckpointStates states, copies;
  states.add_group("model", net.states());
  wr::save_checkpoint(file, states, {{"about", "mlp 784-128-10"}});
  const wr::nn::Sequential copy = make_net();
  copies.add_group("model", copy.states());
  wr::load_checkpoint(file, copies);
  const double read = accuracy(copy, images.test);
  std::printf("saved to %s and loaded again: accuracy %.1f %%\n", file.c_str(), 100 * read);
  return read > 0.9 ? 0 : 1;
} catch (const wr::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
