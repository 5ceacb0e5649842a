// Positions, and the layers of transformers.
#include "windrow/transformer.h"

#include <fmt/format.h>

#include <cmath>

#include "nn/sizes.h"

namespace wr::nn {

// ---- positions ----

Array sinusoidal_positions(std::int64_t length, std::int64_t width, double base) {
  std::vector<double> table;
  for (std::int64_t t = 0; t < length; ++t)
    for (std::int64_t i = 0; i < width; ++i) {
      const double angle =
          static_cast<double>(t) * std::pow(base, -static_cast<double>(i / 2 * 2) / static_cast<double>(width));
      table.push_back(i % 2 ? std::cos(angle) : std::sin(angle));
    }
  return Array::from(table, {length, width});
}

namespace {

/// Cosines or sines of the angles of positions first, first + 1, ...: [length, 1, d/2].
Array turns(std::int64_t first, std::int64_t length, std::int64_t d, double base, bool cosine, DType dtype) {
  std::vector<double> table;
  for (std::int64_t t = first; t < first + length; ++t)
    for (std::int64_t i = 0; i < d / 2; ++i) {
      const double angle =
          static_cast<double>(t) * std::pow(base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
      table.push_back(cosine ? std::cos(angle) : std::sin(angle));
    }
  return Array::from(table, {length, 1, d / 2}).astype(dtype);
}

void expect_pairs(const Tensor& x, const Where& where) {
  if (x.rank() != 4 || x.size(3) % 2)
    fail(where, "rotary: needs [b,t,heads,d] with an even d, got " + to_string(x.shape()));
}

Tensor turned(const Tensor& x, const Tensor& cosine, const Tensor& sine, const Where& where) {
  const auto half = x.size(3) / 2;
  const Tensor a = slice(x, 3, 0, half, 1, where), b = slice(x, 3, half, 2 * half, 1, where);
  const Operand c(cosine, where), s(sine, where);
  const Tensor left = Operand(Operand(a, where) * c, where) - Operand(b, where) * s;
  const Tensor right = Operand(Operand(a, where) * s, where) + Operand(b, where) * c;
  return concat({left, right}, 3, where);
}

}  // namespace

Tensor rotary(const Tensor& x, std::int64_t first, double base, Where where) {
  expect_pairs(x, where);
  const auto table = [&](bool cosine) {
    return Tensor(turns(first, x.size(1), x.size(3), base, cosine, x.dtype()), where);
  };
  return turned(x, table(true), table(false), where);
}

Tensor rotary_at(const Tensor& x, const Tensor& position, std::int64_t length, double base, Where where) {
  expect_pairs(x, where);
  const auto row = [&](bool cosine) {
    const Tensor table(turns(0, length, x.size(3), base, cosine, x.dtype()), where);
    return gather(table, reshape(position, {1}, where), 0, where);
  };
  return turned(x, row(true), row(false), where);
}

Positions::Positions(std::int64_t length, std::int64_t width, const PositionOptions& options, Where where) {
  expect_positive("Positions", "length", length, where);
  expect_positive("Positions", "width", width, where);
  if (options.learned)
    w = parameter("w", initial(init::normal(0.02), {length, width}, {length, width}, options.dtype, where));
  else
    w = buffer("w", State(sinusoidal_positions(length, width).astype(options.dtype)));
}

std::string Positions::kind() const { return fmt::format("Positions({}, {})", w.shape()[0], w.shape()[1]); }

Tensor Positions::forward(const Tensor& x, Mode, const Where& where) const {
  expect_rank("Positions", x, 3, "[batch, time, width]", where);
  expect_features("Positions", x, 3, w.shape()[1], w.spec().dtype, where);
  if (x.size(1) > w.shape()[0])
    fail(where, fmt::format("Positions: the input is {}, there are {} positions", to_string(x.shape()), w.shape()[0]));
  return Operand(x, where) + slice(Tensor(w, where), 0, 0, x.size(1), 1, where);
}

Tensor Positions::next(const Tensor& x, const Tensor& position, Where where) const {
  expect_rank("Positions", x, 3, "[batch, 1, width]", where);
  return Operand(x, where) + gather(Tensor(w, where), reshape(position, {1}, where), 0, where);
}

// ---- attention ----

namespace {

/// The old values with those of one position put in its place.
Tensor with_position(const State& seen, const Tensor& now, const Tensor& position, const Where& at) {
  const Shape places{1, seen.shape()[1], 1, 1};
  const Tensor here = eq(Operand(iota(places, 1, DType::i32, at), at), Operand(position, at));
  const Tensor next = wr::where(here, Operand(now, at), Operand(seen, at));
  seen.assign(next, at);
  return next;
}

Dense projection(std::int64_t width, const MultiHeadAttentionOptions& options, const Where& where) {
  return {width,
          width,
          {.bias = options.bias, .weights = init::xavier_uniform(), .biases = init::zeros(), .dtype = options.dtype},
          where};
}

}  // namespace

KeyValues::KeyValues(std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t width, DType dtype)
    : keys(Array::zeros({batch, length, heads, width / heads}, dtype), "keys"),
      values(Array::zeros({batch, length, heads, width / heads}, dtype), "values") {}

MultiHeadAttention::MultiHeadAttention(std::int64_t width, std::int64_t heads, const MultiHeadAttentionOptions& options,
                                       Where where)
    : q(child("q", projection(width, options, where))),
      k(child("k", projection(width, options, where))),
      v(child("v", projection(width, options, where))),
      out(child("out", projection(width, options, where))),
      heads_(heads),
      options_(options) {
  expect_positive("MultiHeadAttention", "heads", heads, where);
  if (width % heads)
    fail(where, fmt::format("MultiHeadAttention: width {} does not divide into {} heads", width, heads));
  if (options.rotary && width / heads % 2)
    fail(where,
         fmt::format("MultiHeadAttention: rotary positions turn pairs of columns, a head has {}", width / heads));
}

std::string MultiHeadAttention::kind() const {
  return fmt::format("MultiHeadAttention({}, {} heads)", q.w.shape()[0], heads_);
}

Tensor MultiHeadAttention::forward(const Tensor& x, Mode mode, const Where& where) const {
  return attend(x, x, {}, mode, where);
}

Tensor MultiHeadAttention::split(const Dense& part, const Tensor& x, Mode mode, const Where& where) const {
  return reshape(part(x, mode, where), {x.size(0), x.size(1), heads_, x.size(2) / heads_}, where);
}

Tensor MultiHeadAttention::attend(const Tensor& x, const Tensor& source, const Tensor& mask, Mode mode,
                                  Where where) const {
  for (const Tensor* t : {&x, &source}) {
    expect_rank("MultiHeadAttention", *t, 3, "[batch, time, width]", where);
    expect_features("MultiHeadAttention", *t, 3, q.w.shape()[0], options_.dtype, where);
  }
  const auto turned = [&](const Tensor& t) { return options_.rotary ? rotary(t, 0, 10000, where) : t; };
  const Tensor seen =
      wr::attention(turned(split(q, x, mode, where)), turned(split(k, source, mode, where)),
                    split(v, source, mode, where), {.causal = options_.causal == Causal::yes, .mask = mask}, where);
  return out(reshape(seen, x.shape(), where), mode, where);
}

Tensor MultiHeadAttention::next(const Tensor& x, const KeyValues& seen, const Tensor& position, Where where) const {
  expect_rank("MultiHeadAttention", x, 3, "[batch, 1, width]", where);
  expect_features("MultiHeadAttention", x, 3, q.w.shape()[0], options_.dtype, where);
  const Shape& held = seen.keys.shape();
  if (x.size(1) != 1 || !(held == Shape{x.size(0), held[1], heads_, x.size(2) / heads_}))
    fail(where,
         fmt::format("MultiHeadAttention: one position is [batch, 1, width], is {}; keys and values of {} heads are {}",
                     to_string(x.shape()), heads_, to_string(held)));
  if (!(position.spec() == i32()))
    fail(where, "MultiHeadAttention: the position must be i32[], is " + to_string(position.spec()));
  const auto length = held[1];
  const auto turned = [&](const Tensor& t) {
    return options_.rotary ? rotary_at(t, position, length, 10000, where) : t;
  };
  const Tensor keys = with_position(seen.keys, turned(split(k, x, Mode::eval, where)), position, where);
  const Tensor values = with_position(seen.values, split(v, x, Mode::eval, where), position, where);
  const Tensor known = le(Operand(iota({1, 1, 1, length}, 3, DType::i32, where), where), Operand(position, where));
  const Tensor y = wr::attention(turned(split(q, x, Mode::eval, where)), keys, values, {.mask = known}, where);
  return out(reshape(y, x.shape(), where), Mode::eval, where);
}

// ---- layers ----

namespace {

std::int64_t hidden_of(std::int64_t width, const TransformerOptions& options) {
  return options.hidden > 0 ? options.hidden : 4 * width;
}

Dense dense_layer(std::int64_t in, std::int64_t out, const TransformerOptions& options, const Where& where) {
  return {in, out, {.weights = init::xavier_uniform(), .dtype = options.dtype}, where};
}

MultiHeadAttentionOptions attention_options(const TransformerOptions& options, Causal causal, bool rotary) {
  return {.causal = causal, .rotary = rotary, .dtype = options.dtype};
}

/// x + f(norm(x)), or norm(x + f(x)).
template <class F>
Tensor with_norm(const Tensor& x, const LayerNorm& norm, bool norm_first, Mode mode, const Where& where, F f) {
  if (norm_first) return Operand(x, where) + f(norm(x, mode, where));
  return norm(Operand(x, where) + f(x), mode, where);
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(std::int64_t width, std::int64_t heads,
                                                 const TransformerOptions& options, Where where)
    : attention(
          child("attention",
                MultiHeadAttention(width, heads, attention_options(options, options.causal, options.rotary), where))),
      before_attention(child("norm1", LayerNorm(width, {.dtype = options.dtype}, where))),
      before_dense(child("norm2", LayerNorm(width, {.dtype = options.dtype}, where))),
      up(child("up", dense_layer(width, hidden_of(width, options), options, where))),
      down(child("down", dense_layer(hidden_of(width, options), width, options, where))),
      activation_(options.activation),
      dropout_(child("dropout", Dropout(options.dropout, where))),
      norm_first_(options.norm_first) {}

std::string TransformerEncoderLayer::kind() const {
  return fmt::format("TransformerEncoderLayer({}, {} heads)", up.w.shape()[0], attention.heads());
}

Tensor TransformerEncoderLayer::dense(const Tensor& x, Mode mode, const Where& where) const {
  return with_norm(x, before_dense, norm_first_, mode, where, [&](const Tensor& t) {
    return dropout_(down(activation_(up(t, mode, where), mode, where), mode, where), mode, where);
  });
}

Tensor TransformerEncoderLayer::forward(const Tensor& x, Mode mode, const Where& where) const {
  const Tensor y = with_norm(x, before_attention, norm_first_, mode, where,
                             [&](const Tensor& t) { return dropout_(attention(t, mode, where), mode, where); });
  return dense(y, mode, where);
}

Tensor TransformerEncoderLayer::next(const Tensor& x, const KeyValues& seen, const Tensor& position,
                                     Where where) const {
  const Tensor y = with_norm(x, before_attention, norm_first_, Mode::eval, where,
                             [&](const Tensor& t) { return attention.next(t, seen, position, where); });
  return dense(y, Mode::eval, where);
}

TransformerDecoderLayer::TransformerDecoderLayer(std::int64_t width, std::int64_t heads,
                                                 const TransformerOptions& options, Where where)
    : attention(child("attention", MultiHeadAttention(width, heads,
                                                      attention_options(options, Causal::yes, options.rotary), where))),
      to_source(
          child("to_source", MultiHeadAttention(width, heads, attention_options(options, Causal::no, false), where))),
      before_attention(child("norm1", LayerNorm(width, {.dtype = options.dtype}, where))),
      before_source(child("norm2", LayerNorm(width, {.dtype = options.dtype}, where))),
      before_dense(child("norm3", LayerNorm(width, {.dtype = options.dtype}, where))),
      up(child("up", dense_layer(width, hidden_of(width, options), options, where))),
      down(child("down", dense_layer(hidden_of(width, options), width, options, where))),
      activation_(options.activation),
      dropout_(child("dropout", Dropout(options.dropout, where))),
      norm_first_(options.norm_first) {}

std::string TransformerDecoderLayer::kind() const {
  return fmt::format("TransformerDecoderLayer({}, {} heads)", up.w.shape()[0], attention.heads());
}

Tensor TransformerDecoderLayer::forward(const Tensor&, Mode, const Where& where) const {
  fail(where, "TransformerDecoderLayer: needs the sequence and its source: layer(x, source)");
}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& source, Mode mode, Where where) const {
  const Tensor y = with_norm(x, before_attention, norm_first_, mode, where,
                             [&](const Tensor& t) { return dropout_(attention(t, mode, where), mode, where); });
  const Tensor z = with_norm(y, before_source, norm_first_, mode, where, [&](const Tensor& t) {
    return dropout_(to_source.attend(t, source, {}, mode, where), mode, where);
  });
  return with_norm(z, before_dense, norm_first_, mode, where, [&](const Tensor& t) {
    return dropout_(down(activation_(up(t, mode, where), mode, where), mode, where), mode, where);
  });
}

}  // namespace wr::nn
