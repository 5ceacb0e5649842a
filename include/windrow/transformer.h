// Transformers: positions, multi-head attention, encoder and decoder layers, and going on one position at a time.
#pragma once

#include "windrow/attention.h"
#include "windrow/nn.h"

namespace wr::nn {

// ---- positions ----
/// Row t is sin(t w), cos(t w) in turns, with w from 1 down to 1 / base: f64[length, width].
Array sinusoidal_positions(std::int64_t length, std::int64_t width, double base = 10000);
/// x [b,t,heads,d] with columns i and i + d/2 of position p turned by p / base^(2i/d), so that products of queries and
/// keys depend on how far apart they are. Positions are first, first + 1, ...
Tensor rotary(const Tensor& x, std::int64_t first = 0, double base = 10000, WINDROW_WHERE);
/// The same for one position, x [b,1,heads,d], whose number, below `length`, a step is given: i32[].
Tensor rotary_at(const Tensor& x, const Tensor& position, std::int64_t length, double base = 10000, WINDROW_WHERE);

struct PositionOptions {
  bool learned = true;  // else sinusoidal
  DType dtype = DType::f32;
};
/// x [b,t,width] plus something for each position.
class Positions : public Module {
 public:
  Positions(std::int64_t length, std::int64_t width, const PositionOptions& options = {}, WINDROW_WHERE);
  std::string kind() const override;
  /// For one position, x [b,1,width], whose number a step is given: i32[].
  Tensor next(const Tensor& x, const Tensor& position, WINDROW_WHERE) const;
  State w;  // [length, width]: a parameter if learned, else a buffer

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
};

// ---- attention ----
/// The keys and values of the positions that were seen so far, [batch, length, heads, width / heads].
struct KeyValues {
  KeyValues(std::int64_t batch, std::int64_t length, std::int64_t heads, std::int64_t width, DType dtype = DType::f32);
  State keys, values;
};

struct MultiHeadAttentionOptions {
  Causal causal = Causal::no;
  bool bias = true;
  bool rotary = false;  // queries and keys are turned by their positions
  DType dtype = DType::f32;
};
/// Attention of a sequence [b,t,width] to itself, or to another one.
class MultiHeadAttention : public Module {
 public:
  MultiHeadAttention(std::int64_t width, std::int64_t heads, const MultiHeadAttentionOptions& options = {},
                     WINDROW_WHERE);
  std::string kind() const override;
  /// Queries from x [b,t,width], keys and values from source [b,s,width]. Mask: as AttentionForm's.
  Tensor attend(const Tensor& x, const Tensor& source, const Tensor& mask = {}, Mode mode = Mode::train,
                WINDROW_WHERE) const;
  /// One more position, x [b,1,width], of a sequence whose earlier ones `seen` holds: its number is `position`, i32[].
  Tensor next(const Tensor& x, const KeyValues& seen, const Tensor& position, WINDROW_WHERE) const;
  std::int64_t heads() const { return heads_; }
  Dense q, k, v, out;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  Tensor split(const Dense& part, const Tensor& x, Mode mode, const Where& where) const;
  std::int64_t heads_;
  MultiHeadAttentionOptions options_;
};

// ---- layers ----
struct TransformerOptions {
  std::int64_t hidden = 0;     // of the two dense layers; 0 for 4 * width
  double dropout = 0;          // behind attention and dense layers
  bool norm_first = true;      // x + f(norm(x)), else norm(x + f(x))
  Causal causal = Causal::no;  // of a decoder layer: always
  bool rotary = false;
  Lambda activation = Gelu();
  DType dtype = DType::f32;
};

/// Attention of a sequence [b,t,width] to itself, then two dense layers at each position; each with a norm and added to
/// what it came from.
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(std::int64_t width, std::int64_t heads, const TransformerOptions& options = {},
                          WINDROW_WHERE);
  std::string kind() const override;
  /// As MultiHeadAttention::next, in Mode::eval.
  Tensor next(const Tensor& x, const KeyValues& seen, const Tensor& position, WINDROW_WHERE) const;
  MultiHeadAttention attention;
  LayerNorm before_attention, before_dense;
  Dense up, down;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  Tensor dense(const Tensor& x, Mode mode, const Where& where) const;
  Lambda activation_;
  Dropout dropout_;
  bool norm_first_;
};

/// The same with attention to another sequence, [b,s,width], between the two.
class TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(std::int64_t width, std::int64_t heads, const TransformerOptions& options = {},
                          WINDROW_WHERE);
  std::string kind() const override;
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& source, Mode mode = Mode::train, WINDROW_WHERE) const;
  MultiHeadAttention attention, to_source;
  LayerNorm before_attention, before_source, before_dense;
  Dense up, down;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  Lambda activation_;
  Dropout dropout_;
  bool norm_first_;
};

}  // namespace wr::nn
