// What the executor needs of a device's driver: memory, transfers, a source that becomes kernels, launches.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/device/source.h"

namespace wr::device {

/// What is known of a device before anything runs on it.
struct Facts {
  std::string api;       // "opencl", "cuda"
  std::string platform;  // "Portable Computing Language"
  std::string name, vendor, driver, version;
  int index = 0;  // among the devices of its API
  int units = 1;  // compute units: what a work-group runs on
  int clock_mhz = 0;
  int lanes = 0;                                                  // of f32 a unit has; 0: nobody says
  int f64_times = 0;                                              // as long as f32 takes f64; 0: nobody says
  int vector_bytes = 0;                                           // of a CPU's registers; 0: nobody says
  int most_items = 1;                                             // of a work-group
  std::size_t local_bytes = 0, global_bytes = 0, most_bytes = 0;  // most: of one piece
  std::size_t argument_bytes = 1024;                              // of a kernel
  bool f64 = false;
  bool unified = false;  // its memory is the host's
  bool cpu = false;
  bool own_local = true;  // local memory is nearer than global memory
  bool exact_division = false;
};

class Memory {
 public:
  virtual ~Memory() = default;
};

class Module {
 public:
  virtual ~Module() = default;
};

/// Launches in a fixed order on fixed memory, to be run again and again.
class Sequence {
 public:
  virtual ~Sequence() = default;
};

/// When something on the device happened, in nanoseconds after it was asked for.
struct Span {
  double begin_ns = 0, end_ns = 0;
};

/// Calls that are noexcept give false once something has failed; problem() says what. Everything happens in the order
/// it was asked for.
class Device {
 public:
  virtual ~Device() = default;
  virtual const Facts& facts() const = 0;
  virtual Dialect dialect() const = 0;

  /// Throws NoMemory.
  virtual std::shared_ptr<Memory> allocate(std::size_t bytes) = 0;
  /// Memory for arguments, which the host fills while the device works on something else: the device's own where that
  /// is the host's, else with a copy at home that transfers read without waiting. Throws NoMemory.
  virtual std::shared_ptr<Memory> allocate_intake(std::size_t bytes) = 0;
  /// Throws Error with what the compiler said.
  virtual std::shared_ptr<Module> build(const Source& source) = 0;
  /// The memory of each launch's arguments, in order.
  virtual std::unique_ptr<Sequence> prepare(const std::shared_ptr<Module>& module, const std::vector<Launch>& launches,
                                            const std::vector<std::vector<Memory*>>& arguments) = 0;

  /// Returns when `from` may be changed.
  virtual bool write(Memory& to, std::size_t offset, const void* from, std::size_t bytes) noexcept = 0;
  /// Returns when it has been read.
  virtual bool read(void* to, Memory& from, std::size_t offset, std::size_t bytes) noexcept = 0;
  /// Where the host writes until close() sends it. No run that reads it may be under way. Null once something has
  /// failed.
  virtual void* open(Memory& intake) noexcept = 0;
  virtual bool close(Memory& intake) noexcept = 0;
  /// Returns at once.
  virtual bool run(Sequence& sequence) noexcept = 0;
  /// Returns when the sequence's last run has ended.
  virtual bool wait(Sequence& sequence) noexcept = 0;
  /// Runs it and waits for it, with nothing else under way, and says when each launch began and ended.
  virtual bool run_timed(Sequence& sequence, std::span<Span> launches) noexcept = 0;
  /// Returns when everything asked for has been done.
  virtual bool finish() noexcept = 0;
  virtual const std::string& problem() const noexcept = 0;
};

}  // namespace wr::device
