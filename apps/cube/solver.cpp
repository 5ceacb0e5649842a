#include "apps/cube/solver.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <unordered_set>

namespace wr::apps {
namespace {

constexpr float kSolvedCost = -1e30f;

}  // namespace

const std::vector<std::uint8_t>& cube_distances() {
  static const std::vector<std::uint8_t> all = PocketCube::get().distances();
  return all;
}

// ---- judging ----

CubeJudge::CubeJudge(const CubeSettings& settings, const rl::Net& net, std::int64_t batch,
                     const CompileOptions& options)
    : q_(settings.method == "dqn"),
      symmetry_(!q_ && settings.symmetry),
      pairs_(!q_ && settings.classes),
      batch_(batch),
      encoder_(settings) {
  const Spec input = net.options().input.spec(batch);
  input_ = Array::zeros(input.shape, input.dtype);
  step_ = compile(
      options,
      [&](const Tensor& x) {
        const Tensor outputs = net(x, nn::Mode::eval);
        return q_ ? outputs : rl::value_of(outputs);
      },
      input);
}

/// At most a batch of states; the results stay until the next call.
std::span<const float> CubeJudge::ask(std::span<const std::int32_t> states) {
  encoder_.rows(states, input_);
  const Array& answers = step_(input_)[0];
  return {answers.data<float>(), states.size() * (q_ ? kMoves : 1)};
}

/// A Q-net's answers: the best move, and how little it promises.
void CubeJudge::judge_moves(std::span<const std::int32_t> states, std::span<float> costs,
                            std::span<std::uint8_t> moves) {
  const auto batch = static_cast<std::size_t>(batch_);
  for (std::size_t first = 0; first < states.size(); first += batch) {
    const auto part = states.subspan(first, std::min(batch, states.size() - first));
    const float* row = ask(part).data();
    for (std::size_t i = 0; i < part.size(); ++i, row += kMoves) {
      const float* best = std::max_element(row, row + kMoves);
      costs[first + i] = part[i] == 0 ? kSolvedCost : -*best;
      moves[first + i] = static_cast<std::uint8_t>(best - row);
    }
  }
}

void CubeJudge::costs(std::span<const std::int32_t> states, std::span<float> costs) {
  if (q_) {
    std::vector<std::uint8_t> moves(states.size());
    return judge_moves(states, costs, moves);
  }
  const PocketCube& cube = PocketCube::get();
  const auto batch = static_cast<std::size_t>(batch_);
  for (std::size_t first = 0; first < states.size(); first += batch) {
    const auto part = states.subspan(first, std::min(batch, states.size() - first));
    const auto values = ask(part);
    for (std::size_t i = 0; i < part.size(); ++i) {
      const float cost = pairs_ ? 2 * values[i] + static_cast<float>(cube.odd(part[i])) : values[i];
      costs[first + i] = part[i] == 0 ? kSolvedCost : cost;
    }
  }
}

void CubeJudge::moves(std::span<const std::int32_t> states, std::span<std::uint8_t> moves) {
  if (q_) {
    std::vector<float> cost(states.size());
    return judge_moves(states, cost, moves);
  }
  const PocketCube& cube = PocketCube::get();
  std::vector<std::int32_t> children(states.size() * kMoves);
  std::vector<float> cost(children.size());
  for (std::size_t i = 0; i < children.size(); ++i)
    children[i] = cube.turn(states[i / kMoves], static_cast<int>(i % kMoves));
  costs(children, cost);
  for (std::size_t i = 0; i < states.size(); ++i) {
    const float* row = cost.data() + i * kMoves;
    moves[i] = static_cast<std::uint8_t>(std::min_element(row, row + kMoves) - row);
  }
}

CubeJudge::Everything CubeJudge::everything() {
  const PocketCube& cube = PocketCube::get();
  Everything all{std::vector<float>(PocketCube::kStates), std::vector<std::uint8_t>(PocketCube::kStates)};
  std::vector<std::int32_t> states(PocketCube::kStates);
  std::iota(states.begin(), states.end(), 0);
  if (q_) {
    judge_moves(states, all.costs, all.moves);
    return all;
  }
  if (symmetry_) {
    const CubeOrbits& orbits = CubeOrbits::get();
    std::vector<std::int32_t> firsts(static_cast<std::size_t>(orbits.count()));
    std::vector<float> of_orbit(firsts.size());
    for (std::size_t o = 0; o < firsts.size(); ++o) firsts[o] = orbits.first(static_cast<std::int32_t>(o));
    costs(firsts, of_orbit);
    for (std::size_t s = 0; s < states.size(); ++s) all.costs[s] = of_orbit[orbits.orbit(states[s])];
  } else {
    costs(states, all.costs);
  }
  for (const std::int32_t s : states) {
    float least = std::numeric_limits<float>::infinity();
    for (int m = 0; m < PocketCube::kMoves; ++m) {
      const float cost = all.costs[cube.turn(s, m)];
      if (cost >= least) continue;
      least = cost;
      all.moves[s] = static_cast<std::uint8_t>(m);
    }
  }
  return all;
}

// ---- solving ----

std::optional<std::vector<std::uint8_t>> solve(std::int32_t state, int width, int limit, const CostFunction& costs) {
  if (state == 0) return std::vector<std::uint8_t>{};
  const PocketCube& cube = PocketCube::get();
  struct Node {
    std::int32_t state;
    std::size_t parent;
    std::uint8_t move;
  };
  std::vector<Node> nodes{{state, 0, 0}};  // of all depths, the last depth's from `first` on
  std::unordered_set<std::int32_t> seen{state};
  std::vector<Node> children;
  std::vector<std::int32_t> asked;
  std::vector<float> cost;
  std::vector<std::size_t> order;
  for (int depth = 1; depth <= limit; ++depth) {
    const std::size_t first = depth == 1 ? 0 : nodes.size() - std::min(nodes.size(), children.size());
    children.clear();
    for (std::size_t n = first; n < nodes.size(); ++n) {
      for (std::uint8_t m = 0; m < kMoves; ++m) {
        const std::int32_t to = cube.turn(nodes[n].state, m);
        if (to == 0) {
          std::vector<std::uint8_t> moves{m};
          for (std::size_t at = n; at != 0; at = nodes[at].parent) moves.push_back(nodes[at].move);
          std::reverse(moves.begin(), moves.end());
          return moves;
        }
        if (seen.insert(to).second) children.push_back({to, n, m});
      }
    }
    asked.clear();
    for (const Node& c : children) asked.push_back(c.state);
    cost.resize(asked.size());
    costs(asked, cost);
    order.resize(asked.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const std::size_t kept = std::min(static_cast<std::size_t>(width), order.size());
    std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(kept), order.end(),
                      [&](std::size_t a, std::size_t b) { return cost[a] != cost[b] ? cost[a] < cost[b] : a < b; });
    std::vector<Node> best;
    for (std::size_t i = 0; i < kept; ++i) best.push_back(children[order[i]]);
    children = std::move(best);
    nodes.insert(nodes.end(), children.begin(), children.end());
    if (kept == 0) return std::nullopt;
  }
  return std::nullopt;
}

// ---- all states ----

void Census::add(int distance, int moves) {
  ++states;
  if (moves < 0) return;
  ++solved;
  optimal += moves == distance;
  excess += moves - distance;
  worst = std::max(worst, moves - distance);
}

namespace {

/// Moves that the policy needs from each state, -1 where it goes round in circles.
std::vector<std::int32_t> lengths_of(std::span<const std::uint8_t> policy) {
  constexpr std::int32_t kUnknown = -2, kOnPath = -3, kNever = -1;
  const PocketCube& cube = PocketCube::get();
  std::vector<std::int32_t> length(policy.size(), kUnknown), path;
  length[0] = 0;
  for (std::int32_t start = 0; start < PocketCube::kStates; ++start) {
    std::int32_t at = start;
    path.clear();
    while (length[at] == kUnknown) {
      length[at] = kOnPath;
      path.push_back(at);
      at = cube.turn(at, policy[at]);
    }
    std::int32_t known = length[at];
    if (known == kOnPath) known = kNever;
    for (std::size_t i = path.size(); i-- > 0;) {
      if (known != kNever) ++known;
      length[path[i]] = known;
    }
  }
  return length;
}

}  // namespace

FullCensus census(const CubeJudge::Everything& net, std::span<const std::uint8_t> distances, int limit, int width) {
  const CostFunction known = [&](std::span<const std::int32_t> states, std::span<float> costs) {
    for (std::size_t i = 0; i < states.size(); ++i) costs[i] = net.costs[states[i]];
  };
  const std::vector<std::int32_t> length = lengths_of(net.moves);
  FullCensus result;
  result.moves.resize(static_cast<std::size_t>(limit) + 1);
  for (std::int32_t s = 0; s < PocketCube::kStates; ++s) {
    const auto i = static_cast<std::size_t>(s);
    int moves = length[i] <= limit ? length[i] : -1;
    if (moves < 0 && width > 1) {
      ++result.searched;
      const auto found = solve(s, width, limit, known);
      if (found) moves = static_cast<int>(found->size());
    }
    result.all.add(distances[i], moves);
    result.by_distance[distances[i]].add(distances[i], moves);
    if (moves >= 0) ++result.moves[moves];
  }
  return result;
}

std::array<double, kDistances> success(CubeJudge& judge, std::span<const std::int32_t> states,
                                       std::span<const std::uint8_t> distances, int limit) {
  const PocketCube& cube = PocketCube::get();
  std::array<double, kDistances> all{}, solved{};
  std::vector<std::int32_t> now, from;
  for (const std::int32_t s : states) {
    const std::size_t d = distances[s];
    ++all[d];
    if (s == 0) {
      ++solved[d];
      continue;
    }
    now.push_back(s);
    from.push_back(s);
  }
  std::vector<std::uint8_t> moves;
  for (int m = 0; m < limit && !now.empty(); ++m) {
    moves.resize(now.size());
    judge.moves(now, moves);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < now.size(); ++i) {
      now[kept] = cube.turn(now[i], moves[i]);
      from[kept] = from[i];
      if (now[kept] == 0)
        ++solved[distances[from[kept]]];
      else
        ++kept;
    }
    now.resize(kept);
    from.resize(kept);
  }
  for (std::size_t d = 0; d < kDistances; ++d) solved[d] = all[d] > 0 ? solved[d] / all[d] : -1;
  return solved;
}

}  // namespace wr::apps
