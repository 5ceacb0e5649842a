#include "apps/automaton/blame.h"

#include <algorithm>

namespace wr::apps {

Blame::Blame(BitRollout& rollout)
    : rollout_(rollout),
      gates_(rollout.gates().size()),
      words_(rollout.words()),
      found_(static_cast<std::size_t>(rollout.steps()) * gates_ * words_),
      of_wires_((rollout.inputs() + gates_) * words_),
      any_(rollout.inputs() + gates_),
      of_channels_(rollout.inputs() / 9, Plane(words_)),
      made_(words_) {}

void Blame::clear() { std::fill(found_.begin(), found_.end(), 0); }

void Blame::add(const std::vector<Spot>& spots, bool any_way) {
  for (Plane& plane : of_channels_) std::fill(plane.begin(), plane.end(), 0);
  for (const Spot& spot : spots) of_channels_[spot.channel][spot.word] ^= spot.bit;
  for (std::int64_t step = rollout_.steps(); step-- > 0;) {
    go_back(step, any_way);
    if (step > 0) go_to_step_before(any_way);
  }
}

void Blame::go_back(std::int64_t step, bool any_way) {
  const std::size_t inputs = rollout_.inputs();
  for (std::size_t wire = 0; wire < any_.size(); ++wire)
    if (any_[wire] != 0) std::fill_n(at(wire), words_, 0);
  std::fill(any_.begin(), any_.end(), 0);
  for (std::size_t c = 0; c < of_channels_.size(); ++c) {
    const std::size_t wire = inputs + rollout_.output(c);
    std::copy(of_channels_[c].begin(), of_channels_[c].end(), at(wire));
    any_[wire] = std::any_of(of_channels_[c].begin(), of_channels_[c].end(), [](Word w) { return w != 0; });
  }
  for (std::size_t g = gates_; g-- > 0;) {
    if (any_[inputs + g] == 0) continue;
    const BitRollout::Gate& gate = rollout_.gates()[g];
    const Polynomial& f = polynomial_of(gate.function);
    const Word* here = at(inputs + g);
    Word* found = found_.data() + (static_cast<std::size_t>(step) * gates_ + g) * words_;
    const auto wire_a = static_cast<std::size_t>(gate.a), wire_b = static_cast<std::size_t>(gate.b);
    const Word *a = rollout_.value(step, wire_a), *b = rollout_.value(step, wire_b);
    Word *to_a = at(wire_a), *to_b = at(wire_b);
    Word any_a = 0, any_b = 0;
    for (std::size_t i = 0; i < words_; ++i) {
      found[i] |= here[i];
      const Word by_a = here[i] & (f.a ^ (f.ab & b[i])), by_b = here[i] & (f.b ^ (f.ab & a[i]));
      to_a[i] = any_way ? to_a[i] | by_a : to_a[i] ^ by_a;
      to_b[i] = any_way ? to_b[i] | by_b : to_b[i] ^ by_b;
      any_a |= by_a;
      any_b |= by_b;
    }
    any_[wire_a] |= any_a != 0;
    any_[wire_b] |= any_b != 0;
  }
}

/// What cells see of a channel goes back to where they see it.
void Blame::go_to_step_before(bool any_way) {
  for (std::size_t c = 0; c < of_channels_.size(); ++c) {
    Plane& plane = of_channels_[c];
    std::fill(plane.begin(), plane.end(), 0);
    for (std::size_t k = 0; k < 9; ++k) {
      if (any_[9 * c + k] == 0) continue;
      rollout_.frame().look_at(at(9 * c + k));
      rollout_.frame().neighbours(static_cast<int>(8 - k), made_.data());
      for (std::size_t i = 0; i < words_; ++i) {
        const Word more = made_[i] & rollout_.frame().inside()[i];
        plane[i] = any_way ? plane[i] | more : plane[i] ^ more;
      }
    }
  }
}

}  // namespace wr::apps
