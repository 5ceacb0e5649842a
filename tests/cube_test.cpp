// The cubes: that turns form the right group, that both forms of the 2x2x2 agree, and how many states lie how far away.
#include "apps/cube/pocket_cube.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "windrow/error.h"

namespace wr::apps {
namespace {

/// How often a sequence must be repeated until the cube is solved again.
template <int N>
int order_of(const std::string& text) {
  const auto moves = parse_moves(text, StickerCube<N>::kMoves);
  StickerCube<N> cube;
  int times = 0;
  do {
    for (const std::uint8_t m : moves) cube.turn(m);
    ++times;
  } while (!cube.solved() && times < 2000);
  return times;
}

const std::vector<std::uint8_t>& distances() {
  static const auto all = PocketCube::get().distances();
  return all;
}

TEST(StickerCube, OrdersOfKnownSequences) {
  for (const char* face : {"R", "U", "F", "L", "D", "B"}) EXPECT_EQ(order_of<3>(face), 4) << face;
  EXPECT_EQ(order_of<3>("R U"), 105);
  EXPECT_EQ(order_of<3>("R U'"), 63);
  EXPECT_EQ(order_of<3>("R U R' U'"), 6);
  EXPECT_EQ(order_of<3>("R L"), 4);
  EXPECT_EQ(order_of<3>("R U2 D' B D'"), 1260);  // the greatest order there is
  EXPECT_EQ(order_of<2>("R"), 4);
  EXPECT_EQ(order_of<2>("R U"), 15);
  EXPECT_EQ(order_of<2>("R U R' U'"), 6);
}

TEST(StickerCube, OppositeFacesCommuteAndNeighboursDoNot) {
  for (const std::string pair : {"RL", "UD", "FB"}) {
    const std::string commutator = fmt::format("{0}{1}{0}'{1}'", pair[0], pair[1]);
    EXPECT_EQ(order_of<3>(commutator), 1) << commutator;
  }
  EXPECT_NE(order_of<3>("R F R' F'"), 1);
  EXPECT_NE(order_of<2>("U F U' F'"), 1);
}

TEST(StickerCube, TurningRightBringsTheFrontUp) {
  StickerCube<2> cube;
  cube.turn(0);
  EXPECT_EQ(cube.colours[1], 2);  // U's right column is now F's
  EXPECT_EQ(cube.colours[3], 2);
  EXPECT_EQ(cube.colours[2 * 4 + 1], 3);  // F's is D's
  EXPECT_EQ(cube.colours[0], 0);
}

TEST(StickerCube, EveryMoveIsUndoneByItsInverseAndKeepsColourCounts) {
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    const auto moves = scramble(25, Cube3::kMoves, rng);
    for (std::size_t k = 1; k < moves.size(); ++k) EXPECT_NE(moves[k], moves[k - 1] ^ 1);
    Cube3 cube;
    for (const auto m : moves) cube.turn(m);
    std::array<int, 6> counts{};
    for (const auto c : cube.colours) ++counts[c];
    for (const int n : counts) EXPECT_EQ(n, 9);
    for (int face = 0; face < 6; ++face) EXPECT_EQ(cube.colours[9 * face + 4], face);
    EXPECT_FALSE(cube.solved());
    for (const auto m : inverse(moves)) cube.turn(m);
    EXPECT_TRUE(cube.solved());
  }
}

TEST(StickerCube, StatesWithinFewTurnsAsPublished) {
  // Quarter turns of the 3x3x3: 1, 12, 114, 1068, 10011 (Rokicki and others).
  std::set<Cube3::Stickers> seen{Cube3{}.colours}, reached = seen;
  for (const std::size_t expected : {12u, 114u, 1068u, 10011u}) {
    std::set<Cube3::Stickers> next;
    for (const auto& colours : reached) {
      for (int m = 0; m < Cube3::kMoves; ++m) {
        Cube3 cube{colours};
        cube.turn(m);
        if (seen.insert(cube.colours).second) next.insert(cube.colours);
      }
    }
    EXPECT_EQ(next.size(), expected);
    reached = std::move(next);
  }
}

TEST(CubeNotation, ReadsWhatItPrints) {
  const auto moves = parse_moves(" R U'F2\tB' ", 12);
  EXPECT_EQ(moves, (std::vector<std::uint8_t>{0, 3, 4, 4, 11}));
  EXPECT_EQ(print_moves(moves), "R U' F F B'");
  EXPECT_EQ(parse_moves(print_moves(moves), 12), moves);
  EXPECT_TRUE(parse_moves("", 6).empty());
}

TEST(CubeNotation, NamesWhatIsNoMove) {
  try {
    parse_moves("R U L", 6);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()),
              "moves: 'L' at character 5 of \"R U L\" is no move; expected one of R U F, then ' or 2 or nothing");
  }
  EXPECT_THROW(parse_moves("'R", 12), Error);
  EXPECT_THROW(parse_moves("r", 12), Error);
}

TEST(PocketCube, NumbersAndStickersAgreeOnEveryMove) {
  const PocketCube& cube = PocketCube::get();
  Rng rng(1);
  std::int32_t state = 0;
  StickerCube<2> stickers;
  for (int i = 0; i < 20000; ++i) {
    const int m = static_cast<int>(rng.below(6));
    state = cube.turn(state, m);
    stickers.turn(m);
    ASSERT_EQ(cube.stickers(state), stickers);
    ASSERT_EQ(cube.state_of(stickers), state);
    ASSERT_EQ(cube.turn(cube.turn(state, m), m ^ 1), state);
  }
}

TEST(PocketCube, RefusesStickersThatNoMovesLeadTo) {
  StickerCube<2> cube;
  std::swap(cube.colours[0], cube.colours[5]);
  EXPECT_THROW(PocketCube::get().state_of(cube), Error);
}

TEST(PocketCube, StatesByDistance) {
  constexpr int kCounts[] = {1,      6,      27,     120,     534,    2256,  8969, 33058,
                             114149, 360508, 930588, 1350852, 782536, 90280, 276};
  std::vector<int> counts(15);
  for (const auto d : distances()) {
    ASSERT_LE(d, PocketCube::kGreatestDistance);
    ++counts[d];
  }
  EXPECT_TRUE(std::equal(counts.begin(), counts.end(), std::begin(kCounts), std::end(kCounts)));
}

TEST(PocketCube, ParityIsThatOfTheDistance) {
  const PocketCube& cube = PocketCube::get();
  for (std::int32_t s = 0; s < PocketCube::kStates; ++s) ASSERT_EQ(cube.odd(s), distances()[s] % 2 != 0) << s;
}

TEST(PocketCube, RowsNameEveryStickerAndCorner) {
  const PocketCube& cube = PocketCube::get();
  Rng rng(2);
  std::vector<std::int32_t> states(100), stickers(100 * 24), corners(100 * 8);
  for (auto& s : states) s = static_cast<std::int32_t>(rng.below(PocketCube::kStates));
  cube.sticker_rows(states, stickers.data());
  cube.corner_rows(states, corners.data());
  std::set<std::vector<std::int32_t>> different;
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto colours = cube.stickers(states[i]).colours;
    for (std::size_t k = 0; k < 24; ++k) EXPECT_EQ(stickers[24 * i + k], static_cast<int>(6 * k) + colours[k]);
    for (int k = 0; k < 7; ++k) EXPECT_EQ(corners[8 * i + static_cast<std::size_t>(k)] / 21, k);
    EXPECT_EQ(corners[8 * i + 7], 147 + (distances()[states[i]] % 2));
    different.insert({corners.begin() + static_cast<long>(8 * i), corners.begin() + static_cast<long>(8 * i + 8)});
  }
  EXPECT_EQ(different.size(), std::set<std::int32_t>(states.begin(), states.end()).size());
}

TEST(CubeOrbits, HoldEveryStateOnceAtOneDistance) {
  const CubeOrbits& orbits = CubeOrbits::get();
  std::int64_t states = 0;
  for (std::int32_t o = 0; o < orbits.count(); ++o) {
    states += orbits.size(o);
    ASSERT_EQ(orbits.orbit(orbits.first(o)), o);
    ASSERT_EQ(12 % orbits.size(o), 0);
  }
  EXPECT_EQ(states, PocketCube::kStates);
  for (std::int32_t s = 0; s < PocketCube::kStates; ++s)
    ASSERT_EQ(distances()[s], distances()[orbits.first(orbits.orbit(s))]) << s;
  // The six states one turn away are all the same, seen from another side or undone.
  std::set<std::int32_t> near;
  for (int m = 0; m < 6; ++m) near.insert(orbits.orbit(PocketCube::get().turn(0, m)));
  EXPECT_EQ(near.size(), 1u);
}

}  // namespace
}  // namespace wr::apps
