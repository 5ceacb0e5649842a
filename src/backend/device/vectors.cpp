#include "backend/device/vectors.h"

namespace wr::device {

using ir::Op;

std::string vector_type(DType dtype, int width) {
  return width == 1 ? std::string(type_name(dtype)) : cat(type_name(dtype), width);
}
std::string vector_load(int width, const std::string& pointer) {
  return width == 1 ? cat("(*(", pointer, "))") : cat("vload", width, "(0, ", pointer, ')');
}
std::string vector_store(int width, const std::string& value, const std::string& pointer) {
  return width == 1 ? cat("*(", pointer, ") = ", value) : cat("vstore", width, '(', value, ", 0, ", pointer, ')');
}
std::string vector_of(DType dtype, int width, const std::string& x) {
  return width == 1 ? x : cat("WR_SPLAT(", vector_type(dtype, width), ", ", x, ')');
}

std::string combine(Op op, const std::string& a, const std::string& b) {
  switch (op) {
    case Op::reduce_prod:
      return cat(a, " * ", b);
    case Op::reduce_max:
      return cat("wr_max(", a, ", ", b, ')');
    case Op::reduce_min:
      return cat("wr_min(", a, ", ", b, ')');
    default:
      return cat(a, " + ", b);
  }
}

namespace {

/// Both halves of a vector made one, under a name of its own.
std::string half(Writer& w, Op op, DType dtype, int width, const std::string& vector) {
  const std::string type = vector_type(dtype, width / 2), name = cat(vector, '_', width / 2);
  w.line("const ", type, ' ', name, " = ",
         combine(op, cat("WR_LOW(", type, ", ", vector, ')'), cat("WR_HIGH_", width, '(', type, ", ", vector, ')')),
         ';');
  return name;
}

}  // namespace

void fold_lanes(Writer& w, Op op, DType dtype, int width, const std::string& vector, const std::string& value) {
  w.open("");
  std::string x = vector;
  for (; width > 1; width /= 2) x = half(w, op, dtype, width, x);
  w.line(value, " = ", combine(op, value, x), ';');
  w.close();
}

std::string sums_of_four(Writer& w, DType dtype, int width, std::array<std::string, 4> vectors) {
  for (; width > 4; width /= 2)
    for (std::string& v : vectors) v = half(w, Op::reduce_sum, dtype, width, v);
  std::string sums;
  for (int k = 0; k < width; ++k) {
    sums += cat(k == 0 ? "" : " + ", "WR_FOUR(", vector_type(dtype, 4));
    for (const std::string& v : vectors) sums += cat(", ", width == 1 ? v : cat("WR_PART(", v, ", ", k, ')'));
    sums += ')';
  }
  return sums;
}

}  // namespace wr::device
