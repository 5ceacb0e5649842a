#include "apps/automaton/mend.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "apps/automaton/blame.h"
#include "apps/automaton/kinds.h"
#include "apps/automaton/polish.h"
#include "windrow/random.h"

namespace wr::apps {

using namespace logic;

namespace {

using Bits = std::vector<Word>;  // one or more words of a wire's planes in some steps

/// A bit of such words.
struct Place {
  std::size_t word;
  Word bit;
};

template <class Action>
void for_each_place(const Bits& bits, Action action) {
  for (std::size_t i = 0; i < bits.size(); ++i)
    for (Word rest = bits[i]; rest != 0; rest &= rest - 1) action(Place{i, rest & (~rest + 1)});
}

std::int64_t count(const Bits& bits) {
  std::int64_t n = 0;
  for (const Word w : bits) n += std::popcount(w);
  return n;
}

bool meets(const Bits& x, const Bits& y) {
  for (std::size_t i = 0; i < x.size(); ++i)
    if ((x[i] & y[i]) != 0) return true;
  return false;
}

/// A gate that might be corrected, and the words of its planes in which that would matter.
struct Target {
  struct Source {
    std::int64_t step;
    std::size_t word;
  };
  std::size_t layer, gate;  // of the update
  std::vector<Source> sources;
  Bits mends, breaks;  // where another value would mend and break something
  double order;        // those that break little first
};

/// A wire has that value.
struct Literal {
  std::size_t layer;   // of the gate that reads it
  std::size_t number;  // of the wire before that layer
  bool value;
};

/// A gate that passes on a wire, and what it makes of it.
struct Carrier {
  std::int32_t number;  // of the wire
  bool value;           // what it is where something is to be mended
  bool now;             // what the gate makes of that
  bool otherwise;       // and of the other value
};

/// f(carrier, here): what the carrier gives, but for `here` the opposite of what it gave.
int corrected(const Carrier& carrier) {
  int function = 0;
  for (const bool a : {false, true})
    for (const bool here : {false, true}) {
      const bool out = a == carrier.value ? carrier.now != here : carrier.otherwise;
      if (out) function |= 1 << (3 - (2 * a + here));
    }
  return function;
}

/// 1 where both wires have these values.
int both(bool a, bool b) { return 1 << (3 - (2 * a + b)); }

class Mender {
 public:
  Mender(BitRollout& rollout, const MendOptions& options)
      : rollout_(rollout), options_(options), mends_(rollout), breaks_(rollout), draw_(Rng::stream(options.seed, 0)) {
    found_.wrong = rollout.wrong();
  }

  Mended run() {
    for (int in_vain = 0; in_vain < kInVain && goes_on();) {
      look();
      if (improve()) {
        in_vain = 0;
      } else {
        ++in_vain;
        if (!make_room()) shake();
      }
    }
    return std::move(found_);
  }

 private:
  static constexpr int kInVain = 20;               // looks
  static constexpr std::size_t kWrongAtOnce = 12;  // cells
  static constexpr std::size_t kTargets = 60;      // of a look that are tried
  static constexpr std::size_t kPlaces = 24;       // of a target
  static constexpr std::size_t kMostLiterals = 8;
  static constexpr std::size_t kPaired = 32;       // literals that are tried with every other
  static constexpr std::uint64_t kNearlyBest = 3;  // of so many literals, one is taken
  static constexpr double kShaken = 0.5;

  bool goes_on() const { return tried_ < options_.tries && found_.wrong > 0; }

  /// Where gates mend and break something, and what tells cells apart.
  void look() {
    std::vector<Spot> wrong, right;
    for (std::size_t c = 0; c < rollout_.targets().size(); ++c) {
      const Word* shown = rollout_.value(rollout_.steps() - 1, static_cast<std::size_t>(rollout_.circuit().outputs[c]));
      for_each_place(rollout_.frame().inside(), [&](const Place& p) {
        const bool good = ((shown[p.word] ^ rollout_.targets()[c][p.word]) & p.bit) == 0;
        (good ? right : wrong).push_back({c, p.word, p.bit});
      });
    }
    shuffle(wrong, Rng::stream(draw_.bits(), 0));
    if (wrong.size() > kWrongAtOnce) wrong.resize(kWrongAtOnce);
    mends_.clear();
    for (const Spot& spot : wrong) mends_.add({spot}, Blame::Ways::cancel);
    breaks_.clear();
    breaks_.add(right, Blame::Ways::add_up);
    find_targets();
    kinds_ = kinds_of(rollout_);
    seen_ = seen_with({});
  }

  std::vector<bool> seen_with(const std::vector<std::int32_t>& wires) const {
    return seen_wires(rollout_.circuit(), std::ssize(rollout_.targets()), wires);
  }

  void find_targets() {
    targets_.clear();
    for (std::size_t layer = 1; layer < rollout_.update_layers(); ++layer)
      for (std::size_t gate = 0; gate < rollout_.gates_of(layer); ++gate) {
        Target target = target_at(layer, gate);
        if (count(target.mends) == 0) continue;
        target.order = static_cast<double>(count(target.breaks) + 1) * (0.2 + draw_.inside());
        targets_.push_back(std::move(target));
      }
    std::stable_sort(targets_.begin(), targets_.end(),
                     [](const Target& a, const Target& b) { return a.order < b.order; });
  }

  Target target_at(std::size_t layer, std::size_t gate) const {
    Target target{layer, gate, {}, {}, {}, 0};
    const std::size_t wire = rollout_.wire_of(layer, gate);
    for (std::int64_t step = 0; step < rollout_.steps(); ++step)
      for (std::size_t i = 0; i < rollout_.words(); ++i) {
        const Word mend = mends_.of(step, wire)[i], broken = breaks_.of(step, wire)[i];
        if ((mend | broken) == 0) continue;
        target.sources.push_back({step, i});
        target.mends.push_back(mend & ~broken);
        target.breaks.push_back(broken);
      }
    return target;
  }

  std::uint64_t kind_at(const Target& target, const Place& place) const {
    const auto [step, word] = target.sources[place.word];
    const std::size_t before = static_cast<std::size_t>(step) * rollout_.words() + word;
    return kinds_[64 * before + static_cast<std::size_t>(std::countr_zero(place.bit))];
  }

  bool improve() {
    std::size_t tried = 0;
    for (const Target& target : targets_) {
      const std::int64_t before = tried_;
      if (correct(target)) return true;
      tried += tried_ > before;
      if (tried == kTargets || !goes_on()) break;
    }
    return false;
  }

  Bits values(const Target& target, std::size_t wire) const {
    Bits bits;
    bits.reserve(target.sources.size());
    for (const auto& [step, word] : target.sources) bits.push_back(rollout_.value(step, wire)[word]);
    return bits;
  }

  /// Mends something by a correction of this gate, if there is one that does.
  bool correct(const Target& target) {
    std::vector<Place> places;
    for_each_place(target.mends, [&](const Place& p) { places.push_back(p); });
    shuffle(places, Rng::stream(draw_.bits(), 0));
    if (places.size() > kPlaces) places.resize(kPlaces);
    const std::size_t wire = rollout_.wire_of(target.layer, target.gate);
    const Bits now = values(target, wire);
    const Gate gate = rollout_.circuit().gates[wire - static_cast<std::size_t>(rollout_.circuit().inputs)];
    for (const std::int32_t read : {gate.a, gate.b})
      for (const Place& place : places)
        if (goes_on() && correct_at(target, place, static_cast<std::size_t>(read), now)) return true;
    return false;
  }

  bool correct_at(const Target& target, const Place& place, std::size_t wire, const Bits& now) {
    const Bits carried = values(target, wire);
    Carrier carrier{static_cast<std::int32_t>(wire - rollout_.wire_before(target.layer, 0)),
                    (carried[place.word] & place.bit) != 0, (now[place.word] & place.bit) != 0, false};
    Bits elsewhere = target.breaks;  // where the carrier is the same and the correction must not act
    bool ones = false, zeros = false;
    for (std::size_t i = 0; i < now.size(); ++i) {
      const Word same = carrier.value ? carried[i] : ~carried[i];
      elsewhere[i] &= same;
      if ((elsewhere[i] & (carrier.now ? ~now[i] : now[i])) != 0) return false;  // it does not pass on this wire alone
      ones |= (target.breaks[i] & ~same & now[i]) != 0;
      zeros |= (target.breaks[i] & ~same & ~now[i]) != 0;
    }
    if (ones && zeros) return false;
    carrier.otherwise = ones;
    const std::uint64_t kind = kind_at(target, place);
    bool alone = true;
    for_each_place(elsewhere, [&](const Place& p) { alone = alone && kind_at(target, p) != kind; });
    return alone && attempt(correction(target, carrier, conjunction(target, place, std::move(elsewhere))));
  }

  bool attempt(const std::vector<GateChange>& changes) {
    if (changes.empty()) return false;
    ++tried_;
    const std::int64_t wrong = rollout_.wrong_with(changes);
    if (wrong >= found_.wrong) {
      rollout_.take_back();
      return false;
    }
    keep(changes, wrong);
    return true;
  }
  void keep(const std::vector<GateChange>& changes, std::int64_t wrong) {
    rollout_.keep();
    found_.wrong = wrong;
    found_.changes.insert(found_.changes.end(), changes.begin(), changes.end());
  }

  struct Candidate {
    Literal literal;
    Bits elsewhere;  // where else it holds
    std::int64_t count;
  };
  /// What wires before a layer are at a place, those that hold in the fewest other places first.
  std::vector<Candidate> candidates(const Target& target, const Place& place, const Bits& elsewhere,
                                    std::size_t layer) {
    std::vector<Candidate> all;
    for (std::size_t number = 0; number < rollout_.wires_before(layer); ++number) {
      Bits bits = values(target, rollout_.wire_before(layer, number));
      const bool value = (bits[place.word] & place.bit) != 0;
      for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = (value ? bits[i] : ~bits[i]) & elsewhere[i];
      const std::int64_t left = count(bits);
      all.push_back({{layer, number, value}, std::move(bits), left});
    }
    shuffle(all, Rng::stream(draw_.bits(), 0));
    std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.count < b.count; });
    return all;
  }

  /// What wires are at a place and in no other of these at once: one of each layer from the last but one before the
  /// target's down, two of the last. None if there is nothing.
  std::vector<Literal> conjunction(const Target& target, const Place& place, Bits elsewhere) {
    std::vector<Literal> found;
    for (std::size_t layer = target.layer; layer-- > 0 && found.size() + 2 <= kMostLiterals;) {
      const std::vector<Candidate> all = candidates(target, place, elsewhere, layer);
      for (std::size_t i = 0; i < std::min(all.size(), kPaired); ++i)
        for (std::size_t j = i; j < all.size(); ++j)
          if (!meets(all[i].elsewhere, all[j].elsewhere)) {
            found.push_back(all[i].literal);
            found.push_back(all[j].literal);
            return found;
          }
      const Candidate& one = all[draw_.below(std::min<std::uint64_t>(kNearlyBest, all.size()))];
      found.push_back(one.literal);
      elsewhere = one.elsewhere;
    }
    return {};
  }

  /// Gates that are idle say "here", each with one literal more than the one before, and the target listens.
  std::vector<GateChange> correction(const Target& target, const Carrier& carrier,
                                     const std::vector<Literal>& literals) {
    if (literals.empty()) return {};
    std::vector<std::int32_t> wires;
    for (const Literal& l : literals)
      wires.push_back(static_cast<std::int32_t>(rollout_.wire_before(l.layer, l.number)));
    const std::vector<bool> seen = seen_with(wires);
    std::vector<GateChange> changes;
    GateChange reader{target.layer, target.gate, corrected(carrier), {carrier.number, 0}};
    for (std::size_t i = 0; i + 1 < literals.size(); ++i) {
      const std::size_t layer = literals[i].layer;
      std::vector<std::size_t> idle;
      for (std::size_t gate = 0; gate < rollout_.gates_of(layer); ++gate)
        if (!seen[rollout_.wire_of(layer, gate)]) idle.push_back(gate);
      if (idle.empty()) return {};
      const std::size_t gate = idle[draw_.below(idle.size())];
      reader.wire.b = static_cast<std::int32_t>(gate);
      changes.push_back(reader);
      const bool last = i + 2 == literals.size();
      reader = {layer,
                gate,
                both(literals[i].value, !last || literals[i + 1].value),
                {static_cast<std::int32_t>(literals[i].number), static_cast<std::int32_t>(literals[i + 1].number)}};
    }
    changes.push_back(reader);
    return changes;
  }

  /// A gate of two wires has no place for a third one, which would say "here". What gates like that make is made one
  /// layer lower, by idle gates, and they pass it on. That changes nothing, but the next look can correct them. Whether
  /// there were any.
  bool make_room() {
    bool any = false;
    for (const Target& target : targets_) {
      Lowered lowered{seen_with({}), {}, {}};
      const auto number = lower(target.layer, target.gate, lowered);
      if (!number || lowered.changes.empty()) continue;
      lowered.changes.push_back({target.layer, target.gate, static_cast<int>(kPassA), {*number, *number}});
      if (rollout_.wrong_with(lowered.changes) > found_.wrong) {
        rollout_.take_back();
        continue;
      }
      keep(lowered.changes, rollout_.wrong());
      any = true;
    }
    return any;
  }

  /// Of the wires before a layer, which one a wire of the circuit is.
  std::int32_t number_of(std::size_t layer, std::int32_t wire) const {
    const auto channels = layer > 0 ? 0 : static_cast<std::int32_t>(rollout_.circuit().outputs.size());
    if (wire < rollout_.circuit().inputs) return wire / 9;
    return wire - static_cast<std::int32_t>(rollout_.wire_before(layer, static_cast<std::size_t>(channels))) + channels;
  }

  struct Lowered {
    std::vector<bool> taken;  // wires whose gates are not idle
    std::map<std::pair<std::size_t, std::size_t>, std::int32_t> numbers;
    std::vector<GateChange> changes;
  };
  /// The number of a wire before a layer that is the same as what this gate of it drives; nothing if there can be none.
  std::optional<std::int32_t> lower(std::size_t layer, std::size_t gate, Lowered& lowered) {
    if (const auto known = lowered.numbers.find({layer, gate}); known != lowered.numbers.end()) return known->second;
    const Gate& now =
        rollout_.circuit().gates[rollout_.wire_of(layer, gate) - static_cast<std::size_t>(rollout_.circuit().inputs)];
    if (now.function == kPassA) return number_of(layer, now.a);
    if (now.function == kPassB) return number_of(layer, now.b);
    if (layer == 0) return std::nullopt;
    const Polynomial& f = polynomial_of(now.function);
    GateChange copy{layer - 1, 0, now.function, {0, 0}};
    for (const bool by_a : {true, false}) {
      if ((f.ab | (by_a ? f.a : f.b)) == 0) continue;
      const std::int32_t read = number_of(layer, by_a ? now.a : now.b);
      const auto number = lower(layer - 1, static_cast<std::size_t>(read), lowered);
      if (!number) return std::nullopt;
      (by_a ? copy.wire.a : copy.wire.b) = *number;
    }
    std::vector<std::size_t> idle;
    for (std::size_t i = 0; i < rollout_.gates_of(layer - 1); ++i)
      if (!lowered.taken[rollout_.wire_of(layer - 1, i)]) idle.push_back(i);
    if (idle.empty()) return std::nullopt;
    copy.gate = idle[draw_.below(idle.size())];
    lowered.taken[rollout_.wire_of(layer - 1, copy.gate)] = true;
    lowered.changes.push_back(copy);
    return lowered.numbers[{layer, gate}] = static_cast<std::int32_t>(copy.gate);
  }

  /// Gates that nothing shown depends on get other functions and wires: new signals at no cost.
  void shake() {
    std::vector<GateChange> changes;
    const double share = kShaken * draw_.inside();
    for (std::size_t layer = 0; layer < rollout_.update_layers(); ++layer)
      for (std::size_t gate = 0; gate < rollout_.gates_of(layer); ++gate) {
        if (seen_[rollout_.wire_of(layer, gate)] || draw_.inside() > share) continue;
        const auto any_wire = [&] { return static_cast<std::int32_t>(draw_.below(rollout_.wires_before(layer))); };
        const int function = draw_.below(2) == 0 ? static_cast<int>(kPassA) : static_cast<int>(draw_.below(kFunctions));
        const std::int32_t a = any_wire(), b = any_wire();
        changes.push_back({layer, gate, function, {a, b}});
      }
    const std::int64_t untold = untold_cells(rollout_), wrong = rollout_.wrong_with(changes);
    if (untold_cells(rollout_) > untold)
      rollout_.take_back();
    else
      keep(changes, wrong);
  }

  BitRollout& rollout_;
  MendOptions options_;
  Blame mends_, breaks_;
  Mended found_;
  std::int64_t tried_ = 0;
  Rng draw_;
  std::vector<Target> targets_;
  std::vector<std::uint64_t> kinds_;
  std::vector<bool> seen_;
};

}  // namespace

Mended mend(BitRollout& rollout, const MendOptions& options) { return Mender(rollout, options).run(); }

void change_gates(Automaton& automaton, const std::vector<GateChange>& changes) {
  const Functions before = functions_of(automaton);
  Functions now = before;
  std::vector<Wiring> wirings;
  for (const Layer& layer : automaton.update()) wirings.push_back(layer.wiring);
  for (const GateChange& change : changes) {
    now[automaton.perception().size() + change.layer][change.gate] = change.function;
    wirings[change.layer][change.gate] = change.wire;
  }
  exchange_functions(automaton, before, now);
  for (std::size_t layer = 0; layer < wirings.size(); ++layer) automaton.rewire(layer, wirings[layer]);
}

}  // namespace wr::apps
