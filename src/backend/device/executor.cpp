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
  for (const ir::Update& u : graph.updates) updated[u.state] = true;
  for (int id : schedule.states) states_.push_back({graph[id].variable, updated[id], nullptr, nullptr});
  host_.assign(static_cast<std::size_t>(program_.bases), nullptr);
  stale_.assign(program_.output_base.size(), false);

  module_ = device_->build(source_);
  memory_.resize(kFirstState);
  for (std::size_t slot = 0; slot < kFirstState; ++slot)
    if (slot != kInputs) memory_[slot] = allocate(source_.bytes[slot]);
  for (auto& set : arguments_)
    if (source_.bytes[kInputs] > 0) set = allocate(source_.bytes[kInputs], true);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    State& state = states_[i];
    auto* known = dynamic_cast<Residence*>(ir::elsewhere(*state.variable));
    if (!known || !known->is_on(device_)) {
      ir::bring_home(*state.variable);
      const std::size_t bytes = source_.homes[program_.state_base[i]].bytes;
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

std::shared_ptr<Memory> Executor::allocate(std::size_t bytes, bool intake) {
  const Facts& facts = device_->facts();
  if (bytes > facts.most_bytes && facts.most_bytes > 0)
    throw NoMemory(cat("the plan needs a piece of ", bytes >> 20, " MB, the device gives at most ",
                       facts.most_bytes >> 20, " MB"));
  return intake ? device_->allocate_intake(bytes) : device_->allocate(std::max<std::size_t>(bytes, 64));
}

void Executor::prepare_sequences() {
  for (int set = 0; set < 2; ++set) {
    std::vector<std::vector<Memory*>> arguments;
    for (const Launch& launch : source_.launches) {
      arguments.emplace_back();
      for (int slot : launch.slots)
        arguments.back().push_back(slot == kInputs ? arguments_[set].get() : memory_[slot].get());
    }
    sequences_[set] = device_->prepare(module_, source_.launches, arguments);
  }
}

void Executor::upload_constants() {
  std::vector<char> all(source_.bytes[kConstants], 0);
  for (std::size_t i = 0; i < program_.constants.size(); ++i) {
    const Home& home = source_.homes[program_.constant_base[i]];
    if (home.bytes > 0)
      std::memcpy(all.data() + home.offset, wr::detail::ArrayAccess::read(*program_.constants[i]), home.bytes);
  }
  if (!all.empty() && !device_->write(*memory_[kConstants], 0, all.data(), all.size())) throw Error(device_->problem());
}

void Executor::bind(int base, void* memory) noexcept { host_[base] = memory; }

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
  if (program_.input_base.empty()) return true;
  Memory& set = *arguments_[turn_];
  auto* to = static_cast<char*>(device_->open(set));
  if (!to) return false;
  for (int base : program_.input_base) {
    const Home& home = source_.homes[base];
    if (home.bytes > 0) std::memcpy(to + home.offset, host_[base], home.bytes);
    traffic_.to_device += home.bytes;
  }
  return device_->close(set);
}

/// Returns while the device works: at most two runs are under way, each with its own set of arguments.
void Executor::run(int) noexcept {
  turn_ ^= 1;
  if (!device_->wait(*sequences_[turn_])) return;
  const bool recorded = record_ && record_->runs++ % static_cast<std::uint64_t>(record_->every) == 0;
  if (recorded ? !run_recorded() : !send_states() || !send_arguments() || !device_->run(*sequences_[turn_])) return;
  if (!recorded) last_end_ns_ = -1;
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
  const double begin = last_end_ns_ >= 0 ? now_ns() : 0;
  if (!device_->read(host_[base], *memory_[kOutputs], home.offset, home.bytes)) return false;
  traffic_.from_device += home.bytes;
  if (last_end_ns_ >= 0) {
    last_end_ns_ = now_ns();
    record_->fetch.add(last_end_ns_ - begin);
    record_->fetched_bytes += home.bytes;
    note(backend::DeviceRecord::kFetch, begin, last_end_ns_);
  }
  stale_[output] = false;
  return true;
}

// ---- profiles ----

double Executor::now_ns() const noexcept {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - recorded_).count();
}

void Executor::record(bool on) {
  record_ = nullptr;
  last_end_ns_ = -1;
  if (!on) return;
  constexpr int kRunsKept = 16, kEvery = 8;
  auto record = std::make_unique<backend::DeviceRecord>();
  record->every = kEvery;
  for (const Launch& launch : source_.launches) record->launches.push_back({launch.kernel, launch.phase, {}});
  record->timeline.resize(kRunsKept * (source_.launches.size() + 2 + program_.output_base.size()));
  spans_.resize(source_.launches.size());
  recorded_ = std::chrono::steady_clock::now();
  record_ = std::move(record);
}

void Executor::note(int what, double begin_ns, double end_ns) noexcept {
  backend::DeviceRecord& r = *record_;
  r.timeline[r.next++ % r.timeline.size()] = {what, begin_ns, end_ns};
}

/// With nothing else under way, and waits for its end: how long each part takes by itself.
bool Executor::run_recorded() noexcept {
  using Record = backend::DeviceRecord;
  if (!device_->finish()) return false;
  Record& r = *record_;
  const double begin = now_ns();
  const std::uint64_t bytes = traffic_.to_device;
  if (last_end_ns_ >= 0) r.between.add(begin - last_end_ns_);
  if (!send_states() || !send_arguments() || !device_->finish()) return false;
  const double sent = now_ns();
  if (!device_->run_timed(*sequences_[turn_], spans_)) return false;
  const double end = now_ns();
  ++r.recorded;
  r.sent_bytes += traffic_.to_device - bytes;
  r.send.add(sent - begin);
  note(Record::kSend, begin, sent);
  for (std::size_t i = 0; i < spans_.size(); ++i) {
    r.launches[i].sum.add(spans_[i].end_ns - spans_[i].begin_ns);
    note(static_cast<int>(i), sent + spans_[i].begin_ns, sent + spans_[i].end_ns);
  }
  r.launching.add(end - sent);
  note(Record::kLaunch, sent, end);
  r.whole.add(end - begin);
  last_end_ns_ = end;
  return true;
}

}  // namespace wr::device
