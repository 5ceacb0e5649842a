// What a step needs of a device. A backend chooses kernels while a schedule is lowered for it, and binds the program to
// memory; what comes of that runs.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "backend/device_record.h"
#include "backend/recorder.h"
#include "lower/program.h"
#include "plan/schedule.h"

namespace wr::backend {

/// What a device has been sent and has sent back since it was prepared.
struct Traffic {
  std::uint64_t runs = 0, launches = 0;
  std::uint64_t to_device = 0, from_device = 0;  // bytes
};

/// A program with its kernels and its memory.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual const lower::Program& program() const = 0;
  /// What it runs on, for people: the instruction set, the device.
  virtual std::string_view target() const = 0;
  /// Points a base (input, state, constant, output) at memory, for all lanes.
  virtual void bind(int base, void* memory) noexcept = 0;
  /// Starts what threads a run of that many needs.
  virtual void reserve_threads(int threads) = 0;
  /// On at most that many threads. Neither allocates nor throws.
  virtual void run(int threads) noexcept = 0;
  /// Writes down where the time of the runs to come goes, from nothing; or stops and forgets.
  virtual void record(bool on) = 0;
  /// What has been written down; null where nothing is recorded.
  virtual Recorder* recorder() = 0;

  // ---- of devices with memory of their own ----
  /// Whether it keeps states, and results that nobody has asked for, in memory of its own.
  virtual bool is_elsewhere() const { return false; }
  /// Brings a result to where it is bound; false if the device is lost.
  virtual bool fetch(std::size_t output) noexcept { return static_cast<void>(output), true; }
  /// What went wrong in a run; empty where nothing did.
  virtual const std::string& problem() const {
    static const std::string none;
    return none;
  }
  virtual Traffic traffic() const { return {}; }
  /// What has been written down, in the place of recorder(); null where nothing is recorded.
  virtual const DeviceRecord* device_record() const { return nullptr; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  /// Whether there is a kernel for the node's op and types.
  virtual bool can_run(const ir::Graph& graph, int node) const = 0;
  /// Lowers the schedule with its own kernels and binds the program. Throws Error where it cannot run a node.
  virtual std::unique_ptr<Executor> prepare(const plan::Schedule& schedule) const = 0;
};

/// Throws Error with the user's line if the backend cannot run a node that the schedule computes.
void expect_runnable(const Backend& backend, const plan::Schedule& schedule);

}  // namespace wr::backend
