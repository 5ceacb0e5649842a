// The rows of updates.def as something to iterate: an enum, a table of facts and the oracle in double. Their formulas
// are those of elementwise.def, put together as the rows say.
#pragma once

#include <array>

#include "ir/op.h"
#include "ops/formula.h"

namespace wr::ops {

/// One value a row, in the order of updates.def.
enum class Update : std::uint8_t {
#define WINDROW_UPDATE(name, ...) name,
#include "ir/updates.def"
};

/// Of an op that is an update, be it of all elements or of some rows.
constexpr Update update_of(ir::Op op) {
  return static_cast<Update>((static_cast<int>(op) - static_cast<int>(ir::Op::cast) - 1) % ir::kUpdates);
}

/// The facts of a row.
struct UpdateRow {
  std::string_view name, doc;
  int values = 0, numbers = 0;
  std::string_view operands, results;  ///< as they are written, separated by commas
  int result_count = 0;
  int cost = 0;  ///< about how many vector instructions the formulas take
  int ops = 0;   ///< of elementwise.def, that make up the results
};

/// The ops of elementwise.def as functions of a policy's numbers: what the rows are written in.
namespace parts {
#define WINDROW_UNARY(name, ...)                    \
  template <class T>                                \
  constexpr auto name(T a) {                        \
    return Formula<Elementwise::name>::evaluate(a); \
  }
#define WINDROW_BINARY(name, ...)                      \
  template <class T>                                   \
  constexpr auto name(T a, T b) {                      \
    return Formula<Elementwise::name>::evaluate(a, b); \
  }
#define WINDROW_TERNARY(name, ...)                        \
  template <class T>                                      \
  constexpr auto name(T a, T b, T c) {                    \
    return Formula<Elementwise::name>::evaluate(a, b, c); \
  }
#define WINDROW_QUINARY(name, ...)                              \
  template <class T>                                            \
  constexpr auto name(T a, T b, T c, T d, T e) {                \
    return Formula<Elementwise::name>::evaluate(a, b, c, d, e); \
  }
#include "windrow/elementwise.def"

template <Update>
struct Formulas;
#define OPERANDS(...) [__VA_ARGS__]
#define RESULTS(...) __VA_ARGS__
#define WINDROW_UPDATE(name, doc, values, numbers, operands, ...)                    \
  template <>                                                                        \
  struct Formulas<Update::name> {                                                    \
    static constexpr int kValues = values, kNumbers = numbers;                       \
    template <class T>                                                               \
    static constexpr auto evaluate(const std::array<T, kValues + kNumbers>& given) { \
      const auto& operands = given;                                                  \
      return std::to_array<T>({__VA_ARGS__});                                        \
    }                                                                                \
  };
#include "ir/updates.def"
#undef OPERANDS
#undef RESULTS
}  // namespace parts

namespace detail {

template <std::size_t n>
constexpr int total_cost(const std::array<Cost, n>& results) {
  int sum = 0;
  for (Cost c : results) sum += c.count;
  return sum;
}

/// The other results stand inside the first.
constexpr int ops_of_first(std::string_view results) {
  int ops = 0, open = 0;
  for (char c : results) {
    if (c == ',' && open == 0) break;
    ops += c == '(';
    open += c == '(' ? 1 : c == ')' ? -1 : 0;
  }
  return ops;
}

template <Update update>
constexpr UpdateRow make_update_row(std::string_view name, std::string_view doc, std::string_view operands,
                                    std::string_view results) {
  using F = parts::Formulas<update>;
  constexpr auto costs = F::evaluate(std::array<Cost, F::kValues + F::kNumbers>{});
  return {name,
          doc,
          F::kValues,
          F::kNumbers,
          operands,
          results,
          static_cast<int>(costs.size()),
          total_cost(costs),
          ops_of_first(results)};
}

#define OPERANDS(...) #__VA_ARGS__
#define RESULTS(...) #__VA_ARGS__
#define WINDROW_UPDATE(name, doc, values, numbers, operands, results) \
  make_update_row<Update::name>(#name, doc, operands, results),
inline constexpr UpdateRow kUpdateRows[] = {
#include "ir/updates.def"
};
#undef OPERANDS
#undef RESULTS

template <Update update>
void apply_update(const double* operands, double* results) {
  using F = parts::Formulas<update>;
  const auto given = [&]<std::size_t... k>(std::index_sequence<k...>) {
    return std::array<Real, sizeof...(k)>{Real(operands[k])...};
  }
  (std::make_index_sequence<F::kValues + F::kNumbers>());
  for (const Real& result : F::evaluate(given)) *results++ = result.value;
}

}  // namespace detail

constexpr std::span<const UpdateRow> update_rows() { return detail::kUpdateRows; }
constexpr const UpdateRow& row_of(Update update) { return detail::kUpdateRows[static_cast<int>(update)]; }

inline constexpr int kMaxUpdateOperands = 9, kMaxUpdateResults = 3;

/// The oracle: the row's results in double.
inline void evaluate(Update update, const double* operands, double* results) {
  using Function = void (*)(const double*, double*);
  static constexpr Function functions[] = {
#define WINDROW_UPDATE(name, ...) &detail::apply_update<Update::name>,
#include "ir/updates.def"
  };
  functions[static_cast<int>(update)](operands, results);
}

}  // namespace wr::ops
