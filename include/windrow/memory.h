// A state's own memory, for front ends that share it with another library.
#pragma once

#include "windrow/array.h"
#include "windrow/tensor.h"

namespace wr {

/// A window on the state's memory: it sees what steps write, and steps see what is written to it. Not while a step that
/// uses the state runs.
Array memory_of(const State& state, Location where = Location::current());
/// A state whose memory is this window's, for example on another library's parameter: `Array::borrow(data, ...)`.
/// Whoever lends the memory keeps it alive, and in its place, as long as the state or a step that uses it.
State state_over(Array window, const std::string& name = "", Location where = Location::current());

}  // namespace wr
