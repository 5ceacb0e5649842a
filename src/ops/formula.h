// The rows of elementwise.def as something to iterate: an enum, a table of facts and the oracle in double.
// The formulas are generic over a math policy: a number type with operators and functions found by argument-dependent
// lookup. Here stand the policies Real (double) and Cost (counts operations); the SIMD one is backend/cpu/math-inl.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string_view>

#include "windrow/dtype.h"

namespace wr::ops {

/// One value a row, in the order of elementwise.def.
enum class Elementwise : std::uint8_t {
#define WINDROW_UNARY(name, ...) name,
#define WINDROW_BINARY(name, ...) name,
#define WINDROW_TERNARY(name, ...) name,
#define WINDROW_QUINARY(name, ...) name,
#define WINDROW_COMPARE(name, ...) name,
#define WINDROW_LOGIC(name, ...) name,
#include "windrow/elementwise.def"
};

inline constexpr int kMaxArity = 5;
/// What the operands may be: f32 f64 | f32 f64 i32 | bool.
enum class Types : std::uint8_t { floats, numbers, booleans };

struct Interval {
  double low = 0, high = 0;
};

/// The facts of a row, for tables, tests and documentation.
struct Row {
  std::string_view name, doc;
  int arity = 0;
  Types types = Types::floats;
  bool to_bool = false;        ///< the result is bool whatever the operands are
  Interval domain[kMaxArity];  ///< where the tests draw each operand from
  double tolerance = 0;        ///< of the f32 kernel in units of 2^-24, of the f64 kernel in units of 2^-53
  bool absolute = false;       ///< the tolerance bounds |error| / max(1, |result|), else |error| / |result|
  int cost = 0;                ///< about how many vector instructions the formula takes
};

constexpr bool accepts(Types types, DType dtype) {
  switch (types) {
    case Types::floats:
      return dtype == DType::f32 || dtype == DType::f64;
    case Types::numbers:
      return dtype == DType::f32 || dtype == DType::f64 || dtype == DType::i32;
    case Types::booleans:
      return dtype == DType::boolean;
  }
  return false;
}

/// The policy of the oracle: plain double with the C library's functions, so right for infinities and NaN.
struct Real {
  double value;
  constexpr Real(double v) : value(v) {}  // NOLINT(google-explicit-constructor): formulas mix in numbers

  friend constexpr Real operator-(Real a) { return -a.value; }
  friend constexpr Real operator+(Real a, Real b) { return a.value + b.value; }
  friend constexpr Real operator-(Real a, Real b) { return a.value - b.value; }
  friend constexpr Real operator*(Real a, Real b) { return a.value * b.value; }
  friend constexpr Real operator/(Real a, Real b) { return a.value / b.value; }
  friend constexpr bool operator==(Real a, Real b) { return a.value == b.value; }
  friend constexpr bool operator!=(Real a, Real b) { return a.value != b.value; }
  friend constexpr bool operator<(Real a, Real b) { return a.value < b.value; }
  friend constexpr bool operator<=(Real a, Real b) { return a.value <= b.value; }
  friend constexpr bool operator>(Real a, Real b) { return a.value > b.value; }
  friend constexpr bool operator>=(Real a, Real b) { return a.value >= b.value; }
  friend constexpr Real operator&(Real a, Real b) { return a.value != 0 && b.value != 0; }
  friend constexpr Real operator|(Real a, Real b) { return a.value != 0 || b.value != 0; }
  friend constexpr Real operator^(Real a, Real b) { return (a.value != 0) != (b.value != 0); }

  friend constexpr Real number(Real, double v) { return v; }
  friend constexpr Real select(bool condition, Real yes, Real no) { return condition ? yes : no; }
  friend Real abs(Real a) { return std::fabs(a.value); }
  friend Real sqrt(Real a) { return std::sqrt(a.value); }
  friend Real root(Real a) { return std::sqrt(a.value); }
  friend Real rsqrt(Real a) { return 1 / std::sqrt(a.value); }
  friend Real reciprocal(Real a) { return 1 / a.value; }
  friend Real exp(Real a) { return std::exp(a.value); }
  friend Real expm1(Real a) { return std::expm1(a.value); }
  friend Real log(Real a) { return std::log(a.value); }
  friend Real log1p(Real a) { return std::log1p(a.value); }
  friend Real log1p_unit(Real a) { return std::log1p(a.value); }
  friend Real sin(Real a) { return std::sin(a.value); }
  friend Real cos(Real a) { return std::cos(a.value); }
  friend Real tanh(Real a) { return std::tanh(a.value); }
  friend Real erf(Real a) { return std::erf(a.value); }
  friend Real pow(Real a, Real b) { return std::pow(a.value, b.value); }
  friend Real floor(Real a) { return std::floor(a.value); }
  friend Real ceil(Real a) { return std::ceil(a.value); }
  friend Real round(Real a) { return std::nearbyint(a.value); }
  /// NaN if either is, unlike std::max.
  friend constexpr Real max(Real a, Real b) { return a.value > b.value || a.value != a.value ? a : b; }
  friend constexpr Real min(Real a, Real b) { return a.value < b.value || a.value != a.value ? a : b; }
  friend Real muladd(Real a, Real b, Real c) { return std::fma(a.value, b.value, c.value); }
};

/// The policy that counts: about how many vector instructions a formula takes.
struct Cost {
  int count = 0;
  constexpr Cost() = default;
  constexpr Cost(double) {}  // NOLINT(google-explicit-constructor)
  static constexpr Cost of(int own, std::initializer_list<Cost> parts) {
    Cost sum;
    sum.count = own;
    for (Cost part : parts) sum.count += part.count;
    return sum;
  }
#define WINDROW_COST_1(name, own) \
  friend constexpr Cost name(Cost a) { return of(own, {a}); }
#define WINDROW_COST_2(name, own) \
  friend constexpr Cost name(Cost a, Cost b) { return of(own, {a, b}); }
#define WINDROW_COST_3(name, own) \
  friend constexpr Cost name(Cost a, Cost b, Cost c) { return of(own, {a, b, c}); }
  WINDROW_COST_1(operator-, 1)
  WINDROW_COST_2(operator+, 1)
  WINDROW_COST_2(operator-, 1)
  WINDROW_COST_2(operator*, 1)
  WINDROW_COST_2(operator/, 8)
  WINDROW_COST_2(operator==, 1)
  WINDROW_COST_2(operator!=, 1)
  WINDROW_COST_2(operator<, 1)
  WINDROW_COST_2(operator<=, 1)
  WINDROW_COST_2(operator>, 1)
  WINDROW_COST_2(operator>=, 1)
  WINDROW_COST_2(operator&, 1)
  WINDROW_COST_2(operator|, 1)
  WINDROW_COST_2(operator^, 1)
  WINDROW_COST_1(abs, 1)
  WINDROW_COST_1(sqrt, 10)
  WINDROW_COST_1(root, 10)
  WINDROW_COST_1(rsqrt, 8)
  WINDROW_COST_1(reciprocal, 6)
  WINDROW_COST_1(exp, 16)
  WINDROW_COST_1(expm1, 18)
  WINDROW_COST_1(log, 22)
  WINDROW_COST_1(log1p, 34)
  WINDROW_COST_1(log1p_unit, 11)
  WINDROW_COST_1(sin, 22)
  WINDROW_COST_1(cos, 22)
  WINDROW_COST_1(tanh, 20)
  WINDROW_COST_1(erf, 22)
  WINDROW_COST_2(pow, 120)
  WINDROW_COST_1(floor, 2)
  WINDROW_COST_1(ceil, 2)
  WINDROW_COST_1(round, 2)
  WINDROW_COST_2(max, 2)
  WINDROW_COST_2(min, 2)
  WINDROW_COST_3(muladd, 1)
  WINDROW_COST_3(select, 1)
#undef WINDROW_COST_1
#undef WINDROW_COST_2
#undef WINDROW_COST_3
  friend constexpr Cost number(Cost, double) { return {}; }
};

/// Formula<op>: the formula as a function of operands of any policy. Defined once here for the policies above.
/// (The SIMD kernels generate their own from the same rows, as each target compiles with its own instruction set.)
template <Elementwise>
struct Formula;

// clang-format off
#define WINDROW_FORMULA_1(name, formula) \
  template <> struct Formula<Elementwise::name> { \
    static constexpr int kArity = 1; \
    template <class T> static constexpr auto evaluate(T x) { return formula; } \
  };
#define WINDROW_FORMULA_2(name, formula) \
  template <> struct Formula<Elementwise::name> { \
    static constexpr int kArity = 2; \
    template <class T> static constexpr auto evaluate(T a, T b) { return formula; } \
  };
#define WINDROW_FORMULA_3(name, formula) \
  template <> struct Formula<Elementwise::name> { \
    static constexpr int kArity = 3; \
    template <class T> static constexpr auto evaluate(T a, T b, T c) { return formula; } \
  };
#define WINDROW_FORMULA_5(name, formula) \
  template <> struct Formula<Elementwise::name> { \
    static constexpr int kArity = 5; \
    template <class T> static constexpr auto evaluate(T a, T b, T c, T d, T e) { return formula; } \
  };
#define WINDROW_UNARY(name, types, doc, formula, ...) WINDROW_FORMULA_1(name, (formula))
#define WINDROW_BINARY(name, types, doc, formula, ...) WINDROW_FORMULA_2(name, (formula))
#define WINDROW_TERNARY(name, types, doc, formula, ...) WINDROW_FORMULA_3(name, (formula))
#define WINDROW_QUINARY(name, types, doc, formula, ...) WINDROW_FORMULA_5(name, (formula))
#define WINDROW_COMPARE(name, doc, formula) WINDROW_FORMULA_2(name, (formula))
#define WINDROW_LOGIC(name, doc, formula) WINDROW_FORMULA_2(name, (formula))
#include "windrow/elementwise.def"
#undef WINDROW_FORMULA_1
#undef WINDROW_FORMULA_2
#undef WINDROW_FORMULA_3
#undef WINDROW_FORMULA_5
// clang-format on

namespace detail {

constexpr int as_count(Cost cost) { return cost.count; }

/// The row's facts. A negative bound in elementwise.def means an absolute one.
constexpr Row make_row(std::string_view name, std::string_view doc, Types types, bool to_bool,
                       std::initializer_list<Interval> domain, double bound, Cost cost) {
  Row row{name,      doc,       static_cast<int>(domain.size()), types, to_bool, {}, bound < 0 ? -bound : bound,
          bound < 0, cost.count};
  int i = 0;
  for (Interval d : domain) row.domain[i++] = d;
  return row;
}

#define FLOATS Types::floats
#define NUMBERS Types::numbers
#define DOMAIN(low, high) \
  Interval { low, high }
#define WINDROW_UNARY(name, types, doc, formula, dx, domain, bound) \
  make_row(#name, doc, types, false, {domain}, bound, Formula<Elementwise::name>::evaluate(Cost())),
#define WINDROW_BINARY(name, types, doc, formula, da, db, domain_a, domain_b, bound) \
  make_row(#name, doc, types, false, {domain_a, domain_b}, bound, Formula<Elementwise::name>::evaluate(Cost(), Cost())),
#define WINDROW_TERNARY(name, types, doc, formula, da, db, dc, domain_a, domain_b, domain_c, bound) \
  make_row(#name, doc, types, false, {domain_a, domain_b, domain_c}, bound,                         \
           Formula<Elementwise::name>::evaluate(Cost(), Cost(), Cost())),
#define WINDROW_QUINARY(name, types, doc, formula, da, db, dc, dd, de, domain_a, domain_b, domain_c, domain_d, \
                        domain_e, bound)                                                                       \
  make_row(#name, doc, types, false, {domain_a, domain_b, domain_c, domain_d, domain_e}, bound,                \
           Formula<Elementwise::name>::evaluate(Cost(), Cost(), Cost(), Cost(), Cost())),
#define WINDROW_COMPARE(name, doc, formula)                                     \
  make_row(#name, doc, Types::numbers, true, {DOMAIN(-4, 4), DOMAIN(-4, 4)}, 0, \
           Formula<Elementwise::name>::evaluate(Cost(), Cost())),
#define WINDROW_LOGIC(name, doc, formula)                                      \
  make_row(#name, doc, Types::booleans, true, {DOMAIN(0, 1), DOMAIN(0, 1)}, 0, \
           Formula<Elementwise::name>::evaluate(Cost(), Cost())),
inline constexpr Row kRows[] = {
#include "windrow/elementwise.def"
};
#undef FLOATS
#undef NUMBERS
#undef DOMAIN

constexpr double plain(Real r) { return r.value; }

template <class F>
double apply(const double* x) {
  if constexpr (F::kArity == 1) return plain(F::evaluate(Real(x[0])));
  if constexpr (F::kArity == 2) return plain(F::evaluate(Real(x[0]), Real(x[1])));
  if constexpr (F::kArity == 3) return plain(F::evaluate(Real(x[0]), Real(x[1]), Real(x[2])));
  if constexpr (F::kArity == 5) return plain(F::evaluate(Real(x[0]), Real(x[1]), Real(x[2]), Real(x[3]), Real(x[4])));
}

}  // namespace detail

inline constexpr int kElementwiseOps = static_cast<int>(std::size(detail::kRows));

constexpr std::span<const Row> elementwise_rows() { return detail::kRows; }
constexpr const Row& row_of(Elementwise op) { return detail::kRows[static_cast<int>(op)]; }

/// The oracle: the row's formula in double. Comparisons and logic give 0 or 1.
inline double evaluate(Elementwise op, const double* operands) {
  using Function = double (*)(const double*);
  static constexpr Function functions[] = {
#define WINDROW_ORACLE(name, ...) &detail::apply<Formula<Elementwise::name>>,
#define WINDROW_UNARY WINDROW_ORACLE
#define WINDROW_BINARY WINDROW_ORACLE
#define WINDROW_TERNARY WINDROW_ORACLE
#define WINDROW_QUINARY WINDROW_ORACLE
#define WINDROW_COMPARE WINDROW_ORACLE
#define WINDROW_LOGIC WINDROW_ORACLE
#include "windrow/elementwise.def"
#undef WINDROW_ORACLE
  };
  return functions[static_cast<int>(op)](operands);
}

}  // namespace wr::ops
