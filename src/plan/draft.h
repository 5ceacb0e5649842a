// A schedule in the making: the graph with lane_sum nodes, and what is known of each of its nodes so far. Between the
// files that form it.
#pragma once

#include <memory>
#include <vector>

#include "plan/form.h"

namespace wr::plan {

/// Does an element of the result need one element of each operand, no others? Then the result may stand where an
/// operand stood.
inline bool is_by_element(ir::Op op) {
  const ir::Traits& traits = ir::definition(op).traits;
  return traits.sweep && !traits.reduction && !traits.by_row;
}

/// May a call write a row of a result where the operand's row of the same number stands?
inline bool is_in_place(ir::Op op) { return is_by_element(op) || ir::definition(op).traits.in_place; }

class Draft {
 public:
  explicit Draft(Fusion fusion) : fusion_(fusion) {}

  /// What is known of a node beside its placement.
  struct Info {
    int ready = 0;               // first phase in which the whole value can be read
    bool can_share = false;      // each lane may compute it for itself,
    int share_ready = 0;         // from this phase on
    std::vector<int> shared_in;  // phases whose lanes do
  };

  const std::shared_ptr<ir::Graph> graph = std::make_shared<ir::Graph>();

  int size() const { return graph->size(); }
  const ir::Node& node(int id) const { return (*graph)[id]; }
  Placement& place(int id) { return placements[id]; }
  Info& info(int id) { return infos_[id]; }
  /// Adds a node, or finds the equal one; `fresh` says which.
  int append(ir::Node node, bool& fresh);

  bool inside_region(int id);
  /// The node whose call makes this one.
  int made_at(int id) const;
  /// Does the operand come row by row, from the same strips?
  bool joins(int id, int operand, Cut cut);
  /// Rows of the region that the node belongs to.
  std::int64_t extent(int id);
  /// The total whose memory a total is added to; itself if it has its own.
  int accumulator(int total);

  std::vector<Placement> placements;  // by node

 private:
  bool goes_on(int id) const;

  Fusion fusion_;
  std::vector<Info> infos_;
};

/// Where a node goes: how it is cut, and the first phase in which it can be computed like that.
class Where {
 public:
  Where(Draft& draft, const ir::Graph& given, const AxisClasses& classes, const Form& form, const Machine& machine)
      : draft_(draft), given_(given), classes_(classes), form_(form), machine_(machine) {}
  /// `old` is the given graph's node, or -1 for one that the planner has made.
  void settle(int old, int id);

 private:
  void settle_result(int id);
  bool makes_all_results(int id, Cut cut);
  void set_shareable(int id);
  std::vector<Cut> candidates(int old, int id);
  std::vector<Cut> product_cuts(int id, const ir::AxisMap& map);
  bool better_later(const ir::Node& n);
  bool fits_flat(const ir::Node& n);
  template <class Offer>
  void inherit(const ir::Node& n, const ir::AxisMap& map, std::size_t k, Offer offer);
  int earliest(int id, Cut cut);

  Draft& draft_;
  const ir::Graph& given_;
  const AxisClasses& classes_;
  const Form form_;
  const Machine& machine_;
};

/// What a checkpoint computes again goes to the phase of its first reader.
void delay_copies(Draft& draft);
/// A state's new value that is ready while others still read the old one is made after them, if less crosses than would
/// be copied.
void sink_updates(Draft& draft);
/// Walks back from the results: which nodes are computed in strips, which on each lane, whose whole values are read.
void mark_needed(Draft& draft);
/// Gives states and outputs their values: in place where nobody still needs the old one, else by a copy at the end.
void place_results(Draft& draft, Schedule& schedule);

}  // namespace wr::plan
