#include "backend/device/executor.h"

#include <algorithm>
#include <cstring>

#include "base/host.h"

namespace wr::device {

/// A state's memory on the device, and which of the two copies is current.
class Executor::Residence final : public ir::Elsewhere {
 public:
  Residence(ir::Variable& variable, std::shared_ptr<Device> device, std::shared_ptr<Memory> memory, std::size_t bytes)
      : variable_(variable), device_(std::move(device)), memory_(std::move(memory)), bytes_(bytes) {}

  void bring_home() override {
    if (home_is_current_) return;
    if (!device_->read(variable_.memory, *memory_, 0, bytes_))
      throw Error("state '" + variable_.name + "' cannot be read from the device: " + device_->problem());
    home_is_current_ = true;
  }
  void changed_at_home() override { device_is_current_ = false; }

  bool is_on(const std::shared_ptr<Device>& device) const { return device_ == device; }
  const std::shared_ptr<Memory>& memory() const { return memory_; }
  bool send() noexcept {
    if (!device_->write(*memory_, 0, variable_.memory, bytes_)) return false;
    device_is_current_ = true;
    return true;
  }
  bool device_is_current() const { return device_is_current_; }
  void changed_there() { home_is_current_ = false; }
  bool home_is_current() const { return home_is_current_; }
  std::size_t bytes() const { return bytes_; }

 private:
  ir::Variable& variable_;
  std::shared_ptr<Device> device_;
  std::shared_ptr<Memory> memory_;
  std::size_t bytes_;
  bool home_is_current_ = true, device_is_current_ = false;
};

Executor::Executor(lower::Program program, Source source, std::shared_ptr<Device> device,
                   const plan::Schedule& schedule)
    : program_(std::move(program)),
      source_(std::move(source)),
      device_(std::move(device)),
      target_(device_->facts().api + ": " + device_->facts().name) {
  const ir::Graph& graph = *schedule.graph;
  std::vector<bool> updated(static_cast<std::size_t>(graph.size()), false);
  for (const ir::Update& u : graph.updates) updated[static_cast<std::size_t>(u.state)] = true;
  for (int id : schedule.states)
    states_.push_back({graph[id].variable, updated[static_cast<std::size_t>(id)], nullptr, nullptr});
  host_.assign(static_cast<std::size_t>(program_.bases), nullptr);
  stale_.assign(program_.output_base.size(), false);

  module_ = device_->build(source_);
  memory_.resize(kFirstState);
  for (std::size_t slot = 0; slot < kFirstState; ++slot) memory_[slot] = allocate(source_.bytes[slot]);
  other_arguments_ = source_.bytes[kInputs] ? allocate(source_.bytes[kInputs]) : memory_[kInputs];
  for (std::size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    auto* known = dynamic_cast<Residence*>(ir::elsewhere(*state.variable));
    if (!known || !known->is_on(device_)) {
      ir::bring_home(*state.variable);
      const std::size_t bytes = source_.homes[static_cast<std::size_t>(program_.state_base[i])].bytes;
      auto made =
          std::make_unique<Residence>(*state.variable, device_, allocate(source_.bytes[kFirstState + i]), bytes);
      known = made.get();
      ir::set_elsewhere(state.variable, std::move(made));
    }
    state.residence = known;
    state.memory = known->memory();
    memory_.push_back(known->memory());
  }
  prepare_sequences();
  // Some drivers compile kernels when they are first launched: without pieces they do nothing.
  const std::vector<std::int32_t> nothing(std::max<std::size_t>(source_.tables.size(), 1), 0);
  const auto bytes = nothing.size() * sizeof(std::int32_t);
  bool good = device_->write(*memory_[kTables], 0, nothing.data(), bytes);
  for (const auto& sequence : sequences_) good = good && device_->run(*sequence);
  good = good && device_->finish();
  if (good && !source_.tables.empty()) good = device_->write(*memory_[kTables], 0, source_.tables.data(), bytes);
  if (!good) throw Error(device_->problem());
  upload_constants();
}

Executor::~Executor() { device_->finish(); }

std::shared_ptr<Memory> Executor::allocate(std::size_t bytes) {
  const Facts& facts = device_->facts();
  if (bytes > facts.most_bytes && facts.most_bytes > 0)
    throw NoMemory(cat("the plan needs a piece of ", bytes >> 20, " MB, the device gives at most ",
                       facts.most_bytes >> 20, " MB"));
  return device_->allocate(std::max<std::size_t>(bytes, 64));
}

void Executor::prepare_sequences() {
  for (int set = 0; set < 2; ++set) {
    std::vector<std::vector<Memory*>> arguments;
    for (const Launch& launch : source_.launches) {
      arguments.emplace_back();
      for (int slot : launch.slots)
        arguments.back().push_back(slot == kInputs && set == 1 ? other_arguments_.get()
                                                               : memory_[static_cast<std::size_t>(slot)].get());
    }
    sequences_[set] = device_->prepare(module_, source_.launches, arguments);
  }
}

void Executor::upload_constants() {
  for (std::size_t i = 0; i < program_.constants.size(); ++i) {
    const Home& home = source_.homes[static_cast<std::size_t>(program_.constant_base[i])];
    const Array& value = *program_.constants[i];
    const std::size_t bytes = static_cast<std::size_t>(value.count()) * size_of(value.dtype());
    if (bytes && !device_->write(*memory_[kConstants], home.offset, wr::detail::ArrayAccess::read(value), bytes))
      throw Error(device_->problem());
  }
}

void Executor::bind(int base, void* memory) noexcept { host_[static_cast<std::size_t>(base)] = memory; }

bool Executor::send_states() noexcept {
  for (State& state : states_) {
    if (ir::elsewhere(*state.variable) != state.residence) {
      problem_ = "another device has taken state '" + state.variable->name + "' since the step was compiled";
      return false;
    }
    Residence& there = *state.residence;
    if (there.device_is_current() && !ir::is_exposed(*state.variable)) continue;
    if (!there.send()) return false;
    traffic_.to_device += there.bytes();
  }
  return true;
}

bool Executor::send_arguments() noexcept {
  Memory& to = turn_ ? *other_arguments_ : *memory_[kInputs];
  for (int base : program_.input_base) {
    const Home& home = source_.homes[static_cast<std::size_t>(base)];
    if (!device_->write(to, home.offset, host_[static_cast<std::size_t>(base)], home.bytes)) return false;
    traffic_.to_device += home.bytes;
  }
  return true;
}

void Executor::run(int) noexcept {
  turn_ ^= 1;
  if (!send_states() || !send_arguments() || !device_->run(*sequences_[turn_])) return;
  ++traffic_.runs;
  traffic_.launches += source_.launches.size();
  std::fill(stale_.begin(), stale_.end(), true);
  for (State& state : states_) {
    if (!state.updated) continue;
    Residence& there = *state.residence;
    there.changed_there();
    if (!ir::is_exposed(*state.variable)) continue;
    if (!device_->read(state.variable->memory, *state.memory, 0, there.bytes())) return;
    traffic_.from_device += there.bytes();
  }
}

bool Executor::fetch(std::size_t output) noexcept {
  if (!stale_[output]) return true;
  const auto base = static_cast<std::size_t>(program_.output_base[output]);
  const Home& home = source_.homes[base];
  if (!device_->read(host_[base], *memory_[kOutputs], home.offset, home.bytes)) return false;
  traffic_.from_device += home.bytes;
  stale_[output] = false;
  return true;
}

}  // namespace wr::device
