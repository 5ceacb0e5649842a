// windrow.logic: networks of gates whose kinds are learned, and cellular automata made of them.
#include "windrow/logic.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "casters.h"
#include "layer_options.h"

namespace wr::python {
namespace {

using namespace nb::literals;

using Pairs = std::vector<std::pair<std::int32_t, std::int32_t>>;

Pairs pairs_of(const Wiring& wiring) {
  Pairs pairs;
  for (const Wire& w : wiring) pairs.emplace_back(w.a, w.b);
  return pairs;
}

logic::Mode mode_from(const std::string& mode) {
  if (mode == "soft") return logic::Mode::soft;
  if (mode == "hard") return logic::Mode::hard;
  throw nb::value_error(("mode: '" + mode + "' is not 'soft' or 'hard'").c_str());
}

logic::Connect connect_from(const std::string& connect) {
  if (connect == "unique") return logic::Connect::unique;
  if (connect == "random") return logic::Connect::random;
  throw nb::value_error(("connect: '" + connect + "' is not 'unique' or 'random'").c_str());
}

}  // namespace

void bind_logic(nb::module_& m) {
  nb::module_ n = m.def_submodule("logic", "Differentiable logic: gates, layers of them, cellular automata.");
  n.def(
      "unique_wiring",
      [](std::int64_t in, std::int64_t out, std::uint64_t seed) {
        return pairs_of(logic::unique_wiring(in, out, seed, here()));
      },
      "inputs"_a, "outputs"_a, "seed"_a = 0, "Pairs of wires, no two gates the same pair.");
  n.def(
      "random_wiring",
      [](std::int64_t in, std::int64_t out, std::uint64_t seed) {
        return pairs_of(logic::random_wiring(in, out, seed, here()));
      },
      "inputs"_a, "outputs"_a, "seed"_a = 0);
  n.def("apply", &logic::apply, "function"_a, "a"_a, "b"_a, "What function number `function` makes of two bits.");
  n.def(
      "function_name",
      [](int f) {
        if (f < 0 || f >= logic::kFunctions) throw nb::index_error("function_name: 0 to 15");
        return std::string(logic::function_name(f));
      },
      "function"_a);
  n.def(
      "initial_logits",
      [](std::int64_t gates, double pass, double noise, std::uint64_t seed) {
        return logic::initial_logits(gates, {pass, noise}, seed);
      },
      "gates"_a, "pass_"_a = 10.0, "noise"_a = 0.0, "seed"_a = 0);
  nb::class_<logic::Thresholds, nn::Module>(
      n, "Thresholds", "[batch, ...] to [features * thresholds, batch]: 1 where a feature is above a threshold.")
      .def(nb::init<std::vector<double>>(), "thresholds"_a);
  nb::class_<logic::GateLayers, nn::Module>(
      n, "GateLayers", "Layers of gates on [wires, batch]: soft while training, hard in mode 'eval'.")
      .def(
          "__init__",
          [](logic::GateLayers* self, const std::vector<std::int64_t>& sizes, const std::string& connect, double pass,
             double noise, std::uint64_t seed) {
            new (self) logic::GateLayers(sizes, connect_from(connect), {pass, noise}, seed, here());
          },
          "sizes"_a, "connect"_a = "unique", "pass_"_a = 10.0, "noise"_a = 0.0, "seed"_a = 1)
      .def("wirings", [](const logic::GateLayers& g) {
        std::vector<Pairs> all;
        for (const auto& layer : g.layers()) all.push_back(pairs_of(layer.wiring));
        return all;
      });
  nb::class_<logic::GroupSum, nn::Module>(
      n, "GroupSum", "[wires, batch] to [batch, classes]: how many wires of each class are on, by a temperature.")
      .def(nb::init<std::int64_t, double>(), "classes"_a, "temperature"_a);
  nb::class_<logic::Automaton::Rule>(n, "Rule", "A rule's coefficients in a trace.");
  nb::class_<logic::Automaton>(n, "Automaton",
                               "A cellular automaton on states [channels, cells] whose rule is a network of gates.")
      .def(
          "__init__",
          [](logic::Automaton* self, std::int64_t channels, std::int64_t kernels,
             const std::vector<std::int64_t>& kernel_gates, const std::vector<std::int64_t>& update_gates, double pass,
             double noise, std::uint64_t seed) {
            logic::AutomatonOptions o;
            o.channels = channels;
            o.kernels = kernels;
            o.kernel_gates = kernel_gates;
            o.update_gates = update_gates;
            o.start = {pass, noise};
            o.seed = seed;
            new (self) logic::Automaton(o, here());
          },
          "channels"_a = 8, "kernels"_a = 16, "kernel_gates"_a = logic::AutomatonOptions{}.kernel_gates,
          "update_gates"_a = logic::AutomatonOptions{}.update_gates, "pass_"_a = 10.0, "noise"_a = 0.0, "seed"_a = 1)
      .def(
          "rule", [](const logic::Automaton& a, const std::string& mode) { return a.rule(mode_from(mode), here()); },
          "mode"_a = "soft", "In a trace, once, outside of checkpoints: all steps share it.")
      .def(
          "step",
          [](const logic::Automaton& a, const logic::Automaton::Rule& rule, nb::handle state, std::int64_t height,
             std::int64_t width, const std::string& border) {
            const Location w = here();
            return a.step(rule, tensor_from(state, w), height, width, border_from(border), w);
          },
          "rule"_a, "state"_a, "height"_a, "width"_a, "border"_a = "zero",
          "All cells at once: [channels, cells] of the next step.")
      .def("parameters", &logic::Automaton::parameters)
      .def("states", &logic::Automaton::parameters)
      .def_prop_ro("gate_count", &logic::Automaton::gate_count);
}

}  // namespace wr::python
