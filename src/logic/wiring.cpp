// Who reads what.
#include <algorithm>
#include <numeric>

#include "windrow/logic.h"
#include "windrow/random.h"

namespace wr::logic {
namespace {

void expect_sizes(const char* name, std::int64_t in, std::int64_t out, Location where) {
  constexpr std::int64_t kMost = 1 << 28;
  if (in < 1 || out < 1 || in > kMost || out > kMost)
    fail(where, std::string(name) + ": " + std::to_string(in) + " wires, " + std::to_string(out) + " gates");
}

Wire wire(std::int64_t a, std::int64_t b) { return {static_cast<std::int32_t>(a), static_cast<std::int32_t>(b)}; }

}  // namespace

Wiring unique_wiring(std::int64_t in, std::int64_t out, std::uint64_t seed, Location where) {
  expect_sizes("unique_wiring", in, out, where);
  if (in > 2 * out)
    fail(where, "unique_wiring: " + std::to_string(out) + " gates cannot read all of " + std::to_string(in) + " wires");
  if (out > in * (in - 1) / 2)
    fail(where,
         "unique_wiring: " + std::to_string(in) + " wires make fewer pairs than " + std::to_string(out) + " gates");
  Wiring pairs;
  for (std::int64_t first : {0, 1})
    for (std::int64_t i = first; i + 1 < in; i += 2) pairs.push_back(wire(i, i + 1));
  for (std::int64_t distance = 2; distance < in && static_cast<std::int64_t>(pairs.size()) < out; ++distance)
    for (std::int64_t i = 0; i + distance < in; ++i) pairs.push_back(wire(i, i + distance));
  // An odd number of wires: the last one is in no pair of the first kind.
  if (in % 2 == 1 && in > 1 && out < in - 1) pairs[static_cast<std::size_t>(out) - 1] = wire(in - 2, in - 1);
  pairs.resize(static_cast<std::size_t>(out));
  shuffle(pairs, Rng::stream(seed, 0));
  return pairs;
}

Wiring random_wiring(std::int64_t in, std::int64_t out, std::uint64_t seed, Location where) {
  expect_sizes("random_wiring", in, out, where);
  Rng draw = Rng::stream(seed, 0);
  std::vector<std::int64_t> ends;  // every wire as often as the next, then shuffled
  while (static_cast<std::int64_t>(ends.size()) < 2 * out) {
    std::vector<std::int64_t> all(static_cast<std::size_t>(in));
    std::iota(all.begin(), all.end(), std::int64_t{0});
    shuffle(all, draw);
    ends.insert(ends.end(), all.begin(), all.end());
  }
  Wiring pairs;
  for (std::int64_t i = 0; i < out; ++i) {
    const auto a = ends[2 * i];
    auto b = ends[2 * i + 1];
    if (a == b && in > 1) b = (b + 1 + static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(in - 1)))) % in;
    pairs.push_back(wire(a, b));
  }
  return pairs;
}

Wiring first_kernel_wiring(std::uint64_t seed) {
  Wiring pairs;
  for (std::int64_t i = 0; i < 9; ++i)
    if (i != 4) pairs.push_back(wire(i, 4));
  shuffle(pairs, Rng::stream(seed, 0));
  return pairs;
}

}  // namespace wr::logic
