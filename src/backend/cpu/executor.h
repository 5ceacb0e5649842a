// Runs a program: memory for its values, a table of bases for each lane, and the phases.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/program.h"

namespace wr::cpu {

class Executor {
 public:
  explicit Executor(Program program);

  const Program& program() const { return program_; }
  /// Points a base (input, state, constant, output) at memory, for all lanes.
  void bind(int base, void* memory) noexcept;
  /// Starts what threads a run of that many needs.
  void reserve_threads(int threads);
  void run(int threads) noexcept;

 private:
  struct Free {
    void operator()(void* p) const;
  };
  using Memory = std::unique_ptr<char, Free>;
  static Memory allocate(std::size_t bytes);

  static void body(void* self, int member, int members);
  void run_lane(std::size_t phase, int lane) noexcept;
  void run_instrs(const std::vector<Instr>& instrs, char* const* bases, std::int64_t row0, std::int64_t inner) noexcept;

  Program program_;
  Memory scratch_, partials_, arena_;
  std::vector<char*> bases_;  // [lane][base]
};

}  // namespace wr::cpu
