// Cubes as environments: any n x n x n (here 2 and 3) as colours of stickers, and the 2x2x2 as two small numbers.
//
// A move is a clockwise quarter turn of a face or its inverse; the inverse of move m is m ^ 1. In order: R R' U U' F
// F', and for the 3x3x3 also L L' D D' B B'. The 2x2x2 turns round its corner DBL, which never moves.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "windrow/random.h"

namespace wr::apps {

// ---- stickers ----
/// Faces U R F D L B, each row by row as on the unfolded cube:
///
///          U
///        L F R B
///          D
///
/// A sticker's colour is the number of the face that it belongs to.
template <int N>
struct StickerCube {
  static constexpr int kStickers = 6 * N * N, kMoves = N == 2 ? 6 : 12;
  using Stickers = std::array<std::uint8_t, kStickers>;

  Stickers colours = solved_colours();

  void turn(int move);
  bool solved() const { return colours == solved_colours(); }
  friend bool operator==(const StickerCube&, const StickerCube&) = default;

 private:
  static constexpr Stickers solved_colours() {
    Stickers c{};
    for (int i = 0; i < kStickers; ++i) c[i] = static_cast<std::uint8_t>(i / (N * N));
    return c;
  }
};
extern template struct StickerCube<2>;
extern template struct StickerCube<3>;
using Cube3 = StickerCube<3>;

/// One move for each cube.
void turn(std::span<Cube3> cubes, std::span<const std::uint8_t> moves);

// ---- notation ----
/// "R U' F2": moves separated by blanks or not; ' and 2 as usual. An Error names the place of what is no move.
std::vector<std::uint8_t> parse_moves(std::string_view text, int moves);
std::string print_moves(std::span<const std::uint8_t> moves);
std::vector<std::uint8_t> inverse(std::span<const std::uint8_t> moves);
/// Random moves, none of which undoes the one before.
std::vector<std::uint8_t> scramble(int length, int moves, Rng& rng);

// ---- the 2x2x2 as two numbers ----
/// All 3,674,160 states by number: which corner stands where (5040) and how each is twisted (729). Solved is 0.
class PocketCube {
 public:
  static constexpr std::int32_t kPermutations = 5040, kTwists = 729, kStates = kPermutations * kTwists;
  static constexpr int kMoves = 6, kCorners = 7, kStickers = 24, kGreatestDistance = 14;

  /// Made at first use, in some milliseconds.
  static const PocketCube& get();

  std::int32_t turn(std::int32_t state, int move) const {
    const auto m = static_cast<std::size_t>(move);
    const auto permutation = static_cast<std::size_t>(state / kTwists),
               twist = static_cast<std::size_t>(state % kTwists);
    return permutation_[m][permutation] + twist_[m][twist];
  }
  /// One move for each state.
  void turn(std::span<std::int32_t> states, std::span<const std::uint8_t> moves) const;
  std::int32_t turned(std::int32_t state, std::span<const std::uint8_t> moves) const;

  StickerCube<2> stickers(std::int32_t state) const;
  /// An Error if no moves lead from the solved cube to these colours.
  std::int32_t state_of(const StickerCube<2>& cube) const;

  /// What a net reads of a state. Stickers: 24 of 144 rows, 6 * sticker + colour. Corners: 8 of 149 rows,
  /// 21 * place + 3 * corner + twist of each place, then 147 + parity (which no small net finds out by itself).
  void sticker_rows(std::span<const std::int32_t> states, std::int32_t* rows) const;
  void corner_rows(std::span<const std::int32_t> states, std::int32_t* rows) const;

  /// The quarter turns from solved, of every state, by breadth-first search.
  std::vector<std::uint8_t> distances() const;
  /// True if the distance is odd: every move swaps the parity of the corners' permutation.
  bool odd(std::int32_t state) const { return odd_[state / kTwists]; }

 private:
  friend class CubeOrbits;
  /// Corner place p holds corner corner[p] (0..6), twisted by twist[p].
  struct Corners {
    std::array<std::uint8_t, kCorners> corner, twist;
  };
  PocketCube();
  Corners corners(std::int32_t state) const;
  static std::int32_t number(const Corners& c);
  static Corners corners_of(const StickerCube<2>& cube);

  std::array<std::array<std::int32_t, kPermutations>, kMoves> permutation_;  // times kTwists
  std::array<std::array<std::int16_t, kTwists>, kMoves> twist_;
  std::array<std::array<std::uint8_t, kCorners>, kPermutations> corners_of_permutation_;
  std::array<std::array<std::uint8_t, kCorners>, kTwists> twists_of_number_;
  std::array<bool, kPermutations> odd_;
};

/// States that are one another seen from another side (6 symmetries of space leave the corner DBL where it is) or
/// undone: they have the same distance. A net that sees one state of each orbit has twelve times less to learn.
class CubeOrbits {
 public:
  /// Made at first use, in about a second.
  static const CubeOrbits& get();
  std::int32_t count() const { return static_cast<std::int32_t>(first_.size()); }
  std::int32_t orbit(std::int32_t state) const { return orbit_[state]; }
  /// The orbit's state with the least number.
  std::int32_t first(std::int32_t orbit) const { return first_[orbit]; }
  std::int32_t size(std::int32_t orbit) const { return size_[orbit]; }
  /// First states have few of the 5040 permutations. How many, and the place among them of an orbit's first state's.
  std::int32_t permutations() const { return permutations_; }
  std::int32_t permutation(std::int32_t orbit) const { return permutation_[first(orbit) / PocketCube::kTwists]; }

 private:
  CubeOrbits();
  std::int32_t permutations_ = 0;
  std::vector<std::int32_t> orbit_, first_, permutation_;
  std::vector<std::uint8_t> size_;
};

inline constexpr auto kMoves = static_cast<std::size_t>(PocketCube::kMoves);  // as lists count

}  // namespace wr::apps
