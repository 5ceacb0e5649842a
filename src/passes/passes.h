// Passes: each reads a graph and builds another that computes the same. Equal expressions become one node on the way,
// as the graph interns its nodes; nodes keep their order, which is the order of execution, and inputs their positions.
#pragma once

#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace wr::passes {

/// Ops on constants become constants, if they are small.
std::shared_ptr<ir::Graph> fold(const ir::Graph& graph);
/// Algebra, and views and broadcasts moved to where they cost nothing. Folds constants as well. Runs after the gradient
/// pass: it drops stop_gradient.
std::shared_ptr<ir::Graph> simplify(const ir::Graph& graph);
/// Each einsum becomes contractions of two operands, in the cheapest order, and views, sums and products round them.
/// Afterwards an einsum has two operands, no label twice in an operand, no axis of size 1, at least one label to sum
/// over, which is in both operands, and a label that only one of them has; every other label is in the result.
std::shared_ptr<ir::Graph> lower_einsum(const ir::Graph& graph);
/// Whether a node is no einsum, or one that lower_einsum leaves as it is.
bool is_lowered(const ir::Graph& graph, int id);
/// Sums of pads whose elements do not overlap become concatenations.
std::shared_ptr<ir::Graph> join_pads(const ir::Graph& graph);
/// Products that are only added to something become muladd.
std::shared_ptr<ir::Graph> contract(const ir::Graph& graph);
/// Ops that walk over the same values become one op with several results. Nothing is simplified afterwards.
std::shared_ptr<ir::Graph> fuse(const ir::Graph& graph);
/// What became one op of several, and what would have but for one thing.
struct Fused {
  struct Missed {
    std::string_view rule;  // the op it makes
    Location where;
    std::string_view why;
  };
  std::map<std::string_view, int> made;  // how many of each op
  std::vector<Missed> missed;
};
/// Of a graph that optimise() has made, and of the bodies of its scans.
Fused what_was_fused(const ir::Graph& graph);
/// Ops on rows and attention become the compositions that they stand for: for tests, and for WINDROW_FUSE=0.
std::shared_ptr<ir::Graph> spell_out(const ir::Graph& graph);
/// What nobody reads of a scan's results is not computed, or not kept.
std::shared_ptr<ir::Graph> trim_scans(const ir::Graph& graph);
/// Scans become as many copies of their bodies as they have steps: inside the body of another, and for tests.
std::shared_ptr<ir::Graph> write_out_scans(const ir::Graph& graph);
/// Drops what no output and no update needs; inputs stay.
std::shared_ptr<ir::Graph> dce(const ir::Graph& graph);

/// Whether several ops may become one that has a kernel of its own.
enum class Fuse : bool { no = false, yes = true };
/// no where the environment says WINDROW_FUSE=0.
Fuse fuse_by_environment();

/// Everything, for the bodies of scans.
std::shared_ptr<ir::Graph> optimise_bodies(std::shared_ptr<ir::Graph> graph, Fuse fused);

/// All of them. What plan/ expects.
std::shared_ptr<ir::Graph> optimise(const ir::Graph& graph, Fuse fused = fuse_by_environment());

}  // namespace wr::passes
