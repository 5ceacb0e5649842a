// The nets of reinforcement learning.
#include <fmt/format.h>

#include "windrow/error.h"
#include "windrow/rl.h"

namespace wr::rl {
namespace {

/// w + noise: the weights' own deviation times f(a) f(b) with f(x) = sign(x) sqrt|x|, a and b normal, drawn once an
/// input and once an output (Fortunato et al. 2018).
class NoisyDense : public nn::Module {
 public:
  NoisyDense(std::int64_t in, std::int64_t out) : random_(nn::next_seed()) {
    const double bound = 1 / std::sqrt(static_cast<double>(in));
    w_ = parameter("w", drawn({in, out}, bound));
    b_ = parameter("b", drawn({out}, bound));
    w_noise_ = parameter("w_noise", Array::full({in, out}, 0.5 * bound));
    b_noise_ = parameter("b_noise", Array::full({out}, 0.5 * bound));
    buffer("counter", random_.counter());
  }
  std::string kind() const override { return fmt::format("NoisyDense({}, {})", w_.shape()[0], w_.shape()[1]); }

 private:
  static Array drawn(const Shape& shape, double bound) {
    return nn::init::uniform(-bound, bound)(shape, {}, nn::next_seed()).astype(DType::f32);
  }
  static Tensor f(const Tensor& x) { return sign(x) * sqrt(abs(x)); }

  Tensor forward(const Tensor& x, nn::Mode mode, const nn::Where& where) const override {
    if (mode == nn::Mode::eval) return matmul(x, w_, where) + b_;
    const std::int64_t in = w_.shape()[0], out = w_.shape()[1];
    const Tensor noise = f(random_.normal({in + out}));
    const Tensor a = reshape(slice(noise, 0, 0, in), {in, 1}), b = slice(noise, 0, in, in + out);
    return matmul(x, w_ + w_noise_ * (a * reshape(b, {1, out})), where) + (b_ + b_noise_ * b);
  }
  Random random_;
  State w_, b_, w_noise_, b_noise_;
};

}  // namespace

Spec Input::spec(std::int64_t batch) const { return active > 0 ? i32(batch, active) : f32(batch, features); }

Net::Net(const NetOptions& options) : options_(options) {
  if (options.hidden.empty()) throw Error("Net: there is no hidden layer");
  if (options.input.features < 1 || options.outputs < 1)
    throw Error(fmt::format("Net: {} features and {} outputs; expected at least one of each", options.input.features,
                            options.outputs));
  std::int64_t width = options.hidden.front();
  // Only `active` inputs are 1: the sum is of that many weights.
  const std::int64_t fan = options.input.active > 0 ? options.input.active : options.input.features;
  const nn::Fans fans{fan, width};
  table_ = parameter("table",
                     nn::init::he_uniform()({options.input.features, width}, fans, nn::next_seed()).astype(DType::f32));
  bias_ = parameter("bias", Array::zeros({width}));
  for (std::size_t i = 0; i < options.hidden.size(); ++i) {
    const std::int64_t out = options.hidden[i];
    if (i > 0) dense_.push_back(child(fmt::format("dense{}", i), nn::Dense(width, out)));
    if (options.layer_norm) norms_.push_back(child(fmt::format("norm{}", i), nn::LayerNorm(out)));
    width = out;
  }
  const auto head = [&](const std::string& name, std::int64_t out) {
    if (options.noisy)
      heads_.push_back(std::make_shared<NoisyDense>(width, out));
    else
      heads_.push_back(
          std::make_shared<nn::Dense>(width, out, nn::DenseOptions{.weights = nn::init::fan_in_uniform()}));
    adopt(name, heads_.back());
  };
  if (options.dueling) head("value", 1);
  head(options.dueling ? "advantage" : "output", options.outputs);
}

std::string Net::kind() const {
  return fmt::format("Net({}, {}, {})", options_.input.features, fmt::join(options_.hidden, ", "), options_.outputs);
}

Tensor Net::first(const Tensor& x, const nn::Where& where) const {
  if (options_.input.active > 0) return embedding_sum(table_, x, where) + bias_;
  return matmul(x, table_, where) + bias_;
}

Tensor Net::forward(const Tensor& x, nn::Mode mode, const nn::Where& where) const {
  const auto activate = [&](const Tensor& t) {
    return options_.activation == Activation::elu ? elu(t, where) : relu(t, where);
  };
  Tensor h = first(x, where);
  for (std::size_t i = 0; i < options_.hidden.size(); ++i) {
    const Tensor before = h;
    if (i > 0) h = dense_[i - 1](h, mode, where);
    if (options_.layer_norm) h = norms_[i](h, mode, where);
    h = activate(h);
    if (i > 0 && options_.residual && before.shape() == h.shape()) h = h + before;
  }
  if (!options_.dueling) return (*heads_[0])(h, mode, where);
  const Tensor advantage = (*heads_[1])(h, mode, where);
  return (*heads_[0])(h, mode, where) + advantage - mean(advantage, 1, Keep::yes, where);
}

}  // namespace wr::rl
