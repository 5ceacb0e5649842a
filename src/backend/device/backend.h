// A device as a backend: lowers a schedule into device code and binds it.
#pragma once

#include "backend/backend.h"
#include "backend/cpu/measure.h"
#include "backend/device/device.h"

namespace wr::device {

class Backend final : public backend::Backend {
 public:
  /// `items` of a work-group, 0: as the device likes it.
  explicit Backend(std::shared_ptr<Device> device, int items = 0) : device_(std::move(device)), items_(items) {}
  bool can_run(const ir::Graph& graph, int node) const override { return knows(graph, node); }
  /// Throws Error where the generator has no text for a node or the device cannot have the program.
  std::unique_ptr<backend::Executor> prepare(const plan::Schedule& schedule) const override;

  const Facts& facts() const { return device_->facts(); }
  /// The device as the planner sees it, with what was measured of it. Never an error.
  cpu::KnownMachine machine(const Machine& host, bool again = false) const;

 private:
  Form form(bool local) const;
  std::shared_ptr<Device> device_;
  int items_;
};

/// The device's source of a schedule, without building it: what tests compile for machines that are not there.
Source source_of(const plan::Schedule& schedule, const Form& form);

/// The device as the planner sees it, from what the driver says alone; `host` is the machine that a CPU device is.
Machine machine_of(const Facts& facts, const Machine& host);

}  // namespace wr::device
