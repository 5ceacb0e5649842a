// The table of all ops, put together from the families.
#include <array>
#include <cstdlib>
#include <string_view>
#include <unordered_map>

#include "ops/define.h"

namespace wr::ir {
namespace {

using Table = std::array<const OpDef*, kOps>;

const Table& table() {
  static const Table ops = [] {
    Table t{};
    for (auto family : {ops::elementwise_ops(), ops::update_ops(), ops::leaf_ops(), ops::reduce_ops(),
                        ops::einsum_ops(), ops::contract_ops(), ops::shape_ops(), ops::index_ops(), ops::window_ops(),
                        ops::conv_ops(), ops::gate_ops(), ops::recurrent_ops(), ops::row_ops(), ops::attention_ops(),
                        ops::random_ops(), ops::control_ops(), ops::scan_ops()})
      for (const OpDef& def : family) t[static_cast<std::size_t>(def.op)] = &def;
    for (const OpDef* def : t)
      if (!def) std::abort();  // an op in the enum that no family defines
    return t;
  }();
  return ops;
}

}  // namespace

const OpDef& definition(Op op) { return *table()[static_cast<std::size_t>(op)]; }

const OpDef* find_op(std::string_view name) {
  static const auto names = [] {
    std::unordered_map<std::string_view, const OpDef*> by_name;
    for (const OpDef* def : table()) by_name[def->name] = def;
    return by_name;
  }();
  auto it = names.find(name);
  return it == names.end() ? nullptr : it->second;
}

}  // namespace wr::ir

namespace wr::ops {

int normalise_axis(int axis, int rank, const char* op, Location where) {
  if (axis < -rank || axis >= rank)
    fail(where,
         std::string(op) + ": axis " + std::to_string(axis) + " is out of range for rank " + std::to_string(rank));
  return axis < 0 ? axis + rank : axis;
}

void refuse_as(std::string_view op, Location where, const Error& error) {
  std::string_view rest = error.what();
  // Takes "train.cpp:42" or the name of a part off the front, if it stands there.
  auto take = [&](auto&& is_it) {
    const auto end = rest.find(": ");
    const bool there = end != std::string_view::npos && is_it(rest.substr(0, end));
    if (there) rest.remove_prefix(end + 2);
    return there;
  };
  const std::string line = to_string(where);
  const bool here = take([&](std::string_view front) { return front == line; });
  const bool elsewhere = !here && rest.find(' ') > rest.find(": ");  // the line of another call, such as a gradient's
  if (elsewhere) throw error;
  take([](std::string_view front) { return front.find_first_of(" '") == std::string_view::npos; });
  fail(where, std::string(op) + ": " + std::string(rest));
}

}  // namespace wr::ops
