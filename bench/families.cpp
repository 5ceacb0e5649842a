// Whole training steps of many kinds of models, each in any size: what people train who do not train our examples.
#include <cmath>

#include "bench/prepared.h"

namespace wr::bench {
namespace {

using nn::Mode;

Array random_uniform(const Shape& shape, std::uint64_t seed) {
  return eval(sigmoid(Tensor(random_normal(shape, seed))));
}

std::vector<State> joined(std::initializer_list<std::vector<State>> lists) {
  std::vector<State> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

nn::Sequential mlp(std::vector<std::int64_t> sizes, const nn::Lambda& activation = nn::Relu()) {
  nn::Sequential net;
  for (std::size_t i = 0; i + 1 < sizes.size(); ++i) {
    net.add(nn::Dense(sizes[i], sizes[i + 1]));
    if (i + 2 < sizes.size()) net.add(activation);
  }
  return net;
}

std::string case_name(const char* family, std::int64_t width, std::int64_t batch) {
  return std::string(family) + "_w" + std::to_string(width) + "_b" + std::to_string(batch);
}

/// Two tables of `rows` entries, their product and an MLP on both rows. The tables may have an optimiser of their own.
Prepared recommender(const char* name, int threads, std::int64_t batch, std::int64_t rows,
                     optim::Optimiser* of_tables = nullptr) {
  constexpr std::int64_t kWidth = 32;
  const nn::Embedding users(rows, kWidth), items(rows, kWidth);
  const nn::Sequential net = mlp({2 * kWidth, 64, 1});
  optim::Adam adam;
  return prepared(
      threads, case_name(name, rows, batch),
      {random_integers({batch}, static_cast<int>(rows), 1), random_integers({batch}, static_cast<int>(rows), 2),
       random_uniform({batch}, 3)},
      1e-3,
      [&](const Tensor& user, const Tensor& item, const Tensor& y) {
        const Tensor u = users(user), i = items(item);
        const Tensor logits = sum(u * i, 1) + reshape(net(concat({u, i}, 1)), {batch});
        const Tensor loss = loss::binary_cross_entropy(logits, y);
        const auto tables = joined({users.parameters(), items.parameters()});
        if (of_tables) of_tables->minimize(loss, tables);
        adam.minimize(loss, of_tables ? net.parameters() : joined({tables, net.parameters()}));
        return loss;
      },
      i32(batch), i32(batch), f32(batch));
}
Prepared recommender(int threads, std::int64_t batch, std::int64_t rows) {
  return recommender("recommender_step", threads, batch, rows);
}
Prepared sparse_recommender(int threads, std::int64_t batch, std::int64_t rows) {
  optim::SparseAdam of_tables;
  return recommender("sparse_recommender_step", threads, batch, rows, &of_tables);
}

Prepared wide(int threads, std::int64_t batch, std::int64_t width) {
  const nn::Sequential net = mlp({width, width, width, 10});
  optim::Adam adam;
  return prepared(
      threads, case_name("wide_step", width, batch),
      {random_normal({batch, width}, 1), random_integers({batch}, 10, 2)}, 1e-3,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = loss::cross_entropy(net(x), y);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      f32(batch, width), i32(batch));
}

Prepared autoencoder(int threads, std::int64_t batch, std::int64_t width) {
  const nn::Sequential net = mlp({784, width, width / 2, width / 8, width / 2, width, 784});
  optim::Adam adam;
  return prepared(
      threads, case_name("autoencoder_step", width, batch), {random_uniform({batch, 784}, 1)}, 1e-3,
      [&](const Tensor& x) {
        const Tensor loss = loss::mse(sigmoid(net(x)), x);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      f32(batch, 784));
}

struct BasicBlock {
  BasicBlock(std::int64_t in, std::int64_t out, std::int64_t stride)
      : a(in, out, 3, {.padding = Padding::same, .stride = stride, .bias = false}),
        b(out, out, 3, {.padding = Padding::same, .bias = false}),
        na(out),
        nb(out),
        shortcut(in, out, 1, {.padding = Padding::same, .stride = stride, .bias = false}),
        plain(in == out && stride == 1) {}
  Tensor operator()(const Tensor& x) const { return relu(nb(b(relu(na(a(x))))) + (plain ? x : shortcut(x))); }
  std::vector<State> parameters() const {
    auto list = joined({a.parameters(), na.parameters(), b.parameters(), nb.parameters()});
    return plain ? list : joined({list, shortcut.parameters()});
  }
  nn::Conv2D a, b;
  nn::BatchNorm na, nb;
  nn::Conv2D shortcut;
  bool plain;
};

/// Three stages of two blocks with batch norm, on 32x32 pictures.
Prepared resnet(int threads, std::int64_t batch, std::int64_t channels) {
  const nn::Conv2D first(3, channels, 3, {.padding = Padding::same, .bias = false});
  const nn::BatchNorm norm(channels);
  std::vector<BasicBlock> blocks;
  std::int64_t width = channels;
  for (int stage = 0; stage < 3; ++stage)
    for (int i = 0; i < 2; ++i) {
      const std::int64_t out = channels << stage;
      blocks.emplace_back(width, out, stage > 0 && i == 0 ? 2 : 1);
      width = out;
    }
  const nn::Dense last(width, 10);
  optim::Sgd sgd({.lr = 0.1, .momentum = 0.9});
  return prepared(
      threads, case_name("resnet_step", channels, batch),
      {random_normal({batch, 32, 32, 3}, 1), random_integers({batch}, 10, 2)}, 3e-3,
      [&](const Tensor& image, const Tensor& y) {
        Tensor x = relu(norm(first(image)));
        for (const auto& block : blocks) x = block(x);
        const Tensor loss = loss::cross_entropy(last(mean(x, {1, 2})), y);
        auto parameters = joined({first.parameters(), norm.parameters(), last.parameters()});
        for (const auto& block : blocks) parameters = joined({parameters, block.parameters()});
        sgd.minimize(loss, parameters);
        return loss;
      },
      f32(batch, 32, 32, 3), i32(batch));
}

struct Block {
  Block(std::int64_t width, nn::Causal causal)
      : n1(width),
        n2(width),
        attention(width, width / 32, {.causal = causal}),
        up(width, 4 * width),
        down(4 * width, width) {}
  Tensor operator()(const Tensor& x) const {
    const Tensor y = x + attention(n1(x));
    return y + down(gelu(up(n2(y))));
  }
  std::vector<State> parameters() const {
    return joined({n1.parameters(), n2.parameters(), attention.parameters(), up.parameters(), down.parameters()});
  }
  nn::LayerNorm n1, n2;
  nn::Attention attention;
  nn::Dense up, down;
};

/// Four layers over 64 positions and 65 characters.
Prepared gpt(int threads, std::int64_t batch, std::int64_t width) {
  constexpr std::int64_t kTime = 64, kCharacters = 65;
  const nn::Embedding characters(kCharacters, width);
  const State positions(random_normal({kTime, width}, 3, 0.02), "positions");
  std::vector<Block> own;
  for (int i = 0; i < 4; ++i) own.emplace_back(width, nn::Causal::yes);
  const nn::LayerNorm norm(width);
  const nn::Dense head(width, kCharacters);
  optim::Adam adam;
  return prepared(
      threads, case_name("gpt_step", width, batch),
      {random_integers({batch, kTime}, kCharacters, 1), random_integers({batch, kTime}, kCharacters, 2)}, 2e-3,
      [&](const Tensor& x, const Tensor& y) {
        Tensor h = characters(x) + positions;
        for (const auto& block : own) h = block(h);
        const Tensor logits = reshape(head(norm(h)), {batch * kTime, kCharacters});
        const Tensor loss = loss::cross_entropy(logits, reshape(y, {batch * kTime}));
        auto parameters = joined({characters.parameters(), {positions}, norm.parameters(), head.parameters()});
        for (const auto& block : own) parameters = joined({parameters, block.parameters()});
        adam.minimize(loss, parameters);
        return loss;
      },
      i32(batch, kTime), i32(batch, kTime));
}

Prepared transformer(int threads, std::int64_t batch, std::int64_t width) {
  constexpr std::int64_t kTime = 64;
  const Block block(width, nn::Causal::no);
  optim::Adam adam;
  return prepared(
      threads, case_name("transformer_step", width, batch),
      {random_normal({batch, kTime, width}, 1), random_normal({batch, kTime, width}, 2)}, 2e-3,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = loss::mse(block(x), y);
        adam.minimize(loss, block.parameters());
        return loss;
      },
      f32(batch, kTime, width), f32(batch, kTime, width));
}

template <class Cell>
Prepared recurrent(const char* name, int threads, std::int64_t batch, std::int64_t hidden,
                   nn::RecurrentOptions options = {}, std::int64_t sides = 1) {
  constexpr std::int64_t kTime = 50, kIn = 32;
  options.returns = nn::Returns::last;
  const Cell cell(kIn, hidden, options);
  const nn::Dense last(sides * hidden, 10);
  optim::Adam adam;
  return prepared(
      threads, case_name(name, hidden, batch), {random_normal({batch, kTime, kIn}, 1), random_integers({batch}, 10, 2)},
      2e-3,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = loss::cross_entropy(last(cell(x)), y);
        adam.minimize(loss, joined({cell.parameters(), last.parameters()}));
        return loss;
      },
      f32(batch, kTime, kIn), i32(batch));
}
Prepared lstm(int threads, std::int64_t batch, std::int64_t hidden) {
  return recurrent<nn::Lstm>("lstm_step", threads, batch, hidden);
}
Prepared gru(int threads, std::int64_t batch, std::int64_t hidden) {
  return recurrent<nn::Gru>("gru_step", threads, batch, hidden);
}

Prepared both_ways(int threads, std::int64_t batch, std::int64_t hidden) {
  return recurrent<nn::Lstm>("bilstm_step", threads, batch, hidden, {.layers = 2, .directions = nn::Directions::both},
                             2);
}

/// A cell as users write their own: a gated unit with a layer norm, by scan() or step by step.
enum class Loop { scan, written_out };
Prepared cell(const char* name, int threads, std::int64_t batch, std::int64_t hidden, std::int64_t steps,
              Loop loop = Loop::scan) {
  constexpr std::int64_t kIn = 32;
  const nn::Dense in(kIn, 2 * hidden), last(hidden, 10);
  const State u(random_normal({hidden, 2 * hidden}, 3, 0.08), "u");
  const nn::LayerNorm norm(hidden);
  const auto half = [&](const Tensor& x, int which) { return slice(x, 1, which * hidden, (which + 1) * hidden); };
  const auto step = [&](const Tensor& h, const Tensor& x) {
    const Tensor from = matmul(h, u), f = sigmoid(half(x, 0) + half(from, 0));
    return h + f * (tanh(norm(half(x, 1) + f * half(from, 1))) - h);
  };
  const auto run = [&](const Tensor& x) {
    const Tensor gates = in(x), start = full({batch, hidden}, 0);
    if (loop == Loop::scan)
      return scan(
                 [&](const auto& carry, const auto& now) {
                   return Scan{{step(carry[0], now[0])}, {}};
                 },
                 {start}, {gates}, {.axis = 1})
          .carry[0];
    const auto turn = [&](int t, const std::vector<Tensor>& carry) {
      return std::vector<Tensor>{step(carry[0], squeeze(slice(gates, 1, t, t + 1), 1))};
    };
    return repeat(static_cast<int>(steps), turn, {start})[0];
  };
  optim::Adam adam;
  return prepared(
      threads, case_name(name, hidden, batch), {random_normal({batch, steps, kIn}, 1), random_integers({batch}, 10, 2)},
      2e-3,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = loss::cross_entropy(last(run(x)), y);
        adam.minimize(loss, joined({{u}, in.parameters(), norm.parameters(), last.parameters()}));
        return loss;
      },
      f32(batch, steps, kIn), i32(batch));
}
Prepared cell_100(int threads, std::int64_t batch, std::int64_t hidden) {
  return cell("cell_step", threads, batch, hidden, 100);
}
Prepared cell_1000(int threads, std::int64_t batch, std::int64_t hidden) {
  return cell("long_cell_step", threads, batch, hidden, 1000);
}
Prepared cell_written_out(int threads, std::int64_t batch, std::int64_t hidden) {
  return cell("unrolled_cell_step", threads, batch, hidden, 100, Loop::written_out);
}

/// Clipped surrogate, value loss, entropy; gradients clipped by norm.
Prepared ppo(int threads, std::int64_t batch, std::int64_t width) {
  constexpr std::int64_t kState = 17, kActions = 6;
  const nn::Sequential policy = mlp({kState, width, width, kActions}, nn::Tanh());
  const nn::Sequential value = mlp({kState, width, width, 1}, nn::Tanh());
  optim::Adam adam({.lr = 3e-4, .clip = {.norm = 0.5}});
  return prepared(
      threads, case_name("ppo_step", width, batch),
      {random_normal({batch, kState}, 1), random_integers({batch, 1}, kActions, 2), random_normal({batch, 1}, 3, 0.1),
       random_normal({batch, 1}, 4), random_normal({batch, 1}, 5)},
      2e-3,
      [&](const Tensor& s, const Tensor& action, const Tensor& old, const Tensor& advantage, const Tensor& target) {
        const Tensor all = log_softmax(policy(s));
        const Tensor ratio = exp(take_along(all, action, 1) - (old - std::log(double(kActions))));
        const Tensor clipped = minimum(maximum(ratio, 0.8), 1.2);
        const Tensor gain = mean(minimum(ratio * advantage, clipped * advantage));
        const Tensor entropy = -mean(sum(exp(all) * all, 1));
        const Tensor loss = 0.5 * loss::mse(value(s), target) - gain - 0.01 * entropy;
        adam.minimize(loss, joined({policy.parameters(), value.parameters()}));
        return loss;
      },
      f32(batch, kState), i32(batch, 1), f32(batch, 1), f32(batch, 1), f32(batch, 1));
}

/// Two critics with targets, a squashed Gaussian actor; noise is an argument. Target nets follow.
Prepared sac(int threads, std::int64_t batch, std::int64_t width) {
  constexpr std::int64_t kState = 17, kActions = 6;
  const nn::Sequential actor = mlp({kState, width, width, 2 * kActions});
  std::vector<nn::Sequential> critics, targets;
  for (int i = 0; i < 2; ++i) {
    critics.push_back(mlp({kState + kActions, width, width, 1}));
    targets.push_back(mlp({kState + kActions, width, width, 1}));
  }
  optim::Adam for_critics({.lr = 3e-4}), for_actor({.lr = 3e-4});
  const auto act = [&](const Tensor& s, const Tensor& noise) {
    const Tensor out = actor(s);
    const Tensor mu = slice(out, 1, 0, kActions), log_std = -1.5 + 3.5 * tanh(slice(out, 1, kActions, 2 * kActions));
    const Tensor raw = mu + exp(log_std) * noise, a = tanh(raw);
    const Tensor log_p =
        sum(-0.5 * noise * noise - log_std - 2 * (std::log(2.0) - raw - softplus(-2 * raw)), 1, Keep::yes);
    return std::pair(a, log_p);
  };
  return prepared(
      threads, case_name("sac_step", width, batch),
      {random_normal({batch, kState}, 11), random_normal({batch, kActions}, 12, 0.5), random_normal({batch, 1}, 13),
       random_normal({batch, kState}, 14), random_normal({batch, kActions}, 15), random_normal({batch, kActions}, 16)},
      3e-3,
      [&](const Tensor& s, const Tensor& a, const Tensor& r, const Tensor& s2, const Tensor& noise,
          const Tensor& noise2) {
        const auto [a2, log_p2] = act(s2, noise2);
        const Tensor next = concat({s2, a2}, 1);
        const Tensor y = stop_gradient(r + 0.99 * (minimum(targets[0](next), targets[1](next)) - 0.2 * log_p2));
        const Tensor here = concat({s, a}, 1);
        const Tensor critic_loss = loss::mse(critics[0](here), y) + loss::mse(critics[1](here), y);
        const auto critic_parameters = joined({critics[0].parameters(), critics[1].parameters()});
        const auto [now, log_p] = act(s, noise);
        const Tensor chosen = concat({s, now}, 1);
        const Tensor actor_loss = mean(0.2 * log_p - minimum(critics[0](chosen), critics[1](chosen)));
        for_critics.minimize(critic_loss, critic_parameters);
        for_actor.minimize(actor_loss, actor.parameters());
        for (int i = 0; i < 2; ++i) {
          const auto from = critics[i].parameters(), to = targets[i].parameters();
          for (std::size_t k = 0; k < to.size(); ++k) to[k].assign(0.995 * Tensor(to[k]) + 0.005 * Tensor(from[k]));
        }
        return std::pair(critic_loss, actor_loss);
      },
      f32(batch, kState), f32(batch, kActions), f32(batch, 1), f32(batch, kState), f32(batch, kActions),
      f32(batch, kActions));
}

/// The critic's step of a Wasserstein GAN: the norm of the gradient by its input is driven to 1.
Prepared wgan(int threads, std::int64_t batch, std::int64_t width) {
  constexpr std::int64_t kIn = 64;
  const nn::Sequential critic = mlp({kIn, width, width, 1}, nn::Tanh());
  optim::Adam adam({.lr = 1e-4, .beta1 = 0.5, .beta2 = 0.9});
  return prepared(
      threads, case_name("wgan_step", width, batch),
      {random_normal({batch, kIn}, 1), random_normal({batch, kIn}, 2), random_uniform({batch, 1}, 3)}, 3e-3,
      [&](const Tensor& real, const Tensor& fake, const Tensor& mix) {
        const Tensor between = mix * real + (1 - mix) * fake;
        const Tensor slope = grad(sum(critic(between)), {between})[0];
        const Tensor excess = sqrt(sum(slope * slope, 1) + 1e-12) - 1;
        const Tensor loss = mean(critic(fake)) - mean(critic(real)) + 10 * mean(excess * excess);
        adam.minimize(loss, critic.parameters());
        return loss;
      },
      f32(batch, kIn), f32(batch, kIn), f32(batch, 1));
}

Prepared vae(int threads, std::int64_t batch, std::int64_t width) {
  constexpr std::int64_t kCode = 20;
  const nn::Sequential encoder = mlp({784, width, 2 * kCode}), decoder = mlp({kCode, width, 784});
  optim::Adam adam;
  return prepared(
      threads, case_name("vae_step", width, batch), {random_uniform({batch, 784}, 1), random_normal({batch, kCode}, 2)},
      2e-3,
      [&](const Tensor& x, const Tensor& noise) {
        const Tensor code = encoder(x);
        const Tensor mu = slice(code, 1, 0, kCode), log_var = slice(code, 1, kCode, 2 * kCode);
        const Tensor logits = decoder(mu + exp(0.5 * log_var) * noise);
        const Tensor likeness = mean(sum(softplus(logits) - x * logits, 1));
        const Tensor distance = -0.5 * mean(sum(1 + log_var - mu * mu - exp(log_var), 1));
        const Tensor loss = likeness + distance;
        adam.minimize(loss, joined({encoder.parameters(), decoder.parameters()}));
        return loss;
      },
      f32(batch, 784), f32(batch, kCode));
}

/// Two levels down and up on 32x32 pictures, joined across.
Prepared unet(int threads, std::int64_t batch, std::int64_t channels) {
  const nn::ConvLayerOptions same{.padding = Padding::same};
  const std::int64_t c = channels;
  const nn::Conv2D a(3, c, 3, same), b(c, 2 * c, 3, same), d(4 * c, 2 * c, 3, same), e(2 * c, c, 3, same),
      middle(2 * c, 4 * c, 3, same), last(c, 1, 1, same);
  const nn::ConvTranspose2D up1(4 * c, 2 * c, 2, {.stride = 2}), up2(2 * c, c, 2, {.stride = 2});
  optim::Adam adam;
  return prepared(
      threads, case_name("unet_step", channels, batch),
      {random_normal({batch, 32, 32, 3}, 1), random_uniform({batch, 32, 32, 1}, 2)}, 3e-3,
      [&](const Tensor& x, const Tensor& y) {
        const Tensor x1 = relu(a(x)), x2 = relu(b(max_pool(x1, 2))), x3 = relu(middle(max_pool(x2, 2)));
        const Tensor y2 = relu(d(concat({up1(x3), x2}, 3))), y1 = relu(e(concat({up2(y2), x1}, 3)));
        const Tensor loss = loss::binary_cross_entropy(last(y1), y);
        adam.minimize(loss, joined({a.parameters(), b.parameters(), middle.parameters(), up1.parameters(),
                                    d.parameters(), up2.parameters(), e.parameters(), last.parameters()}));
        return loss;
      },
      f32(batch, 32, 32, 3), f32(batch, 32, 32, 1));
}

}  // namespace

std::vector<Family> model_families() {
  return {{"recommender_step", "two embedding tables of so many rows, product and MLP, Adam", recommender, 512, 10000},
          {"sparse_recommender_step", "the same, SparseAdam for the tables", sparse_recommender, 512, 10000},
          {"wide_step", "MLP of two wide layers, cross entropy, Adam", wide, 32, 2048},
          {"autoencoder_step", "784-w-w/2-w/8-w/2-w-784, Adam", autoencoder, 128, 512},
          {"resnet_step", "three stages of two blocks, batch norm, 32x32, momentum", resnet, 8, 16},
          {"gpt_step", "four layers, 64 positions, Adam", gpt, 8, 128},
          {"transformer_step", "one encoder block, 64 positions, Adam", transformer, 16, 128},
          {"attention_step", "4 heads of 64 columns, so many positions, forward and back", attention_case, 1, 4096},
          {"lstm_step", "50 steps, Adam", lstm, 32, 128},
          {"gru_step", "50 steps, Adam", gru, 32, 128},
          {"bilstm_step", "two layers in both directions, 50 steps, Adam", both_ways, 32, 64},
          {"cell_step", "a gated unit of one's own by scan, 100 steps, Adam", cell_100, 16, 64},
          {"long_cell_step", "the same, 1000 steps", cell_1000, 8, 32},
          {"unrolled_cell_step", "the same, 100 steps one after the other", cell_written_out, 16, 64},
          {"ppo_step", "clipped surrogate, value, entropy, norm clipped, Adam", ppo, 64, 256},
          {"sac_step", "two critics, actor, targets, two Adams", sac, 256, 256},
          {"wgan_step", "critic with gradient penalty, Adam", wgan, 64, 256},
          {"vae_step", "784-w-20-w-784, Adam", vae, 128, 400},
          {"unet_step", "two levels, transposed convolutions, 32x32, Adam", unet, 4, 16}};
}

}  // namespace wr::bench
