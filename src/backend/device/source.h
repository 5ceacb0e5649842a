// A lowered program as one source text: a kernel a phase, work-group = lane, strips inside.
#pragma once

#include <string>
#include <vector>

#include "backend/device/kernels.h"
#include "lower/program.h"

namespace wr::device {

/// Pieces of device memory by number. Arguments, constants and results stand one behind the other in a piece each;
/// every state has its own, since steps share them.
enum Slot : int { kScratch, kPartials, kArena, kTables, kConstants, kInputs, kOutputs, kFirstState };

/// Where a base of the program stands.
struct Home {
  int slot = 0;
  std::size_t offset = 0, bytes = 0;
};

struct Launch {
  std::string kernel;
  int groups = 1, items = 1;
  std::vector<int> slots;  // its arguments, in order
  int phase = -1;          // -1: what a caller would copy
  // Of a phase, where the tables say which pieces a lane has (from begins[lane] to begins[lane + 1]), and the pieces,
  // of kPieceNumbers each: a code, its first row, that row in the strip, the turn.
  std::int64_t begins = -1, pieces = -1;
  static constexpr std::int64_t kPieceNumbers = 4;
};

struct Source {
  std::string text;
  std::vector<Launch> launches;  // the phases in order, then what a caller would copy
  std::vector<std::int32_t> tables;
  std::vector<Home> homes;         // by base; of those that are leaves
  std::vector<std::size_t> bytes;  // by slot
};

/// The kernels are those that the program was lowered with.
Source write_source(const lower::Program& program, Kernels& kernels, const ir::Graph& graph,
                    const std::vector<int>& states);

}  // namespace wr::device
