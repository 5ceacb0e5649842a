// Lowering of one Code: which views a node's operands and results are, and in which order and blocks nodes come.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "lower/kernels.h"
#include "plan/schedule.h"

namespace wr::lower {

/// What of a node's value stands where, for the whole program.
struct Homes {
  std::vector<View> whole;                            // by node; base < 0 where the whole value is nowhere
  std::vector<View> partial;                          // by node, totals: the lane's own part (kPartial)
  std::int64_t lane_bytes = 0;                        // from one lane's parts to the next lane's
  std::vector<std::unordered_map<int, View>> shared;  // [phase]: values each lane computes for itself
  std::unordered_map<int, std::vector<int>> further;  // by node with several results: the nodes of its further ones
  // For the bodies of scans: constants by their values, and zeros to be repeated.
  std::unordered_map<const Array*, int> constants;
  int zero = -1;
};

/// Of the body of a scan: where its inputs stand and its outputs go, as views that move on from turn to turn.
struct Given {
  int scan = -1;                                 // node of the graph round it
  std::unordered_map<int, View> values;          // rows, by input of the body
  std::unordered_map<int, Destination> results;  // by node of the body
  std::unordered_map<int, View> turned;          // by product of the body: its second operand, laid out for it
  std::vector<int> copied;                       // nodes of the body that are read once more after the last member
};

/// A list of the emitter's, to be run from this row of the strip on.
struct Turn {
  int list;
  std::int64_t inner = 0;
  std::int64_t rows = 0;
  int span = 1;  // see Piece
  std::int64_t turns = 1;
};

/// Lowers the members of a region for strips of `rows` rows, or (region == nullptr) a phase's shared values.
class Lowering {
 public:
  Lowering(const plan::Schedule& schedule, const Homes& homes, Kernels& kernels, Emitter& emitter, int phase,
           const plan::Region* region, int region_index, std::int64_t rows, bool first)
      : schedule_(schedule),
        graph_(*schedule.graph),
        homes_(homes),
        kernels_(kernels),
        emit_(emitter),
        phase_(phase),
        region_(region),
        region_index_(region_index),
        rows_(rows),
        first_(first) {}

  /// Emits the lists of calls, and says in which order they make up a strip.
  std::vector<Turn> run();
  /// The same for the body of a scan.
  std::vector<Turn> run_inside(Given given);
  /// A node's rows, or the whole of it, once it is there.
  View made(int id) {
    const auto& place = schedule_.place[id];
    return place.cut.is_along() ? strip(id, place.cut) : whole(id);
  }

 private:
  using Node = ir::Node;
  using Members = std::vector<plan::Member>::const_iterator;

  // ---- blocks (blocks.cpp)
  std::vector<Turn> lower_region();
  void lower_members(Members begin, Members end);
  std::vector<Turn> lower_in_blocks(Members begin, Members end, std::int64_t block);
  bool is_light(const plan::Member& member) const;
  std::int64_t row_bytes(const plan::Member& member) const;
  std::int64_t block_rows(Members begin, Members end) const;
  void find_last_uses();
  bool outlasts_block(int id) const;
  View lasting_destination(int id, plan::Cut cut);
  View block_of(View strip, plan::Cut cut) const;

  // ---- values (lower.cpp)
  /// Operand k of a node that is cut like this: its rows, or the whole of it.
  View operand(int id, int k, plan::Cut cut);
  View whole(int id);
  View strip(int id, plan::Cut cut);
  View rows_of(View v, plan::Cut cut);
  /// A view op's strip, or (no cut) its whole value.
  View through(const Node& view, const View& of, std::optional<plan::Cut> cut);
  /// Where the node's strip is to be written.
  View destination(int id, plan::Cut cut);
  Destination further_destination(int id, int number, plan::Cut cut);
  Shape strip_shape(const Shape& shape, plan::Cut cut) const;
  View dense(View v);
  bool in_this_region(int id) const;
  /// Has this lane's part of a total been begun by an earlier strip, or by the total it is added to?
  bool accumulates(int id, plan::Cut cut) const;
  bool adds_to_total(int id) const { return !first_ || schedule_.place[id].into >= 0; }

  void lower(int id, plan::Cut cut);
  void lower_lane_sum(int id, plan::Cut cut);
  std::vector<Turn> lower_scan(int id, plan::Cut cut);

  const plan::Schedule& schedule_;
  const ir::Graph& graph_;
  const Homes& homes_;
  Kernels& kernels_;
  Emitter& emit_;
  int phase_;
  const plan::Region* region_;
  int region_index_;
  std::int64_t rows_;
  bool first_;
  std::unordered_map<int, View> local_;  // strips made so far

  // While a block is lowered: rows_ are the block's, local_ has its values.
  bool in_block_ = false;
  std::int64_t strip_rows_ = 0;
  std::unordered_map<int, View> outer_;    // strips made before, and those that outlast the block
  std::unordered_map<int, int> last_use_;  // by node: the last member that reads it
  int block_end_ = 0;                      // first member behind the block

  Given given_;  // where it is a body
};

}  // namespace wr::lower
