// Circuits for other programs: as C, as JavaScript, as Verilog, as a drawing.
#pragma once

#include <string>
#include <vector>

#include "windrow/circuit.h"

namespace wr::apps {

/// A function `void name(const uint64_t* in, uint64_t* out)` that works on 64 cells at once.
std::string to_c(const logic::Circuit& circuit, const std::string& name);
/// A whole program round it: `program HEIGHT WIDTH STEPS SEED zero|wrap print|time|plain` runs a grid from a random
/// start and prints the states as lines of 0 and 1, channel by channel; or the cells a second; or those of a plain loop
/// that does one cell after the other (zero border), having checked that it gives the same.
std::string to_c_program(const logic::Circuit& circuit);
/// A function stepRow(rows, from, grid, to, words) on words of 32 cells: input channel c's rows above, at and below
/// begin at rows[3 * c][from[3 * c]] and so on, with a word of carry on both sides; output c goes to grid[to[c]] on.
std::string to_javascript(const logic::Circuit& circuit);
/// A module `name` with ports in and out.
std::string to_verilog(const logic::Circuit& circuit, const std::string& name);
/// A drawing: inputs on the left, gates in layers by depth, in colours by kind, with a legend.
std::string to_svg(const logic::Circuit& circuit, const std::vector<std::string>& input_names,
                   const std::string& title);

}  // namespace wr::apps
