// What a trained net makes of the 2x2x2 cube: single cubes, and all of them.
#pragma once

#include <array>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "apps/cube/pocket_cube.h"
#include "apps/cube/settings.h"
#include "windrow/step.h"

namespace wr::apps {

constexpr std::size_t kDistances = PocketCube::kGreatestDistance + 1;

/// The net's judgement, compiled for batches; it shares its parameters with whoever trains the net.
class CubeJudge {
 public:
  CubeJudge(const CubeSettings& settings, const rl::Net& net, std::int64_t batch, const CompileOptions& options);
  /// How far away each state seems: the value, or how little the best move promises. Solved states are far below all.
  void costs(std::span<const std::int32_t> states, std::span<float> costs);
  /// The move that looks best.
  void moves(std::span<const std::int32_t> states, std::span<std::uint8_t> moves);

  /// Both for every state. A value net is asked once a state (an orbit) instead of once a child.
  struct Everything {
    std::vector<float> costs;
    std::vector<std::uint8_t> moves;
  };
  Everything everything();

 private:
  std::span<const float> ask(std::span<const std::int32_t> states);
  void judge_moves(std::span<const std::int32_t> states, std::span<float> costs, std::span<std::uint8_t> moves);
  bool q_, symmetry_, pairs_;
  std::int64_t batch_;
  CubeEncoder encoder_;
  Array input_;
  Step step_;
};

/// Solves by keeping the `width` most promising states of each depth; width 1 is greedy. Nothing if no more than
/// `limit` moves lead to the goal.
using CostFunction = std::function<void(std::span<const std::int32_t>, std::span<float>)>;
std::optional<std::vector<std::uint8_t>> solve(std::int32_t state, int width, int limit, const CostFunction& costs);

/// The result for states of one distance, or of all.
struct Census {
  std::int64_t states = 0, solved = 0, optimal = 0;
  std::int64_t excess = 0;            // moves more than needed, of all that were solved
  int worst = 0;                      // of one of them
  void add(int distance, int moves);  // moves < 0: not solved
};

struct FullCensus {
  Census all;
  std::array<Census, kDistances> by_distance{};
  std::vector<std::int64_t> moves;  // [n]: states solved with n moves
  std::int64_t searched = 0;        // states that the greedy policy failed on, tried with the beam
};
/// Every state, greedily; those that fail also with a beam, if width > 1.
FullCensus census(const CubeJudge::Everything& net, std::span<const std::uint8_t> distances, int limit, int width);

/// Share of given states that the greedy policy solves within `limit` moves, by distance; -1 where there is none.
std::array<double, kDistances> success(CubeJudge& judge, std::span<const std::int32_t> states,
                                       std::span<const std::uint8_t> distances, int limit);

/// All distances, found once and kept.
const std::vector<std::uint8_t>& cube_distances();

}  // namespace wr::apps
