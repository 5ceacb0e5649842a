// Tensor: a lazy handle to one value of a step that is being traced. Ops on tensors add nodes to the trace's graph;
// nothing is computed until the step is compiled and run, or the tensor is given to eval().
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "windrow/array.h"
#include "windrow/error.h"
#include "windrow/location.h"
#include "windrow/spec.h"

namespace wr {

namespace ir {
class Graph;
struct Variable;
}  // namespace ir

class State;

class Tensor {
 public:
  Tensor() = default;
  using Where = Location;
  /// A constant.
  Tensor(const Array& value, Where where = Where::current());  // NOLINT(google-explicit-constructor)
  /// The state's value as the trace has it now: what the step starts with, or what was assigned last.
  Tensor(const State& state, Where where = Where::current());  // NOLINT(google-explicit-constructor)
  Tensor(std::shared_ptr<ir::Graph> graph, int node) : graph_(std::move(graph)), node_(node) {}

  /// Made by Tensor(): no value of any trace.
  bool empty() const { return graph_ == nullptr; }
  // While it is traced a tensor has no value to decide by, so `if (x > 0)` must not compile.
  explicit operator bool() const = delete;  // choose element by element: wr::where(condition, yes, no)
  const Spec& spec() const;
  const Shape& shape() const { return spec().shape; }
  DType dtype() const { return spec().dtype; }
  int rank() const { return shape().rank(); }
  std::int64_t size(int axis, Where where = Where::current()) const;

  const std::shared_ptr<ir::Graph>& graph() const { return graph_; }
  int node() const { return node_; }

 private:
  std::shared_ptr<ir::Graph> graph_;
  int node_ = -1;
};

/// A list of tensors that knows what it is: the one that is not there is refused by name, with the line that asked for
/// the list. Whoever takes a std::vector<Tensor> takes it too.
class Tensors : public std::vector<Tensor> {
 public:
  using std::vector<Tensor>::vector;
  // NOLINTNEXTLINE(google-explicit-constructor): a plain list stands wherever one of these is wanted
  Tensors(std::vector<Tensor> list, std::string what = "tensor", Location where = {})
      : std::vector<Tensor>(std::move(list)), what_(std::move(what)), where_(where) {}
  const Tensor& operator[](std::size_t i) const { return i < size() ? data()[i] : none(i); }
  Tensor& operator[](std::size_t i) { return i < size() ? data()[i] : none(i); }

 private:
  [[noreturn]] Tensor& none(std::size_t i) const;
  std::string what_ = "tensor";  // "scan: carried tensor"
  Location where_;
};

/// Whether this thread is tracing a step: ops on tensors add to it, states may be assigned.
bool tracing();

/// Memory that lives from step to step: parameters, optimiser moments, counters. Steps compiled with the same State
/// share it, and their runs wait for one another.
class State {
 public:
  State() = default;
  explicit State(const Array& initial, std::string name = "");

  const std::string& name(Location where = Location::current()) const;
  /// For describe(), errors and checkpoints.
  void rename(const std::string& name, Location where = Location::current()) const;
  const Spec& spec(Location where = Location::current()) const;
  const Shape& shape(Location where = Location::current()) const { return spec(where).shape; }
  /// A copy of the current value.
  Array value(Location where = Location::current()) const;
  /// Overwrites the current value; shape and type must match.
  void set(const Array& value, Location where = Location::current());
  /// In the trace: the step leaves this value in the state. Later reads in the same trace see it.
  void assign(const Tensor& value, Location where = Location::current()) const;

  const std::shared_ptr<ir::Variable>& variable() const { return variable_; }
  explicit operator bool() const { return variable_ != nullptr; }

 private:
  std::shared_ptr<ir::Variable> variable_;
};

/// An operand of an op: a tensor, or a number that takes the other operand's type. Remembers the caller's line.
class Operand {
 public:
  using Where = Location;
  Operand(const Tensor& t, Where at = Where::current()) : tensor(t), where(at) {}     // NOLINT
  Operand(const State& s, Where at = Where::current()) : tensor(s, at), where(at) {}  // NOLINT
  Operand(const Array& a, Where at = Where::current()) : tensor(a, at), where(at) {}  // NOLINT
  template <class N>
  requires std::is_arithmetic_v<N> Operand(N n, Where at = Where::current())
      : number(static_cast<double>(n)), is_number(true), where(at) {}  // NOLINT

  Tensor tensor;
  double number = 0;
  bool is_number = false;
  Where where;
};

#define WINDROW_WHERE Location where = Location::current()

// ---- elementwise: one function a row of elementwise.def ----
#define WINDROW_UNARY(name, ...) Tensor name(const Tensor& x, WINDROW_WHERE);
#define WINDROW_BINARY(name, ...) Tensor name(const Operand& a, const Operand& b);
#define WINDROW_TERNARY(name, ...) Tensor name(const Operand& a, const Operand& b, const Operand& c);
#define WINDROW_QUINARY(name, ...) \
  Tensor name(const Operand& a, const Operand& b, const Operand& c, const Operand& d, const Operand& e);
#define WINDROW_COMPARE(name, ...) Tensor name(const Operand& a, const Operand& b);
#define WINDROW_LOGIC(name, ...) Tensor name(const Operand& a, const Operand& b);
#include "windrow/elementwise.def"

/// yes where the condition holds, no elsewhere.
Tensor where(const Tensor& condition, const Operand& yes, const Operand& no);
Tensor cast(const Tensor& x, DType dtype, WINDROW_WHERE);
Tensor logical_not(const Tensor& x, WINDROW_WHERE);

inline Tensor operator+(const Operand& a, const Operand& b) { return add(a, b); }
inline Tensor operator-(const Operand& a, const Operand& b) { return sub(a, b); }
inline Tensor operator*(const Operand& a, const Operand& b) { return mul(a, b); }
inline Tensor operator/(const Operand& a, const Operand& b) { return div(a, b); }
inline Tensor operator-(const Operand& a) { return neg(a.tensor, a.where); }
inline Tensor operator<(const Operand& a, const Operand& b) { return lt(a, b); }
inline Tensor operator<=(const Operand& a, const Operand& b) { return le(a, b); }
inline Tensor operator>(const Operand& a, const Operand& b) { return gt(a, b); }
inline Tensor operator>=(const Operand& a, const Operand& b) { return ge(a, b); }

// ---- reductions: over the given axes (negative count from the end), over all axes when none is given ----
struct Axes {
  Axes() = default;
  Axes(int axis) : list{axis}, all(false) {}                          // NOLINT
  Axes(std::initializer_list<int> axes) : list(axes), all(false) {}   // NOLINT
  Axes(std::vector<int> axes) : list(std::move(axes)), all(false) {}  // NOLINT
  std::vector<int> list;
  bool all = true;
};
enum class Keep : bool { no = false, yes = true };

Tensor sum(const Tensor& x, const Axes& axes = {}, Keep keep = Keep::no, WINDROW_WHERE);
Tensor mean(const Tensor& x, const Axes& axes = {}, Keep keep = Keep::no, WINDROW_WHERE);
Tensor max(const Tensor& x, const Axes& axes = {}, Keep keep = Keep::no, WINDROW_WHERE);
Tensor min(const Tensor& x, const Axes& axes = {}, Keep keep = Keep::no, WINDROW_WHERE);
Tensor prod(const Tensor& x, const Axes& axes = {}, Keep keep = Keep::no, WINDROW_WHERE);
/// Index (i32) of the first largest element, row-major over the axes.
Tensor argmax(const Tensor& x, const Axes& axes = {}, Keep keep = Keep::no, WINDROW_WHERE);
Tensor argmin(const Tensor& x, const Axes& axes = {}, Keep keep = Keep::no, WINDROW_WHERE);
Tensor variance(const Tensor& x, const Axes& axes = {}, Keep keep = Keep::no, WINDROW_WHERE);

// ---- contractions ----
/// einsum("bi,io->bo", {x, w}): any number of operands, any labels, repeated labels (diagonals), labels to sum over.
Tensor einsum(std::string_view spec, const std::vector<Tensor>& operands, WINDROW_WHERE);
/// The matrix product over the last two axes; leading axes are batches and broadcast.
Tensor matmul(const Tensor& a, const Tensor& b, WINDROW_WHERE);
/// a . b with b given transposed, and with a given transposed.
Tensor matmul_nt(const Tensor& a, const Tensor& b, WINDROW_WHERE);
Tensor matmul_tn(const Tensor& a, const Tensor& b, WINDROW_WHERE);

// ---- shapes ----
/// One size may be -1: it is worked out.
Tensor reshape(const Tensor& x, const Shape& shape, WINDROW_WHERE);
Tensor flatten(const Tensor& x, int from_axis = 0, WINDROW_WHERE);
Tensor permute(const Tensor& x, const Dims& order, WINDROW_WHERE);
/// The last two axes swapped.
Tensor transpose(const Tensor& x, WINDROW_WHERE);
Tensor expand_dims(const Tensor& x, int axis, WINDROW_WHERE);
Tensor squeeze(const Tensor& x, int axis, WINDROW_WHERE);
Tensor broadcast_to(const Tensor& x, const Shape& shape, WINDROW_WHERE);
/// Elements start, start + step, ... before stop along one axis; negative positions count from the end, as in Python.
Tensor slice(const Tensor& x, int axis, std::int64_t start, std::int64_t stop, std::int64_t step = 1, WINDROW_WHERE);
Tensor concat(const std::vector<Tensor>& parts, int axis, WINDROW_WHERE);
Tensor stack(const std::vector<Tensor>& parts, int axis, WINDROW_WHERE);
/// `before[i]` and `after[i]` elements of `value` round axis i.
Tensor pad(const Tensor& x, const Dims& before, const Dims& after, double value = 0, WINDROW_WHERE);

// ---- indices (i32); out of range reads NaN (0 for integers) and writes nothing ----
/// Rows of x along an axis: the axis is replaced by the shape of the indices.
Tensor gather(const Tensor& x, const Tensor& indices, int axis = 0, WINDROW_WHERE);
/// base with updates added at the indices along an axis; equal indices add up.
Tensor scatter_add(const Tensor& base, const Tensor& indices, const Tensor& updates, int axis = 0, WINDROW_WHERE);
/// x[.., indices[.., j, ..], ..]: one pick an output element; indices has x's rank.
Tensor take_along(const Tensor& x, const Tensor& indices, int axis, WINDROW_WHERE);
Tensor one_hot(const Tensor& indices, std::int64_t classes, DType dtype = DType::f32, WINDROW_WHERE);
/// Sum of rows of the table, a row of indices at a time: the first layer on one-hot input.
Tensor embedding_sum(const Tensor& table, const Tensor& indices, WINDROW_WHERE);
/// Adam on a table [entries, width] of which rows are looked up: entries that were not looked up keep their value, mean
/// and mean square. The gradient must be one that gather along axis 0 and embedding_sum have made. Shares are of the
/// gradient in the new means: 1 - beta.
struct SparseAdamStep {
  Tensor parameter, mean, square;
};
SparseAdamStep sparse_adam_step(const Tensor& parameter, const Tensor& mean, const Tensor& square,
                                const Tensor& gradient, const Tensor& rate, const Tensor& epsilon, double mean_share,
                                double square_share, WINDROW_WHERE);
/// start, start + step, ... along one axis of the shape.
Tensor iota(const Shape& shape, int axis, DType dtype = DType::i32, WINDROW_WHERE);

// ---- recurrent nets over [batch, time, ...] ----
struct RecurrenceOptions {
  bool reverse = false;  // from the last moment to the first
  Tensor lengths = {};   // i32[batch]: from that moment on a row keeps its state; empty: all of the time
};
struct Recurrence {
  Tensor h;               // [batch, time, hidden]: after each moment
  Tensor last_h, last_c;  // [batch, hidden]: after the last one that was taken; c of lstm alone
};
/// One op for all of the time. `gates` [batch, time, 4 hidden] is what the input gives to the gates input, forget, cell
/// and output: one product for all moments. At each, h . w_h is added to them, with w_h [hidden, 4 hidden].
/// c' = sigmoid(f) c + sigmoid(i) tanh(g), h' = sigmoid(o) tanh(c'). h and c [batch, hidden] are what it begins with.
Recurrence lstm(const Tensor& gates, const Tensor& w_h, const Tensor& h, const Tensor& c,
                const RecurrenceOptions& options = {}, WINDROW_WHERE);
/// The same with the gates reset, update, new: n = tanh(n_x + sigmoid(r) (h . w_n + b_n)), h' = n + sigmoid(z) (h - n).
/// b_h [3 hidden] is added to h . w_h.
Recurrence gru(const Tensor& gates, const Tensor& w_h, const Tensor& b_h, const Tensor& h,
               const RecurrenceOptions& options = {}, WINDROW_WHERE);

// ---- windows over images [batch, height, width, channels] ----
struct Window {
  std::int64_t height = 1, width = 1;
  std::int64_t stride_h = 1, stride_w = 1;
  std::int64_t dilation_h = 1, dilation_w = 1;
  std::int64_t pad_top = 0, pad_bottom = 0, pad_left = 0, pad_right = 0;
  friend bool operator==(const Window&, const Window&) = default;
};
/// What stands round an image: this many zeros on every side (none for Padding::valid), or with Padding::same as many
/// as make the result as large as the image, divided by the stride and rounded up; an odd one comes after.
struct Padding {
  static const Padding valid, same;
  constexpr Padding(std::int64_t zeros = 0) : each_side(zeros) {}  // NOLINT(google-explicit-constructor)
  std::int64_t each_side;
  friend bool operator==(const Padding&, const Padding&) = default;
};
inline constexpr Padding Padding::valid{0};
inline constexpr Padding Padding::same{INT64_MIN};

struct ConvOptions {
  Padding padding = Padding::valid;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;  // each group of outputs sees its own group of inputs
};
/// The window of a kernel of this size on an image of this size, padded as the options say.
Window window_on(std::int64_t height, std::int64_t width, std::int64_t kernel_height, std::int64_t kernel_width,
                 const ConvOptions& options = {});
/// x [b,h,w,c] with weights [kh,kw,c / groups,o] gives [b,h',w',o].
Tensor conv2d(const Tensor& x, const Tensor& weights, const ConvOptions& options = {}, WINDROW_WHERE);
/// x [b,t,c] with weights [k,c / groups,o] gives [b,t',o].
Tensor conv1d(const Tensor& x, const Tensor& weights, const ConvOptions& options = {}, WINDROW_WHERE);
/// The adjoint of a conv2d in its image: x [b,h,w,c] with weights [c,kh,kw,o] gives [b,h',w',o], where
/// h' = (h - 1) stride + (kh - 1) dilation + 1 - 2 padding, or h stride with Padding::same. No groups.
Tensor conv_transpose2d(const Tensor& x, const Tensor& weights, const ConvOptions& options = {}, WINDROW_WHERE);
/// Patches: [b,h,w,c] to [b,h',w',kh,kw,c], zeros outside; fold is its adjoint (overlaps add up).
Tensor unfold(const Tensor& x, const Window& window, WINDROW_WHERE);
Tensor fold(const Tensor& patches, const Shape& image, const Window& window, WINDROW_WHERE);
Tensor max_pool(const Tensor& x, std::int64_t size, std::int64_t stride = 0, WINDROW_WHERE);
Tensor max_pool(const Tensor& x, const Window& window, WINDROW_WHERE);
/// The padding's zeros count.
Tensor avg_pool(const Tensor& x, std::int64_t size, std::int64_t stride = 0, WINDROW_WHERE);
Tensor avg_pool(const Tensor& x, const Window& window, WINDROW_WHERE);

// ---- logic gates: values of wires in many cells, [wires, cells] ----
/// The two wires a gate reads.
struct Wire {
  std::int32_t a = 0, b = 0;
  friend bool operator==(const Wire&, const Wire&) = default;
};
using Wiring = std::vector<Wire>;  // one entry a gate
/// x [wires, cells] to [gates, cells]: gate i is c0 + c1 a + c2 b + c3 ab, with row i of the coefficients [gates, 4].
/// Fewer rows, of which the gates are a multiple, are used again and again: gate i has row i modulo rows.
Tensor gates(const Tensor& x, const Tensor& coefficients, const Wiring& wiring, WINDROW_WHERE);
/// The coefficients [..., 4] of gates that are mixtures of the sixteen Boolean functions, by logits [..., 16]: softmax,
/// then the functions' own coefficients. In order: 0, ab, a-ab, a, b-ab, b, a xor b, a or b, and their complements from
/// the last to the first.
Tensor gate_coefficients(const Tensor& logits, WINDROW_WHERE);
/// What lies outside a grid: zeros, or its other side.
enum class Border : bool { zero = false, wrap = true };
/// States [channels, cells] of grids of height x width cells, one grid after the other, to the 3x3 neighbourhood of
/// each cell, [channels * 9, cells]: row by row, the cell itself is number 4 of its nine.
Tensor neighbours(const Tensor& x, std::int64_t height, std::int64_t width, Border border, WINDROW_WHERE);

// ---- random numbers: counter-based, the same at any thread count ----
/// A stream of random numbers: a seed and a counter that each run of a step that uses it advances by one.
class Random {
 public:
  explicit Random(std::uint64_t seed = 0);
  Tensor uniform(const Shape& shape, DType dtype = DType::f32, WINDROW_WHERE) const;
  Tensor normal(const Shape& shape, DType dtype = DType::f32, WINDROW_WHERE) const;
  /// bool: true with the given probability.
  Tensor bernoulli(double probability, const Shape& shape, WINDROW_WHERE) const;
  const State& counter() const { return counter_; }
  std::uint64_t seed() const { return seed_; }

 private:
  std::uint64_t seed_;
  State counter_;
};

// ---- compositions: traced from ops ----
Tensor softmax(const Tensor& x, int axis = -1, WINDROW_WHERE);
Tensor log_softmax(const Tensor& x, int axis = -1, WINDROW_WHERE);
Tensor logsumexp(const Tensor& x, const Axes& axes = {}, Keep keep = Keep::no, WINDROW_WHERE);
/// (x - mean) / sqrt(variance + epsilon), mean and variance over the given axes.
Tensor standardise(const Tensor& x, const Axes& axes, double epsilon = 1e-5, WINDROW_WHERE);
/// The norms: standardised, times scale, plus shift, both [features] for x [.., features], or an empty Tensor for none.
/// Layer: over the last axis. Batch: over all others. Group: each sample over its positions and the features of a
/// group. Instance: each feature of each sample over its positions.
Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon = 1e-5, WINDROW_WHERE);
Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon = 1e-5, WINDROW_WHERE);
Tensor group_norm(const Tensor& x, std::int64_t groups, const Tensor& scale, const Tensor& shift, double epsilon = 1e-5,
                  WINDROW_WHERE);
Tensor instance_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon = 1e-5, WINDROW_WHERE);
/// x / sqrt(mean of squares + epsilon) over the last axis, times scale.
Tensor rms_norm(const Tensor& x, const Tensor& scale, double epsilon = 1e-5, WINDROW_WHERE);
/// Each element 0 with the given probability, the others divided by what is left of 1: a new mask each run.
Tensor dropout(const Tensor& x, double probability, const Random& random, WINDROW_WHERE);
/// Mean over the batch of -log softmax(logits)[label].
Tensor cross_entropy(const Tensor& logits, const Tensor& labels, WINDROW_WHERE);
Tensor mse(const Tensor& prediction, const Tensor& target, WINDROW_WHERE);
/// 0.5 d^2 where |d| < delta, delta * (|d| - 0.5 delta) elsewhere; not reduced.
Tensor huber(const Tensor& prediction, const Tensor& target, double delta = 1, WINDROW_WHERE);

// ---- gradients and control ----
/// What becomes of a tensor that no gradient reaches, because the loss does not depend on it, or only through ops that
/// have none (argmax, round, comparisons, stop_gradient): an Error that names what is in the way, or zeros.
enum class Unused : bool { refuse = false, allow = true };
inline constexpr Unused allow_unused = Unused::allow;
/// d loss / d each of wrt; loss must have one element. The results are tensors like any other: gradients of gradients
/// work.
Tensors grad(const Tensor& loss, const std::vector<Tensor>& wrt, WINDROW_WHERE);
Tensors grad(const Tensor& loss, const std::vector<Tensor>& wrt, Unused unused, WINDROW_WHERE);
Tensor stop_gradient(const Tensor& x, WINDROW_WHERE);
/// What a custom op's gradient is made of: its arguments x, its value y and g = d loss / d y. The result is
/// d loss / d each argument; an empty Tensor where none flows.
using GradientRule = std::function<std::vector<Tensor>(const Tensors& x, const Tensor& y, const Tensor& g)>;
/// An op of the user's: a value computed from the arguments by ops, with a gradient rule in place of the ops' own. The
/// rule should capture no tensors; it is given what it needs.
Tensor custom_gradient(const Tensor& value, const std::vector<Tensor>& arguments, GradientRule rule, WINDROW_WHERE);
/// For one argument: custom_gradient(round(x), x, [](auto& x, auto& y, auto& g) { return g; }) rounds, and passes the
/// gradient straight through.
Tensor custom_gradient(const Tensor& value, const Tensor& x,
                       const std::function<Tensor(const Tensor& x, const Tensor& y, const Tensor& g)>& rule,
                       WINDROW_WHERE);
/// What fn computes is not kept for the backward pass but computed again there: less memory, more arithmetic.
Tensors checkpoint(const std::function<std::vector<Tensor>(const Tensors&)>& fn, const std::vector<Tensor>& arguments,
                   WINDROW_WHERE);
Tensor checkpoint(const std::function<Tensor(const Tensor&)>& fn, const Tensor& argument, WINDROW_WHERE);
/// body applied n times to the carried tensors: rollouts. With Recompute::yes each turn is a checkpoint.
enum class Recompute : bool { no = false, yes = true };
Tensors repeat(int n, const std::function<std::vector<Tensor>(int, const Tensors&)>& body, std::vector<Tensor> carry,
               Recompute recompute = Recompute::no, WINDROW_WHERE);

/// A tensor of a fixed value like another's type.
Tensor full(const Shape& shape, double value, DType dtype = DType::f32, WINDROW_WHERE);

}  // namespace wr
