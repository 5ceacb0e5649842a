// CartPole and GridWorld.
#include <fmt/format.h>

#include <numbers>

#include "windrow/error.h"
#include "windrow/rl.h"

namespace wr::rl {

// ---- CartPole: the equations of Barto, Sutton and Anderson (1983), with Gym's numbers ----

void CartPole::reset(Rng& rng) {
  for (float& v : now) v = static_cast<float>(0.1 * rng.uniform() - 0.05);
  steps = 0;
}

Outcome CartPole::step(int action) {
  constexpr double kGravity = 9.8, kCart = 1, kPole = 0.1, kHalfLength = 0.5, kForce = 10, kSeconds = 0.02;
  constexpr double kEdge = 2.4, kLean = 12 * std::numbers::pi / 180;
  const double x = now[0], speed = now[1], angle = now[2], spin = now[3];
  const double force = action == 1 ? kForce : -kForce, sine = std::sin(angle), cosine = std::cos(angle);
  const double pull = (force + kPole * kHalfLength * spin * spin * sine) / (kCart + kPole);
  const double twist =
      (kGravity * sine - cosine * pull) / (kHalfLength * (4.0 / 3.0 - kPole * cosine * cosine / (kCart + kPole)));
  const double push = pull - kPole * kHalfLength * twist * cosine / (kCart + kPole);
  now = {static_cast<float>(x + kSeconds * speed), static_cast<float>(speed + kSeconds * push),
         static_cast<float>(angle + kSeconds * spin), static_cast<float>(spin + kSeconds * twist)};
  ++steps;
  const bool fell = std::abs(now[0]) > kEdge || std::abs(now[2]) > kLean;
  return {1, fell, !fell && steps >= kMaxSteps};
}

// ---- GridWorld ----

GridWorld::GridWorld(std::vector<std::string> rows, int max_steps) : rows_(std::move(rows)), max_steps_(max_steps) {
  if (rows_.empty() || rows_.front().empty()) throw Error("GridWorld: there are no cells");
  int starts = 0, goals = 0;
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    if (rows_[r].size() != rows_.front().size()) {
      throw Error(
          fmt::format("GridWorld: row {} has {} cells, row 0 has {}", r, rows_[r].size(), rows_.front().size()));
    }
    for (std::size_t c = 0; c < rows_[r].size(); ++c) {
      const char cell = rows_[r][c];
      if (std::string_view(".SG#o").find(cell) == std::string_view::npos)
        throw Error(fmt::format("GridWorld: '{}' in row {}, column {}; expected one of . S G # o", cell, r, c));
      starts += cell == 'S';
      goals += cell == 'G';
      if (cell == 'S') start_ = static_cast<std::int32_t>(r * rows_[r].size() + c);
    }
  }
  if (starts != 1 || goals != 1)
    throw Error(fmt::format("GridWorld: there are {} S and {} G; expected one of each", starts, goals));
  cell_ = start_;
}

void GridWorld::reset(Rng&) {
  cell_ = start_;
  steps_ = 0;
}

char GridWorld::at(int cell) const { return rows_[cell / width()][cell % width()]; }

int GridWorld::neighbour(int cell, int action) const {
  constexpr int kDown[] = {-1, 0, 1, 0}, kRight[] = {0, 1, 0, -1};
  const int row = cell / width() + kDown[action], column = cell % width() + kRight[action];
  if (row < 0 || row >= height() || column < 0 || column >= width()) return cell;
  const int to = row * width() + column;
  return at(to) == '#' ? cell : to;
}

Outcome GridWorld::step(int action) {
  cell_ = neighbour(cell_, action);
  ++steps_;
  if (at(cell_) == 'G') return {1, true, false};
  if (at(cell_) == 'o') return {-1, true, false};
  return {-0.01f, false, steps_ >= max_steps_};
}

int GridWorld::shortest() const {
  std::vector<int> distance(static_cast<std::size_t>(cells()), -1), reached{start_};
  distance[start_] = 0;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const int from = reached[i];
    if (at(from) == 'G') return distance[from];
    if (at(from) == 'o') continue;
    for (int a = 0; a < kActions; ++a) {
      const int to = neighbour(from, a);
      if (distance[to] >= 0) continue;
      distance[to] = distance[from] + 1;
      reached.push_back(to);
    }
  }
  throw Error("GridWorld: no way leads from S to G");
}

}  // namespace wr::rl
