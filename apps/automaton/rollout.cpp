// Hard gates on one grid, all steps kept: a change is followed from wire to wire as far as it reaches.
#include "apps/automaton/rollout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <utility>

namespace wr::apps {

using namespace logic;

namespace {

using Word = std::uint64_t;
using Plane = std::vector<Word>;    // a bit a cell
constexpr std::int64_t kBlock = 8;  // words that are computed together

/// A grid with a border of one cell round it, so that a neighbour is a shift by a number of bits.
class Frame {
 public:
  Frame(std::int64_t height, std::int64_t width, Border border)
      : height_(height),
        width_(width),
        stride_(width + 2),
        words_(words_of(height, width)),
        wrap_(border == Border::wrap),
        inside_(plane(0, height, 0, width)),
        left_(plane(0, height, -1, 0)),
        right_(plane(0, height, width, width + 1)),
        above_(plane(-1, 0, -1, width + 1)),
        below_(plane(height, height + 1, -1, width + 1)),
        around_(static_cast<std::size_t>(3 * words_)),
        made_(static_cast<std::size_t>(words_)) {}

  static std::int64_t words_of(std::int64_t height, std::int64_t width) {
    return ((height + 2) * (width + 2) + 64 * kBlock - 1) / (64 * kBlock) * kBlock;
  }
  std::int64_t words() const { return words_; }
  const Plane& inside() const { return inside_; }

  Plane plane_of(const BitGrid& grid, std::int64_t channel) const {
    Plane bits(static_cast<std::size_t>(words_));
    for (std::int64_t y = 0; y < height_; ++y)
      for (std::int64_t x = 0; x < width_; ++x)
        if (grid.get(channel, y, x)) set(bits, y, x);
    return bits;
  }

  /// To be called before neighbours().
  void look_at(const Word* state) {
    Word* middle = around_.data() + words_;
    for (std::int64_t i = 0; i < words_; ++i) middle[i] = state[i] & inside_[i];
    if (!wrap_) return;
    add_shifted(width_, left_);
    add_shifted(-width_, right_);
    add_shifted(height_ * stride_, above_);  // the corners too
    add_shifted(-height_ * stride_, below_);
  }
  /// All cells as their k-th neighbours have it.
  void neighbours(int k, Word* to) const {
    const std::int64_t by = (k / 3 - 1) * stride_ + k % 3 - 1;
    for (std::int64_t i = 0; i < words_; ++i) to[i] = shifted(i, by);
  }

 private:
  void set(Plane& bits, std::int64_t y, std::int64_t x) const {
    const std::int64_t bit = (y + 1) * stride_ + x + 1;
    bits[bit / 64] |= Word{1} << (bit % 64);
  }
  Plane plane(std::int64_t top, std::int64_t bottom, std::int64_t left, std::int64_t right) const {
    Plane bits(static_cast<std::size_t>(words_));
    for (std::int64_t y = top; y < bottom; ++y)
      for (std::int64_t x = left; x < right; ++x) set(bits, y, x);
    return bits;
  }
  Word shifted(std::int64_t word, std::int64_t by) const {
    const Word* at = around_.data() + words_ + word + (by >> 6);
    const auto bits = static_cast<unsigned>(by & 63);
    return at[0] >> bits | (at[1] << 1) << (63 - bits);
  }
  void add_shifted(std::int64_t by, const Plane& where) {
    for (std::int64_t i = 0; i < words_; ++i) made_[i] = shifted(i, by) & where[i];
    Word* middle = around_.data() + words_;
    for (std::int64_t i = 0; i < words_; ++i) middle[i] |= made_[i];
  }

  std::int64_t height_, width_, stride_, words_;
  bool wrap_;
  Plane inside_, left_, right_, above_, below_;
  std::vector<Word> around_;  // zeros, the grid, zeros
  std::vector<Word> made_;
};

/// A function as a polynomial modulo 2, each term there (all ones) or not.
struct Polynomial {
  Word one = 0, a = 0, b = 0, ab = 0;
};

Polynomial polynomial_of(int function) {
  const auto at = [&](bool x, bool y) { return apply(function, x, y) ? ~Word{0} : Word{0}; };
  const Word one = at(false, false), a = at(true, false) ^ one, b = at(false, true) ^ one;
  return {one, a, b, at(true, true) ^ one ^ a ^ b};
}

std::size_t differences(const Functions& x, const Functions& y) {
  std::size_t n = 0;
  for (std::size_t layer = 0; layer < x.size(); ++layer)
    for (std::size_t gate = 0; gate < x[layer].size(); ++gate) n += x[layer][gate] != y[layer][gate];
  return n;
}

}  // namespace

/// Wires are the nine neighbours of each channel and then gates, layer by layer.
struct BitRollout::Run {
  struct Gate {
    std::int32_t a, b;
    std::int32_t function, layer;
  };
  struct Reader {
    std::int32_t gate;
    bool by_a;
  };
  struct Before {
    std::size_t at;
    std::array<Word, kBlock> bits;
  };

  Run(const Automaton& automaton, const BitGrid& start, const BitGrid& target, std::int64_t steps_, Border border)
      : frame(target.height(), target.width(), border),
        steps(steps_),
        base(functions_of(automaton)),
        tried(base),
        circuit(circuit_of(automaton)) {
    for (int f = 0; f < kFunctions; ++f) polynomials[f] = polynomial_of(f);
    inputs = static_cast<std::size_t>(circuit.inputs);
    for (const std::size_t count : gates_by_layer(automaton)) add_layer(count);
    waiting.resize(first_of_layer.size());
    seen.assign(gates.size(), 0);
    find_readers();
    for (std::int64_t c = 0; c < target.channels(); ++c) wanted.push_back(frame.plane_of(target, c));
    find_needed_last();
    words = static_cast<std::size_t>(frame.words());
    values.assign(static_cast<std::size_t>(steps) * (inputs + gates.size()) * words, 0);
    made.resize(words);
    for (std::int64_t c = 0; c < start.channels(); ++c) take_in(0, c, frame.plane_of(start, c).data());
    std::vector<std::int32_t> all(gates.size());
    std::iota(all.begin(), all.end(), 0);
    follow(all);
    log.clear();
  }

  void add_layer(std::size_t count) {
    const auto layer = static_cast<std::int32_t>(first_of_layer.size());
    first_of_layer.push_back(gates.size());
    for (std::size_t i = 0; i < count; ++i) {
      const logic::Gate& g = circuit.gates[gates.size()];
      gates.push_back({g.a, g.b, g.function, layer});
    }
  }

  void find_readers() {
    std::vector<std::vector<Reader>> of_wire(inputs + gates.size());
    for (std::size_t g = 0; g < gates.size(); ++g) {
      of_wire[gates[g].a].push_back({static_cast<std::int32_t>(g), true});
      of_wire[gates[g].b].push_back({static_cast<std::int32_t>(g), false});
    }
    for (const auto& some : of_wire) {
      first_reader.push_back(readers.size());
      readers.insert(readers.end(), some.begin(), some.end());
    }
    first_reader.push_back(readers.size());
  }

  /// Gates that can matter in the last step.
  void find_needed_last() {
    std::vector<bool> needed(inputs + gates.size(), false);
    for (std::size_t c = 0; c < wanted.size(); ++c) needed[circuit.outputs[c]] = true;
    for (std::size_t g = gates.size(); g-- > 0;)
      if (needed[inputs + g]) needed[gates[g].a] = needed[gates[g].b] = true;
    needed_last.assign(needed.begin() + static_cast<std::ptrdiff_t>(inputs), needed.end());
  }

  Word* value(std::int64_t step, std::size_t wire) {
    return values.data() + (static_cast<std::size_t>(step) * (inputs + gates.size()) + wire) * words;
  }

  /// A wire's new value; if it is another one, the gates that read the wire wait to be computed.
  bool store(std::int64_t step, std::size_t wire, const Word* bits) {
    Word* old = value(step, wire);
    Word change = 0;
    for (std::size_t i = 0; i < words; ++i) change |= old[i] ^ bits[i];
    if (change == 0) return false;
    for (std::size_t block = 0; block < words; block += kBlock) {
      Before& before = log.emplace_back();
      before.at = static_cast<std::size_t>(old - values.data()) + block;
      std::copy_n(old + block, kBlock, before.bits.begin());
    }
    std::copy_n(bits, words, old);
    for (std::size_t r = first_reader[wire]; r < first_reader[wire + 1]; ++r) {
      const Polynomial& f = polynomials[gates[readers[r].gate].function];
      if ((f.ab | (readers[r].by_a ? f.a : f.b)) != 0) wait(step, readers[r].gate);
    }
    return true;
  }

  void wait(std::int64_t step, std::int32_t gate) {
    const auto g = static_cast<std::size_t>(gate);
    if (seen[g] == look || (step + 1 == steps && !needed_last[g])) return;
    seen[g] = look;
    waiting[gates[g].layer].push_back(gate);
  }

  void take_in(std::int64_t step, std::int64_t channel, const Word* state) {
    frame.look_at(state);
    for (int k = 0; k < 9; ++k) {
      frame.neighbours(k, made.data());
      store(step, static_cast<std::size_t>(channel * 9 + k), made.data());
    }
  }

  /// Computes these gates again in every step, and what changes with them.
  void follow(const std::vector<std::int32_t>& changed) {
    std::vector<std::int64_t> other_channels, before;
    for (std::int64_t step = 0; step < steps; ++step) {
      std::swap(before, other_channels);
      other_channels.clear();
      for (std::int64_t c : before) take_in(step, c, value(step - 1, static_cast<std::size_t>(circuit.outputs[c])));
      for (std::int32_t g : changed) wait(step, g);
      for (auto& layer : waiting) {
        for (std::int32_t g : layer)
          if (run_gate(step, static_cast<std::size_t>(g)) && &layer == &waiting.back())
            other_channels.push_back(g - static_cast<std::int32_t>(first_of_layer.back()));
        layer.clear();
      }
      ++look;
    }
  }

  bool run_gate(std::int64_t step, std::size_t g) {
    const Polynomial& f = polynomials[gates[g].function];
    const Word* a = value(step, static_cast<std::size_t>(gates[g].a));
    const Word* b = value(step, static_cast<std::size_t>(gates[g].b));
    for (std::size_t block = 0; block < words; block += kBlock)
      for (std::size_t i = block; i < block + kBlock; ++i)
        made[i] = f.one ^ (f.a & a[i]) ^ (f.b & b[i]) ^ (f.ab & a[i] & b[i]);
    return store(step, inputs + g, made.data());
  }

  /// Back to where the last change began.
  void take_back() {
    for (auto before = log.rbegin(); before != log.rend(); ++before)
      std::copy_n(before->bits.begin(), kBlock, values.data() + before->at);
    give(base);
  }

  /// Functions to gates; which of them had another.
  std::vector<std::int32_t> give(const Functions& functions) {
    std::vector<std::int32_t> changed;
    for (std::size_t layer = 0; layer < functions.size(); ++layer)
      for (std::size_t i = 0; i < functions[layer].size(); ++i) {
        if (functions[layer][i] == tried[layer][i]) continue;
        const std::size_t end = layer + 1 < functions.size() ? first_of_layer[layer + 1] : gates.size();
        for (std::size_t g = first_of_layer[layer] + i; g < end; g += functions[layer].size()) {
          gates[g].function = functions[layer][i];
          changed.push_back(static_cast<std::int32_t>(g));
        }
      }
    tried = functions;
    return changed;
  }

  std::int64_t wrong() {
    std::int64_t n = 0;
    for (std::size_t c = 0; c < wanted.size(); ++c) {
      const Word* bits = value(steps - 1, static_cast<std::size_t>(circuit.outputs[c]));
      for (std::size_t i = 0; i < words; ++i) n += std::popcount((bits[i] ^ wanted[c][i]) & frame.inside()[i]);
    }
    return n;
  }

  Frame frame;
  std::int64_t steps;
  Functions base, tried;  // before the last change, and after it
  Circuit circuit;
  std::array<Polynomial, kFunctions> polynomials;
  std::size_t inputs = 0, words = 0;
  std::vector<Gate> gates;
  std::vector<std::size_t> first_of_layer, first_reader;
  std::vector<Reader> readers;
  std::vector<Plane> wanted;
  std::vector<bool> needed_last;
  std::vector<Word> values, made;
  std::vector<Before> log;
  std::vector<std::vector<std::int32_t>> waiting;  // by layer
  std::vector<std::uint64_t> seen;
  std::uint64_t look = 1;
};

BitRollout::BitRollout(const Automaton& automaton, const BitGrid& start, const BitGrid& target, std::int64_t steps,
                       Border border)
    : run_(std::make_unique<Run>(automaton, start, target, steps, border)) {}
BitRollout::~BitRollout() = default;
BitRollout::BitRollout(BitRollout&&) noexcept = default;
BitRollout& BitRollout::operator=(BitRollout&&) noexcept = default;

std::int64_t BitRollout::bytes(const Automaton& automaton, std::int64_t height, std::int64_t width,
                               std::int64_t steps) {
  const auto counts = gates_by_layer(automaton);
  const auto gates = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const auto wires = 9 * automaton.options().channels + static_cast<std::int64_t>(gates);
  return wires * steps * Frame::words_of(height, width) * static_cast<std::int64_t>(sizeof(Word));
}

std::int64_t BitRollout::wrong(const Functions& functions) {
  if (differences(functions, run_->base) < differences(functions, run_->tried)) run_->take_back();
  run_->base = run_->tried;
  run_->log.clear();
  run_->follow(run_->give(functions));
  return run_->wrong();
}

}  // namespace wr::apps
