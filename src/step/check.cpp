#include "step/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <optional>

#include "ir/elsewhere.h"
#include "step/inside.h"
#include "windrow/text.h"

namespace wr {
namespace {

using ir::Op;

struct IndexUse {
  std::size_t operand;
  std::int64_t limit;
  bool labels = false;
};

/// Which operand of a node holds indices, and what they must be below.
std::optional<IndexUse> index_use(const ir::Graph& g, const ir::Node& n) {
  const auto size = [&](std::size_t operand, std::int64_t axis) {
    return g[n.inputs[operand]].spec.shape[static_cast<int>(axis)];
  };
  switch (n.op) {
    case Op::gather:
    case Op::scatter_add:
    case Op::take_along:
      return IndexUse{1, size(0, n.attrs.ints[0])};
    case Op::embedding_sum:
      return IndexUse{1, size(0, 0)};
    case Op::cross_entropy:
    case Op::cross_entropy_grad:
      return IndexUse{1, g[n.inputs[0]].spec.shape.back(), true};
    case Op::put_along:
      return IndexUse{0, n.attrs.ints[1]};
    case Op::one_hot:
    case Op::embedding_grad:
      return IndexUse{0, n.attrs.ints[0]};
    default:
      return std::nullopt;
  }
}

/// The argument whose elements a value has, all of them, in whatever order; or -1.
std::int64_t argument_behind(const ir::Graph& g, int id) {
  while (g[id].op == Op::reshape || g[id].op == Op::permute || g[id].op == Op::broadcast) id = g[id].inputs[0];
  return g[id].op == Op::input ? g[id].attrs.ints[0] : -1;
}

std::string op_text(const ir::Node& n) {
  return fmt::format("{}{} ({})", n.gradient ? "the gradient of " : "", ir::definition(n.op).name, to_string(n.where));
}

std::string row_text(const Shape& shape, std::int64_t element) {
  if (shape.rank() == 0) return "";
  const std::int64_t a_row = std::max<std::int64_t>(shape.count() / std::max<std::int64_t>(shape[0], 1), 1);
  return fmt::format(" in row {}", element / a_row);
}

enum class Look { for_nan, for_any };

/// The first element that is not finite, or -1.
template <class T>
std::int64_t first_bad(const T* values, std::int64_t count, Look look) {
  for (std::int64_t i = 0; i < count; ++i)
    if (look == Look::for_nan ? std::isnan(values[i]) : !std::isfinite(values[i])) return i;
  return -1;
}

std::int64_t first_bad(const Array& a, Look look) {
  if (a.count() == 0) return -1;
  const void* values = detail::ArrayAccess::read(a);
  if (a.dtype() == DType::f32) return first_bad(static_cast<const float*>(values), a.count(), look);
  if (a.dtype() == DType::f64) return first_bad(static_cast<const double*>(values), a.count(), look);
  return -1;
}

double element(const Array& a, std::int64_t i) {
  const void* values = detail::ArrayAccess::read(a);
  return text::shown(a.dtype() == DType::f32 ? double{static_cast<const float*>(values)[i]}
                                             : static_cast<const double*>(values)[i]);
}

}  // namespace

bool is_checked(const CompileOptions& options, const ir::Graph& graph) {
  if (options.check) return *options.check;
  if (const char* text = std::getenv("WINDROW_CHECK")) return *text != '\0' && std::string_view(text) != "0";
#ifdef NDEBUG
  static_cast<void>(graph);
  return false;
#else
  return !graph.updates.empty();
#endif
}

void ArgumentIndices::find(const ir::Graph& g, Which which) {
  indices_.clear();
  for (int id = 0; id < g.size(); ++id) {
    const auto use = index_use(g, g[id]);
    if (!use || (which == Which::labels && !use->labels)) continue;
    const std::int64_t argument = argument_behind(g, g[id].inputs[use->operand]);
    if (argument < 0) continue;
    const auto same = [&](const Index& i) {
      return i.argument == static_cast<std::size_t>(argument) && i.limit <= use->limit;
    };
    if (std::none_of(indices_.begin(), indices_.end(), same))
      indices_.push_back({static_cast<std::size_t>(argument), use->limit, op_text(g[id])});
  }
}

std::string ArgumentIndices::complaint(std::span<const Array* const> arguments) const {
  for (const Index& index : indices_) {
    const Array& a = *arguments[index.argument];
    if (a.count() == 0) continue;
    const std::span values(static_cast<const std::int32_t*>(detail::ArrayAccess::read(a)),
                           static_cast<std::size_t>(a.count()));
    const auto bad = [limit = static_cast<std::uint32_t>(std::min<std::int64_t>(index.limit, INT32_MAX))](
                         std::int32_t value) { return static_cast<std::uint32_t>(value) >= limit; };
    bool some = false;  // without a branch: this is a vector loop
    for (const std::int32_t value : values) some |= bad(value);
    if (!some) continue;
    const auto first = std::find_if(values.begin(), values.end(), bad);
    return fmt::format("argument {} has {}{}, but {} takes an index from 0 to {}", index.argument, *first,
                       row_text(a.shape(), first - values.begin()), index.reader, index.limit - 1);
  }
  return {};
}

Checker::Checker(std::shared_ptr<const ir::Graph> graph) : graph_(std::move(graph)) {
  const ir::Graph& g = *graph_;
  for (int id = 0; id < g.size(); ++id)
    if (g[id].op == Op::state) variables_.push_back(g[id].variable);
  for (const auto& v : variables_) before_.push_back(Array::zeros(v->spec.shape, v->spec.dtype));
}

void Checker::remember() {
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    ir::bring_home(*variables_[i]);
    before_[i].copy_from(variables_[i]->value);
  }
}

bool Checker::spoilt(std::span<const Array> results) {
  bool bad = false;
  not_a_number_ = false;
  const auto look = [&](const Array& a) {
    if (first_bad(a, Look::for_any) < 0) return;
    bad = true;
    not_a_number_ = not_a_number_ || first_bad(a, Look::for_nan) >= 0;
  };
  for (const Array& a : results) look(a);
  for (const auto& v : variables_) {
    ir::bring_home(*v);
    look(v->value);
  }
  for (std::size_t i = 0; bad && i < variables_.size(); ++i) {
    variables_[i]->value.copy_from(before_[i]);
    ir::changed_at_home(*variables_[i]);
  }
  return bad;
}

void Checker::blame(std::span<const Array* const> arguments, Location where) const {
  // An infinity may be there on purpose, as in a mask; where a NaN came out, the first NaN is to blame.
  const Look look = not_a_number_ ? Look::for_nan : Look::for_any;
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (const auto at = first_bad(*arguments[i], look); at >= 0)
      fail(where, fmt::format("check: argument {} is {}{}", i, element(*arguments[i], at),
                              row_text(arguments[i]->shape(), at)));
  for (std::size_t i = 0; i < variables_.size(); ++i)
    if (const auto at = first_bad(before_[i], look); at >= 0)
      fail(where, fmt::format("check: state '{}' was {}{} before the run", variables_[i]->name, element(before_[i], at),
                              row_text(before_[i].shape(), at)));
  auto everything = std::make_shared<ir::Graph>(*graph_);
  everything->updates.clear();
  everything->outputs.clear();
  for (int id = 0; id < everything->size(); ++id)
    if (!ir::is_leaf((*everything)[id].op) && is_floating((*everything)[id].spec.dtype))
      everything->outputs.push_back(id);
  CompileOptions options;
  options.lanes = options.threads = 1;
  options.check = false;
  options.device = "cpu";
  Step::Inside witness(everything, options, where);
  {
    const Turn::Hold turn(witness.turn);
    witness.bind(arguments);
    witness.bring_states_home();
    witness.run();
  }
  for (std::size_t i = 0; i < witness.outputs.size(); ++i)
    if (const auto at = first_bad(witness.outputs[i], look); at >= 0) {
      const ir::Node& n = (*everything)[everything->outputs[i]];
      fail(where, fmt::format("check: {} gives {}{} of {}, the first value that is not finite", op_text(n),
                              element(witness.outputs[i], at), row_text(n.spec.shape, at), to_string(n.spec)));
    }
  fail(where, "check: a result or a state is not finite, but computed op by op everything is");
}

}  // namespace wr
