// Shared by the op families: messages about operands and the usual axis maps.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "ir/op.h"

namespace wr::ops {

using ir::Attrs;
using ir::Axes;
using ir::AxisMap;
using ir::AxisTo;
using ir::Gradient;
using ir::kWhole;
using ir::Op;
using ir::OpDef;

/// Each family's definitions, in the order of ir::Op.
std::span<const OpDef> elementwise_ops();
std::span<const OpDef> update_ops();
std::span<const OpDef> leaf_ops();
std::span<const OpDef> reduce_ops();
std::span<const OpDef> einsum_ops();
std::span<const OpDef> contract_ops();
std::span<const OpDef> shape_ops();
std::span<const OpDef> index_ops();
std::span<const OpDef> window_ops();
std::span<const OpDef> conv_ops();
std::span<const OpDef> gate_ops();
std::span<const OpDef> recurrent_ops();
std::span<const OpDef> row_ops();
std::span<const OpDef> attention_ops();
std::span<const OpDef> random_ops();
std::span<const OpDef> control_ops();
std::span<const OpDef> scan_ops();

/// Throws the rest of the message; the graph puts the caller's line and the op's name before it.
[[noreturn]] inline void refuse(const std::string& message) { throw Error(message); }

inline void expect_operands(std::span<const Spec> in, std::size_t n) {
  if (in.size() != n) refuse("expected " + std::to_string(n) + " operands, got " + std::to_string(in.size()));
}
inline void expect_ints(const Attrs& attrs, std::size_t n) {
  if (attrs.ints.size() != n)
    refuse("expected " + std::to_string(n) + " integer attributes, got " + std::to_string(attrs.ints.size()));
}
inline void expect_floating(const Spec& spec, const char* what) {
  if (!is_floating(spec.dtype)) refuse(std::string(what) + " must be f32 or f64, is " + to_string(spec));
}
inline void expect_indices(const Spec& spec) {
  if (spec.dtype != DType::i32) refuse("the indices must be i32, are " + to_string(spec));
}
inline void expect_axis(std::int64_t axis, int rank) {
  if (axis < 0 || axis >= rank)
    refuse("axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
}
/// Attributes may come from a text somebody else wrote.
inline DType expect_dtype(std::int64_t code) {
  if (code < 0 || code > static_cast<std::int64_t>(DType::boolean))
    refuse("unknown element type " + std::to_string(code));
  return static_cast<DType>(code);
}
/// Throws for negative sizes and for more elements than memory can hold.
inline Shape expect_sizes(const Shape& shape) {
  std::int64_t count = 1;
  for (auto n : shape) {
    if (n < 0) refuse("negative size in " + to_string(shape));
    if (__builtin_mul_overflow(count, n, &count) || count > (std::int64_t{1} << 46))
      refuse("too many elements in " + to_string(shape));
  }
  return shape;
}
/// -1 for the last axis and so on; throws with the caller's line.
int normalise_axis(int axis, int rank, const char* op, Location where);
/// For ops made of others: throws what a part refused under the name and line that the caller knows.
[[noreturn]] void refuse_as(std::string_view op, Location where, const Error& error);

/// For ops that only passes make, after gradients have been taken.
[[noreturn]] inline std::vector<Tensor> never_differentiated(const Gradient&) {
  refuse("is made after differentiation and has no gradient");
}
/// Of a formula: from here on an element takes a polynomial or more.
inline constexpr int kHeavyCost = 12;

inline std::vector<Tensor> no_gradient(const Gradient& of) { return std::vector<Tensor>(of.in.size()); }

/// The numbers that a counter (i32[]) stands for: what Random draws at its own.
Tensor draw_at(const Tensor& counter, std::uint64_t seed, const char* distribution, double parameter,
               const Shape& shape, DType dtype, Location where);
Tensor dropout_at(const Tensor& x, double probability, const Tensor& counter, Location where);

/// How many windows an image holds; refuses windows that do not fit.
struct Grid {
  std::int64_t height, width;
};
Grid grid_of(std::int64_t image_height, std::int64_t image_width, const Window& window);
void expect_image(const Spec& x);

/// An einsum's labels without blanks and with the result written out; throws with the caller's line.
std::string explicit_labels(std::string_view spec, const char* op, Location where);

/// g summed over the axes along which an operand of this shape was broadcast.
Tensor sum_to_shape(const Tensor& g, const Shape& shape, Location where);

}  // namespace wr::ops
