// windrow.optim and windrow.schedule.
#include "windrow/optim.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "casters.h"

namespace wr::python {
namespace {

using namespace nb::literals;

struct PySchedule {
  optim::Schedule call;
};

optim::Schedule schedule_from(nb::handle object) {
  if (object.is_none()) return {};
  if (nb::isinstance<PySchedule>(object)) return nb::cast<const PySchedule&>(object).call;
  if (!PyCallable_Check(object.ptr()))
    throw nb::type_error("schedule: takes one of windrow.schedule, or a function of the number of updates");
  return [fn = nb::borrow(object)](const Tensor& updates) { return tensor_from(fn(updates), here()); };
}

optim::Clip clip_of(double value, double norm) { return {value, norm}; }

void bind_schedules(nb::module_& m) {
  namespace schedule = optim::schedule;
  nb::module_ n =
      m.def_submodule("schedule", "What the learning rate is multiplied with, computed by the plan itself.");
  nb::class_<PySchedule>(n, "Schedule", "The rate as a factor that depends on the number of updates.")
      .def("__call__", [](const PySchedule& s, nb::handle updates) { return s.call(tensor_from(updates, here())); });
  n.def(
      "constant", [](double f) { return PySchedule{schedule::constant(f)}; }, "factor"_a = 1.0);
  n.def(
      "step", [](double every, double gamma) { return PySchedule{schedule::step(every, gamma)}; }, "every"_a,
      "gamma"_a = 0.1, "Times gamma after every so many updates.");
  n.def(
      "cosine", [](double total, double floor) { return PySchedule{schedule::cosine(total, floor)}; }, "total"_a,
      "floor"_a = 0.0, "From 1 down to floor along half a cosine.");
  n.def(
      "warm_up",
      [](double updates, nb::handle then, double start) {
        return PySchedule{schedule::warm_up(updates, schedule_from(then), start)};
      },
      "updates"_a, "then"_a.none() = nb::none(), "start"_a = 0.0, "Linear from start to 1; then another schedule.");
  n.def(
      "one_cycle",
      [](double total, double rise, double divide, double final_divide) {
        return PySchedule{schedule::one_cycle(total, rise, divide, final_divide)};
      },
      "total"_a, "rise"_a = 0.3, "divide"_a = 25.0, "final_divide"_a = 1e4, "PyTorch's OneCycleLR.");
}

void bind_optimiser(nb::module_& n) {
  nb::class_<optim::Optimiser>(n, "Optimiser",
                               "What the optimisers share: from loss to gradients to clipping to updates.")
      .def(
          "minimize",
          [](optim::Optimiser& o, const Tensor& loss, nb::handle parameters, bool allow_unused) {
            o.minimize(loss, states_from(parameters), allow_unused ? Unused::allow : Unused::refuse, here());
          },
          "loss"_a, "parameters"_a, nb::kw_only(), "allow_unused"_a = false,
          "In a trace: differentiates the loss by the parameters and updates them. One that no gradient reaches is "
          "refused by name; with allow_unused it is updated with a gradient of 0.")
      .def(
          "apply",
          [](optim::Optimiser& o, nb::handle parameters, nb::handle gradients) {
            const Location w = here();
            o.apply(states_from(parameters), tensors_from(gradients, w), w);
          },
          "parameters"_a, "gradients"_a, "In a trace: updates the parameters by gradients the caller has.")
      .def(
          "add_group",
          [](optim::Optimiser& o, nb::handle parameters, std::optional<double> lr, std::optional<double> decay) {
            return o.add_group({states_from(parameters), lr, decay}, here());
          },
          "parameters"_a, "lr"_a = nb::none(), "weight_decay"_a = nb::none(),
          "Before the trace: parameters with settings of their own. Returns the group's number, for set_lr.")
      .def(
          "set_lr", [](optim::Optimiser& o, double lr, int group) { o.set_lr(lr, group, here()); }, "lr"_a,
          "group"_a = 0, "Takes effect with the next run, without compiling again.")
      .def(
          "states", [](const optim::Optimiser& o) { return o.states(here()); },
          "Rates, counter and moments: to be saved with the parameters. Made when the step is traced.");
}

void bind_optimisers(nb::module_& n) {
  nb::class_<optim::Sgd, optim::Optimiser>(n, "Sgd", "Stochastic gradient descent, with momentum.")
      .def(
          "__init__",
          [](optim::Sgd* self, double lr, double momentum, bool nesterov, double decay, double clip_value,
             double clip_norm, nb::handle schedule) {
            new (self) optim::Sgd(
                {lr, momentum, nesterov, decay, clip_of(clip_value, clip_norm), schedule_from(schedule)}, here());
          },
          "lr"_a = 1e-2, "momentum"_a = 0.0, "nesterov"_a = false, "weight_decay"_a = 0.0, "clip_value"_a = 0.0,
          "clip_norm"_a = 0.0, "schedule"_a.none() = nb::none());
  nb::class_<optim::Adam, optim::Optimiser> adam(n, "Adam", "Adam; weight_decay is added to the gradient.");
  const auto bind_adam = [](auto& c, auto* type, double decay) {
    using A = std::remove_pointer_t<decltype(type)>;
    c.def(
        "__init__",
        [](A* self, double lr, double beta1, double beta2, double epsilon, double weight_decay, double clip_value,
           double clip_norm, nb::handle schedule) {
          new (self)
              A({lr, beta1, beta2, epsilon, weight_decay, clip_of(clip_value, clip_norm), schedule_from(schedule)},
                here());
        },
        "lr"_a = 1e-3, "beta1"_a = 0.9, "beta2"_a = 0.999, "epsilon"_a = 1e-8, "weight_decay"_a = decay,
        "clip_value"_a = 0.0, "clip_norm"_a = 0.0, "schedule"_a.none() = nb::none());
  };
  bind_adam(adam, static_cast<optim::Adam*>(nullptr), 0);
  nb::class_<optim::AdamW, optim::Adam> adamw(n, "AdamW",
                                              "Adam with decoupled weight decay: first p *= 1 - lr weight_decay.");
  bind_adam(adamw, static_cast<optim::AdamW*>(nullptr), 1e-2);
  nb::class_<optim::SparseAdam, optim::Optimiser>(
      n, "SparseAdam", "Adam for tables that are looked up: entries that were not looked up stay as they are.")
      .def(
          "__init__",
          [](optim::SparseAdam* self, double lr, double beta1, double beta2, double epsilon, nb::handle schedule) {
            new (self) optim::SparseAdam({lr, beta1, beta2, epsilon, schedule_from(schedule)}, here());
          },
          "lr"_a = 1e-3, "beta1"_a = 0.9, "beta2"_a = 0.999, "epsilon"_a = 1e-8, "schedule"_a.none() = nb::none());
  nb::class_<optim::RmsProp, optim::Optimiser>(n, "RmsProp", "Divides by the root of a running mean of squares.")
      .def(
          "__init__",
          [](optim::RmsProp* self, double lr, double alpha, double epsilon, double momentum, bool centred, double decay,
             double clip_value, double clip_norm, nb::handle schedule) {
            new (self) optim::RmsProp(
                {lr, alpha, epsilon, momentum, centred, decay, clip_of(clip_value, clip_norm), schedule_from(schedule)},
                here());
          },
          "lr"_a = 1e-2, "alpha"_a = 0.99, "epsilon"_a = 1e-8, "momentum"_a = 0.0, "centred"_a = false,
          "weight_decay"_a = 0.0, "clip_value"_a = 0.0, "clip_norm"_a = 0.0, "schedule"_a.none() = nb::none());
}

}  // namespace

void bind_optim(nb::module_& m) {
  nb::module_ n = m.def_submodule("optim", "Optimisers: each adds its update to the step being traced.");
  bind_schedules(m);
  bind_optimiser(n);
  bind_optimisers(n);
  n.def(
      "global_norm",
      [](nb::handle g) {
        const Location w = here();
        return optim::global_norm(tensors_from(g, w), w);
      },
      "gradients"_a);
  n.def(
      "clip_by_value",
      [](nb::handle g, double limit) {
        const Location w = here();
        return optim::clip_by_value(tensors_from(g, w), limit, w);
      },
      "gradients"_a, "limit"_a);
  n.def(
      "clip_by_norm",
      [](nb::handle g, double limit) {
        const Location w = here();
        return optim::clip_by_norm(tensors_from(g, w), limit, w);
      },
      "gradients"_a, "limit"_a);
}

}  // namespace wr::python
