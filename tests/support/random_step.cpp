// Random training steps. Each op draws from a stream of its own, so that leaving one out changes little of the others.
#include "support/random_step.h"

#include <algorithm>

#include "windrow/attention.h"
#include "windrow/scan.h"

namespace wr::test {
namespace {

constexpr std::int64_t kBatches[] = {1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 33, 61, 64, 70};
constexpr std::int64_t kWidths[] = {1, 2, 3, 4, 5, 7, 8, 11, 16, 17, 19};
constexpr std::int64_t kMost = 5000;  // elements of a value; the interpreter is slow

template <std::size_t N>
std::int64_t pick(std::mt19937& random, const std::int64_t (&from)[N]) {
  return from[random() % N];
}

std::mt19937 stream(unsigned seed, int part) {
  std::seed_seq sequence{seed, static_cast<unsigned>(part)};
  return std::mt19937(sequence);
}

}  // namespace

RandomStep::RandomStep(const Recipe& recipe)
    : recipe_(recipe),
      random_(stream(recipe.seed, -1)),
      dtype_(draw(2) ? DType::f32 : DType::f64),
      batch_(pick(random_, kBatches)),
      width_(pick(random_, kWidths)),
      out_(pick(random_, kWidths)),
      adam_(optim::Adam::Options{.lr = 0.01}),
      sgd_(optim::Sgd::Options{.lr = 0.1}) {
  specs_ = {{dtype_, {batch_, width_}},
            {dtype_, {batch_, out_}},
            {dtype_, {width_}},
            {dtype_, {}},
            i32(batch_),
            i32(batch_, 3)};
  if (chance(30)) specs_.push_back({dtype_, {batch_, 4, 5, 2}});
  if (chance(30)) specs_.push_back({dtype_, {3, 1, width_}});
  states_ = {state({width_, out_}, "w"),   state({out_}, "b"), state({batch_, width_}, "p"),
             state({batch_, width_}, "q"), state({}, "t"),     state({batch_, 1}, "r")};
}

State RandomStep::state(const Shape& shape, const char* name) {
  std::uniform_real_distribution<double> real(-1, 1);
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (double& v : values) v = real(random_);
  return State(Array::from(values, shape).astype(dtype_), name);
}

std::vector<Array> RandomStep::arguments(unsigned run) const {
  std::mt19937 random = stream(recipe_.seed, 1'000'000 + static_cast<int>(run));
  std::uniform_real_distribution<double> real(-2, 2);
  std::vector<Array> list;
  for (const Spec& spec : specs_) {
    std::vector<double> values(static_cast<std::size_t>(spec.shape.count()));
    for (double& v : values)
      v = is_floating(spec.dtype) ? real(random) : static_cast<double>(random() % static_cast<unsigned>(width_));
    list.push_back(Array::from(values, spec.shape).astype(spec.dtype));
  }
  return list;
}

std::vector<Tensor> RandomStep::operator()(const std::vector<Tensor>& arguments) {
  leaves_.clear();
  extra_.clear();
  for (const Tensor& t : arguments)
    if (t.dtype() == dtype_) leaves_.push_back(t);
  rows_ = arguments[4];
  table_ = arguments[5];
  for (const State& s : states_) leaves_.emplace_back(s);
  pool_ = leaves_;
  for (int i = 0; i < recipe_.ops; ++i) {
    if (recipe_.without.contains(i)) continue;
    random_ = stream(recipe_.seed, i);
    Tensor made = op();
    if (made.shape().count() > kMost || made.rank() > 5) continue;
    pool_.push_back(chance(30) ? tanh(made) : made);
  }
  random_ = stream(recipe_.seed, -2);
  if (chance(70)) differentiate();
  random_ = stream(recipe_.seed, -3);
  if (chance(60)) update_states();
  random_ = stream(recipe_.seed, -4);
  return outputs();
}

const Tensor& RandomStep::row_wise() {
  for (int i = 0; i < 8; ++i)
    if (const Tensor& t = any(); t.rank() > 0 && t.size(0) == batch_) return t;
  return pool_[0];
}

/// Some elements of x in another shape: views and padding only.
Tensor RandomStep::fit(const Tensor& x, const Shape& shape) {
  Tensor flat = reshape(x, {-1});
  const auto have = flat.size(0), want = shape.count();
  if (have > want) flat = chance(50) ? slice(flat, 0, have - want, have) : slice(flat, 0, 0, want);
  if (have < want)
    flat = have == 1 ? broadcast_to(flat, {want}) : pad(flat, {draw(2) ? 0 : want - have}, {want - have}, 0.25);
  return reshape(slice(flat, 0, 0, want), shape);
}

/// Something that broadcasts with x.
Tensor RandomStep::partner(const Tensor& x) {
  for (int i = 0; i < 6; ++i) {
    const Tensor b = any();
    bool fits = true;
    for (int k = 1; k <= std::min(x.rank(), b.rank()); ++k)
      fits = fits && (x.size(-k) == b.size(-k) || x.size(-k) == 1 || b.size(-k) == 1);
    if (fits) return b;
  }
  return draw(2) ? tanh(sum(x, -1 * (x.rank() > 0), Keep::yes)) : fit(any(), x.shape());
}

Tensor RandomStep::op() {
  switch (draw(16)) {
    case 0:
    case 1:
      return unary(any());
    case 2:
    case 3:
      return binary();
    case 4:
      return several();
    case 5:
    case 6:
      return view(any());
    case 7:
    case 8:
      return reduction(any());
    case 9:
      return composition(any());
    case 10:
      return layer();
    case 11:
      return contraction();
    case 12:
      return choice();
    case 13:
      return indexed();
    case 14:
      return image();
    default:
      return recomputed();
  }
}

Tensor RandomStep::unary(const Tensor& x) {
  switch (draw(20)) {
    case 0:
      return -x;
    case 1:
      return abs(x);
    case 2:
      return square(tanh(x));
    case 3:
      return relu(x);
    case 4:
      return sigmoid(x);
    case 5:
      return exp(-abs(x));
    case 6:
      return sqrt(1 + square(x));
    case 7:
      return rsqrt(0.5 + abs(x));
    case 8:
      return reciprocal(1 + square(x));
    case 9:
      return sin(x);
    case 10:
      return gelu(x);
    case 11:
      return softplus(tanh(x));
    case 12:
      return leaky_relu(x, 0.1);
    case 13:
      return clamp(x, -0.5, 0.7);
    case 14:
      return log1p(abs(x));
    case 15:
      return stop_gradient(x) * 0.5;
    case 16:
      return 1 - x * 0.25;
    case 17:
      return pow(1 + abs(tanh(x)), draw(5) - 1);
    case 18:
      return expm1(tanh(x)) / 3;
    default:
      return cast(cast(x, DType::f64), dtype_) + erf(x);
  }
}

Tensor RandomStep::binary() {
  const Tensor a = any(), b = partner(a);
  switch (draw(10)) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return tanh(a) * b;
    case 3:
      return a / (1 + abs(b));
    case 4:
      return maximum(a, b);
    case 5:
      return minimum(b, a);
    case 6:
      return a * 0.5 + b;
    case 7:
      return tanh(a) * tanh(b) - a;
    case 8:
      return tanh(a) * (1 - sigmoid(b)) * sigmoid(b);
    default:
      return relu_grad(leaves_[0], fit(a, leaves_[0].shape()));
  }
}

Tensor RandomStep::several() {
  const Tensor a = any(), b = partner(a), c = fit(any(), a.shape());
  switch (draw(4)) {
    case 0:
      return muladd(tanh(a), tanh(b), c);
    case 1:
      return lerp(a, b, sigmoid(c));
    case 2:
      return lerp_square(a, tanh(b), sigmoid(c));
    default:
      return adam_step(a, tanh(c), square(b) + 0.1, 0.1, 0.01);
  }
}

Tensor RandomStep::view(const Tensor& x) {
  if (x.rank() == 0) return broadcast_to(x, {batch_, 2});
  const int axis = draw(x.rank());
  const auto n = x.size(axis);
  Dims order, before(x.rank(), 0), after(x.rank(), 0);
  switch (draw(11)) {
    case 0:
      return flatten(x, axis);
    case 1:
      return expand_dims(x, axis);
    case 2:
      for (int i = 0; i < x.rank(); ++i) order.insert(draw(i + 1), i);
      return permute(x, order);
    case 3: {
      Shape shape = x.shape();
      for (auto& size : shape)
        if (size == 1) size = 1 + draw(4);
      if (chance(40)) shape.insert(0, 2);
      return broadcast_to(x, shape);
    }
    case 4:
      return n > 0 ? slice(x, axis, draw(static_cast<int>(n)), n, 1 + draw(3)) : x;
    case 5:
      return slice(x, axis, n - 1, -n - 1, -1 - draw(2));
    case 6:
      return concat({x, tanh(x), slice(x, axis, 0, 1)}, axis);
    case 7:
      return stack({x, x * 2}, axis);
    case 8:
      before[axis] = draw(3);
      after[axis] = draw(3);
      return pad(x, before, after, draw(2) ? 0 : 0.5);
    case 9:
      return fit(x, {batch_, 1 + draw(6)});
    default:
      return x.rank() > 1 ? transpose(x) : fit(x, {3, 4});
  }
}

Tensor RandomStep::reduction(const Tensor& x) {
  std::vector<int> axes;
  for (int i = 0; i < x.rank(); ++i)
    if (draw(2)) axes.push_back(i);
  const Keep keep = draw(2) ? Keep::yes : Keep::no;
  switch (draw(8)) {
    case 0:
      return max(x, axes, keep);
    case 1:
      return min(x, axes, keep);
    case 2:
      return mean(x, axes, keep);
    case 3:
      return tanh(sum(x, axes, keep));
    case 4:
      return prod(1 + 0.1 * tanh(x),
                  draw(2) ? axes : std::vector<int>(axes.empty() ? 0 : 1, axes.empty() ? 0 : axes[0]), keep);
    case 5:
      return variance(tanh(x), axes, keep);
    case 6:
      return logsumexp(tanh(x), axes, keep);
    default:
      return 0.01 * sum(x, axes, keep);
  }
}

Tensor RandomStep::composition(const Tensor& x) {
  if (x.rank() == 0) return huber(x, leaves_[3]);
  switch (draw(8)) {
    case 0:
      return softmax(x, draw(x.rank()));
    case 1:
      return log_softmax(tanh(x), draw(x.rank()));
    case 2:
      return layer_norm(x, 1 + 0.1 * fit(any(), {x.size(-1)}), fit(any(), {x.size(-1)}), 0.1);
    case 3:
      return rms_norm(x, fit(any(), {x.size(-1)}), 0.1);
    case 4:
      return logsumexp(x, -1);
    case 5:
      return cross_entropy_of_rows(fit(x, {batch_, width_}), rows_);
    case 6: {
      const Shape shape{draw(2) ? 1 : 3, 1 + draw(5), 2, 1 + draw(3)}, keys{shape[0], 1 + draw(6), 2, shape[3]};
      return attention(fit(x, shape), fit(tanh(any()), keys), fit(any(), keys), {.causal = draw(2) == 1});
    }
    default:
      return huber(x, fit(any(), x.shape()), 0.5);
  }
}

Tensor RandomStep::layer() {
  const Tensor x = tanh(row_wise());
  const Tensor rows = x.rank() == 2 ? x : fit(x, {batch_, 3});
  const auto in = rows.size(1);
  const Tensor w = in == width_ && draw(2) ? Tensor(states_[0]) : fit(any(), {in, 1 + draw(9)});
  const Tensor h = draw(2) ? matmul(rows, tanh(w)) : matmul_nt(rows, transpose(tanh(w)));
  const Tensor b = h.size(1) == out_ ? Tensor(states_[1]) : fit(any(), {h.size(1)});
  return draw(2) ? relu(h + b) : tanh(h * 0.3 + b);
}

/// Labels follow sizes, so that equal sizes are often contracted or, inside one operand, a diagonal.
Tensor RandomStep::contraction() {
  std::string spec, seen;
  std::vector<Tensor> operands;
  std::vector<std::int64_t> sizes;
  double work = 1;
  for (int n = 1 + draw(3); n > 0; --n) {
    const Tensor x = tanh(any());
    if (!operands.empty()) spec += ',';
    for (auto size : x.shape()) {
      auto at = static_cast<std::size_t>(std::find(sizes.begin(), sizes.end(), size) - sizes.begin());
      if (at == sizes.size()) sizes.push_back(size);
      if (at > 12) return x;
      spec += static_cast<char>('a' + 2 * at + static_cast<std::size_t>(draw(2)));
      if (seen.find(spec.back()) != std::string::npos) continue;
      seen += spec.back();
      work *= static_cast<double>(size);
    }
    operands.push_back(x);
  }
  if (work > 2e5) return operands[0];
  std::shuffle(seen.begin(), seen.end(), random_);
  const auto kept = static_cast<std::size_t>(draw(4));
  return tanh(0.1 * einsum(spec + "->" + seen.substr(0, std::min(seen.size(), kept)), operands));
}

Tensor RandomStep::choice() {
  const Tensor& by = leaf();
  const Tensor positive = gt(by, 0);
  const Tensor condition = draw(2) ? positive : logical_or(lt(by, -0.5), logical_not(ge(by, draw(2) ? 0.25 : 1)));
  switch (draw(4)) {
    case 0:
      return where(condition, by, fit(any(), by.shape()));
    case 1:
      return cast(condition, dtype_) - tanh(by);
    case 2:
      return where(condition, 0.5, fit(tanh(any()), by.shape()));
    default:
      return cast(cast(by * 3, DType::i32) + 1, dtype_) * 0.25 + floor(by) * 0.5;
  }
}

Tensor RandomStep::indexed() {
  const Tensor& x = any();
  const Tensor table = fit(x, {width_, 1 + draw(5)});
  switch (draw(8)) {
    case 0:
      return gather(table, rows_);
    case 1:
      return gather(fit(x, {batch_, width_, 2}), slice(rows_, 0, 0, 5), 1);
    case 2:
      return embedding_sum(table, table_) * 0.3;
    case 3:
      return take_along(fit(x, {batch_, width_}), table_, 1);
    case 4:
      return scatter_add(table, rows_, fit(any(), {batch_, table.size(1)})) * 0.1;
    case 5:
      return one_hot(rows_, width_, dtype_) * fit(x, {batch_, width_});
    case 6:
      return take_along(fit(x, {batch_, width_}), argmax(leaves_[0], 1, Keep::yes), 1);
    default:
      return scatter_add(fit(x, {2, width_}), slice(rows_, 0, 0, 1), fit(any(), {2, 1}), 1);
  }
}

Tensor RandomStep::image() {
  const std::int64_t h = 3 + draw(3), w = 3 + draw(3), c = 1 + draw(3);
  const auto rows = batch_ * h * w * c > 2500 ? 3 : batch_;
  const Tensor x =
      leaves_.size() > 10 && leaves_[4].rank() == 4 && draw(2) ? leaves_[4] : fit(row_wise(), {rows, h, w, c});
  const auto channels = x.size(3);
  switch (draw(4)) {
    case 0:
      return max_pool(x, 2, draw(2));
    case 1:
      return avg_pool(x, 2, 1 + draw(2));
    case 2:
      return 0.2 * max(unfold(x, Window{2, 3, 1 + draw(2), 1, 1, 1, 1, 0, 1, 1}), {3, 4});
    default: {
      const ConvOptions options{draw(2) ? Padding::same : Padding::valid, 1 + draw(2), 1};
      return tanh(conv2d(x, tanh(fit(any(), {1 + draw(3), 1 + draw(3), channels, 1 + draw(4)})), options));
    }
  }
}

Tensor RandomStep::recomputed() {
  const Tensor x = any();
  const auto body = [](const Tensor& h) { return tanh(tanh(h * 1.1) * h) + h * 0.5; };
  if (draw(2)) return checkpoint(body, x);
  if (draw(2)) return draw(2) ? rolled(x) : cell();
  const auto turn = [&](int i, const std::vector<Tensor>& c) {
    return std::vector<Tensor>{c[1], body(c[0]) * (0.5 + 0.1 * i)};
  };
  return repeat(2, turn, {x, tanh(x)}, draw(2) ? Recompute::yes : Recompute::no)[1];
}

/// Carried values of any shape that change places, and one that adds up.
Tensor RandomStep::rolled(const Tensor& x) {
  if (x.rank() == kMaxRank) return x;
  const Tensor factor = any();
  const auto step = [&](const std::vector<Tensor>& c, const std::vector<Tensor>& now) {
    return Scan{{tanh(tanh(c[1] * 1.1) * c[1]) * 0.5, c[0], c[2] + 0.1 * mean(c[1])},
                {c[1] * tanh(mean(factor)) + now[0]}};
  };
  const Tensor sequence = stack({x, x * 0.5, fit(factor, x.shape())}, 0);
  const Scan made = scan(step, {x, tanh(x), mean(x)}, {sequence}, {.reverse = draw(2) != 0});
  return tanh(made.carry[1] + sum(made.outputs[0], 0) * 0.2 + made.carry[2]);
}

/// A recurrent cell on the rows of the batch, whose weights are read twice.
Tensor RandomStep::cell() {
  const Tensor rows = tanh(fit(row_wise(), {batch_, width_})), w = 0.3 * tanh(fit(any(), {width_, width_}));
  const int steps = 1 + draw(4);
  std::vector<Tensor> moments;
  for (int t = 0; t < steps; ++t) moments.push_back(rows * (1 - 0.2 * t));
  const auto step = [&](const std::vector<Tensor>& c, const std::vector<Tensor>& now) {
    const Tensor h = tanh(matmul(c[0], w) + now[0] + matmul(c[0] * now[0], w));
    return Scan{{h, c[1] + mean(h * h)}, {h, sum(h, 0) * 0.1, mean(h, 1)}};
  };
  const int axis = draw(2);
  const Scan made = scan(step, {rows, mean(w)}, {stack(moments, axis)}, {.axis = axis, .reverse = draw(2) != 0});
  switch (draw(3)) {
    case 0:
      return made.carry[0] + made.carry[1];
    case 1:
      return tanh(made.outputs[0]);
    default:
      return made.carry[0] * 0.5 + mean(made.outputs[1]) + 0.1 * sum(made.outputs[2]);
  }
}

/// Gradients go to the outputs, to plain updates of states, or to an optimiser.
void RandomStep::differentiate() {
  Tensor loss = mean(tanh(pool_.back()));
  for (int i = draw(3); i >= 0; --i) loss = loss + (draw(2) ? mean(square(tanh(any()))) : 0.1 * sum(tanh(any())));
  std::vector<Tensor> by;
  for (const Tensor& t : leaves_)
    if (chance(50)) by.push_back(t);
  const auto gradients = grad(loss, by, allow_unused);
  extra_.assign(gradients.begin(), gradients.end());
  extra_.push_back(loss);
  const std::vector<State> parameters{states_[0], states_[1]};
  if (chance(50)) {
    if (draw(2))
      adam_.minimize(loss, parameters, allow_unused);
    else
      sgd_.minimize(loss, parameters, allow_unused);
  }
}

void RandomStep::update_states() {
  const State &w = states_[0], &p = states_[2], &q = states_[3], &t = states_[4], &r = states_[5];
  if (chance(30)) w.assign(w * 0.9 + 0.1 * fit(any(), w.shape()));
  if (chance(30)) t.assign(t * 0.5 + tanh(sum(any())));
  if (chance(30)) r.assign(fit(any(), r.shape()));
  const Tensor old_p(p), old_q(q);
  switch (draw(7)) {
    case 0:
      p.assign(old_q);
      q.assign(old_p);
      break;
    case 1:
      p.assign(leaves_[0]);
      break;
    case 2:
      p.assign(tanh(p + leaves_[0]));
      extra_.push_back(Tensor(p) * 2);  // sees what was assigned
      p.assign(p * 0.5);
      break;
    case 3:
      q.assign(fit(any(), q.shape()));
      p.assign(fit(q, q.shape()));
      break;
    case 4:
      p.assign(slice(slice(p, 0, batch_ - 1, -batch_ - 1, -1), 1, width_ - 1, -width_ - 1, -1));
      break;
    case 5:
      p.assign(old_p + old_q);
      q.assign(old_p - old_q);
      break;
    default:
      break;
  }
}

std::vector<Tensor> RandomStep::outputs() {
  std::vector<Tensor> list{pool_.back()};
  for (int i = draw(4); i > 0; --i) list.push_back(any());
  for (const Tensor& t : extra_)
    if (chance(70)) list.push_back(t);
  if (chance(20)) list.push_back(list[0]);
  if (chance(20)) list.push_back(leaf());
  if (chance(20)) list.push_back(states_[2]);
  if (chance(20)) list.push_back(argmax(leaf(), Axes{}));
  if (chance(20)) list.push_back(gt(leaf(), 0));
  if (chance(20)) list.push_back(view(any()));
  if (chance(5)) list.clear();
  return list;
}

}  // namespace wr::test
