// Nets of one's own: a transformer block, a recurrent net, a recommender. Their members are their parts by themselves,
// and one compiled step takes any number of rows.
#include <windrow/windrow.h>

#include <cmath>
#include <cstdio>

namespace nn = wr::nn;
using wr::Array;
using wr::Tensor;

namespace {

/// Part of a net on sequences [batch, time, 16].
struct Block : nn::Net<Block> {
  nn::LayerNorm before{16}, between{16};
  nn::Attention attention{16, 4};
  nn::Dense up{16, 64}, down{64, 16};
  Tensor operator()(const Tensor& x) const {
    const Tensor y = x + attention(before(x));
    return y + down(gelu(up(between(y))));
  }
};

/// Letters [batch, time] to one of two classes.
struct Reader : nn::Net<Reader> {
  nn::Embedding letters{12, 8};
  nn::Gru gru{8, 16, {.returns = nn::Returns::last}};
  nn::Dense out{16, 2};
  Tensor operator()(const Tensor& text) const { return out(gru(letters(text))); }
};

/// How much a user likes an item: two arguments.
struct Recommender : nn::Net<Recommender> {
  nn::Embedding users{20, 8}, items{30, 8};
  nn::Dense hidden{16, 32}, out{32, 1};
  Tensor operator()(const Tensor& user, const Tensor& item) const {
    return out(wr::relu(hidden(wr::concat({users(user), items(item)}, 1))));
  }
};

/// Numbers below a limit, the same in every run of the program.
std::int32_t draw(std::int32_t below) {
  static std::uint32_t state = 1;
  state = state * 1664525u + 1013904223u;
  return static_cast<std::int32_t>((state >> 8) % static_cast<std::uint32_t>(below));
}
Array draws(const wr::Shape& shape, std::int32_t below) {
  Array a = Array::empty(shape, wr::DType::i32);
  for (std::int64_t i = 0; i < a.count(); ++i) a.mutable_data<std::int32_t>()[i] = draw(below);
  return a;
}

double train_blocks() {
  nn::Sequential net{nn::Dense(2, 16), Block(), Block(), nn::Dense(16, 1)};
  wr::optim::Adam adam({.lr = 3e-3});
  auto train = wr::compile(
      [&](Tensor x) {
        // Each position is to say its own first number plus the mean of all second ones.
        const Tensor wanted = slice(x, 2, 0, 1) + mean(slice(x, 2, 1, 2), 1, wr::Keep::yes);
        const Tensor loss = wr::loss::mse(net(x), wanted);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      wr::f32(wr::any, 6, 2));
  double loss = 0;
  for (int i = 0; i < 400; ++i) loss = train(draws({16 + i % 2, 6, 2}, 100).astype(wr::DType::f32) * 0.01f);
  return loss;
}

double train_reader() {
  const Reader net;
  wr::optim::Adam adam({.lr = 1e-2});
  auto train = wr::compile(
      [&](Tensor text) {
        const Tensor first = reshape(slice(text, 1, 0, 1), {text.size(0)});  // the letter it has to remember
        const Tensor label = cast(first < 6, wr::DType::i32);
        const Tensor loss = wr::loss::cross_entropy(net(text), label);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      wr::i32(wr::any, 7));
  double loss = 0;
  for (int i = 0; i < 300; ++i) loss = train(draws({32, 7}, 12));
  return loss;
}

double train_recommender() {
  const Recommender net;
  wr::optim::Adam adam({.lr = 1e-2});
  auto train = wr::compile(
      [&](Tensor user, Tensor item, Tensor liked) {
        const Tensor loss = wr::loss::mse(net(user, item), liked);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      wr::i32(wr::any('n')), wr::i32(wr::any('n')), wr::f32(wr::any('n'), 1));
  double loss = 0;
  for (int i = 0; i < 600; ++i) {
    const Array user = draws({64}, 20), item = draws({64}, 30);
    Array liked = Array::empty({64, 1});
    for (std::int64_t k = 0; k < 64; ++k)
      liked.at<float>({k, 0}) = std::sin(0.5f * static_cast<float>(user.at<std::int32_t>({k}))) *
                                std::cos(0.4f * static_cast<float>(item.at<std::int32_t>({k})));
    loss = train(user, item, liked);
  }
  return loss;
}

}  // namespace

int main() try {
  const double blocks = train_blocks(), reader = train_reader(), recommender = train_recommender();
  std::printf("loss of two transformer blocks %.4f, of the recurrent net %.4f, of the recommender %.4f\n", blocks,
              reader, recommender);
  return blocks < 0.02 && reader < 0.1 && recommender < 0.06 ? 0 : 1;
} catch (const wr::Error& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
