// A plan as the CPU runs it: flat lists of kernel calls. Every pointer is a base plus a fixed offset plus the first row
// times a fixed advance; nothing is decided while running.
#pragma once

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

#include "backend/cpu/kernel.h"
#include "plan/schedule.h"

namespace wr::cpu {

/// Bases every lane has; those of arguments, states, constants and outputs follow.
enum Base : int { kScratch = 0, kPartial = 1, kArena = 2, kPartials = 3, kFirstLeaf = 4 };

struct Operand {
  int base = 0;
  std::int64_t offset = 0;   // bytes
  std::int64_t advance = 0;  // bytes a row
  std::int64_t inner = 0;    // bytes a row of the strip, in values that stand in scratch for the strip alone
};

struct Instr {
  using Fn = void (*)(const void* params, void* const* ptr, std::int64_t row0);
  Fn fn = nullptr;
  const void* params = nullptr;
  int operands = 0;
  Operand operand[kMaxOperands];
  int node = -1;            // of the schedule's graph
  int also = -1;            // a second node that the call makes
  const char* kernel = "";  // for people
};

/// What a call touches, for people and profiles. It stands beside the instrs: running never reads it.
struct CallCost {
  std::int64_t scratch_bytes = 0;  // of operands in the lane's scratch
  std::int64_t whole_bytes = 0;    // of operands that are the same for every strip, such as weights
  std::int64_t strip_bytes = 0;    // of operands of which each strip has its own part
  std::int64_t live_bytes = 0;     // scratch that holds something while the call runs
};

/// Kernel calls of a region for a certain number of rows: a strip, or a block of a strip's rows that stays in L1.
struct Code {
  std::vector<Instr> instrs;
  std::vector<CallCost> costs;  // by instr
  std::int64_t rows = 0;
  int region = -1;  // -1: the values a lane computes for itself at the start of a phase
};

/// A code and the rows it is for.
struct Piece {
  int code;
  std::int64_t row0;       // of the region
  std::int64_t inner = 0;  // the same counted from the strip's first row
};

struct Program {
  Target target{};
  int lanes = 1;
  std::vector<Code> codes;
  std::vector<std::vector<std::vector<Piece>>> pieces;  // [phase][lane], strip by strip
  std::size_t scratch_bytes = 0;                        // a lane
  std::size_t scratch_lower_bound = 0;                  // the most that is live at once
  std::size_t partial_bytes = 0;                        // a lane
  std::size_t arena_bytes = 0;
  std::size_t arena_lower_bound = 0;
  /// Copied by the caller after the last phase: new values of states and outputs that had no strip of their own.
  std::vector<Instr> commits;
  std::vector<CallCost> commit_costs;
  int bases = 0;
  std::vector<int> input_base, state_base, constant_base, output_base;  // by position; constants by order of nodes
  std::vector<int> constants;                                           // nodes
  std::shared_ptr<std::pmr::monotonic_buffer_resource> params;
};

/// Chooses kernels and memory for every strip. The schedule must outlive nothing: the program holds all it needs.
Program lower(const plan::Schedule& schedule, Target target);

}  // namespace wr::cpu
