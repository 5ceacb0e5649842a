// What the trainings share: the count of steps and returns, nets of layers, a replay of rows of numbers.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "windrow/agents.h"

namespace wr::rl {

inline std::span<const float> floats(const Array& a) { return {a.data<float>(), static_cast<std::size_t>(a.count())}; }
inline std::span<float> floats(Array& a) { return {a.mutable_data<float>(), static_cast<std::size_t>(a.count())}; }

/// Refuses what makes no training, with the name of the field.
void expect(bool holds, const char* training, const char* field, double value, const char* wanted);
void expect_budget(const Budget& budget, const Environments& environments, const char* training);

/// Follows a training; says when it is over.
class Ledger {
 public:
  explicit Ledger(const Budget& budget) : budget_(budget) {}
  /// After a step of all copies.
  void count(Environments& environments);
  void set_loss(double loss) { progress_.loss = loss; }
  /// The budget is used up, the goal reached, or the watch said stop.
  bool is_over();
  /// From 0 to 1.
  double share_done() const { return static_cast<double>(progress_.steps) / static_cast<double>(budget_.steps); }
  const Progress& progress() const { return progress_; }

 private:
  double mean_of_last(std::size_t count) const;
  const Budget& budget_;
  Progress progress_;
  std::deque<double> returns_;
  std::int64_t watched_ = 0;  // steps when the watch was last asked
};

enum class Hidden { relu, tanh };
/// Dense layers; `last` scales the first weights of the output layer.
nn::Sequential layers(std::int64_t in, const std::vector<std::int64_t>& hidden, std::int64_t out, Hidden kind,
                      double last = 1);

/// What happened, in a ring: entry i is of copy i % copies, so that what followed it is entry i + copies. Returns over
/// several steps are made when an entry is drawn.
class Experience {
 public:
  Experience(const ReplayOptions& options, const Space& space, std::int64_t copies);
  /// The last step of all copies: what was seen before, and what was done.
  void add(std::span<const float> seen, std::span<const float> actions, const Environments& environments);
  std::int64_t size() const { return sampler_.size(); }
  Sampler& sampler() { return sampler_; }

  struct Rows {  // what is filled, a row an entry
    std::span<float> from, to, action, reward, discount;
  };
  void read(std::span<const std::int64_t> entries, int n_steps, double gamma, const Rows& rows) const;

 private:
  Space space_;
  std::int64_t copies_;
  Sampler sampler_;
  std::int64_t next_ = 0;
  std::vector<float> from_, to_, action_;
  std::vector<Outcome> outcome_;
};

}  // namespace wr::rl
