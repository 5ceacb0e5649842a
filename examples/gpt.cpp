// A character-level GPT learns a text, shows how it gets on, and writes: position by position, with the keys and values
// of what it has written so far kept.
//
//   gpt [text file] [steps] [width] [layers]
#include <windrow/random.h>
#include <windrow/transformer.h>
#include <windrow/windrow.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace {

using namespace wr;

constexpr std::int64_t kTime = 64, kBatch = 16;

const char* const kRhyme =
    "this is the house that jack built. this is the malt that lay in the house that jack built. this is the rat that "
    "ate the malt that lay in the house that jack built. this is the cat that killed the rat that ate the malt that "
    "lay in the house that jack built. this is the dog that worried the cat that killed the rat that ate the malt that "
    "lay in the house that jack built. this is the cow with the crumpled horn that tossed the dog that worried the cat "
    "that killed the rat that ate the malt that lay in the house that jack built. ";

std::string read_text(const char* path) {
  std::ifstream file(path);
  if (!file) throw Error(std::string(path) + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Gpt : nn::Net<Gpt> {
  Gpt(std::int64_t letters, std::int64_t width, int layers)
      : embedding(letters, width, {.weights = nn::init::normal(0.1)}),
        positions(kTime, width),
        blocks(layers, [=] { return nn::TransformerEncoderLayer(width, width / 16, {.causal = nn::Causal::yes}); }),
        norm(width),
        head(width, letters) {}
  Tensor operator()(const Tensor& letter) const { return head(norm(blocks(positions(embedding(letter))))); }
  nn::Embedding embedding;
  nn::Positions positions;
  nn::List<nn::TransformerEncoderLayer> blocks;
  nn::LayerNorm norm;
  nn::Dense head;
};

/// Writes on from a beginning: a step takes one letter and its position, and says how likely each next letter is.
class Writer {
 public:
  Writer(const Gpt& net, std::string letters, std::int64_t width) : letters_(std::move(letters)) {
    std::vector<nn::KeyValues> seen;
    for (const auto& block : net.blocks) seen.emplace_back(1, kTime, block.attention.heads(), width);
    next_ = compile(
        [&](const Tensor& letter, const Tensor& position) {
          Tensor x = net.positions.next(net.embedding(letter), position);
          for (std::size_t i = 0; i < seen.size(); ++i) x = net.blocks[i].next(x, seen[i], position);
          return softmax(net.head(net.norm(x)) / 0.5);  // below 1: bold
        },
        i32(1, 1), i32());
  }

  std::string operator()(const std::string& beginning, Rng& random) {
    std::string text = beginning;
    for (std::int64_t t = 0; t + 1 < kTime; ++t) {
      const auto letter = static_cast<double>(letters_.find(text[std::size_t(t)]));
      const Array likely = next_(Array::full({1, 1}, letter, DType::i32), Array::full({}, double(t), DType::i32));
      if (t + 1 == std::ssize(text)) text += letters_[draw(likely, random)];
    }
    return text;
  }

 private:
  static std::size_t draw(const Array& likely, Rng& random) {
    double left = random.uniform();
    const float* p = likely.data<float>();
    std::size_t i = 0;
    for (; i + 1 < std::size_t(likely.count()) && left >= p[i]; ++i) left -= p[i];
    return i;
  }
  std::string letters_;
  Step next_;
};

}  // namespace

int main(int argc, char** argv) try {
  const std::string text = argc > 1 ? read_text(argv[1]) : kRhyme;
  const int steps = argc > 2 ? std::atoi(argv[2]) : 200, layers = argc > 4 ? std::atoi(argv[4]) : 2;
  const std::int64_t width = argc > 3 ? std::atoi(argv[3]) : 64;
  if (steps < 1 || layers < 1 || width < 16 || width % 16)
    throw Error("steps, layers: at least 1; width: a multiple of 16");
  std::string letters;  // the alphabet: every byte that occurs
  for (char c : text)
    if (letters.find(c) == std::string::npos) letters += c;
  const auto length = std::ssize(text);
  if (length < 2 * kTime) throw Error("the text is too short: " + std::to_string(length) + " letters");
  const auto code = [&](std::int64_t i) { return static_cast<std::int32_t>(letters.find(text[std::size_t(i)])); };

  const Gpt net(std::ssize(letters), width, layers);
  optim::AdamW adam({.lr = 3e-3, .clip = {.norm = 1}});
  auto train = compile(
      [&](const Tensor& letter, const Tensor& next) {
        const Tensor loss = loss::cross_entropy(net(letter), next);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      i32(kBatch, kTime), i32(kBatch, kTime));
  // An example is a place in the text: kTime letters from there, and the letter after each.
  data::Loader loader(length - kTime, i32(kBatch, kTime), i32(kBatch, kTime),
                      [&](const data::Request& request, data::Batch& batch) {
                        auto *x = batch.x.mutable_data<std::int32_t>(), *y = batch.y.mutable_data<std::int32_t>();
                        for (const std::int64_t place : request.examples)
                          for (std::int64_t t = 0; t < kTime; ++t) *x++ = code(place + t), *y++ = code(place + t + 1);
                      },
                      {.batch = kBatch});
  Writer write(net, letters, width);
  Rng random(1);
  std::printf("%zd letters, %zd different; %d layers of %d\n", length, std::ssize(letters), layers, int(width));
  float loss = 0;
  const auto start = std::chrono::steady_clock::now();
  for (int step = 1; step <= steps; ++step) {
    auto& [x, y] = loader.next();
    loss = train(x, y);
    if (step % std::max(1, steps / 10) != 0) continue;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("step %5d of %d  loss %.3f  %.0f letters/s  %s\n", step, steps, double{loss},
                double(step) * kBatch * kTime / seconds, write(text.substr(0, 8), random).c_str());
    std::fflush(stdout);
  }
  return argc > 1 || loss < 0.3f ? 0 : 1;  // the rhyme can be learnt by heart
} catch (const wr::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
