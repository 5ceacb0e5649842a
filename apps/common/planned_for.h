// What the plans of a training run were made for, as a checkpoint names it: with that, a resumed run is the
// uninterrupted one bit for bit, wherever it goes on. Uses the public headers.
#pragma once

#include <string>

#include "windrow/checkpoint.h"
#include "windrow/machine.h"

namespace wr::apps {

/// What a run goes on with. As it stands: plans as this machine has them.
struct Resumed {
  PlannedFor plan = {};
  /// Of a checkpoint whose SIMD target is not to be had here, or not named: why the run is not the uninterrupted one
  /// bit for bit. The plans are then made for this machine.
  std::string difference = {};
};

/// From what write_plan wrote.
Resumed resumed(const Metadata& metadata, const std::string& path);
/// From a file, if one is named.
Resumed resumed(const std::string& path);
void write_plan(Metadata& metadata, const Step& step);

CompileOptions compile_options(const std::string& name, int threads, const PlannedFor& plan);

}  // namespace wr::apps
