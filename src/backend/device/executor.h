// Runs a program on a device: memory there, states that stay there until somebody at home asks, two sets of arguments
// in turn, results that come back when they are read.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "backend/backend.h"
#include "backend/device/device.h"
#include "ir/elsewhere.h"

namespace wr::device {

class Executor final : public backend::Executor {
 public:
  /// The graph is the schedule's. Builds the kernels and has the driver compile them to the end. Throws Error or
  /// NoMemory.
  Executor(lower::Program program, Source source, std::shared_ptr<Device> device, const plan::Schedule& schedule);
  ~Executor() override;

  const lower::Program& program() const override { return program_; }
  std::string_view target() const override { return target_; }
  void bind(int base, void* memory) noexcept override;
  void reserve_threads(int) override {}
  void run(int threads) noexcept override;
  void record(bool on) override;
  backend::Recorder* recorder() override { return nullptr; }

  bool is_elsewhere() const override { return true; }
  bool fetch(std::size_t output) noexcept override;
  const std::string& problem() const override { return problem_.empty() ? device_->problem() : problem_; }
  backend::Traffic traffic() const override { return traffic_; }
  const backend::DeviceRecord* device_record() const override { return record_.get(); }
  const std::string& source() const { return source_.text; }

 private:
  class Residence;
  struct State {
    std::shared_ptr<ir::Variable> variable;
    bool updated = false;
    Residence* residence = nullptr;  // the registry's, while it is this one
    std::shared_ptr<Memory> memory;  // as the sequences know it
  };
  void upload_constants();
  std::shared_ptr<Memory> allocate(std::size_t bytes, bool intake = false);
  void prepare_sequences();
  bool send_states() noexcept;
  bool send_arguments() noexcept;
  bool run_recorded() noexcept;
  void note(int what, double begin_ns, double end_ns) noexcept;
  double now_ns() const noexcept;

  lower::Program program_;
  Source source_;
  std::shared_ptr<Device> device_;
  std::string target_;
  std::vector<State> states_;
  std::vector<std::shared_ptr<Memory>> memory_;  // by slot; none of arguments
  std::shared_ptr<Memory> arguments_[2];         // sets of them, in turn; none where there are none
  std::unique_ptr<Sequence> sequences_[2];       // with each set
  std::shared_ptr<Module> module_;
  std::vector<void*> host_;  // by base: where arguments come from and results go
  std::vector<bool> stale_;  // by output: at home it is that of an earlier run
  int turn_ = 0;
  backend::Traffic traffic_;
  std::string problem_;

  std::unique_ptr<backend::DeviceRecord> record_;
  std::vector<Span> spans_;                         // of a recorded run's launches
  std::chrono::steady_clock::time_point recorded_;  // since when
  double last_end_ns_ = -1;                         // of the run before, where that was recorded
};

}  // namespace wr::device
