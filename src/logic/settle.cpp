// Gates that become hard one after the other while the others still learn.
#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>

#include "windrow/circuit.h"

namespace wr::logic {
namespace {

constexpr double kSettled = 200;  // a logit that leaves nothing to the others
constexpr int kTries = 6;         // an update
constexpr int kPlaces = 6;        // functions of a gate that are tried, in turn
constexpr double kRest = 10;      // updates before a gate that was refused is tried again
constexpr double kNear = 10;      // times the low loss, where perception is settled
constexpr double kPatience = 20;  // updates without success before more is allowed
constexpr double kMore = 1.15;    // times as much

/// The likeliest function, or the next likely, or the next ...
int function_of(const double* row, int place) {
  std::array<int, kFunctions> order;
  std::iota(order.begin(), order.end(), 0);
  std::partial_sort(order.begin(), order.begin() + place + 1, order.end(),
                    [row](int a, int b) { return std::tie(row[b], a) < std::tie(row[a], b); });
  return order[static_cast<std::size_t>(place)];
}

double lead_of(const double* row) { return row[function_of(row, 0)] - row[function_of(row, 1)]; }
bool is_settled(const double* row) { return lead_of(row) >= kSettled / 2; }

void set_row(double* row, int function, double logit) {
  std::fill_n(row, kFunctions, 0.0);
  row[function] = logit;
}

}  // namespace

/// A copy of all logits and of the memory, f64 [1 + gates, 3]: first how many gates to try next, updates since
/// something worked, and how often more was allowed; then of each gate how often it was refused and how many updates it
/// is still to rest.
struct Settler::Gates {
  static constexpr std::int64_t kWidth = 3;
  struct Gate {
    std::size_t layer;
    double *row, *refused, *resting;
  };

  Gates(std::vector<State>& layers, State& memory) : layers_(layers), state_(memory), memory_(memory.value().clone()) {
    double* of_gate = memory_.mutable_data<double>();
    batch = of_gate;
    idle = of_gate + 1;
    allowed = of_gate + 2;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      logits_.push_back(layers[layer].value().astype(DType::f64).clone());
      double* row = logits_.back().mutable_data<double>();
      for (std::int64_t i = 0; i < logits_.back().size(0); ++i, row += kFunctions) {
        of_gate += kWidth;
        all.push_back({layer, row, of_gate, of_gate + 1});
      }
    }
  }
  ~Gates() { state_.set(memory_); }

  /// Hands the layers' logits back to the automaton.
  void put(const std::vector<bool>& changed) {
    for (std::size_t layer = 0; layer < layers_.size(); ++layer)
      if (changed[layer]) layers_[layer].set(logits_[layer].astype(layers_[layer].spec().dtype));
  }

  std::vector<Gate> all;
  double *batch, *idle, *allowed;

 private:
  std::vector<State>& layers_;
  State& state_;
  Array memory_;
  std::vector<Array> logits_;
};

Settler::Settler(const Automaton& automaton, double share)
    : layers_(automaton.parameters()), perception_(automaton.perception().size()), share_(share) {
  Array memory = Array::zeros({1 + automaton.gate_count(), Gates::kWidth}, DType::f64);
  memory.mutable_data<double>()[0] = 1;
  memory_ = State(memory, "settle");
}

void Settler::follow(double loss, double low, const std::function<double()>& loss_now) {
  Gates gates(layers_, memory_);
  for (auto& gate : gates.all) *gate.resting = std::max(0.0, *gate.resting - 1);
  if (loss < kNear * low && settle_perception(gates)) return;
  const double limit = low * std::pow(kMore, *gates.allowed);
  if (loss >= limit && *gates.batch == 1 && *gates.allowed == 0) return;  // it has yet to learn
  ++*gates.idle;
  bool worked = loss >= limit;
  for (int i = 0; i < kTries && !worked; ++i) worked = settle_surest(gates, limit, loss_now);
  if (*gates.idle < kPatience) return;
  *gates.idle = 0;
  ++*gates.allowed;
}

/// All cells and channels hang on perception: it is hard before the rest, while all other gates can still learn to do
/// with that. Returns false if it was already.
bool Settler::settle_perception(Gates& gates) {
  std::vector<bool> changed(layers_.size());
  for (auto& gate : gates.all)
    if (gate.layer < perception_ && !is_settled(gate.row)) {
      set_row(gate.row, function_of(gate.row, 0), kSettled);
      changed[gate.layer] = true;
    }
  gates.put(changed);
  return std::find(changed.begin(), changed.end(), true) != changed.end();
}

bool Settler::settle_surest(Gates& gates, double low, const std::function<double()>& loss_now) {
  std::vector<std::pair<double, Gates::Gate*>> mixtures;
  for (auto& gate : gates.all)
    if (!is_settled(gate.row) && *gate.resting == 0) mixtures.emplace_back(-lead_of(gate.row), &gate);
  const auto count = std::min(mixtures.size(), static_cast<std::size_t>(*gates.batch));
  if (count == 0) return true;
  std::partial_sort(mixtures.begin(), mixtures.begin() + static_cast<std::ptrdiff_t>(count), mixtures.end());
  mixtures.resize(count);
  std::vector<std::array<double, kFunctions>> before(count);
  std::vector<bool> changed(layers_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Gates::Gate& gate = *mixtures[i].second;
    std::copy_n(gate.row, kFunctions, before[i].begin());
    set_row(gate.row, function_of(gate.row, static_cast<int>(*gate.refused) % kPlaces), kSettled);
    changed[gate.layer] = true;
  }
  gates.put(changed);
  if (loss_now() < low) {
    const double most = std::max(1.0, share_ * static_cast<double>(gates.all.size()));
    *gates.batch = std::min(most, *gates.batch * 1.25 + 0.25);
    *gates.idle = 0;
    return true;
  }
  for (std::size_t i = 0; i < count; ++i) std::copy_n(before[i].begin(), kFunctions, mixtures[i].second->row);
  gates.put(changed);
  if (count == 1) {
    ++*mixtures[0].second->refused;
    *mixtures[0].second->resting = kRest;
  }
  *gates.batch = std::max(1.0, *gates.batch / 4);
  return false;
}

double Settler::settled() const {
  double settled = 0, gates = 0;
  for (const State& layer : layers_) {
    const Array z = layer.value().astype(DType::f64);
    for (std::int64_t i = 0; i < z.size(0); ++i) settled += is_settled(z.data<double>() + i * kFunctions);
    gates += static_cast<double>(z.size(0));
  }
  return gates > 0 ? settled / gates : 0;
}

}  // namespace wr::logic
