// What a region costs on a machine, by the number of rows of its strips: the planner's choices rest on it.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/machine.h"
#include "plan/schedule.h"

namespace wr::plan {

class RegionCost {
 public:
  /// `resident`: bytes of a lane's share of all that is kept from run to run or from phase to phase.
  RegionCost(const Schedule& schedule, const Region& region, const Machine& machine, double resident);

  /// One lane's time for so many rows in strips of so many.
  double ns(double rows, double strip) const;

  bool stays_in_l2(double strip) const {
    return strip * live_row_ + weight_bytes_ < 0.7 * static_cast<double>(machine_.l2);
  }
  /// Where vectors run over rows: strips of whole vectors, and no more than so many rows (0: any).
  int rows_together() const { return rows_together_; }
  int most_rows() const { return most_rows_; }
  bool single_op() const { return calls_ == 1; }
  bool only_sweeps() const { return flops_row_ == 0; }

 private:
  /// Values outside the strips of which each strip touches its rows.
  struct Far {
    double row_bytes;
    double inner_bytes;  // that lie together, a row
  };

  void add(const Schedule& schedule, const Region& region, const Member& member);
  void add_body(const ir::Graph& graph, int node, double extent);
  void add_far(const ir::Graph& graph, int node, Cut cut, double extent);
  void add_weight(const ir::Graph& graph, int node, double times);
  double live_bytes(const Schedule& schedule, const Region& region) const;

  const Machine& machine_;
  double lanes_, resident_, extent_;
  double made_row_ = 0;      // bytes made in the strips
  double live_row_ = 0;      // the most of them that are needed at once
  double sweep_row_ = 0;     // bytes that sweeps read and write
  double heavy_ns_row_ = 0;  // polynomials
  double flops_row_ = 0;     // of products and gates
  double wide_ = 1;          // f64 products
  double weight_bytes_ = 0;  // whole operands of products, and totals
  double weights_ = 0;       // their elements
  double again_bytes_ = 0;   // of them, by every op of every strip; and of the bodies of scans, at every moment
  double body_row_ = 0;      // bytes made in the bodies of scans
  double calls_ = 0;         // kernels a strip
  double in_place_ = 0;      // of them, those that walk over a table row by row and leave nothing for others
  double ends_ns_ = 0;       // after the last strip
  std::vector<Far> far_;
  std::unordered_map<int, std::vector<Cut>> known_far_;  // node, and how it is cut
  std::unordered_set<int> known_weights_;
  int rows_together_ = 1, most_rows_ = 0;
};

/// Bytes a lane touches outside its strips: its share of states, arguments, results and of what crosses phases.
double resident_bytes(const Schedule& schedule);

/// How many more bytes than wanted come with lines of which only runs of so many bytes are needed.
inline double strided(const Machine& m, double run_bytes) {
  return 1 + static_cast<double>(m.line) / std::max(run_bytes, 1.0);
}

/// Bytes that lie together in a row of a value.
double inner_bytes(const ir::Graph& graph, int node, Cut cut);

}  // namespace wr::plan
