// How eager ops run: a plan for each op, attributes and types of operands, compiled when it is first needed.
#pragma once

#include <bit>
#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "windrow/ops.h"

namespace wr::eager {

/// What is fixed about an op besides its operands.
struct Call {
  const char* name;  // also tells plans apart: equal names are the same op
  Location where;
  /// An element of the result needs only the same element of each operand, and the plan is one kernel: it may run in
  /// place.
  bool elementwise = false;
  /// Numbers are part of the plan. Otherwise they are bound like arrays, so that a new number needs no new plan.
  bool constant_numbers = false;
  /// The first operand whose type the numbers take.
  int typed_from = 0;
};

/// Numbers and text that a plan is made for, as 64-bit words.
class Attribute {
 public:
  template <class N>
  requires(std::is_integral_v<N> || std::is_enum_v<N>) Attribute(N n)
      : word_(static_cast<std::uint64_t>(static_cast<std::int64_t>(n))) {}  // NOLINT
  Attribute(double n) : word_(std::bit_cast<std::uint64_t>(n)) {}           // NOLINT
  Attribute(const Dims& dims) : dims_(&dims) {}                             // NOLINT
  Attribute(std::string_view text) : text_(text), is_text_(true) {}         // NOLINT
  void append_to(std::vector<std::uint64_t>& key) const;

 private:
  std::uint64_t word_ = 0;
  const Dims* dims_ = nullptr;
  std::string_view text_;
  bool is_text_ = false;
};

/// A reference to the function that traces the op, called when there is no plan yet. Numbers come as constants or as
/// tensors without axes.
class Trace {
 public:
  using Operands = std::span<const Operand>;
  template <class F>
  Trace(const F& f)  // NOLINT(google-explicit-constructor)
      : object_(&f),
        call_([](const void* object, Operands in) -> Tensor { return (*static_cast<const F*>(object))(in); }) {}
  Tensor operator()(Operands in) const { return call_(object_, in); }

 private:
  const void* object_;
  Tensor (*call_)(const void*, Operands);
};

using Operands = std::span<const ArrayOperand>;
using Attributes = std::initializer_list<Attribute>;

void into(Array& dst, const Call& call, Operands operands, Attributes attributes, Trace trace);
Array value(const Call& call, Operands operands, Attributes attributes, Trace trace);

/// Of the calling thread's cache, for tests.
struct CacheFacts {
  std::size_t plans, bytes;
};
CacheFacts cache_facts();
inline constexpr std::size_t kMostPlans = 1024;

}  // namespace wr::eager
