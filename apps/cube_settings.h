// All that decides the result of a training run on the 2x2x2 cube.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/fields.h"
#include "apps/settings.h"
#include "windrow/rl.h"

namespace wr::apps {

struct CubeSettings {
  /// supervised: the distance, from exact labels. value-iteration: the distance, from the net's own values one move on.
  /// dqn: Q, from rewards.
  std::string method = "supervised";
  std::uint64_t seed = 1;

  // The net.
  std::string encoding = "corners";
  bool symmetry = true;
  std::string hidden = "512,512,256";
  std::string activation = "relu";
  bool layer_norm = false, residual = false, dueling = false, noisy = false;

  // How it learns.
  std::int64_t batch = 1024;
  double lr = 1e-3;
  std::string schedule = "cosine";  // of the value methods
  double huber = 0;                 // delta; 0: squared error
  std::int64_t steps = 20'000;      // of the value methods
  double near = 0.1;                // share of their examples that are random walks of length 1..walk
  std::int64_t walk = 14;
  std::int64_t sync_every = 500;  // value iteration: steps; dqn with tau 1: training steps
  bool parity = true;             // value iteration: values are rounded to whole numbers of the state's parity

  // Q-learning.
  std::int64_t episodes = 5000, environments = 1, max_moves = 50, n_step = 3;
  double gamma = 0.99;
  bool double_q = true;
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
};

std::vector<std::string> cube_presets();
/// best: our default. seed: as the fact sheet has it. label-free: value iteration. Throws an Error for any other name.
CubeSettings cube_preset(const std::string& name);
const std::vector<NamedField<CubeSettings>>& cube_fields();
void set(CubeSettings& settings, const std::string& name, const std::string& text);
Texts to_texts(const CubeSettings& settings);
/// The settings of a checkpoint of `windrow train cube`. An Error says what the file is instead.
CubeSettings cube_settings_of(const Metadata& metadata, const std::string& path);
rl::NetOptions net_options(const CubeSettings& settings);

}  // namespace wr::apps
