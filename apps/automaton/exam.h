// What an automaton's hard circuit gets wrong, on many grids at once.
#pragma once

#include <optional>

#include "apps/automaton/automaton.h"
#include "apps/automaton/mend.h"
#include "apps/automaton/rollout.h"

namespace wr::apps {

/// Grids of a task as bits: all there are, or 64 of the n-th batch.
class AutomatonExam {
 public:
  AutomatonExam(const AutomatonTask& task, const AutomatonSettings& settings, std::uint64_t number);
  /// Wrong cells after the last step.
  std::int64_t wrong(const logic::Circuit& circuit) const { return count(circuit).last; }
  /// Of an automaton with these functions: 0 if no cell is wrong. Else, where any start leads to the same end, settling
  /// sooner counts too.
  std::int64_t badness(const logic::Automaton& automaton, const logic::Functions& functions);
  /// mend() on as many of the grids as there is memory for; what is wrong is then counted on all of them. Nothing where
  /// cells change at random, or a single grid is too large.
  std::optional<Mended> mend(const logic::Automaton& automaton, const MendOptions& options) const;

 private:
  struct Grids {
    logic::BitGrids start, target;
    std::uint64_t used;  // bits that are grids
  };
  struct Wrong {
    std::int64_t last = 0, before = 0;  // after the last step, and after three quarters of the steps
  };
  Wrong count(const logic::Circuit& circuit) const;
  std::int64_t wrong_cells(const logic::BitGrids& now, const Grids& grids) const;
  void keep_unfired(const logic::BitGrids& before, logic::BitGrids& after, std::size_t step) const;

  AutomatonSettings settings_;
  std::int64_t target_channels_;
  bool settles_;                                   // any start leads to the same end
  std::vector<Grids> grids_;                       // if there is more than one
  std::vector<logic::BitGrid> starts_, targets_;   // the same, one by one
  std::optional<BitRollout> rollout_;              // of a single one
  std::vector<std::vector<std::uint64_t>> fires_;  // for each step, of each cell: the grids in which it changes
};

}  // namespace wr::apps
