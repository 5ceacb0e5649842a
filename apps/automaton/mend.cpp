#include "apps/automaton/mend.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "apps/automaton/blame.h"
#include "windrow/random.h"

namespace wr::apps {

using namespace logic;

namespace {

bool verbose() { static const bool v = std::getenv("MEND_VERBOSE") != nullptr; return v; }

/// Wires or gates of a rollout at the positions that matter: words of steps and cells, one after the other.
struct Places {
  struct Place {
    std::int64_t step;
    std::size_t word;
  };
  std::vector<Place> all;

  std::vector<Word> gather(const BitRollout& rollout, std::size_t wire) const {
    std::vector<Word> bits;
    bits.reserve(all.size());
    for (const Place& p : all) bits.push_back(rollout.value(p.step, wire)[p.word]);
    return bits;
  }
};

using Bits = std::vector<Word>;

std::int64_t count(const Bits& x) {
  std::int64_t n = 0;
  for (Word w : x) n += std::popcount(w);
  return n;
}
std::int64_t count_both(const Bits& x, const Bits& y) {
  std::int64_t n = 0;
  for (std::size_t i = 0; i < x.size(); ++i) n += std::popcount(x[i] & y[i]);
  return n;
}

struct Target {
  std::size_t layer, gate;
  double key;
};

class Mender {
 public:
  Mender(BitRollout& rollout, const MendOptions& options)
      : rollout_(rollout),
        options_(options),
        mends_(rollout),
        breaks_(rollout),
        left_(rollout.wrong()),
        draw_(Rng::stream(options.seed, 0)) {
    const std::size_t all = rollout.layers().size();
    first_update_ = all - rollout.update_layers();
  }

  std::int64_t run() {
    int vain = 0;
    for (std::int64_t i = 0; i < options_.looks && left_ > 0 && vain < 40; ++i) {
      const std::int64_t before = left_;
      look();
      improve();
      if (verbose())
        std::fprintf(stderr, "look %ld: %ld -> %ld, targets %zu, tries %ld (pairs %ld good %ld; chains %ld good %ld; no chain %ld alike %ld shakes %ld)\n", long(i), long(before), long(left_),
                     targets_.size(), long(tried_), pair_tries_, pair_good_, chain_tries_, chain_good_, chain_none_, alike_, shakes_);
      vain = left_ < before ? 0 : vain + 1;
    }
    return left_;
  }

 private:
  static constexpr std::size_t kWrongAtOnce = 12, kGroups = 16;

  std::size_t layer_size(std::size_t layer) const {
    const std::size_t l = first_update_ + layer;
    return (l + 1 < rollout_.layers().size() ? rollout_.layers()[l + 1] : rollout_.gates().size()) -
           rollout_.layers()[l];
  }
  std::size_t wires_before(std::size_t layer) const { return rollout_.wires_before(layer); }
  std::size_t wire_of_gate(std::size_t layer, std::size_t gate) const {
    return rollout_.inputs() + rollout_.gate_of(layer, gate);
  }

  /// Where gates mend and break something.
  void look() {
    std::vector<Spot> wrong, right;
    for (std::size_t c = 0; c < rollout_.wanted().size(); ++c) {
      const Word* bits = rollout_.value(rollout_.steps() - 1, rollout_.inputs() + rollout_.output(c));
      for (std::size_t i = 0; i < rollout_.words(); ++i)
        for (Word rest = rollout_.frame().inside()[i]; rest != 0; rest &= rest - 1) {
          const Word bit = rest & (~rest + 1);
          const bool good = ((bits[i] ^ rollout_.wanted()[c][i]) & bit) == 0;
          (good ? right : wrong).push_back({c, i, bit});
        }
    }
    shuffle(wrong, Rng::stream(draw_.bits(), 0));
    shuffle(right, Rng::stream(draw_.bits(), 0));
    if (wrong.size() > kWrongAtOnce) wrong.resize(kWrongAtOnce);
    mends_.clear();
    breaks_.clear();
    for (const Spot& spot : wrong) mends_.add({spot});
    const int mode = std::getenv("MODE") ? std::atoi(std::getenv("MODE")) : 2;
    const bool any_way = mode == 2 ? draw_.below(2) != 0 : mode == 1;
    if (any_way) breaks_.add(right, true);
    for (std::size_t group = 0; group < kGroups && !any_way; ++group) {
      std::vector<Spot> some;
      for (std::size_t i = group; i < right.size(); i += kGroups) some.push_back(right[i]);
      breaks_.add(some);
    }
    find_targets();
    find_kinds();
  }

  void find_targets() {
    targets_.clear();
    for (std::size_t layer = 0; layer < rollout_.update_layers(); ++layer)
      for (std::size_t gate = 0; gate < layer_size(layer); ++gate) {
        const std::size_t g = rollout_.gate_of(layer, gate);
        std::int64_t mended = 0, broken = 0;
        for (std::int64_t step = 0; step < rollout_.steps(); ++step) {
          const Word *m = mends_.of(step, g), *b = breaks_.of(step, g);
          for (std::size_t i = 0; i < rollout_.words(); ++i) {
            mended += std::popcount(m[i] & ~b[i]);
            broken += std::popcount(b[i]);
          }
        }
        if (mended > 0) targets_.push_back({layer, gate, (static_cast<double>(broken) + 1) * (0.2 + draw_.inside())});
      }
    std::stable_sort(targets_.begin(), targets_.end(), [](const Target& x, const Target& y) { return x.key < y.key; });
  }

  bool attempt(const std::vector<GateChange>& changes) {
    ++tried_;
    const std::int64_t now = rollout_.attempt(changes);
    if (now >= left_) {
      rollout_.take_back();
      return false;
    }
    rollout_.keep();
    left_ = now;
    return true;
  }

  void improve() {
    busy_ = closure({});
    std::size_t n = 0;
    for (const Target& t : targets_) {
      if (n > 60) break;
      set_target(t);
      if (correct()) return;
      n += chained_ ? 1 : 0;
    }
    n = 0;
    for (const Target& t : targets_) {
      if (n++ > 10) break;
      set_target(t);
      if (rewire()) return;
    }
    shake();
  }

  /// Gates that nothing shown depends on get other functions and wires: new signals at no cost.
  void shake() {
    std::vector<GateChange> changes;
    const double share = 0.5 * draw_.inside();
    for (std::size_t layer = 0; layer < rollout_.update_layers(); ++layer)
      for (std::size_t gate = 0; gate < layer_size(layer); ++gate) {
        if (busy_[wire_of_gate(layer, gate)] || draw_.inside() > share) continue;
        const std::uint64_t wires = wires_before(layer);
        static constexpr int kKinds[] = {1, 2, 3, 4, 6, 7, 8, 9, 11, 13, 14, 3, 3, 3, 3, 3, 3, 3,3,3,3,3,12,12};
        changes.push_back({layer, gate, kKinds[draw_.below(24)], {static_cast<std::int32_t>(draw_.below(wires)), static_cast<std::int32_t>(draw_.below(wires))}});
      }
    const std::int64_t now = rollout_.attempt(changes);
    if (now != left_) std::fprintf(stderr, "shake changed %ld to %ld\n", long(left_), long(now));
    left_ = now;
    rollout_.keep();
    ++shakes_;
  }

  /// For each step and cell a number that says what the update's first layer reads there.
  void find_kinds() {
    const std::size_t places = static_cast<std::size_t>(rollout_.steps()) * rollout_.words() * 64;
    kinds_.assign(places, 0);
    Rng keys(7);
    for (std::size_t w = 0; w < wires_before(0); ++w) {
      const std::uint64_t key = keys.bits();
      const auto wire = static_cast<std::size_t>(rollout_.wire_before(0, static_cast<std::int32_t>(w)));
      std::uint64_t* kind = kinds_.data();
      for (std::int64_t step = 0; step < rollout_.steps(); ++step) {
        const Word* bits = rollout_.value(step, wire);
        for (std::size_t i = 0; i < rollout_.words(); ++i, kind += 64)
          for (Word rest = bits[i] & rollout_.frame().inside()[i]; rest != 0; rest &= rest - 1) kind[std::countr_zero(rest)] ^= key;
      }
    }
  }
  std::uint64_t kind_at(std::size_t place, Word bit) const {
    const Places::Place& p = places_.all[place];
    return kinds_[(static_cast<std::size_t>(p.step) * rollout_.words() + p.word) * 64 + static_cast<std::size_t>(std::countr_zero(bit))];
  }

  /// What concerns one gate.
  void set_target(const Target& t) {
    t_ = t;
    const std::size_t g = rollout_.gate_of(t.layer, t.gate);
    places_.all.clear();
    m_.clear();
    b_.clear();
    for (std::int64_t step = 0; step < rollout_.steps(); ++step)
      for (std::size_t i = 0; i < rollout_.words(); ++i) {
        const Word m = mends_.of(step, g)[i], b = breaks_.of(step, g)[i];
        if ((m | b) == 0) continue;
        places_.all.push_back({step, i});
        m_.push_back(m & ~b);
        b_.push_back(b);
      }
    v_ = places_.gather(rollout_, rollout_.inputs() + g);
  }

  // ---- another pair of wires
  bool rewire() {
    const std::size_t n = places_.all.size(), wires = wires_before(t_.layer);
    std::vector<Bits> x, y1, y0;
    std::vector<std::int64_t> c1, c0;
    Bits w1(n), w0(n);
    for (std::size_t i = 0; i < n; ++i) {
      w1[i] = (m_[i] & ~v_[i]) | (b_[i] & v_[i]);
      w0[i] = (m_[i] & v_[i]) | (b_[i] & ~v_[i]);
    }
    const std::int64_t t1 = count(w1), t0 = count(w0), now = count(m_);
    for (std::size_t w = 0; w < wires; ++w) {
      x.push_back(places_.gather(rollout_, static_cast<std::size_t>(rollout_.wire_before(t_.layer, static_cast<std::int32_t>(w)))));
      Bits a(n), b(n);
      for (std::size_t i = 0; i < n; ++i) a[i] = x[w][i] & w1[i], b[i] = x[w][i] & w0[i];
      c1.push_back(count(a));
      c0.push_back(count(b));
      y1.push_back(a);
      y0.push_back(b);
    }
    struct Found {
      std::int64_t cost;
      int function;
      Wire wire;
    };
    std::vector<Found> found;
    std::int64_t limit = now - 1;
    for (std::size_t i = 0; i < wires; ++i)
      for (std::size_t j = i + 1; j < wires; ++j) {
        const std::int64_t p1 = count_both(y1[i], x[j]), p0 = count_both(y0[i], x[j]);
        const std::int64_t q1[4] = {t1 - c1[i] - c1[j] + p1, c1[j] - p1, c1[i] - p1, p1};
        const std::int64_t q0[4] = {t0 - c0[i] - c0[j] + p0, c0[j] - p0, c0[i] - p0, p0};
        std::int64_t cost = 0;
        int function = 0;
        for (int k = 0; k < 4; ++k) {
          cost += std::min(q1[k], q0[k]);
          if (q1[k] > q0[k]) function |= 1 << (3 - k);
        }
        if (cost > limit) continue;
        found.push_back({cost, function, {static_cast<std::int32_t>(i), static_cast<std::int32_t>(j)}});
        if (found.size() >= 64) {
          std::nth_element(found.begin(), found.begin() + 16, found.end(), [](const Found& a, const Found& b) { return a.cost < b.cost; });
          found.resize(16);
          for (const Found& f : found) limit = std::max(limit * 0, f.cost);
        }
      }
    std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.cost < b.cost; });
    if (found.size() > 16) found.resize(16);
    for (const Found& f : found) {
      ++pair_tries_;
      if (attempt({{t_.layer, t_.gate, f.function, f.wire}})) {
        ++pair_good_;
        return true;
      }
    }
    return false;
  }

  // ---- a correction: the gate's one wire, changed where several others have certain values
  struct Literal {
    std::size_t layer;  // of the gate that reads it
    std::int32_t wire;
    bool value;
  };

  bool correct() {
    if (t_.layer == 0) return false;
    const BitRollout::Gate& gate = rollout_.gates()[rollout_.gate_of(t_.layer, t_.gate)];
    std::vector<std::pair<std::size_t, Word>> spots;
    for (std::size_t i = 0; i < m_.size(); ++i)
      for (Word rest = m_[i]; rest != 0; rest &= rest - 1) spots.emplace_back(i, rest & (~rest + 1));
    shuffle(spots, Rng::stream(draw_.bits(), 0));
    chained_ = false;
    if (spots.size() > 24) spots.resize(24);
    for (const bool by_a : {true, false}) {
      const auto carrier = static_cast<std::size_t>(by_a ? gate.a : gate.b);
      const Bits p = places_.gather(rollout_, carrier);
      for (const auto& [word, bit] : spots)
        if (correct_at(p, carrier, word, bit)) return true;
    }
    return false;
  }

  bool correct_at(const Bits& p, std::size_t carrier, std::size_t word, Word bit) {
    const bool side = (p[word] & bit) != 0, value = (v_[word] & bit) != 0;
    Bits here(p.size());
    std::int64_t ones = 0, zeros = 0;
    for (std::size_t i = 0; i < p.size(); ++i) {
      const Word on_side = side ? p[i] : ~p[i];
      here[i] = b_[i] & on_side;
      if ((here[i] & (value ? ~v_[i] : v_[i])) != 0) return false;
      ones += std::popcount(b_[i] & ~on_side & v_[i]);
      zeros += std::popcount(b_[i] & ~on_side & ~v_[i]);
    }
    if (ones != 0 && zeros != 0) return false;
    const bool other = ones > 0;
    const std::uint64_t kind = kind_at(word, bit);
    for (std::size_t i = 0; i < here.size(); ++i)
      for (Word rest = here[i]; rest != 0; rest &= rest - 1)
        if (kind_at(i, rest & (~rest + 1)) == kind) {
          ++alike_;
          return false;
        }
    chained_ = true;
    const auto literals = conjunction(here, word, bit);
    if (!literals) {
      ++chain_none_;
      return false;
    }
    // f(p, q)
    int function = 0;
    for (int a = 0; a < 2; ++a)
      for (int q = 0; q < 2; ++q) {
        const bool out = (a != 0) == side ? value != (q != 0) : other;
        if (out) function |= 1 << (3 - (2 * a + q));
      }
    const auto changes = chain(*literals, function, carrier);
    if (changes.empty()) {
      ++chain_none_;
      return false;
    }
    ++chain_tries_;
    if (!attempt(changes)) return false;
    ++chain_good_;
    return true;
  }

  /// Values of wires that are so at a place and nowhere else where `not_here` is set: one for each gate of a chain that
  /// begins in the layer before, two for the last.
  std::optional<std::vector<Literal>> conjunction(Bits not_here, std::size_t word, Word bit) {
    std::vector<Literal> found;
    for (std::size_t layer = t_.layer - 1;; --layer) {
      const std::size_t wires = wires_before(layer);
      std::vector<Bits> x;
      struct One {
        std::int64_t left;
        std::int32_t wire;
        bool value;
      };
      std::vector<One> ones;
      for (std::size_t w = 0; w < wires; ++w) {
        x.push_back(places_.gather(rollout_, static_cast<std::size_t>(rollout_.wire_before(layer, static_cast<std::int32_t>(w)))));
        const bool value = (x[w][word] & bit) != 0;
        if (!value)
          for (Word& bits : x[w]) bits = ~bits;
        for (std::size_t i = 0; i < not_here.size(); ++i) x[w][i] &= not_here[i];
        ones.push_back({count(x[w]), static_cast<std::int32_t>(w), value});
      }
      shuffle(ones, Rng::stream(draw_.bits(), 0));
      std::stable_sort(ones.begin(), ones.end(), [](const One& a, const One& b) { return a.left < b.left; });
      // two at once
      for (std::size_t i = 0; i < std::min<std::size_t>(ones.size(), 32); ++i)
        for (std::size_t j = i; j < ones.size(); ++j) {
          const Bits &a = x[ones[i].wire], &b = x[ones[j].wire];
          bool none = true;
          for (std::size_t k = 0; k < a.size() && none; ++k) none = (a[k] & b[k]) == 0;
          if (!none) continue;
          found.push_back({layer, ones[i].wire, ones[i].value});
          found.push_back({layer, ones[j].wire, ones[j].value});
          return found;
        }
      if (layer == 0 || found.size() >= 6) return std::nullopt;
      const One& pick = ones[draw_.below(3)];
      found.push_back({layer, pick.wire, pick.value});
      not_here = x[pick.wire];
    }
  }

  std::vector<GateChange> chain(const std::vector<Literal>& literals, int function, std::size_t carrier) {
    std::vector<std::int32_t> roots;
    for (const Literal& l : literals) roots.push_back(rollout_.wire_before(l.layer, l.wire));
    const std::vector<bool> busy = closure(roots);
    std::vector<GateChange> changes;
    // One gate a layer, from the layer before the target's down.
    std::vector<std::size_t> idle_of;
    for (std::size_t i = 0; i + 1 < literals.size(); ++i) {
      const std::size_t layer = literals[i].layer;
      std::vector<std::size_t> idle;
      for (std::size_t gate = 0; gate < layer_size(layer); ++gate)
        if (!busy[wire_of_gate(layer, gate)]) idle.push_back(gate);
      if (idle.empty()) return {};
      idle_of.push_back(idle[draw_.below(idle.size())]);
    }
    for (std::size_t i = 0; i + 1 < literals.size(); ++i) {
      const bool last = i + 2 == literals.size();
      const bool a = literals[i].value, b = last ? literals[i + 1].value : true;
      const auto wire_b = last ? literals[i + 1].wire : static_cast<std::int32_t>(idle_of[i + 1]);
      changes.push_back({literals[i].layer, idle_of[i], 1 << (3 - (2 * a + b)), {literals[i].wire, wire_b}});
    }
    const auto p = static_cast<std::int32_t>(carrier - wire_of_gate(t_.layer - 1, 0));
    changes.push_back({t_.layer, t_.gate, function, {p, static_cast<std::int32_t>(idle_of[0])}});
    return changes;
  }

  /// Wires that what is shown, or one of these wires, depends on, if only after many steps.
  std::vector<bool> closure(const std::vector<std::int32_t>& roots) const {
    const std::size_t inputs = rollout_.inputs(), channels = inputs / 9;
    const auto& gates = rollout_.gates();
    std::vector<bool> seen(channels, false), read;
    for (std::size_t c = 0; c < rollout_.wanted().size(); ++c) seen[c] = true;
    for (bool changed = true; changed;) {
      changed = false;
      read.assign(inputs + gates.size(), false);
      for (std::int32_t wire : roots) read[wire] = true;
      for (std::size_t c = 0; c < channels; ++c)
        if (seen[c]) read[inputs + rollout_.output(c)] = true;
      for (std::size_t g = gates.size(); g-- > 0;) {
        if (!read[inputs + g]) continue;
        const Polynomial& f = polynomial_of(gates[g].function);
        if ((f.a | f.ab) != 0) read[gates[g].a] = true;
        if ((f.b | f.ab) != 0) read[gates[g].b] = true;
      }
      for (std::size_t in = 0; in < inputs; ++in)
        if (read[in] && !seen[in / 9]) changed = seen[in / 9] = true;
    }
    return read;
  }

  BitRollout& rollout_;
  const MendOptions& options_;
  Blame mends_, breaks_;
  std::int64_t left_, tried_ = 0;
  std::size_t first_update_ = 0;
  Rng draw_;
  std::vector<Target> targets_;
  std::vector<bool> busy_;
  std::vector<std::uint64_t> kinds_;
  bool chained_ = false;
  long alike_ = 0, shakes_ = 0;
  Target t_{};
  Places places_;
  Bits m_, b_, v_;
  long pair_tries_ = 0, pair_good_ = 0, chain_tries_ = 0, chain_good_ = 0, chain_none_ = 0;
};

}  // namespace

std::int64_t mend(BitRollout& rollout, const MendOptions& options) { return Mender(rollout, options).run(); }

}  // namespace wr::apps
