// The machine that plans are made for: given by WINDROW_MACHINE, remembered from an earlier measurement, or measured.
#pragma once

#include <string>

#include "backend/cpu/target.h"
#include "base/machine.h"

namespace wr::cpu {

/// The machine this process plans for with kernels of a target. Found when first asked for, then fixed.
const Machine& machine(Target target);
inline const Machine& machine() { return machine(active_target()); }

struct KnownMachine {
  Machine machine;
  std::string origin;   // where it comes from, for people
  std::string problem;  // a file that could not be read or written; empty: none
};
/// The same with its history.
const KnownMachine& known_machine(Target target);

struct Measurement {
  Machine machine;
  bool disturbed;  // others used the cores meanwhile
};
/// Sizes from the system, rates by probes, in a fraction of a second on all cores of this process, busy or not.
/// Disturbed probes are repeated; nearer memory is never slower.
Measurement measure(Target target);

/// What machine() does, with the folder of the remembered measurements given: for tests. `again`: do not read, measure.
/// What was measured while others used the cores is remembered for an hour.
KnownMachine find_machine(Target target, const std::string& folder, bool again = false);
/// WINDROW_CACHE_DIR, else XDG_CACHE_HOME/windrow, else HOME/.cache/windrow; empty where there is none.
std::string cache_folder();

}  // namespace wr::cpu
