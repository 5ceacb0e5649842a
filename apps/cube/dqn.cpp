// Deep Q-learning on the cube: from rewards alone, with an optional start from labels.
#include <cmath>
#include <cstring>
#include <numbers>

#include "apps/common/metadata.h"
#include "apps/cube/cube.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::apps {
namespace {

constexpr float kSolvedReward = 1, kMoveReward = -0.01f;

/// One cube that is being turned.
struct CubeEpisode {
  std::int32_t state = 0, moves = 0;

  void scramble(int depth, Rng& rng) {
    do {
      state = PocketCube::get().turned(0, apps::scramble(depth, PocketCube::kMoves, rng));
    } while (state == 0);
    moves = 0;
  }
  rl::Outcome step(int move, std::int64_t max_moves) {
    state = PocketCube::get().turn(state, move);
    ++moves;
    if (state == 0) return {kSolvedReward, true, false};
    return {kMoveReward, false, moves >= max_moves};
  }
};

/// Discounted rewards of solving in `distance` moves.
double exact_return(int distance, double gamma) {
  double value = 0, discount = 1;
  for (int i = 1; i < distance; ++i, discount *= gamma) value += discount * kMoveReward;
  return value + discount * kSolvedReward;
}

template <class T>
Array bytes_of(const std::vector<T>& values) {
  static_assert(std::is_trivially_copyable_v<T>);
  Array a = Array::zeros({static_cast<std::int64_t>(values.size() * sizeof(T))}, DType::u8);
  if (!values.empty()) std::memcpy(a.mutable_data<std::uint8_t>(), values.data(), values.size() * sizeof(T));
  return a;
}

template <class T>
std::vector<T> values_of(const std::map<std::string, Array>& arrays, const std::string& name, const std::string& path,
                         std::size_t most) {
  const auto found = arrays.find(name);
  if (found == arrays.end()) throw Error(fmt::format("{}: has no {}", path, name));
  const Array& a = found->second;
  if (a.dtype() != DType::u8 || a.bytes() % sizeof(T) != 0 || a.bytes() / sizeof(T) > most)
    throw Error(fmt::format("{}: {} is {}, expected u8 bytes of at most {} entries of {}", path, name,
                            to_string(Spec{a.dtype(), a.shape()}), most, sizeof(T)));
  std::vector<T> values(a.bytes() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), a.data<std::uint8_t>(), a.bytes());
  return values;
}

void check_state(std::int32_t state, const std::string& path) {
  if (state < 0 || state >= PocketCube::kStates)
    throw Error(fmt::format("{}: {} is no state of the cube", path, state));
}

void check_move(std::int32_t move, const std::string& path) {
  if (move < 0 || move >= PocketCube::kMoves) throw Error(fmt::format("{}: {} is no move", path, move));
}

void check_reward(float reward, const std::string& path) {
  if (!std::isfinite(reward)) throw Error(fmt::format("{}: a reward or discount is {}", path, text::shown(reward)));
}

void check_outcomes(const std::vector<std::uint8_t>& outcomes, const char* name, const std::string& path) {
  for (std::uint8_t o : outcomes)
    if (o > 1) throw Error(fmt::format("{}: {}: {} is no outcome, expected 0 or 1", path, name, o));
}

class QCube : public CubeLearner {
 public:
  using Window = rl::NStep<std::int32_t>;
  using Entry = rl::Transition<std::int32_t>;

  QCube(const CubeSettings& s, const CompileOptions& options)
      : settings_(s),
        dqn_(net_options(s), dqn_options(s), options),
        encoder_(s),
        replay_({s.replay, s.prioritised, s.alpha}),
        epsilon_{s.eps, s.eps_least, s.eps_decay},
        curriculum_(curriculum_options(s)),
        rng_(s.seed),
        cubes_(static_cast<std::size_t>(s.environments)),
        windows_(cubes_.size(), Window(static_cast<int>(s.n_step), s.gamma)),
        entries_(static_cast<std::size_t>(s.batch)),
        from_(entries_.size()),
        to_(entries_.size()),
        recent_(kRecent) {
    if (s.warm_up > s.replay)
      throw Error(fmt::format("warm-up is {}, but replay holds only {} transitions", s.warm_up, s.replay));
    if (s.last_depth < s.first_depth)
      throw Error(fmt::format("last-depth is {}, but first-depth is {}", s.last_depth, s.first_depth));
    if (s.pretrain > 0) pretrain(options);
    for (CubeEpisode& c : cubes_) c.scramble(curriculum_.draw(rng_), rng_);
  }

  const char* unit() const override { return "episode"; }
  std::int64_t done() const override { return episodes_; }
  std::int64_t total() const override { return settings_.episodes; }
  std::int64_t moves() const override { return moves_; }
  std::int64_t updates() const override { return updates_; }
  double depth() const override { return curriculum_.depth(); }
  const rl::Net& net() const override { return dqn_.net(); }
  const Step& train_step() const override { return dqn_.train_step(); }
  std::string note() const override {
    std::size_t solved = 0;
    const std::size_t n = std::min<std::size_t>(kRecent, static_cast<std::size_t>(episodes_));
    for (std::size_t i = 0; i < n; ++i) solved += recent_[i];
    return fmt::format("depth {:.3g}  eps {:.2f}  solved {:.0f} %", curriculum_.depth(), epsilon_.at(episodes_),
                       n ? 100.0 * static_cast<double>(solved) / static_cast<double>(n) : 0.0);
  }

  /// One move of every cube, and as many training steps.
  void advance() override {
    choose();
    for (std::size_t i = 0; i < cubes_.size(); ++i) {
      const std::int32_t from = cubes_[i].state;
      const auto keep = [&](const Entry& e) { replay_.add(e); };
      if (chance_[i] && settings_.cut_at_chance) windows_[i].cut(from, keep);
      const rl::Outcome outcome = cubes_[i].step(moves_of_[i], settings_.max_moves);
      ++moves_;
      windows_[i].add(from, moves_of_[i], outcome, cubes_[i].state, keep);
      if (outcome.over()) end_episode(cubes_[i], outcome.terminal);
    }
    if (replay_.size() < settings_.warm_up) return;
    for (std::size_t i = 0; i < cubes_.size(); ++i) learn();
  }

  double take_loss() override {
    const double mean = losses_ ? loss_ / static_cast<double>(losses_) : 0;
    loss_ = 0;
    losses_ = 0;
    return mean;
  }

  CubeState state() const override;
  void restore(const std::map<std::string, Array>& arrays, const Metadata& texts, const std::string& path) override;

 private:
  static constexpr std::size_t kRecent = 200;

  static rl::DqnOptions dqn_options(const CubeSettings& s) {
    rl::DqnOptions o;
    o.batch = s.batch;
    o.lr = s.lr;
    o.double_q = s.double_q;
    o.huber = s.huber;
    if (s.bounded) {
      o.least = s.gamma < 1 ? kMoveReward / (1 - s.gamma) : kMoveReward * static_cast<double>(s.max_moves);
      o.greatest = kSolvedReward;
    }
    o.tau = s.tau;
    o.margin = s.margin;
    o.acting = s.environments;
    return o;
  }
  static rl::CurriculumOptions curriculum_options(const CubeSettings& s) {
    rl::CurriculumOptions o;
    o.first = s.curriculum ? s.first_depth : s.last_depth;
    o.last = s.last_depth;
    o.step = s.depth_step;
    return o;
  }

  /// Random moves where chance says so (never with a noisy net), the best-looking ones elsewhere.
  void choose() {
    states_.clear();
    for (const CubeEpisode& c : cubes_) states_.push_back(c.state);
    moves_of_.resize(cubes_.size());
    chance_.clear();
    const double epsilon = settings_.noisy ? 0 : epsilon_.at(episodes_);
    bool greedy = false;
    for (std::uint8_t& m : moves_of_) {
      const bool chance = rng_.uniform() < epsilon;
      chance_.push_back(chance);
      m = chance ? static_cast<std::uint8_t>(rng_.below(kMoves)) : kGreedy;
      greedy = greedy || !chance;
    }
    if (!greedy) return;
    encoder_.rows(states_, dqn_.acting_input());
    const auto q = dqn_.act();
    for (std::size_t i = 0; i < moves_of_.size(); ++i) {
      if (moves_of_[i] != kGreedy) continue;
      const float* row = q.data() + i * kMoves;
      moves_of_[i] = static_cast<std::uint8_t>(std::max_element(row, row + kMoves) - row);
    }
  }

  void end_episode(CubeEpisode& cube, bool solved) {
    recent_[static_cast<std::size_t>(episodes_) % kRecent] = solved;
    ++episodes_;
    if (settings_.schedule == "cosine") {
      const double share = static_cast<double>(episodes_) / static_cast<double>(settings_.episodes);
      dqn_.set_lr(settings_.lr * std::max(1e-2, 0.5 + 0.5 * std::cos(std::numbers::pi * std::min(1.0, share))));
    }
    curriculum_.record(solved);
    cube.scramble(curriculum_.draw(rng_), rng_);
  }

  void learn() {
    const double share = std::min(1.0, static_cast<double>(updates_) / static_cast<double>(settings_.beta_steps));
    rl::Dqn::Batch& b = dqn_.batch();
    const std::span<float> weights(b.weight.mutable_data<float>(), entries_.size());
    replay_.sampler().sample(rng_, settings_.beta + share * (1 - settings_.beta), entries_, weights);
    std::int32_t* action = b.action.mutable_data<std::int32_t>();
    float* reward = b.reward.mutable_data<float>();
    float* discount = b.discount.mutable_data<float>();
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      const Entry& e = replay_[entries_[i]];
      from_[i] = e.from;
      to_[i] = e.to;
      action[i] = e.action;
      reward[i] = e.reward;
      discount[i] = e.discount;
    }
    encoder_.rows(from_, b.from);
    encoder_.rows(to_, b.to);
    if (settings_.margin > 0) label(from_, b.right.mutable_data<float>());
    const auto trained = dqn_.train();
    replay_.sampler().update(entries_, trained.errors);
    loss_ += trained.loss;
    ++losses_;
    ++updates_;
    if (settings_.tau < 1 || updates_ % settings_.sync_every == 0) dqn_.sync();
  }

  /// 1 for each best move of a state within pretrain_depth moves.
  void label(std::span<const std::int32_t> states, float* right) const {
    const auto& distance = cube_distances();
    const auto at = [&](std::int32_t s) { return static_cast<int>(distance[s]); };
    for (const std::int32_t s : states) {
      const bool known = at(s) <= settings_.pretrain_depth;
      for (int m = 0; m < PocketCube::kMoves; ++m)
        *right++ = known && at(PocketCube::get().turn(s, m)) < at(s) ? 1.0f : 0.0f;
    }
  }

  /// On every state within pretrain_depth moves, at random.
  void pretrain(const CompileOptions& options) {
    rl::PretrainOptions o;
    o.batch = 256;
    o.lr = settings_.lr;
    o.target =
        settings_.pretrain_target == "set" ? rl::PretrainOptions::Target::set : rl::PretrainOptions::Target::values;
    rl::Pretrainer pretrainer(dqn_.net(), o, options);
    const auto& distance = cube_distances();
    const auto at = [&](std::int32_t s) { return static_cast<int>(distance[s]); };
    std::vector<std::int32_t> near;
    for (std::int32_t s = 1; s < PocketCube::kStates; ++s)
      if (at(s) <= settings_.pretrain_depth) near.push_back(s);
    std::vector<std::int32_t> states(static_cast<std::size_t>(o.batch));
    for (std::int64_t step = 0; step < settings_.pretrain; ++step) {
      for (std::int32_t& s : states) s = near[rng_.below(near.size())];
      encoder_.rows(states, pretrainer.input());
      float* y = pretrainer.target().mutable_data<float>();
      for (const std::int32_t s : states) {
        for (int m = 0; m < PocketCube::kMoves; ++m) {
          const int to = at(PocketCube::get().turn(s, m));
          const double value =
              to == 0 ? double{kSolvedReward} : kMoveReward + settings_.gamma * exact_return(to, settings_.gamma);
          *y++ = o.target == rl::PretrainOptions::Target::set ? (to < at(s) ? 1.0f : 0.0f) : static_cast<float>(value);
        }
      }
      pretrainer.train();
    }
    dqn_.copy_to_target();
  }

  static constexpr std::uint8_t kGreedy = 255;
  CubeSettings settings_;
  rl::Dqn dqn_;
  CubeEncoder encoder_;
  rl::Replay<std::int32_t> replay_;
  rl::Epsilon epsilon_;
  rl::Curriculum curriculum_;
  Rng rng_;
  std::vector<CubeEpisode> cubes_;
  std::vector<Window> windows_;
  std::vector<std::int64_t> entries_;
  std::vector<std::int32_t> from_, to_, states_;
  std::vector<std::uint8_t> moves_of_, chance_;  // of each cube: its move, and whether that is a random one
  std::vector<std::uint8_t> recent_;             // outcomes of the last episodes, a ring
  std::int64_t episodes_ = 0, moves_ = 0, updates_ = 0, losses_ = 0;
  double loss_ = 0;
};

// ---- checkpoints ----

CubeState QCube::state() const {
  CubeState s;
  dqn_.add_to(s.states);
  const auto sampler = replay_.sampler().state();
  std::vector<Entry> entries(replay_.entries().begin(),
                             replay_.entries().begin() + static_cast<std::ptrdiff_t>(sampler.size));
  s.arrays["run.replay"] = bytes_of(entries);
  s.arrays["run.priorities"] = bytes_of(sampler.priorities);
  s.arrays["run.cubes"] = bytes_of(cubes_);
  for (std::size_t i = 0; i < windows_.size(); ++i)
    s.arrays[fmt::format("run.window{}", i)] = bytes_of(windows_[i].open());
  s.arrays["run.outcomes"] = bytes_of(curriculum_.outcomes());
  s.arrays["run.recent"] = bytes_of(recent_);
  s.texts["replay_next"] = std::to_string(sampler.next);
  s.texts["replay_greatest"] = std::to_string(sampler.greatest);
  s.texts["depth"] = fmt::format("{}", curriculum_.depth());
  s.texts["rng"] = std::to_string(rng_.state());
  s.texts["done"] = std::to_string(episodes_);
  s.texts["moves"] = std::to_string(moves_);
  s.texts["updates"] = std::to_string(updates_);
  s.texts["loss"] = fmt::format("{}", loss_);
  s.texts["losses"] = std::to_string(losses_);
  return s;
}

void QCube::restore(const std::map<std::string, Array>& arrays, const Metadata& texts, const std::string& path) {
  const MetadataReader file(texts, path);
  const std::int64_t episodes = file.whole("done", 0, settings_.episodes), moves = file.whole("moves", 0),
                     updates = file.whole("updates", 0), losses = file.whole("losses", 0);
  const double loss = file.number("loss"), depth = file.number("depth");
  const auto most = static_cast<std::size_t>(settings_.replay);
  const auto entries = values_of<Entry>(arrays, "run.replay", path, most);
  for (const Entry& e : entries) {
    check_state(e.from, path);
    check_state(e.to, path);
    check_move(e.action, path);
    check_reward(e.reward, path);
    check_reward(e.discount, path);
  }
  rl::Sampler::State sampler;
  sampler.size = static_cast<std::int64_t>(entries.size());
  sampler.next = file.whole("replay_next", 0, settings_.replay);
  sampler.greatest = file.bits("replay_greatest");
  sampler.priorities = values_of<std::uint64_t>(arrays, "run.priorities", path, most);
  auto cubes = values_of<CubeEpisode>(arrays, "run.cubes", path, cubes_.size());
  auto recent = values_of<std::uint8_t>(arrays, "run.recent", path, kRecent);
  if (cubes.size() != cubes_.size() || recent.size() != kRecent)
    throw Error(fmt::format("{}: holds {} cubes and {} outcomes, expected {} and {}", path, cubes.size(), recent.size(),
                            cubes_.size(), kRecent));
  for (const CubeEpisode& c : cubes) {
    check_state(c.state, path);
    if (c.moves < 0 || c.moves > settings_.max_moves)
      throw Error(fmt::format("{}: run.cubes: {} moves, expected 0 to {}", path, c.moves, settings_.max_moves));
  }
  check_outcomes(recent, "run.recent", path);
  std::vector<std::vector<Window::Open>> open;
  for (std::size_t i = 0; i < windows_.size(); ++i) {
    open.push_back(values_of<Window::Open>(arrays, fmt::format("run.window{}", i), path,
                                           static_cast<std::size_t>(settings_.n_step)));
    for (const auto& o : open.back()) {
      check_state(o.from, path);
      check_move(o.action, path);
      check_reward(o.reward, path);
    }
  }
  auto outcomes = values_of<std::uint8_t>(arrays, "run.outcomes", path, 1'000'000);
  check_outcomes(outcomes, "run.outcomes", path);
  try {
    curriculum_.restore(depth, std::move(outcomes));
    replay_.sampler().restore(sampler);
  } catch (const Error& e) {
    throw Error(fmt::format("{}: {}", path, e.what()));
  }
  std::copy(entries.begin(), entries.end(), replay_.entries().begin());
  cubes_ = std::move(cubes);
  recent_ = std::move(recent);
  for (std::size_t i = 0; i < windows_.size(); ++i) windows_[i].set_open(std::move(open[i]));
  rng_ = Rng(file.bits("rng"));
  episodes_ = episodes;
  moves_ = moves;
  updates_ = updates;
  loss_ = loss;
  losses_ = losses;
}

}  // namespace

std::unique_ptr<CubeLearner> make_q_learner(const CubeSettings& settings, const CompileOptions& options) {
  return std::make_unique<QCube>(settings, options);
}

}  // namespace wr::apps
