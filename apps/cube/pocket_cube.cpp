// The 2x2x2 by number. All tables are made by turning sticker cubes.
#include <algorithm>
#include <numeric>

#include "apps/cube/pocket_cube.h"
#include "windrow/error.h"

namespace wr::apps {
namespace {

constexpr std::uint8_t U = 0, R = 1, F = 2, D = 3, L = 4, B = 5;

/// Sticker at a row and column of a face.
constexpr std::uint8_t at(int face, int row, int column) {
  return static_cast<std::uint8_t>(4 * face + 2 * row + column);
}

/// The stickers of each corner place, clockwise, the one on U or D first. The last place (DBL) never changes.
constexpr std::array<std::array<std::uint8_t, 3>, 8> kPlaces{{
    {at(U, 1, 1), at(R, 0, 0), at(F, 0, 1)},  // URF
    {at(U, 1, 0), at(F, 0, 0), at(L, 0, 1)},  // UFL
    {at(U, 0, 0), at(L, 0, 0), at(B, 0, 1)},  // ULB
    {at(U, 0, 1), at(B, 0, 0), at(R, 0, 1)},  // UBR
    {at(D, 0, 1), at(F, 1, 1), at(R, 1, 0)},  // DFR
    {at(D, 0, 0), at(L, 1, 1), at(F, 1, 0)},  // DLF
    {at(D, 1, 1), at(R, 1, 1), at(B, 1, 0)},  // DRB
    {at(D, 1, 0), at(B, 1, 1), at(L, 1, 0)},  // DBL
}};
constexpr std::uint8_t colour_of(std::uint8_t sticker) { return sticker / 4; }

constexpr int kCorners = PocketCube::kCorners;

int permutation_number(const std::array<std::uint8_t, kCorners>& corner) {
  int number = 0;
  for (std::size_t i = 0; i < kCorners; ++i) {
    int less = 0;
    for (std::size_t j = i + 1; j < kCorners; ++j) less += corner[j] < corner[i];
    number = number * (kCorners - static_cast<int>(i)) + less;
  }
  return number;
}

bool is_odd(const std::array<std::uint8_t, kCorners>& corner) {
  int swaps = 0;
  for (std::size_t i = 0; i < kCorners; ++i)
    for (std::size_t j = i + 1; j < kCorners; ++j) swaps += corner[j] < corner[i];
  return swaps % 2 != 0;
}

/// The last corner's twist follows from the others'.
int twist_number(const std::array<std::uint8_t, kCorners>& twist) {
  int number = 0;
  for (std::size_t i = 0; i + 1 < kCorners; ++i) number = 3 * number + twist[i];
  return number;
}

}  // namespace

const PocketCube& PocketCube::get() {
  static const PocketCube cube;
  return cube;
}

PocketCube::PocketCube() {
  std::array<std::uint8_t, kCorners> corner{};
  std::iota(corner.begin(), corner.end(), std::uint8_t{0});
  do {
    const auto n = static_cast<std::size_t>(permutation_number(corner));
    corners_of_permutation_[n] = corner;
    odd_[n] = is_odd(corner);
  } while (std::next_permutation(corner.begin(), corner.end()));
  for (std::size_t n = 0; n < kTwists; ++n) {
    int rest = static_cast<int>(n), sum = 0;
    for (std::size_t i = kCorners - 1; i-- > 0; rest /= 3) sum += twists_of_number_[n][i] = rest % 3;
    twists_of_number_[n][kCorners - 1] = static_cast<std::uint8_t>((3 - sum % 3) % 3);
  }
  for (int m = 0; m < kMoves; ++m) {
    const auto turned = [&](std::int32_t state) {
      StickerCube<2> cube = stickers(state);
      cube.turn(m);
      return number(corners_of(cube));
    };
    const auto move = static_cast<std::size_t>(m);
    for (std::int32_t p = 0; p < kPermutations; ++p) permutation_[move][p] = turned(p * kTwists) / kTwists * kTwists;
    for (std::int32_t t = 0; t < kTwists; ++t) twist_[move][t] = static_cast<std::int16_t>(turned(t) % kTwists);
  }
}

PocketCube::Corners PocketCube::corners(std::int32_t state) const {
  return {corners_of_permutation_[state / kTwists], twists_of_number_[state % kTwists]};
}

std::int32_t PocketCube::number(const Corners& c) {
  return permutation_number(c.corner) * kTwists + twist_number(c.twist);
}

PocketCube::Corners PocketCube::corners_of(const StickerCube<2>& cube) {
  Corners c{};
  for (std::size_t place = 0; place < kCorners; ++place) {
    bool found = false;
    for (std::uint8_t corner = 0; corner < kCorners; ++corner) {
      for (std::uint8_t twist = 0; twist < 3; ++twist) {
        bool same = true;
        for (std::size_t k = 0; k < 3; ++k)
          same = same && cube.colours[kPlaces[place][(k + twist) % 3]] == colour_of(kPlaces[corner][k]);
        if (!same) continue;
        c.corner[place] = corner;
        c.twist[place] = twist;
        found = true;
      }
    }
    if (!found) throw Error("the stickers at corner " + std::to_string(place) + " are those of no corner that moves");
  }
  return c;
}

StickerCube<2> PocketCube::stickers(std::int32_t state) const {
  StickerCube<2> cube;
  const Corners c = corners(state);
  for (std::size_t place = 0; place < kCorners; ++place)
    for (std::size_t k = 0; k < 3; ++k)
      cube.colours[kPlaces[place][(k + c.twist[place]) % 3]] = colour_of(kPlaces[c.corner[place]][k]);
  return cube;
}

std::int32_t PocketCube::state_of(const StickerCube<2>& cube) const {
  const std::int32_t state = number(corners_of(cube));
  if (stickers(state) != cube) throw Error("no moves lead to these stickers: a corner is missing, or twisted by hand");
  return state;
}

void PocketCube::turn(std::span<std::int32_t> states, std::span<const std::uint8_t> moves) const {
  for (std::size_t i = 0; i < states.size(); ++i) states[i] = turn(states[i], moves[i]);
}

std::int32_t PocketCube::turned(std::int32_t state, std::span<const std::uint8_t> moves) const {
  for (const std::uint8_t m : moves) state = turn(state, m);
  return state;
}

void PocketCube::corner_rows(std::span<const std::int32_t> states, std::int32_t* rows) const {
  for (const std::int32_t state : states) {
    const Corners c = corners(state);
    for (std::size_t place = 0; place < kCorners; ++place)
      *rows++ = static_cast<std::int32_t>(21 * place) + 3 * c.corner[place] + c.twist[place];
    *rows++ = 21 * kCorners + odd(state);
  }
}

void PocketCube::sticker_rows(std::span<const std::int32_t> states, std::int32_t* rows) const {
  for (const std::int32_t state : states) {
    const Corners c = corners(state);
    for (std::size_t place = 0; place < kCorners; ++place) {
      for (std::size_t k = 0; k < 3; ++k) {
        const std::uint8_t sticker = kPlaces[place][(k + c.twist[place]) % 3];
        rows[sticker] = 6 * sticker + colour_of(kPlaces[c.corner[place]][k]);
      }
    }
    for (const std::uint8_t sticker : kPlaces[kCorners]) rows[sticker] = 6 * sticker + colour_of(sticker);
    rows += kStickers;
  }
}

std::vector<std::uint8_t> PocketCube::distances() const {
  constexpr std::uint8_t kFar = 255;
  std::vector<std::uint8_t> distance(kStates, kFar);
  std::vector<std::int32_t> reached{0}, next;
  distance[0] = 0;
  for (std::uint8_t d = 1; !reached.empty(); ++d) {
    next.clear();
    for (const std::int32_t state : reached) {
      for (int m = 0; m < kMoves; ++m) {
        const std::int32_t to = turn(state, m);
        if (distance[to] != kFar) continue;
        distance[to] = d;
        next.push_back(to);
      }
    }
    reached.swap(next);
  }
  return distance;
}

// ---- orbits ----

namespace {

/// A state as a permutation: the sticker at place i came from from[i].
using StickerPermutation = std::array<std::uint8_t, PocketCube::kStickers>;

constexpr int kSymmetries = 6;

/// The corner DBL lies on three axes; any order of the axes is a symmetry that leaves it there. Faces come in pairs
/// (U D, R L, F B), one pair an axis.
std::array<StickerPermutation, kSymmetries> symmetries() {
  constexpr std::uint8_t kAxes[3][2] = {{U, D}, {R, L}, {F, B}};
  std::array<StickerPermutation, kSymmetries> all{};
  std::array<std::size_t, 3> order{0, 1, 2};
  for (StickerPermutation& symmetry : all) {
    std::array<std::uint8_t, 6> face{};
    for (std::size_t axis = 0; axis < 3; ++axis)
      for (std::size_t end = 0; end < 2; ++end) face[kAxes[axis][end]] = kAxes[order[axis]][end];
    // A sticker is known by its face and the two other faces of its corner.
    for (const auto& place : kPlaces) {
      for (std::size_t k = 0; k < 3; ++k) {
        const std::uint8_t f0 = face[colour_of(place[k])];
        const std::uint8_t f1 = face[colour_of(place[(k + 1) % 3])], f2 = face[colour_of(place[(k + 2) % 3])];
        for (const auto& to : kPlaces) {
          for (std::size_t j = 0; j < 3; ++j) {
            const std::uint8_t g1 = colour_of(to[(j + 1) % 3]), g2 = colour_of(to[(j + 2) % 3]);
            if (colour_of(to[j]) == f0 && ((g1 == f1 && g2 == f2) || (g1 == f2 && g2 == f1)))
              symmetry[place[k]] = to[j];
          }
        }
      }
    }
    std::next_permutation(order.begin(), order.end());
  }
  return all;
}

}  // namespace

const CubeOrbits& CubeOrbits::get() {
  static const CubeOrbits orbits;
  return orbits;
}

CubeOrbits::CubeOrbits() : orbit_(PocketCube::kStates, -1), permutation_(PocketCube::kPermutations, -1) {
  const PocketCube& cube = PocketCube::get();
  const auto symmetry = symmetries();
  // Where corner place and twist of each sticker are, to read a permutation back as a state.
  std::array<std::uint8_t, PocketCube::kStickers> place_of{}, turn_of{};
  for (std::uint8_t place = 0; place < 8; ++place) {
    for (std::uint8_t k = 0; k < 3; ++k) {
      place_of[kPlaces[place][k]] = place;
      turn_of[kPlaces[place][k]] = k;
    }
  }
  const auto permutation = [&](std::int32_t state) {
    StickerPermutation from{};
    const auto c = cube.corners(state);
    for (std::size_t place = 0; place < kCorners; ++place)
      for (std::size_t k = 0; k < 3; ++k) from[kPlaces[place][(k + c.twist[place]) % 3]] = kPlaces[c.corner[place]][k];
    for (const std::uint8_t sticker : kPlaces[kCorners]) from[sticker] = sticker;
    return from;
  };
  const auto state_of = [&](const StickerPermutation& from) {
    PocketCube::Corners c{};
    for (std::size_t place = 0; place < kCorners; ++place) {
      const std::uint8_t origin = from[kPlaces[place][0]];
      c.corner[place] = place_of[origin];
      c.twist[place] = static_cast<std::uint8_t>((3 - turn_of[origin]) % 3);
    }
    return PocketCube::number(c);
  };
  for (std::int32_t state = 0; state < PocketCube::kStates; ++state) {
    if (orbit_[state] >= 0) continue;
    const auto orbit = static_cast<std::int32_t>(first_.size());
    std::uint8_t size = 0;
    const auto add = [&](std::int32_t member) {
      size += orbit_[member] < 0;
      orbit_[member] = orbit;
    };
    const StickerPermutation from = permutation(state);
    for (const StickerPermutation& s : symmetry) {
      StickerPermutation seen{}, undone{};
      for (std::size_t i = 0; i < from.size(); ++i) {
        seen[s[i]] = s[from[i]];
        undone[s[from[i]]] = s[i];
      }
      add(state_of(seen));
      add(state_of(undone));
    }
    first_.push_back(state);
    size_.push_back(size);
    std::int32_t& place = permutation_[state / PocketCube::kTwists];
    if (place < 0) place = permutations_++;
  }
}

}  // namespace wr::apps
