// After training: a search among hard circuits for one that does the task.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "windrow/circuit.h"
#include "windrow/step.h"

namespace wr::apps {

struct PolishOptions {
  double likely = 0.005;      // functions of at least this probability are tried
  double any = 0.4;           // share of tries that give a gate which does not just pass a wire any function at all
  double idle = 0.2;          // share of tries that give any gate any function
  double more = 0.3;          // share of tries that change one gate more, and of these yet another, ...
  std::int64_t tries = 2000;  // at most
  std::uint64_t seed = 1;
};
/// What polish() asks about a task.
struct PolishExam {
  /// How much is wrong with these functions.
  std::function<std::int64_t(const logic::Functions&)> errors;
  /// At the automaton's hard gates as they are, the derivatives of the sum of all outputs that should be 0 less those
  /// that should be 1: for each of automaton.parameters(), [gates, 4] by its coefficients.
  struct Slopes {
    std::vector<Array> of_all, of_wrong;  // of all outputs, and of those that are wrong
    std::int64_t wrong = 0;               // how many that are

    /// In a trace, what a step is to return: a hard rule, what it made of some start, and what it should have.
    static std::vector<Tensor> trace(const logic::Automaton::Rule& rule, const Tensor& shown, const Tensor& target);
    /// From that step's results.
    explicit Slopes(const Step::Results& results);
  };
  std::function<Slopes()> slopes;  // may be empty
  std::int64_t visible = 1;        // the first channels, which are looked at
};
/// Gates that are still mixtures do something else once they are hard. A search among hard circuits: a gate or a few at
/// a time get other functions, which are kept where no more is wrong than before; a gate's new function and its old one
/// exchange logits. Slopes tell which changes of one gate promise most, and these are tried first; then likely
/// functions and some others at random. Where nothing helps, something that mends one cell and breaks a few others is
/// taken as a new beginning. Ends at 0 errors. Returns how many are left.
std::int64_t polish(const logic::Automaton& automaton, const PolishExam& exam, const PolishOptions& options = {});

/// Gates that are to have other functions than before: each gate's two logits change places.
void exchange_functions(const logic::Automaton& automaton, const logic::Functions& before, const logic::Functions& now);

}  // namespace wr::apps
