// Whole training steps: the same work as the peers' scripts do.
#include <cmath>
#include <regex>
#include <sstream>

#include "bench/prepared.h"

namespace wr::bench {
namespace {

struct Dense {
  Dense(std::int64_t in, std::int64_t out, const std::string& name, std::uint64_t seed)
      : w(random_normal({in, out}, seed, 1 / std::sqrt(double(in))), name + ".w"),
        b(Array::zeros({out}), name + ".b") {}
  Tensor operator()(const Tensor& x) const { return matmul(x, w) + b; }
  State w, b;
};

struct Norm {
  Norm(std::int64_t width, const std::string& name)
      : scale(Array::ones({width}), name + ".scale"), shift(Array::zeros({width}), name + ".shift") {}
  Tensor operator()(const Tensor& x) const { return layer_norm(x, scale, shift); }
  State scale, shift;
};

std::string joined(const std::vector<std::int64_t>& sizes) {
  std::string s;
  for (auto n : sizes) s += (s.empty() ? "" : "_") + std::to_string(n);
  return s;
}

Case plain_mlp(std::vector<std::int64_t> sizes, std::int64_t batch) {
  const std::string name = "plain_mlp_" + joined(sizes) + "_b" + std::to_string(batch);
  return {name, "ReLU layers, mean squared error, Adam", [=](int threads) {
            std::vector<Dense> layers;
            std::vector<State> parameters;
            for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
              layers.emplace_back(sizes[i], sizes[i + 1], "layer" + std::to_string(i), 10 + i);
              parameters.insert(parameters.end(), {layers.back().w, layers.back().b});
            }
            optim::Adam adam;
            return prepared(
                threads, name, {random_normal({batch, sizes.front()}, 1), random_normal({batch, sizes.back()}, 2)},
                1e-3,
                [&](Tensor x, const Tensor& y) {
                  for (std::size_t i = 0; i < layers.size(); ++i)
                    x = i + 1 < layers.size() ? relu(layers[i](x)) : layers[i](x);
                  const Tensor loss = mse(x, y);
                  adam.minimize(loss, parameters);
                  return loss;
                },
                f32(batch, sizes.front()), f32(batch, sizes.back()));
          }};
}

Prepared mlp(int threads, std::int64_t batch, std::int64_t) {
  const Dense hidden(784, 128, "hidden", 1), out(128, 10, "out", 2);
  optim::Adam adam;
  return prepared(
      threads, "mlp_step_b" + std::to_string(batch), {random_normal({batch, 784}, 3), random_integers({batch}, 10, 4)},
      1e-3,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = cross_entropy(out(relu(hidden(x))), y);
        adam.minimize(loss, {hidden.w, hidden.b, out.w, out.b});
        return loss;
      },
      f32(batch, 784), i32(batch));
}

Prepared cnn(int threads, std::int64_t batch, std::int64_t) {
  const State w0(random_normal({3, 3, 1, 8}, 1, 0.2), "conv0.w"), b0(Array::zeros({8}), "conv0.b");
  const State w1(random_normal({3, 3, 8, 16}, 2, 0.1), "conv1.w"), b1(Array::zeros({16}), "conv1.b");
  const Dense out(784, 10, "out", 3);
  optim::Adam adam;
  return prepared(
      threads, "cnn_step_b" + std::to_string(batch),
      {random_normal({batch, 28, 28, 1}, 4), random_integers({batch}, 10, 5)}, 1e-3,
      [&](const Tensor& image, const Tensor& y) {
        const ConvOptions same{.padding = Padding::same};
        Tensor x = max_pool(relu(conv2d(image, w0, same) + b0), 2);
        x = max_pool(relu(conv2d(x, w1, same) + b1), 2);
        const Tensor loss = cross_entropy(out(flatten(x, 1)), y);
        adam.minimize(loss, {w0, b0, w1, b1, out.w, out.b});
        return loss;
      },
      f32(batch, 28, 28, 1), i32(batch));
}

struct Dueling {
  explicit Dueling(std::int64_t width)
      : f1(144, width, "f1", 1),
        f2(width, width / 2, "f2", 2),
        n1(width, "n1"),
        n2(width / 2, "n2"),
        value(width / 2, 1, "value", 3),
        advantage(width / 2, 6, "advantage", 4) {}
  Tensor operator()(Tensor x) const {
    x = relu(n1(f1(x)));
    x = relu(n2(f2(x)));
    const Tensor a = advantage(x);
    return value(x) + a - mean(a, 1, Keep::yes);
  }
  std::vector<State> parameters() const {
    return {f1.w, f1.b, n1.scale, n1.shift, f2.w, f2.b, n2.scale, n2.shift, value.w, value.b, advantage.w, advantage.b};
  }
  Dense f1, f2;
  Norm n1, n2;
  Dense value, advantage;
};

Array one_hot_states(std::int64_t rows, std::uint64_t seed) {
  const Array colours = random_integers({rows, 24}, 6, seed);
  return eval(reshape(one_hot(Tensor(colours), 6), {rows, 144}));
}

Prepared dqn_step(int threads, std::int64_t batch, std::int64_t width) {
  const Dueling online(width), target(width);
  optim::Adam adam;
  return prepared(
      threads, "dqn_step_b" + std::to_string(batch),
      {one_hot_states(batch, 1), one_hot_states(batch, 2), random_integers({batch, 1}, 6, 3),
       random_normal({batch, 1}, 4), Array::ones({batch, 1}), Array::ones({batch, 1})},
      2e-3,
      [&](const Tensor& s, const Tensor& s2, const Tensor& action, const Tensor& reward, const Tensor& not_done,
          const Tensor& weight) {
        const Tensor q = take_along(online(s), action, 1);
        const Tensor best = argmax(stop_gradient(online(s2)), 1, Keep::yes);
        const Tensor y = stop_gradient(reward + 0.99 * not_done * take_along(target(s2), best, 1));
        const Tensor loss = mean(huber(q, y) * weight);
        adam.minimize(loss, online.parameters());
        return loss;
      },
      f32(batch, 144), f32(batch, 144), i32(batch, 1), f32(batch, 1), f32(batch, 1), f32(batch, 1));
}

Prepared dqn_act(int threads, std::int64_t batch, std::int64_t width) {
  const Dueling online(width);
  return prepared(
      threads, "dqn_act_b" + std::to_string(batch), {one_hot_states(batch, 1)}, 1e-4,
      [&](const Tensor& s) { return online(s); }, f32(batch, 144));
}

Prepared einsum_rule(int threads) {
  constexpr std::int64_t n = 256;
  auto positive = [](const Shape& shape, std::uint64_t seed) {
    return eval(sigmoid(Tensor(random_normal(shape, seed))));
  };
  return prepared(
      threads, "einsum_rule256", {positive({n, n}, 1), positive({n, n}, 2), positive({n}, 3)}, 1e-5,
      [](const Tensor& p, const Tensor& q, const Tensor& age) {
        const Tensor g = sigmoid(einsum("xy,yz->xz", {p, q})), h = sigmoid(einsum("xy,yz,z->xz", {p, p, age}));
        const Tensor o = g + h - g * h;
        return std::pair(max(o, 1), mean(o));
      },
      f32(n, n), f32(n, n), f32(n));
}

const std::vector<Family>& families() {
  static const std::vector<Family> list = [] {
    std::vector<Family> own{
        {"mlp_step", "784-128-10, ReLU, cross entropy, Adam", mlp, 64},
        {"cnn_step", "two 3x3 convolutions with ReLU and pooling, dense 10, cross entropy, Adam; 28x28", cnn, 64},
        {"dqn_step", "dueling double DQN, layer norm, Huber, Adam", dqn_step, 64, 128},
        {"dqn_act", "the dueling net on a batch of states", dqn_act, 1, 128}};
    for (const Family& f : model_families()) own.push_back(f);
    return own;
  }();
  return list;
}

Case family_case(const Family& family, std::int64_t batch, std::int64_t width) {
  const std::string wide = width == family.width ? "" : "_w" + std::to_string(width);
  return {family.name + wide + "_b" + std::to_string(batch), family.what, [&family, batch, width](int threads) {
            nn::seed(1);  // the same weights each time
            return family.prepare(threads, batch, width);
          }};
}

}  // namespace

std::vector<Case> training_cases() {
  std::vector<Case> list{plain_mlp({144, 128, 64, 6}, 64), plain_mlp({784, 128, 10}, 64)};
  for (const Family& family : families()) list.push_back(family_case(family, family.batch, family.width));
  list.push_back({"einsum_rule256", "a tensor-logic rule body", einsum_rule});
  return list;
}

std::optional<Case> training_case(const std::string& name) {
  std::smatch found;
  if (std::regex_match(name, found, std::regex("plain_mlp((?:_[1-9][0-9]{0,4}){2,})_b([1-9][0-9]{0,5})"))) {
    std::vector<std::int64_t> sizes;
    std::stringstream list(found[1].str().substr(1));
    for (std::string size; std::getline(list, size, '_');) sizes.push_back(std::stoll(size));
    return plain_mlp(sizes, std::stoll(found[2]));
  }
  if (std::regex_match(name, found, std::regex("([a-z]+(?:_[a-z]+)+)(?:_w([1-9][0-9]{0,6}))?_b([1-9][0-9]{0,5})")))
    for (const Family& family : families()) {
      if (family.name != found[1] || (found[2].matched && family.width == 0)) continue;
      const std::int64_t width = found[2].matched ? std::stoll(found[2]) : family.width;
      if (width % 2 == 0 || width == 0) return family_case(family, std::stoll(found[3]), width);
    }
  return std::nullopt;
}

}  // namespace wr::bench
