// All that decides the result of a training run on the 2x2x2 cube.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "apps/common/fields.h"
#include "windrow/rl.h"

namespace wr::apps {

struct CubeSettings {
  /// supervised: the distance, from exact labels. value-iteration: the distance, from the net's own values one move on.
  /// dqn: Q, from rewards.
  std::string method = "supervised";
  std::uint64_t seed = 1;

  // The net.
  std::string encoding = "coordinates";
  bool symmetry = true;
  std::string hidden = "512,128";
  std::string activation = "relu";
  bool classes = true;  // value methods: the distance as a distribution, not as one number
  bool layer_norm = false, residual = false, dueling = false, noisy = false;

  // How it learns.
  std::int64_t batch = 1024;
  double lr = 3e-3;
  std::string schedule = "cosine";
  double huber = 0;             // delta; 0: squared error
  std::int64_t steps = 16'000;  // of the value methods
  double near = 0.1;            // share of their examples that are random walks of length 1..walk
  std::int64_t walk = 14;
  std::int64_t sync_every = 500;  // value iteration: steps; dqn with tau 1: training steps
  bool parity = true;             // value iteration: values are rounded to whole numbers of the state's parity

  // Q-learning.
  std::int64_t episodes = 5000, environments = 1, max_moves = 50, n_step = 3;
  bool cut_at_chance = true;  // returns end before a random move
  double gamma = 0.99;
  bool double_q = true;
  bool bounded = true;  // values of targets are kept within what returns can be
  double tau = 0.01;
  std::int64_t replay = 20'000, warm_up = 1'500;
  bool prioritised = true;
  double alpha = 0.6, beta = 0.4;
  std::int64_t beta_steps = 100'000;
  double eps = 1, eps_least = 0.01, eps_decay = 0.999;
  bool curriculum = true;
  double first_depth = 1, last_depth = 4, depth_step = 1;
  std::int64_t pretrain = 0, pretrain_depth = 3;  // steps; states within that many moves
  std::string pretrain_target = "set";
  double margin = 0;  // by which the best moves of those states must lead in training too
};

std::vector<std::string> cube_presets();
/// best: our default. seed: deep Q-learning. label-free: value iteration. Throws an Error for any other name.
CubeSettings cube_preset(const std::string& name);
const std::vector<NamedField<CubeSettings>>& cube_fields();
void set(CubeSettings& settings, const std::string& name, const std::string& text);
Texts to_texts(const CubeSettings& settings);
/// The settings of a checkpoint of `windrow train cube`. An Error says what the file is instead.
CubeSettings cube_settings_of(const SafetensorsHeader& header, const std::string& path);
rl::NetOptions net_options(const CubeSettings& settings);

/// A net with classes says how many pairs of moves are left: with the parity, that is the distance.
constexpr std::int64_t kPairClasses = 8;

/// What a net reads of states, as rows of its first layer's table.
///   stickers: the colour of each sticker, 24 of 144
///   corners: which corner stands in each place and how it is twisted, and the parity, 8 of 149
///   coordinates: besides, the permutation and the twists as a whole, 10 of 1391 with symmetry and of 5918 without
/// With symmetry every state is shown as its orbit's first one.
class CubeEncoder {
 public:
  explicit CubeEncoder(const CubeSettings& settings);
  rl::Input input() const;
  void rows(std::span<const std::int32_t> states, Array& input);

 private:
  enum class Kind { stickers, corners, coordinates } kind_;
  bool symmetry_;
  std::vector<std::int32_t> shown_, corners_;
};

}  // namespace wr::apps
