// What the optimisers share: gradients, clipping, the counter, rates, groups, memory.
#include "windrow/optim.h"

#include <algorithm>
#include <set>

namespace wr::optim {
namespace {

void expect_pairs(const std::string& name, const std::vector<State>& parameters, const std::vector<Tensor>& gradients,
                  Location where) {
  if (parameters.size() != gradients.size())
    fail(where, name + ": " + std::to_string(parameters.size()) + " parameters but " +
                    std::to_string(gradients.size()) + " gradients");
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (!(parameters[i].spec() == gradients[i].spec()))
      fail(where, name + ": parameter " + std::to_string(i) + " '" + parameters[i].name() + "' is " +
                      to_string(parameters[i].spec()) + ", its gradient " + to_string(gradients[i].spec()));
}

/// A parameter that stood in the list twice would be moved twice.
void expect_once(const std::string& name, const std::vector<State>& parameters, Location where) {
  std::set<const ir::Variable*> seen;
  for (const State& p : parameters)
    if (!seen.insert(p.variable().get()).second)
      fail(where,
           name + ": parameter '" + p.name() + "' is in the list twice; nets that share a part have it in common");
}

void expect_limit(const char* name, double limit, Location where) {
  if (!(limit > 0)) fail(where, std::string(name) + ": the limit must be positive, is " + std::to_string(limit));
}

bool same(const State& a, const State& b) { return a.variable() == b.variable(); }

bool holds(const std::vector<State>& list, const State& state) {
  return std::any_of(list.begin(), list.end(), [&](const State& s) { return same(s, state); });
}

Tensor as_type(const Tensor& scalar, const Tensor& like, Location where) {
  return reshape(cast(scalar, like.dtype(), where), Shape(like.rank(), 1), where);
}

}  // namespace

Tensor global_norm(const std::vector<Tensor>& gradients, Location where) {
  if (gradients.empty()) fail(where, "global_norm: no gradients");
  Tensor total;
  for (const Tensor& g : gradients) {
    const Tensor squares = cast(sum(square(g, where), {}, Keep::no, where), gradients[0].dtype(), where);
    total = total.empty() ? squares : Operand(total, where) + squares;
  }
  return sqrt(total, where);
}

std::vector<Tensor> clip_by_value(const std::vector<Tensor>& gradients, double limit, Location where) {
  expect_limit("clip_by_value", limit, where);
  std::vector<Tensor> clipped;
  clipped.reserve(gradients.size());
  for (const Tensor& g : gradients) clipped.push_back(clamp(Operand(g, where), -limit, limit));
  return clipped;
}

std::vector<Tensor> clip_by_norm(const std::vector<Tensor>& gradients, double limit, Location where) {
  expect_limit("clip_by_norm", limit, where);
  constexpr double kTiny = 1e-6;  // PyTorch's: no division by zero
  const Tensor norm = global_norm(gradients, where);
  const Tensor factor = minimum(Operand(limit, where) / (Operand(norm, where) + kTiny), 1);
  std::vector<Tensor> clipped;
  clipped.reserve(gradients.size());
  for (const Tensor& g : gradients) clipped.push_back(Operand(g, where) * as_type(factor, g, where));
  return clipped;
}

Optimiser::Optimiser(std::string name, const Common& common)
    : name_(std::move(name)),
      clip_(common.clip),
      schedule_(common.schedule),
      count_(Array::scalar(0.0), name_ + ".step"),
      groups_{{{}, State(Array::scalar(common.lr), name_ + ".lr"), common.weight_decay}} {}

int Optimiser::add_group(const Group& group, Location where) {
  for (const State& p : group.parameters)
    for (std::size_t g = 1; g < groups_.size(); ++g)
      if (holds(groups_[g].parameters, p))
        fail(where, name_ + ": parameter '" + p.name() + "' is already in group " + std::to_string(g));
  const std::string number = std::to_string(groups_.size());
  const double lr = group.lr.value_or(groups_[0].lr.value().item<double>());
  groups_.push_back({group.parameters, State(Array::scalar(lr), name_ + ".lr." + number),
                     group.weight_decay.value_or(groups_[0].weight_decay)});
  return static_cast<int>(groups_.size()) - 1;
}

void Optimiser::set_lr(double lr, int group, Location where) {
  if (group < 0 || group >= static_cast<int>(groups_.size()))
    fail(where, name_ + ": there is no group " + std::to_string(group));
  if (!(lr >= 0)) fail(where, name_ + ": lr must not be negative, is " + std::to_string(lr));
  groups_[group].lr.set(Array::scalar(lr), where);
}

const Optimiser::Members& Optimiser::group_of(const State& parameter) const {
  for (std::size_t g = 1; g < groups_.size(); ++g)
    if (holds(groups_[g].parameters, parameter)) return groups_[g];
  return groups_[0];
}

std::vector<State> Optimiser::states(Location where) const {
  if (!traced_)
    fail(where, name_ +
                    ": its states are made when the step is traced: compile the step first, and run or prepare() it "
                    "where it leaves sizes open");
  std::vector<State> all{count_};
  for (const Members& group : groups_) all.push_back(group.lr);
  for (const Memory& m : memories_) all.push_back(m.state);
  return all;
}

State Optimiser::memory(const State& parameter, const std::string& kind) {
  for (Memory& m : memories_)
    if (same(m.parameter, parameter) && m.kind == kind) return m.state;
  const Array zeros = Array::zeros(parameter.shape(), parameter.spec().dtype);
  memories_.push_back({parameter, kind, State(zeros, name_ + "." + kind + "." + parameter.name())});
  return memories_.back().state;
}

Tensor Optimiser::like(const Tensor& scalar, const Slot& slot) { return as_type(scalar, slot.gradient, slot.where); }

Tensor Optimiser::decayed_gradient(const Slot& slot) {
  if (slot.weight_decay == 0) return slot.gradient;
  return Operand(slot.gradient, slot.where) +
         Operand(slot.weight_decay, slot.where) * Tensor(slot.parameter, slot.where);
}

void Optimiser::minimize(const Tensor& loss, const std::vector<State>& parameters, Location where) {
  minimize(loss, parameters, Unused::refuse, where);
}

void Optimiser::minimize(const Tensor& loss, const std::vector<State>& parameters, Unused unused, Location where) {
  std::vector<Tensor> wrt;
  wrt.reserve(parameters.size());
  for (const State& p : parameters) wrt.emplace_back(p, where);
  const std::vector<Tensor> gradients = grad(loss, wrt, unused, where);
  expect_trace("minimize", where);
  apply(parameters, gradients, where);
}

void Optimiser::expect_trace(const char* what, Location where) const {
  if (!tracing())
    fail(where, name_ + ": " + what + " is to be called in the function given to compile(); no step is being traced");
  if (!applied_in_.expired() && applied_in_.lock() == Tensor(count_, where).graph())
    fail(where, name_ + ": " + what +
                    " is called twice in one step, which would count as two updates; minimize the sum of the losses, "
                    "or use two optimisers");
}

void Optimiser::apply(const std::vector<State>& parameters, const std::vector<Tensor>& gradients, Location where) {
  expect_pairs(name_, parameters, gradients, where);
  expect_once(name_, parameters, where);
  if (parameters.empty()) fail(where, name_ + ": no parameters to update");
  expect_trace("apply", where);
  traced_ = true;
  std::vector<Tensor> clipped = gradients;
  if (clip_.value != 0) clipped = clip_by_value(clipped, clip_.value, where);
  if (clip_.norm != 0) clipped = clip_by_norm(clipped, clip_.norm, where);
  const Tensor before(count_, where);
  applied_in_ = before.graph();
  const Tensor count = Operand(before, where) + 1;
  count_.assign(count, where);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Members& group = group_of(parameters[i]);
    Tensor lr(group.lr, where);
    if (schedule_) lr = Operand(lr, where) * schedule_(before);
    update({parameters[i], clipped[i], lr, count, group.weight_decay, where});
  }
}

}  // namespace wr::optim
