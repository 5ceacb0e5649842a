// Automata on bits: one row of the grid after the other, all gates on some words of it.
#include <algorithm>

#include "windrow/circuit.h"

namespace wr::logic {
namespace {

constexpr std::int64_t kBlock = 16;  // words that go through all gates together

using Word = std::uint64_t;

Word mask_of(std::int64_t width) { return width % 64 == 0 ? ~Word{0} : (Word{1} << (width % 64)) - 1; }

/// Word `at` of a row as its cells' left (-1), own (0) or right (+1) neighbours have it.
Word shifted(const Word* row, std::int64_t at, std::int64_t words, std::int64_t width, int side, bool wrap) {
  const Word own = row[at];
  if (side == 0) return own;
  if (side < 0) {
    const bool last_bit = wrap && (row[words - 1] >> ((width - 1) % 64) & 1) != 0;
    const Word carry = at > 0 ? row[at - 1] >> 63 : Word{last_bit};
    return own << 1 | carry;
  }
  if (at + 1 < words) return own >> 1 | row[at + 1] << 63;
  return own >> 1 | (wrap ? (row[0] & 1) << ((width - 1) % 64) : 0);
}

template <class F>
void for_words(Word* out, const Word* a, const Word* b, F f) {
  for (std::int64_t i = 0; i < kBlock; ++i) out[i] = f(a[i], b[i]);
}

void run_gate(int function, Word* out, const Word* a, const Word* b) {
  switch (function) {
    case 0:
      return for_words(out, a, b, [](Word, Word) { return Word{0}; });
    case 1:
      return for_words(out, a, b, [](Word x, Word y) { return x & y; });
    case 2:
      return for_words(out, a, b, [](Word x, Word y) { return x & ~y; });
    case 3:
      return for_words(out, a, b, [](Word x, Word) { return x; });
    case 4:
      return for_words(out, a, b, [](Word x, Word y) { return ~x & y; });
    case 5:
      return for_words(out, a, b, [](Word, Word y) { return y; });
    case 6:
      return for_words(out, a, b, [](Word x, Word y) { return x ^ y; });
    case 7:
      return for_words(out, a, b, [](Word x, Word y) { return x | y; });
    case 8:
      return for_words(out, a, b, [](Word x, Word y) { return ~(x | y); });
    case 9:
      return for_words(out, a, b, [](Word x, Word y) { return ~(x ^ y); });
    case 10:
      return for_words(out, a, b, [](Word, Word y) { return ~y; });
    case 11:
      return for_words(out, a, b, [](Word x, Word y) { return x | ~y; });
    case 12:
      return for_words(out, a, b, [](Word x, Word) { return ~x; });
    case 13:
      return for_words(out, a, b, [](Word x, Word y) { return ~x | y; });
    case 14:
      return for_words(out, a, b, [](Word x, Word y) { return ~(x & y); });
    default:
      return for_words(out, a, b, [](Word, Word) { return ~Word{0}; });
  }
}

}  // namespace

BitGrid::BitGrid(std::int64_t channels, std::int64_t height, std::int64_t width)
    : channels_(channels), height_(height), width_(width), words_((width + 63) / 64) {
  constexpr std::int64_t kMost = 1 << 20;
  if (channels < 1 || height < 1 || width < 1 || channels > kMost || height > kMost || width > kMost ||
      channels * height > (std::int64_t{1} << 36) / width)
    throw Error("a grid of " + std::to_string(channels) + " channels, " + std::to_string(height) + " x " +
                std::to_string(width) + " cells");
  bits_.assign(static_cast<std::size_t>(channels * height * words_), 0);
}

bool BitGrid::get(std::int64_t channel, std::int64_t y, std::int64_t x) const {
  return (row(channel, y)[x / 64] >> (x % 64) & 1) != 0;
}

void BitGrid::set(std::int64_t channel, std::int64_t y, std::int64_t x, bool value) {
  Word& word = row(channel, y)[x / 64];
  const Word bit = Word{1} << (x % 64);
  word = value ? word | bit : word & ~bit;
}

BitAutomaton::BitAutomaton(const Circuit& circuit, Location where) : circuit_(circuit) {
  if (circuit.inputs != 9 * std::ssize(circuit.outputs))
    fail(where, "BitAutomaton: " + std::to_string(circuit.outputs.size()) + " channels need 9 inputs each, there are " +
                    std::to_string(circuit.inputs));
  std::vector<bool> used(static_cast<std::size_t>(circuit.inputs), false);
  auto mark = [&](std::int32_t wire) {
    if (wire >= 0 && wire < circuit.inputs) used[wire] = true;
  };
  for (const Gate& g : circuit.gates) {
    mark(g.a);
    mark(g.b);
  }
  for (auto o : circuit.outputs) mark(o);
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) used_.push_back(static_cast<std::int32_t>(i));
  // Behind the wires: a block of zeros and one of ones.
  values_.assign((used.size() + circuit.gates.size() + 2) * kBlock, 0);
  std::fill_n(values_.end() - kBlock, kBlock, ~Word{0});
}

std::uint64_t* BitAutomaton::at(std::int32_t wire) {
  const auto wires = circuit_.inputs + std::ssize(circuit_.gates);
  return values_.data() + (wire >= 0 ? wire : wire == kZero ? wires : wires + 1) * kBlock;
}

void BitAutomaton::run_gates() {
  auto wire = static_cast<std::int32_t>(circuit_.inputs);
  for (const Gate& g : circuit_.gates) run_gate(g.function, at(wire++), at(g.a), at(g.b));
}

void BitAutomaton::step(const BitGrid& from, BitGrid& to, Border border) {
  const auto height = from.height(), width = from.width(), words = from.words();
  const bool wrap = border == Border::wrap;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t first = 0; first < words; first += kBlock) {
      const auto count = std::min(kBlock, words - first);
      for (auto in : used_) {
        const int k = in % 9;
        const auto up = y + k / 3 - 1;
        Word* value = at(in);
        if (!wrap && (up < 0 || up >= height)) {
          std::fill_n(value, count, 0);
          continue;
        }
        const Word* row = from.row(in / 9, (up + height) % height);
        for (std::int64_t i = 0; i < count; ++i) value[i] = shifted(row, first + i, words, width, k % 3 - 1, wrap);
      }
      run_gates();
      for (std::int64_t c = 0; c < from.channels(); ++c) {
        Word* row = to.row(c, y) + first;
        std::copy_n(at(circuit_.outputs[c]), count, row);
        if (first + count == words) row[count - 1] &= mask_of(width);
      }
    }
}

void BitAutomaton::step(const BitGrids& from, BitGrids& to, Border border) {
  const auto height = from.height(), width = from.width();
  const bool wrap = border == Border::wrap;
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t first = 0; first < width; first += kBlock) {
      const auto count = std::min(kBlock, width - first);
      for (auto in : used_) {
        const auto up = y + in % 9 / 3 - 1, left = first + in % 3 - 1;
        const Word* row = from.row(in / 9, (up + height) % height);
        const bool outside = !wrap && (up < 0 || up >= height);
        for (std::int64_t i = 0; i < count; ++i) {
          const auto x = left + i;
          const bool edge = x < 0 || x >= width;
          at(in)[i] = outside || (edge && !wrap) ? 0 : row[edge ? (x + width) % width : x];
        }
      }
      run_gates();
      for (std::int64_t c = 0; c < from.channels(); ++c)
        std::copy_n(at(circuit_.outputs[c]), count, to.row(c, y) + first);
    }
}

}  // namespace wr::logic
