// Turns of stickers. Where each sticker goes follows from where it is in space: nothing is typed in by hand.
#include "apps/cube/pocket_cube.h"

namespace wr::apps {
namespace {

struct Point {
  int x = 0, y = 0, z = 0;
  friend constexpr bool operator==(const Point&, const Point&) = default;
};
constexpr Point operator*(int k, const Point& p) { return {k * p.x, k * p.y, k * p.z}; }
constexpr Point operator+(const Point& a, const Point& b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
constexpr int dot(const Point& a, const Point& b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
constexpr Point cross(const Point& a, const Point& b) {
  return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
}

/// x to the right, y up, z to the front. Right and down are as on the unfolded cube.
struct Face {
  Point out, right, down;
};
constexpr Face kFaces[6] = {{{0, 1, 0}, {1, 0, 0}, {0, 0, 1}},   {{1, 0, 0}, {0, 0, -1}, {0, -1, 0}},
                            {{0, 0, 1}, {1, 0, 0}, {0, -1, 0}},  {{0, -1, 0}, {1, 0, 0}, {0, 0, -1}},
                            {{-1, 0, 0}, {0, 0, 1}, {0, -1, 0}}, {{0, 0, -1}, {-1, 0, 0}, {0, -1, 0}}};
constexpr int kTurnedFaces[6] = {1, 0, 2, 4, 3, 5};  // R U F L D B

/// In half stickers: faces are N away from the middle, the middles of stickers an odd or even number to the side.
template <int N>
constexpr Point place_of(int sticker) {
  const Face& face = kFaces[sticker / (N * N)];
  const int row = sticker / N % N, column = sticker % N;
  return N * face.out + (2 * column - (N - 1)) * face.right + (2 * row - (N - 1)) * face.down;
}

template <int N>
constexpr int sticker_at(const Point& place) {
  for (int s = 0; s < 6 * N * N; ++s)
    if (place_of<N>(s) == place) return s;
  return -1;
}

/// A quarter turn is N * N + 4 * N stickers in cycles of four (a middle sticker stays): each goes to the next one's
/// place.
template <int N>
struct Cycles {
  static constexpr int kCount = N * N / 4 + N;
  std::array<std::array<std::uint8_t, 4>, kCount> of{};
};

template <int N>
constexpr Cycles<N> cycles_of(int move) {
  const Point axis = kFaces[kTurnedFaces[move / 2]].out;
  Cycles<N> cycles;
  std::array<bool, 6 * N * N> seen{};
  std::size_t count = 0;
  for (int s = 0; s < 6 * N * N; ++s) {
    if (seen[s] || dot(place_of<N>(s), axis) < N - 1) continue;
    std::array<std::uint8_t, 4> cycle{};
    int at = s;
    for (std::uint8_t& step : cycle) {
      step = static_cast<std::uint8_t>(at);
      seen[at] = true;
      const Point p = place_of<N>(at);
      const int side = move % 2 == 0 ? -1 : 1;  // clockwise as seen from outside
      at = sticker_at<N>(dot(axis, p) * axis + side * cross(axis, p));
    }
    if (cycle[1] != cycle[0]) cycles.of[count++] = cycle;
  }
  return cycles;
}

template <int N>
constexpr auto all_cycles() {
  std::array<Cycles<N>, StickerCube<N>::kMoves> all{};
  for (int m = 0; m < StickerCube<N>::kMoves; ++m) all[m] = cycles_of<N>(m);
  return all;
}

template <int N>
constexpr auto kCycles = all_cycles<N>();

}  // namespace

template <int N>
void StickerCube<N>::turn(int move) {
  for (const auto& [a, b, c, d] : kCycles<N>[move].of) {
    const std::uint8_t last = colours[d];
    colours[d] = colours[c];
    colours[c] = colours[b];
    colours[b] = colours[a];
    colours[a] = last;
  }
}

template struct StickerCube<2>;
template struct StickerCube<3>;

void turn(std::span<Cube3> cubes, std::span<const std::uint8_t> moves) {
  for (std::size_t i = 0; i < cubes.size(); ++i) cubes[i].turn(moves[i]);
}

}  // namespace wr::apps
