// A character-level LSTM learns a text and then writes on from a beginning, one letter at a time.
//
//   char_lstm [text file] [steps]
#include <windrow/windrow.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace {

constexpr std::int64_t kTime = 32, kBatch = 32, kHidden = 96;

const char* const kRhyme =
    "this is the house that jack built. this is the malt that lay in the house that jack built. this is the rat that "
    "ate the malt that lay in the house that jack built. this is the cat that killed the rat that ate the malt that "
    "lay in the house that jack built. this is the dog that worried the cat that killed the rat that ate the malt that "
    "lay in the house that jack built. this is the cow with the crumpled horn that tossed the dog that worried the cat "
    "that killed the rat that ate the malt that lay in the house that jack built. ";

std::string read_text(const char* path) {
  std::ifstream file(path);
  if (!file) throw wr::Error(std::string(path) + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) try {
  const std::string text = argc > 1 ? read_text(argv[1]) : kRhyme;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 300;
  std::string letters;  // the alphabet: every byte that occurs
  for (char c : text)
    if (letters.find(c) == std::string::npos) letters += c;
  const auto count = std::ssize(letters), length = std::ssize(text);
  if (length < 2 * kTime) throw wr::Error("the text is too short: " + std::to_string(length) + " letters");
  const auto code = [&](std::int64_t i) { return static_cast<std::int32_t>(letters.find(text[std::size_t(i)])); };

  wr::nn::Sequential net{wr::nn::Embedding(count, 24), wr::nn::Lstm(24, kHidden), wr::nn::Dense(kHidden, count)};
  wr::optim::Adam adam({.lr = 5e-3, .clip = {.norm = 1}});
  auto train = wr::compile(
      [&](wr::Tensor letter, wr::Tensor next) {
        const wr::Tensor loss = wr::loss::cross_entropy(net(letter), next);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      wr::i32(kBatch, kTime), wr::i32(kBatch, kTime));

  // An example is a place in the text: kTime letters from there, and the letter after each.
  wr::data::Loader loader(length - kTime, wr::i32(kBatch, kTime), wr::i32(kBatch, kTime),
                          [&](const wr::data::Request& request, wr::data::Batch& batch) {
                            auto *x = batch.x.mutable_data<std::int32_t>(), *y = batch.y.mutable_data<std::int32_t>();
                            for (const std::int64_t place : request.examples)
                              for (std::int64_t t = 0; t < kTime; ++t)
                                *x++ = code(place + t), *y++ = code(place + t + 1);
                          },
                          {.batch = kBatch});
  float loss = 0;
  for (int step = 1; step <= steps; ++step) {
    auto& [x, y] = loader.next();
    loss = train(x, y);
    if (step % 100 == 0) std::printf("step %4d  loss %.3f\n", step, double{loss});
  }

  // Writes on: the net reads the last kTime letters, the likeliest next one is appended.
  auto next = wr::compile(
      [&](wr::Tensor letter) { return wr::argmax(wr::slice(net(letter, wr::nn::Mode::eval), 1, kTime - 1, kTime)); },
      wr::i32(1, kTime));
  std::string written = text.substr(0, kTime);
  for (int i = 0; i < 200; ++i) {
    wr::Array window = wr::Array::empty({1, kTime}, wr::DType::i32);
    for (std::int64_t t = 0; t < kTime; ++t)
      window.at<std::int32_t>({0, t}) =
          static_cast<std::int32_t>(letters.find(written[written.size() - std::size_t(kTime - t)]));
    written += letters[std::size_t(next(window)[0].item<std::int32_t>())];
  }
  std::printf("\n%s|%s\n", text.substr(0, kTime).c_str(), written.substr(kTime).c_str());
  return loss < 0.5f ? 0 : 1;
} catch (const wr::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
