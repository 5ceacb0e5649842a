// The CPU's answer to lowering: which kernels make a node's results, with what parameters and scratch.
#pragma once

#include <map>
#include <memory_resource>
#include <new>
#include <type_traits>
#include <vector>

#include "backend/cpu/kernel.h"
#include "base/machine.h"
#include "lower/kernels.h"

namespace wr::cpu {

/// Destinations, inputs and scratch of any call.
inline constexpr int kMostOperands = 16;

/// The kernels that a program's calls have by number. Parameters and tables live as long as this does.
class Kernels final : public lower::Kernels {
 public:
  using Function = void (*)(const void* params, void* const* ptr, std::int64_t row0);
  struct Bound {
    Function function;
    const void* params;
  };

  Kernels(Target target, const Machine& machine) : target_(target), machine_(machine) {}
  Target target() const { return target_; }
  const Machine& machine() const { return machine_; }
  void make(const lower::Work& work, lower::Emitter& emit) override;
  void copy(const lower::View& to, const lower::View& from, lower::Emitter& emit) override;
  const Bound& operator[](int number) const { return bound_[number]; }

  /// A kernel with its parameters as a number for the program.
  template <class Params>
  int bind(void (*kernel)(const Params&, void* const*, std::int64_t), const Params& params) {
    struct Both {
      void (*kernel)(const Params&, void* const*, std::int64_t);
      Params params;
    };
    static_assert(std::is_trivially_destructible_v<Both>);
    const auto* both = new (memory_.allocate(sizeof(Both), alignof(Both))) Both{kernel, params};
    bound_.push_back({[](const void* p, void* const* ptr, std::int64_t row0) {
                        const auto& b = *static_cast<const Both*>(p);
                        b.kernel(b.params, ptr, row0);
                      },
                      both});
    return static_cast<int>(bound_.size()) - 1;
  }

  /// A table of numbers that kernels read; equal ones are one.
  const std::int32_t* keep(const std::vector<std::int32_t>& numbers);

 private:
  Target target_;
  Machine machine_;  // that the plan is for
  std::pmr::monotonic_buffer_resource memory_;
  std::map<std::vector<std::int32_t>, const std::int32_t*> tables_;
  std::vector<Bound> bound_;
};

}  // namespace wr::cpu
