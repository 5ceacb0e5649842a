// A plan as a device runs it: flat lists of calls. Every pointer is a base plus a fixed offset plus the first row times
// a fixed advance, and in a loop the turn times a fixed step; nothing is decided while running. Which kernel a call is,
// the device knows by number.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lower/view.h"

namespace wr::lower {

struct Operand {
  int base = 0;
  std::int64_t offset = 0;   // bytes
  std::int64_t advance = 0;  // bytes a row
  std::int64_t inner = 0;    // bytes a row of the strip, in values that stand in scratch for the strip alone
  std::int64_t step = 0;     // bytes a turn of the loop that the call is in
};

struct Call {
  int kernel = -1;        // of the device's
  int operands = 0;       // they stand beside the calls, one call's after the other's
  int node = -1;          // of the schedule's graph: the one whose results the call makes, or helps to make
  const char* name = "";  // of the kernel, for people
  int inside = -1;        // of the body of the node's, where that is a loop
};

/// What a call touches, for people and profiles. It stands beside the calls: running never reads it.
struct CallCost {
  std::int64_t scratch_bytes = 0;  // of operands in the lane's scratch
  std::int64_t whole_bytes = 0;    // of operands that are the same for every strip, such as weights
  std::int64_t strip_bytes = 0;    // of operands of which each strip has its own part
  std::int64_t live_bytes = 0;     // scratch that holds something while the call runs
};

struct CallList {
  std::vector<Call> calls;
  std::vector<Operand> operands;
  std::vector<CallCost> costs;  // by call
};

/// Calls of a region for a certain number of rows: a strip, or a block of a strip's rows that stays in L1.
struct Code : CallList {
  std::int64_t rows = 0;
  int region = -1;  // -1: the values a lane computes for itself at the start of a phase
};

/// A code and the rows it is for.
struct Piece {
  int code = -1;
  std::int64_t row0 = 0;   // of the region
  std::int64_t inner = 0;  // the same counted from the strip's first row
  /// Of the first piece of a loop: so many pieces, this one among them, one after the other, and that so many times.
  int span = 1;
  std::int64_t turns = 1;
};

/// Calls f(piece, turn) for each piece as often as it is run, in that order.
template <class F>
void for_each_run(const std::vector<Piece>& pieces, F f) {
  for (std::size_t i = 0; i < pieces.size(); i += static_cast<std::size_t>(pieces[i].span))
    for (std::int64_t turn = 0; turn < pieces[i].turns; ++turn)
      for (int k = 0; k < pieces[i].span; ++k) f(pieces[i + static_cast<std::size_t>(k)], turn);
}

struct Program {
  int lanes = 1;
  std::vector<Code> codes;
  std::vector<std::vector<std::vector<Piece>>> pieces;  // [phase][lane], strip by strip
  std::size_t scratch_bytes = 0;                        // a lane
  std::size_t scratch_lower_bound = 0;                  // the most that is live at once
  std::size_t partial_bytes = 0;                        // a lane
  std::size_t arena_bytes = 0;
  std::size_t arena_lower_bound = 0;
  /// Copied by the caller after the last phase: new values of states and outputs that had no strip of their own.
  CallList commits;
  int bases = 0;
  std::vector<int> input_base, state_base, constant_base, output_base;  // by position
  std::vector<std::shared_ptr<const Array>> constants;                  // what constant_base is for
};

}  // namespace wr::lower
