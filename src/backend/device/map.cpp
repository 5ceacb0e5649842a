// Element by element: formulas, updates, casts, sums over lanes, and what fills memory by rule.
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/device/choose.h"
#include "ir/attributes.h"

namespace wr::device {

using ir::Op;

namespace {

std::string at(std::size_t operand, const std::string& place) { return cat('p', operand, '[', place, ']'); }

}  // namespace

void Chooser::map() {
  const Operands operands = all();
  const Walk together = walk(out().shape, operands);
  std::vector<std::string> x;
  for (std::size_t k = 1; k < operands.size(); ++k) x.push_back(at(k, together.place(k)));
  std::string result;
  if (node_.op == Op::where)
    result = cat(x[0], " ? ", x[1], " : ", x[2]);
  else if (node_.op == Op::cast)
    result = converted(out().dtype, in().dtype, x[0]);
  else
    result = formula(static_cast<ops::Elementwise>(node_.op), in().dtype, x);
  unsigned in_place = 0;
  for (std::size_t k = 1; k < operands.size(); ++k)
    if (operands[k].shape == out().shape && operands[k].dense() && out().dense() && operands[k].elem() == out().elem())
      in_place |= 1u << k;
  const auto body = [&](Writer& w) {
    w.each(
        together.axes, [&] { w.line(at(0, together.place(0)), " = ", result, ';'); }, true);
  };
  call(operands, body, in_place);
}

void Chooser::update() {
  const auto row = ops::update_of(node_.op);
  const auto results = work_.out.size(), values = static_cast<std::size_t>(ops::row_of(row).values);
  const Operands operands = all();
  const Walk together =
      walk(out().shape, {operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(results + values)});
  std::vector<std::string> x;
  for (std::size_t k = 0; k < work_.in.size(); ++k) x.push_back(k < values ? cat('x', k) : at(results + k, "0"));
  const std::vector<std::string> y = formulas(row, out().dtype, x);
  const auto type = type_name(out().dtype);
  const auto turn = [&](Writer& w) {
    for (std::size_t k = 0; k < values; ++k)
      w.line("const ", type, " x", k, " = ", at(results + k, together.place(results + k)), ';');
    // All before any is written: a result may stand where an operand stands.
    for (std::size_t k = 0; k < results; ++k) w.line("const ", type, " y", k, " = ", y[k], ';');
    for (std::size_t k = 0; k < results; ++k) w.line(at(k, together.place(k)), " = y", k, ';');
  };
  call(operands, [&](Writer& w) {
    w.each(
        together.axes, [&] { turn(w); }, true);
  });
}

void Chooser::lane_sum() {
  const auto apart = work_.lane_bytes / out().elem();
  if (apart * work_.lanes >= std::numeric_limits<std::int32_t>::max())
    throw NotKnown(
        cat("totals of ", work_.lane_bytes, " bytes on ", work_.lanes, " lanes: device code counts to 2^31"));
  const Walk both = walk(out().shape, {out(), in()});
  const std::string from = both.place(1);
  constexpr int kUnrolled = 8;
  const auto turn = [&](Writer& w) {
    w.line(type_name(out().dtype), " sum = ", at(1, from), ';');
    for (int lane = 1; lane < std::min(work_.lanes, kUnrolled); ++lane)
      w.line("sum += ", at(1, cat(from, " + ", lane * apart)), ';');
    if (work_.lanes > kUnrolled)
      w.line("for (int lane = ", kUnrolled, "; lane < ", work_.lanes, "; ++lane) sum += p1[", from, " + lane * ", apart,
             "];");
    w.line(at(0, both.place(0)), " = sum;");
  };
  call({out(), in()}, [&](Writer& w) {
    w.each(
        both.axes, [&] { turn(w); }, work_.lanes <= kUnrolled);
  });
}

void Chooser::concat() {
  const int axis = static_cast<int>(node_.attrs.ints[0]);
  View part = out();
  for (const View& v : work_.in) {
    part.shape[axis] = v.shape[axis];
    if (v.count() > 0) copy(part, v);
    part.offset += v.shape[axis] * part.strides[axis] * part.elem();
  }
}

void Chooser::pad() {
  const ir::Pad around = ir::Pad::of(node_.attrs, out().shape.rank());
  const Walk whole = walk(out().shape, {out()});
  call({out()}, [&](Writer& w) {
    w.each(
        whole.axes, [&] { w.line(at(0, whole.place(0)), " = ", literal(out().dtype, around.value), ';'); }, true);
  });
  View inner = out();
  inner.shape = in().shape;
  for (int i = 0; i < in().shape.rank(); ++i)
    if (in().shape[i] != out().shape[i]) inner.offset += around.before[i] * out().strides[i] * out().elem();
  if (in().count() > 0) copy(inner, in());
}

namespace {

/// One index an axis of the shape.
std::vector<Axis> axes_of(const Shape& shape) {
  std::vector<Axis> axes;
  for (int i = 0; i < shape.rank(); ++i) axes.push_back({cat('i', i), shape[i]});
  return axes;
}

std::vector<std::string> names_of(const std::vector<Axis>& axes) {
  std::vector<std::string> names;
  for (const Axis& axis : axes) names.push_back(axis.name);
  return names;
}

}  // namespace

void Chooser::iota() {
  const int counted = static_cast<int>(node_.attrs.ints[0]);
  const std::vector<Axis> axes = axes_of(out().shape);
  const std::string number = cat('i', counted, work_.cut == plan::Cut::along(counted) ? " + (int)row0" : "");
  const DType type = out().dtype;
  const std::string value =
      type == DType::u8 ? cat("(uchar)(", number, ')') : converted(type, DType::i32, cat('(', number, ')'));
  call({out()}, [&](Writer& w) {
    w.each(
        axes, [&] { w.line(at(0, place(out(), names_of(axes))), " = ", value, ';'); }, true);
  });
}

/// Numbers are functions of (seed, stream, run, element of the whole array): the same as the CPU's, bit for bit.
void Chooser::random() {
  const DType type = out().dtype;
  const std::vector<Axis> axes = axes_of(out().shape);
  const Strides whole = contiguous_strides(node_.spec.shape);
  std::string element = "0";
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool cut = work_.cut == plan::Cut::along(static_cast<int>(i));
    element += cat(" + (ulong)(", axes[i].name, cut ? " + row0" : "", ") * ", whole[static_cast<int>(i)]);
  }
  const auto seed = static_cast<std::uint64_t>(node_.attrs.ints[0]);
  const auto stream = static_cast<std::uint32_t>(node_.attrs.ints[1]);
  const std::string key = cat("(uint)p1[0], ", stream, "u, ", static_cast<std::uint32_t>(seed), "u, ",
                              static_cast<std::uint32_t>(seed >> 32), "u, ", element);
  std::string value;
  if (node_.attrs.text == "bernoulli") {
    const double words = std::nearbyint(std::clamp(node_.attrs.reals[0], 0.0, 1.0) * 4294967296.0);
    value = cat("(", type_name(type), ")((ulong)wr_random_word(", key, ") < (ulong)", static_cast<std::uint64_t>(words),
                "ul)");
  } else {
    value = cat("wr_", node_.attrs.text, '_', type_name(type), '(', key, ')');
  }
  call({out(), in()}, [&](Writer& w) {
    w.each(
        axes, [&] { w.line(at(0, place(out(), names_of(axes))), " = ", value, ';'); }, true);
  });
}

}  // namespace wr::device
