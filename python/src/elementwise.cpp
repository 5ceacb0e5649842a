// Every row of elementwise.def as a function, and the operators of Array and Tensor made of them. An op with a Tensor
// or a State among its operands is traced; otherwise it computes at once.

#include <cstring>
#include <deque>

#include "casters.h"

namespace wr::python {
namespace {

using namespace nb::literals;

struct Row {
  const char *name, *doc;
  int operands;
  Tensor (*traced)(const Operand* o);
  Array (*eager)(const ArrayOperand* o);
  void (*into)(Array& out, const ArrayOperand* o);
};

#define ROW_1(op, doc)                                                    \
  {#op,                                                                   \
   doc,                                                                   \
   1,                                                                     \
   [](const Operand* o) { return wr::op(o[0].tensor, o[0].where); },      \
   [](const ArrayOperand* o) { return wr::op(*o[0].array, o[0].where); }, \
   [](Array& out, const ArrayOperand* o) { wr::op(out, *o[0].array, o[0].where); }},
#define ROW_2(op, doc)                                              \
  {#op,                                                             \
   doc,                                                             \
   2,                                                               \
   [](const Operand* o) { return wr::op(o[0], o[1]); },             \
   [](const ArrayOperand* o) { return wr::eager::op(o[0], o[1]); }, \
   [](Array& out, const ArrayOperand* o) { wr::op(out, o[0], o[1]); }},
#define ROW_3(op, doc)                                                    \
  {#op,                                                                   \
   doc,                                                                   \
   3,                                                                     \
   [](const Operand* o) { return wr::op(o[0], o[1], o[2]); },             \
   [](const ArrayOperand* o) { return wr::eager::op(o[0], o[1], o[2]); }, \
   [](Array& out, const ArrayOperand* o) { wr::op(out, o[0], o[1], o[2]); }},
#define ROW_5(op, doc)                                                                \
  {#op,                                                                               \
   doc,                                                                               \
   5,                                                                                 \
   [](const Operand* o) { return wr::op(o[0], o[1], o[2], o[3], o[4]); },             \
   [](const ArrayOperand* o) { return wr::eager::op(o[0], o[1], o[2], o[3], o[4]); }, \
   [](Array& out, const ArrayOperand* o) { wr::op(out, o[0], o[1], o[2], o[3], o[4]); }},

const Row kRows[] = {
#define WINDROW_UNARY(op, types, doc, ...) ROW_1(op, doc)
#define WINDROW_BINARY(op, types, doc, ...) ROW_2(op, doc)
#define WINDROW_TERNARY(op, types, doc, ...) ROW_3(op, doc)
#define WINDROW_QUINARY(op, types, doc, ...) ROW_5(op, doc)
#define WINDROW_COMPARE(op, doc, ...) ROW_2(op, doc)
#define WINDROW_LOGIC(op, doc, ...) ROW_2(op, doc)
#include "windrow/elementwise.def"
};

nb::object call(const Row& row, const nb::handle* operands, nb::handle out) {
  const Location where = here();
  bool traced = false, arrays = false;
  for (int i = 0; i < row.operands; ++i) {
    traced |= is_traced(operands[i]);
    arrays |= !is_number(operands[i]);
  }
  if (!arrays) throw nb::type_error((std::string(row.name) + ": all operands are numbers; use Python's math").c_str());
  if (traced) {
    refuse_out(out, row.name);
    std::vector<Operand> o;
    for (int i = 0; i < row.operands; ++i) o.push_back(operand_from(operands[i], where));
    if (row.operands == 1 && o[0].is_number) throw nb::type_error("a number is no tensor");
    return nb::cast(row.traced(o.data()));
  }
  std::deque<ArrayIn> held;
  std::vector<ArrayOperand> o;
  for (int i = 0; i < row.operands; ++i) {
    if (is_number(operands[i]))
      o.emplace_back(number_from(operands[i]), where);
    else
      o.emplace_back(held.emplace_back(operands[i], row.name).get(), where);
  }
  if (Array* into = out_from(out)) {
    row.into(*into, o.data());
    return nb::borrow(out);
  }
  return nb::cast(row.eager(o.data()));
}

const Row& row_named(const char* name) {
  for (const Row& row : kRows)
    if (std::strcmp(row.name, name) == 0) return row;
  throw nb::key_error(name);
}

struct Symbol {
  const char *name, *reverse, *op;  // reverse: nullptr for comparisons, which Python turns round itself
};
constexpr Symbol kSymbols[] = {
    {"__add__", "__radd__", "add"},      {"__sub__", "__rsub__", "sub"},
    {"__mul__", "__rmul__", "mul"},      {"__truediv__", "__rtruediv__", "div"},
    {"__pow__", "__rpow__", "pow"},      {"__and__", "__rand__", "logical_and"},
    {"__or__", "__ror__", "logical_or"}, {"__xor__", "__rxor__", "logical_xor"},
    {"__lt__", nullptr, "lt"},           {"__le__", nullptr, "le"},
    {"__gt__", nullptr, "gt"},           {"__ge__", nullptr, "ge"},
};
constexpr Symbol kEquality[] = {{"__eq__", nullptr, "eq"}, {"__ne__", nullptr, "ne"}};

void bind_symbol(nb::handle type, const Symbol& symbol) {
  const char* op = symbol.op;
  nb::setattr(type, symbol.name,
              nb::cpp_function([op](nb::handle a, nb::handle b) { return elementwise(op, a, b); }, nb::scope(type),
                               nb::name(symbol.name), nb::is_method(), nb::is_operator()));
  if (!symbol.reverse) return;
  nb::setattr(type, symbol.reverse,
              nb::cpp_function([op](nb::handle a, nb::handle b) { return elementwise(op, b, a); }, nb::scope(type),
                               nb::name(symbol.reverse), nb::is_method(), nb::is_operator()));
}

void bind_operators(nb::handle type) {
  for (const Symbol& symbol : kSymbols) bind_symbol(type, symbol);
  for (const auto& [name, op] : {std::pair{"__neg__", "neg"}, {"__abs__", "abs"}})
    nb::setattr(type, name,
                nb::cpp_function([op = op](nb::handle x) { return elementwise(op, x); }, nb::scope(type),
                                 nb::name(name), nb::is_method()));
  nb::setattr(type, "__array_ufunc__", nb::none());  // numpy leaves mixed expressions to us
}

}  // namespace

nb::object elementwise(const char* name, nb::handle a, nb::handle b) {
  const nb::handle operands[] = {a, b};
  if (std::strcmp(name, "pow") == 0 && is_number(b) && !is_number(a)) {
    // pow() is for positive bases; small whole powers are products and take any base.
    const double power = number_from(b);
    if (power == 2) return elementwise("square", a);
    if (power == 1) return nb::borrow(a);
    if (power == 3) return elementwise("mul", elementwise("square", a), a);
    if (power == 4) return elementwise("square", elementwise("square", a));
    if (power == -1) return elementwise("reciprocal", a);
    if (power == 0.5) return elementwise("sqrt", a);
  }
  return call(row_named(name), operands, nb::none());
}

nb::object elementwise(const char* name, nb::handle x) { return call(row_named(name), &x, nb::none()); }

void bind_elementwise(nb::module_& m) {
  for (const Row& row : kRows) {
    const Row* r = &row;
    const nb::object none = nb::none();
    switch (row.operands) {
      case 1:
        m.def(
            row.name, [r](nb::handle x, nb::handle out) { return call(*r, &x, out); }, "x"_a, nb::kw_only(),
            "out"_a.none() = none, row.doc);
        break;
      case 2:
        m.def(
            row.name,
            [r](nb::handle a, nb::handle b, nb::handle out) {
              const nb::handle o[] = {a, b};
              return call(*r, o, out);
            },
            "a"_a, "b"_a, nb::kw_only(), "out"_a.none() = none, row.doc);
        break;
      case 3:
        m.def(
            row.name,
            [r](nb::handle a, nb::handle b, nb::handle c, nb::handle out) {
              const nb::handle o[] = {a, b, c};
              return call(*r, o, out);
            },
            "a"_a, "b"_a, "c"_a, nb::kw_only(), "out"_a.none() = none, row.doc);
        break;
      default:
        m.def(
            row.name,
            [r](nb::handle a, nb::handle b, nb::handle c, nb::handle d, nb::handle e, nb::handle out) {
              const nb::handle o[] = {a, b, c, d, e};
              return call(*r, o, out);
            },
            "a"_a, "b"_a, "c"_a, "d"_a, "e"_a, nb::kw_only(), "out"_a.none() = none, row.doc);
    }
  }
  for (nb::handle type : {nb::type<Array>(), nb::type<Tensor>(), nb::type<State>()}) bind_operators(type);
  for (nb::handle type : {nb::type<Array>(), nb::type<Tensor>()}) {  // a State equals itself alone: it may be a key
    for (const Symbol& symbol : kEquality) bind_symbol(type, symbol);
    nb::setattr(type, "__hash__", nb::none());
  }
}

}  // namespace wr::python
