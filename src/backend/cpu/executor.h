// Runs a program on the CPU: memory for its values, a table of bases for each lane, and the phases.
#pragma once

#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/kernels.h"
#include "backend/cpu/pace.h"

namespace wr::cpu {

class Executor final : public backend::Executor {
 public:
  /// The kernels are those that the program was lowered with.
  Executor(lower::Program program, std::unique_ptr<Kernels> kernels);

  const lower::Program& program() const override { return program_; }
  std::string_view target() const override { return name_of(kernels_->target()); }
  void bind(int base, void* memory) noexcept override;
  void reserve_threads(int threads) override;
  void run(int threads) noexcept override;
  void record(bool on) override;
  backend::Recorder* recorder() override { return recorder_.get(); }

 private:
  struct Free {
    void operator()(void* p) const;
  };
  using Memory = std::unique_ptr<char, Free>;
  static Memory allocate(std::size_t bytes);

  /// A list of calls with their kernels.
  struct Instr {
    Kernels::Function function;
    const void* params;
    int operands;
  };
  struct Bound {
    std::vector<Instr> instrs;
    std::vector<lower::Operand> operands;
  };
  Bound bound(const lower::CallList& list) const;

  // The loop exists twice: profiling costs nothing where it is off.
  template <bool kRecord>
  static void body(void* self, int member, int members);
  template <bool kRecord>
  void run_lane(std::size_t phase, int lane) noexcept;
  template <bool kRecord>
  void run_team(int members) noexcept;
  /// `distance` is that of an operand from its base.
  template <bool kRecord, class Distance>
  static std::uint64_t* run_calls(const Bound& calls, char* const* bases, std::int64_t row0, Distance distance,
                                  std::uint64_t* time) noexcept;

  lower::Program program_;
  std::unique_ptr<Kernels> kernels_;
  std::vector<Bound> codes_;
  Bound commits_;
  Pace pace_;
  Memory scratch_, partials_, arena_;
  std::vector<char*> bases_;  // [lane][base]
  std::unique_ptr<backend::Recorder> recorder_;
};

}  // namespace wr::cpu
