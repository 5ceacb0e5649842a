// From graph to schedule: which values are computed together, along which axis they are cut into strips, which lane
// takes which rows, and where values live that outlast their strip. Knows nothing of kernels.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/machine.h"
#include "ir/graph.h"
#include "plan/cut.h"

namespace wr::plan {

struct Member {
  int node;
  Cut cut;  // of the node's value into the region's strips
};

/// Values computed strip by strip: one lane takes some rows through all members before it goes on.
struct Region {
  std::int64_t extent = 1;  // rows
  std::int64_t strip = 1;   // rows a strip
  bool flat = false;
  std::vector<Member> members;  // in order of execution
  int first_lane = 0;           // lane first_lane + i takes rows [row_begin[i], row_begin[i+1])
  std::vector<std::int64_t> row_begin;
  double work_ns = 0;  // estimate, one core
  int lanes() const { return static_cast<int>(row_begin.size()) - 1; }
};

/// Regions that need nothing of one another; a barrier follows.
struct Phase {
  std::vector<int> shared;  // small values that each lane computes for itself, in order
  std::vector<Region> regions;
};

enum class Home : std::uint8_t { strip, leaf, arena, state, output, view };

struct Placement {
  int phase = -1;
  int region = -1;
  Cut cut;
  Home home = Home::strip;
  int index = -1;      // of the state or output that is its home
  bool whole = false;  // somebody outside its strips reads it
  int into = -1;       // a total that is added to another total's accumulator instead of its own
};

/// Left to the caller's thread after the last phase.
struct Commit {
  int node;
  Home home;  // state or output
  int index;
};

struct Options {
  Machine machine;  // that the plan is for
  int lanes = 0;    // 0: chosen
};

struct Schedule {
  std::shared_ptr<const ir::Graph> graph;  // the given one, with lane_sum nodes after totals
  int lanes = 1;
  std::vector<Phase> phases;
  std::vector<Placement> place;  // by node
  std::vector<Commit> commits;
  std::vector<int> states;  // state nodes, in order of Home::state's index
  std::size_t block_bytes = 0;
  double estimate_ns = 0;
  std::string machine;  // the name of the one it is for
  std::string form;     // how it was made, for people and for who remembers it: "strips along class 3, 2 lanes"
};

/// The one that is estimated to be fastest.
Schedule schedule(const ir::Graph& graph, const Options& options);
/// The best few, the best first.
std::vector<Schedule> schedules(const ir::Graph& graph, const Options& options, std::size_t most);

/// Floating-point operations of one evaluation of a node, and a rough estimate of its time on one core.
double flops(const ir::Graph& graph, int node);
double work_ns(const ir::Graph& graph, int node, const Machine& machine);
/// All products at full speed on one core: no schedule of one lane is faster.
double arithmetic_ns(const ir::Graph& graph, const Machine& machine);
/// Of the node's whole value.
double bytes_of(const ir::Graph& graph, int node);

}  // namespace wr::plan
