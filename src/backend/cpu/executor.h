// Runs a program: memory for its values, a table of bases for each lane, and the phases.
#pragma once

#include <memory>
#include <vector>

#include "backend/cpu/pace.h"
#include "backend/cpu/program.h"
#include "backend/cpu/recorder.h"

namespace wr::cpu {

class Executor {
 public:
  explicit Executor(Program program);

  const Program& program() const { return program_; }
  /// Points a base (input, state, constant, output) at memory, for all lanes.
  void bind(int base, void* memory) noexcept;
  /// Starts what threads a run of that many needs.
  void reserve_threads(int threads);
  /// On at most that many threads.
  void run(int threads) noexcept;
  /// Writes down where the time of the runs to come goes, from nothing; or stops and forgets.
  void record(bool on);
  Recorder* recorder() { return recorder_.get(); }
  const Recorder* recorder() const { return recorder_.get(); }

 private:
  struct Free {
    void operator()(void* p) const;
  };
  using Memory = std::unique_ptr<char, Free>;
  static Memory allocate(std::size_t bytes);

  // The loop exists twice: profiling costs nothing where it is off.
  template <bool kRecord>
  static void body(void* self, int member, int members);
  template <bool kRecord>
  void run_lane(std::size_t phase, int lane) noexcept;
  template <bool kRecord>
  void run_team(int members) noexcept;
  template <bool kRecord>
  static std::uint64_t* run_instrs(const std::vector<Instr>& instrs, char* const* bases, std::int64_t row0,
                                   std::int64_t inner, std::uint64_t* time) noexcept;

  Program program_;
  Pace pace_;
  Memory scratch_, partials_, arena_;
  std::vector<char*> bases_;  // [lane][base]
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace wr::cpu
