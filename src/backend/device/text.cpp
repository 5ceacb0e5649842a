// Formulas as text.
#include "backend/device/text.h"

#include <cmath>
#include <cstdio>

#include "windrow/error.h"

namespace wr::device {

std::string_view type_name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "float";
    case DType::f64:
      return "double";
    case DType::i32:
      return "int";
    case DType::u8:
    case DType::boolean:
      return "uchar";
  }
  return "";
}

std::string literal(DType dtype, double value) {
  if (!is_floating(dtype)) return value == -2147483648.0 ? "(-2147483647 - 1)" : cat(static_cast<std::int64_t>(value));
  const bool single = dtype == DType::f32;
  const char* limits = single ? "WR_F32" : "WR_F64";
  if (std::isnan(value)) return cat(limits, "_NAN");
  if (std::isinf(value)) return cat(value < 0 ? "(-" : "(", limits, "_INFINITY)");
  char digits[64];
  std::snprintf(digits, sizeof digits, single ? "%.9g" : "%.17g", single ? static_cast<float>(value) : value);
  std::string text = digits;
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  if (single) text += "f";
  return value < 0 ? "(" + text + ")" : text;
}

namespace {

/// The policy: an expression, or a number whose type is that of the expression it meets.
struct Text {
  std::string text;
  DType dtype = DType::f32;
  bool typed = true;
  double number = 0;

  Text() = default;
  Text(double value) : typed(false), number(value) {}  // NOLINT(google-explicit-constructor): formulas mix in numbers
  Text(std::string t, DType d) : text(std::move(t)), dtype(d) {}

  std::string as(DType d) const { return typed ? text : literal(d, number); }
  static DType common(const Text& a, const Text& b) { return a.typed ? a.dtype : b.dtype; }

  static Text infix(const Text& a, const char* sign, const Text& b) {
    const DType d = common(a, b);
    return {cat('(', a.as(d), ' ', sign, ' ', b.as(d), ')'), d};
  }
  static Text call(const char* function, const Text& a) { return {cat(function, '(', a.text, ')'), a.dtype}; }

  friend Text operator-(const Text& a) { return {cat("(-", a.text, ')'), a.dtype}; }
#define WINDROW_TEXT_INFIX(sign) \
  friend Text operator sign(const Text& a, const Text& b) { return infix(a, #sign, b); }
  WINDROW_TEXT_INFIX(+)
  WINDROW_TEXT_INFIX(-)
  WINDROW_TEXT_INFIX(*)
  WINDROW_TEXT_INFIX(/)
  WINDROW_TEXT_INFIX(==)
  WINDROW_TEXT_INFIX(!=)
  WINDROW_TEXT_INFIX(<)
  WINDROW_TEXT_INFIX(<=)
  WINDROW_TEXT_INFIX(>)
  WINDROW_TEXT_INFIX(>=)
  WINDROW_TEXT_INFIX(&)
  WINDROW_TEXT_INFIX(|)
  WINDROW_TEXT_INFIX(^)
#undef WINDROW_TEXT_INFIX

  friend Text number(const Text& like, double value) { return {literal(like.dtype, value), like.dtype}; }
  friend Text select(const Text& condition, const Text& yes, const Text& no) {
    const DType d = common(yes, no);
    return {cat('(', condition.text, " ? ", yes.as(d), " : ", no.as(d), ')'), d};
  }
  friend Text abs(const Text& a) {
    return is_floating(a.dtype) ? call("fabs", a) : Text(cat("wr_abs(", a.text, ')'), a.dtype);
  }
  // Where single precision has a function of our own (prelude.cpp), loops over it become vectors on CPUs.
  friend Text exp(const Text& a) { return call(a.dtype == DType::f32 ? "wr_exp" : "exp", a); }
  friend Text tanh(const Text& a) { return call(a.dtype == DType::f32 ? "wr_tanh" : "tanh", a); }
  friend Text erf(const Text& a) { return call("erf", a); }
  friend Text sqrt(const Text& a) { return call("sqrt", a); }
  friend Text root(const Text& a) { return call("sqrt", a); }
  friend Text rsqrt(const Text& a) { return {cat('(', literal(a.dtype, 1), " / sqrt(", a.text, "))"), a.dtype}; }
  friend Text reciprocal(const Text& a) { return {cat('(', literal(a.dtype, 1), " / ", a.text, ')'), a.dtype}; }
  friend Text expm1(const Text& a) { return call("expm1", a); }
  friend Text log(const Text& a) { return call("log", a); }
  friend Text log1p(const Text& a) { return call("log1p", a); }
  friend Text log1p_unit(const Text& a) { return log1p(a); }
  friend Text sin(const Text& a) { return call("sin", a); }
  friend Text cos(const Text& a) { return call("cos", a); }
  friend Text floor(const Text& a) { return call("floor", a); }
  friend Text ceil(const Text& a) { return call("ceil", a); }
  friend Text round(const Text& a) { return call("rint", a); }
  static Text call(const char* function, const Text& a, const Text& b) {
    const DType d = common(a, b);
    return {cat(function, '(', a.as(d), ", ", b.as(d), ')'), d};
  }
  friend Text pow(const Text& a, const Text& b) { return call("pow", a, b); }
  // NaN if either is.
  friend Text max(const Text& a, const Text& b) { return call("wr_max", a, b); }
  friend Text min(const Text& a, const Text& b) { return call("wr_min", a, b); }
  friend Text muladd(const Text& a, const Text& b, const Text& c) {
    const DType d = a.typed ? a.dtype : common(b, c);
    return {cat("fma(", a.as(d), ", ", b.as(d), ", ", c.as(d), ')'), d};
  }
};

template <class F>
Text apply(const std::vector<Text>& x) {
  if constexpr (F::kArity == 1) return F::evaluate(x[0]);
  if constexpr (F::kArity == 2) return F::evaluate(x[0], x[1]);
  if constexpr (F::kArity == 3) return F::evaluate(x[0], x[1], x[2]);
  if constexpr (F::kArity == 5) return F::evaluate(x[0], x[1], x[2], x[3], x[4]);
}

std::vector<Text> typed(DType dtype, const std::vector<std::string>& operands) {
  std::vector<Text> list;
  for (const std::string& x : operands) list.emplace_back(x, dtype);
  return list;
}

template <ops::Update update>
std::vector<std::string> apply(const std::vector<Text>& x) {
  using F = ops::parts::Formulas<update>;
  std::array<Text, F::kValues + F::kNumbers> given;
  std::copy(x.begin(), x.end(), given.begin());
  std::vector<std::string> results;
  for (const Text& result : F::evaluate(given)) results.push_back(result.text);
  return results;
}

}  // namespace

std::string formula(ops::Elementwise op, DType dtype, const std::vector<std::string>& operands) {
  using Function = Text (*)(const std::vector<Text>&);
  static constexpr Function functions[] = {
#define WINDROW_TEXT(name, ...) &apply<ops::Formula<ops::Elementwise::name>>,
#define WINDROW_UNARY WINDROW_TEXT
#define WINDROW_BINARY WINDROW_TEXT
#define WINDROW_TERNARY WINDROW_TEXT
#define WINDROW_QUINARY WINDROW_TEXT
#define WINDROW_COMPARE WINDROW_TEXT
#define WINDROW_LOGIC WINDROW_TEXT
#include "windrow/elementwise.def"
#undef WINDROW_TEXT
  };
  return functions[static_cast<int>(op)](typed(dtype, operands)).text;
}

std::vector<std::string> formulas(ops::Update update, DType dtype, const std::vector<std::string>& operands) {
  using Function = std::vector<std::string> (*)(const std::vector<Text>&);
  static constexpr Function functions[] = {
#define WINDROW_UPDATE(name, ...) &apply<ops::Update::name>,
#include "ir/updates.def"
  };
  return functions[static_cast<int>(update)](typed(dtype, operands));
}

std::string converted(DType to, DType from, const std::string& x) {
  if (to == from) return x;
  if (to == DType::boolean) return cat("(uchar)(", x, " != ", literal(from, 0), " ? 1 : 0)");
  if (is_floating(to)) return cat('(', type_name(to), ")(", x, ')');
  if (is_floating(from)) return cat(to == DType::u8 ? "wr_to_u8_" : "wr_to_i32_", type_name(from), '(', x, ')');
  if (to == DType::u8 && from == DType::i32) return cat("(uchar)(", x, " < 0 ? 0 : ", x, " > 255 ? 255 : ", x, ')');
  return cat('(', type_name(to), ")(", x, ')');
}

}  // namespace wr::device
