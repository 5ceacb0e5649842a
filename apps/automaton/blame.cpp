#include "apps/automaton/blame.h"

#include <algorithm>

namespace wr::apps {
namespace {

/// Adds bits to those that are there; whether there are any.
template <class Bits>
bool meet(Word* to, std::size_t words, Blame::Ways ways, Bits bits) {
  Word any = 0;
  for (std::size_t i = 0; i < words; ++i) {
    const Word more = bits(i);
    to[i] = ways == Blame::Ways::cancel ? to[i] ^ more : to[i] | more;
    any |= more;
  }
  return any != 0;
}

}  // namespace

Blame::Blame(const BitRollout& rollout)
    : rollout_(rollout),
      frame_(rollout.frame()),
      inputs_(static_cast<std::size_t>(rollout.circuit().inputs)),
      gates_(rollout.circuit().gates.size()),
      words_(rollout.words()),
      found_(static_cast<std::size_t>(rollout.steps()) * gates_ * words_),
      of_wires_((inputs_ + gates_) * words_),
      any_(inputs_ + gates_),
      of_channels_(rollout.circuit().outputs.size(), CellBits(words_)),
      made_(words_) {}

void Blame::clear() { std::fill(found_.begin(), found_.end(), 0); }

void Blame::add(const std::vector<Spot>& spots, Ways ways) {
  for (CellBits& plane : of_channels_) std::fill(plane.begin(), plane.end(), 0);
  for (const Spot& spot : spots) of_channels_[spot.channel][spot.word] |= spot.bit;
  for (std::int64_t step = rollout_.steps(); step-- > 0;) {
    go_back(step, ways);
    if (step > 0) go_to_step_before(ways);
  }
}

void Blame::go_back(std::int64_t step, Ways ways) {
  for (std::size_t wire = 0; wire < any_.size(); ++wire)
    if (any_[wire] != 0) std::fill_n(at(wire), words_, 0);
  std::fill(any_.begin(), any_.end(), 0);
  for (std::size_t c = 0; c < of_channels_.size(); ++c) {
    const auto wire = static_cast<std::size_t>(rollout_.circuit().outputs[c]);
    any_[wire] = meet(at(wire), words_, ways, [&](std::size_t i) { return of_channels_[c][i]; });
  }
  for (std::size_t g = gates_; g-- > 0;) {
    if (any_[inputs_ + g] == 0) continue;
    const logic::Gate& gate = rollout_.circuit().gates[g];
    const Polynomial& f = polynomial_of(gate.function);
    const Word* here = at(inputs_ + g);
    Word* found = found_.data() + (static_cast<std::size_t>(step) * gates_ + g) * words_;
    for (std::size_t i = 0; i < words_; ++i) found[i] |= here[i];
    const auto wire_a = static_cast<std::size_t>(gate.a), wire_b = static_cast<std::size_t>(gate.b);
    const Word *a = rollout_.value(step, wire_a), *b = rollout_.value(step, wire_b);
    any_[wire_a] |= meet(at(wire_a), words_, ways, [&](std::size_t i) { return here[i] & (f.a ^ (f.ab & b[i])); });
    any_[wire_b] |= meet(at(wire_b), words_, ways, [&](std::size_t i) { return here[i] & (f.b ^ (f.ab & a[i])); });
  }
}

/// What cells see of a channel goes back to where they see it.
void Blame::go_to_step_before(Ways ways) {
  for (std::size_t c = 0; c < of_channels_.size(); ++c) {
    CellBits& plane = of_channels_[c];
    std::fill(plane.begin(), plane.end(), 0);
    for (std::size_t k = 0; k < 9; ++k) {
      if (any_[9 * c + k] == 0) continue;
      frame_.look_at(at(9 * c + k));
      frame_.neighbours(static_cast<int>(8 - k), made_.data());
      meet(plane.data(), words_, ways, [&](std::size_t i) { return made_[i] & frame_.inside()[i]; });
    }
  }
}

}  // namespace wr::apps
