// The nets of examples/own_nets.cpp by hand, as modules were written before their members registered themselves: parts
// by child(), kind(), forward(). It still works, and computes the same; docs/learning.md counts its lines.
#include <gtest/gtest.h>

#include <initializer_list>

#include "windrow/windrow.h"

namespace {

namespace nn = wr::nn;
using wr::Array;
using wr::Tensor;

namespace by_hand {

class Block : public nn::Module {
 public:
  std::string kind() const override { return "Block"; }

 protected:
  Tensor forward(const Tensor& x, nn::Mode mode, const nn::Where& where) const override {
    const Tensor y = x + attention_(before_(x, mode, where), mode, where);
    return y + down_(gelu(up_(between_(y, mode, where), mode, where)), mode, where);
  }

 private:
  nn::LayerNorm before_ = child("0", nn::LayerNorm(16));
  nn::LayerNorm between_ = child("1", nn::LayerNorm(16));
  nn::Attention attention_ = child("2", nn::Attention(16, 4));
  nn::Dense up_ = child("3", nn::Dense(16, 64));
  nn::Dense down_ = child("4", nn::Dense(64, 16));
};

class Reader : public nn::Module {
 public:
  std::string kind() const override { return "Reader"; }

 protected:
  Tensor forward(const Tensor& text, nn::Mode mode, const nn::Where& where) const override {
    return out_(gru_(letters_(text, mode, where), mode, where), mode, where);
  }

 private:
  nn::Embedding letters_ = child("0", nn::Embedding(12, 8));
  nn::Gru gru_ = child("1", nn::Gru(8, 16, {.returns = nn::Returns::last}));
  nn::Dense out_ = child("2", nn::Dense(16, 2));
};

struct Recommender {  // two arguments: no Module
  nn::Embedding users{20, 8}, items{30, 8};
  nn::Dense hidden{16, 32}, out{32, 1};
  Tensor operator()(const Tensor& user, const Tensor& item) const {
    return out(wr::relu(hidden(wr::concat({users(user), items(item)}, 1))));
  }
  std::vector<wr::State> parameters() const {
    std::vector<wr::State> all;
    for (const nn::Module* part : std::initializer_list<const nn::Module*>{&users, &items, &hidden, &out})
      for (const wr::State& s : part->parameters()) all.push_back(s);
    return all;
  }
};

}  // namespace by_hand

struct Block : nn::Net<Block> {
  nn::LayerNorm before{16}, between{16};
  nn::Attention attention{16, 4};
  nn::Dense up{16, 64}, down{64, 16};
  Tensor operator()(const Tensor& x) const {
    const Tensor y = x + attention(before(x));
    return y + down(gelu(up(between(y))));
  }
};

struct Reader : nn::Net<Reader> {
  nn::Embedding letters{12, 8};
  nn::Gru gru{8, 16, {.returns = nn::Returns::last}};
  nn::Dense out{16, 2};
  Tensor operator()(const Tensor& text) const { return out(gru(letters(text))); }
};

struct Recommender : nn::Net<Recommender> {
  nn::Embedding users{20, 8}, items{30, 8};
  nn::Dense hidden{16, 32}, out{32, 1};
  Tensor operator()(const Tensor& user, const Tensor& item) const {
    return out(wr::relu(hidden(wr::concat({users(user), items(item)}, 1))));
  }
};

/// Gives one the parameters of the other; says whether there are as many, of the same names where both have paths.
void copy_parameters(const std::vector<wr::State>& from, const std::vector<wr::State>& to, bool named) {
  ASSERT_EQ(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (named) {
      EXPECT_EQ(from[i].name(), to[i].name());
    }
    wr::State(to[i]).set(from[i].value());
  }
}

void expect_equal(const Array& a, const Array& b) {
  ASSERT_EQ(a.shape(), b.shape());
  ASSERT_GT(a.count(), 0);
  for (std::int64_t i = 0; i < a.count(); ++i) ASSERT_EQ(a.data<float>()[i], b.data<float>()[i]) << i;
}

TEST(OwnModules, ABlockByHandIsTheBlockWhoseMembersRegisterThemselves) {
  const Block net;
  const by_hand::Block hand;
  copy_parameters(net.parameters(), hand.parameters(), true);
  const Array x = Array::linspace(-1, 2, 3 * 5 * 16).reshape({3, 5, 16});
  expect_equal(predict(net, x), predict(hand, x));
}

TEST(OwnModules, AReaderByHandIsTheReaderWhoseMembersRegisterThemselves) {
  const Reader net;
  const by_hand::Reader hand;
  copy_parameters(net.parameters(), hand.parameters(), true);
  const Array text = Array::arange(12, wr::DType::i32).reshape({3, 4});
  expect_equal(predict(net, text), predict(hand, text));
}

TEST(OwnModules, ANetOfTwoArgumentsByHandIsTheOneWhoseMembersRegisterThemselves) {
  const Recommender net;
  const by_hand::Recommender hand;
  copy_parameters(net.parameters(), hand.parameters(), false);
  auto apart = wr::compile([&](Tensor user, Tensor item) { return sum(abs(net(user, item) - hand(user, item))); },
                           wr::i32(6), wr::i32(6));
  auto size = wr::compile([&](Tensor user, Tensor item) { return sum(abs(net(user, item))); }, wr::i32(6), wr::i32(6));
  const Array user = Array::arange(6, wr::DType::i32), item = Array::arange(10, 16, 1, wr::DType::i32);
  EXPECT_EQ(static_cast<float>(apart(user, item)), 0);
  EXPECT_GT(static_cast<float>(size(user, item)), 0);
}

}  // namespace
