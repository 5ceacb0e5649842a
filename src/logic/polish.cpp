// From gates that are mixtures to hard ones that work: a search among their likely functions.
#include <algorithm>
#include <cmath>
#include <utility>

#include "logic/draw.h"
#include "windrow/circuit.h"

namespace wr::logic {
namespace {

struct Choice {
  std::size_t layer, gate;
  int function;
};

/// Likely functions of each gate, where there are several.
std::vector<Choice> choices(const std::vector<State>& layers, double likely) {
  std::vector<Choice> all;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const Array z = layers[layer].value().astype(DType::f64);
    const double* row = z.data<double>();
    for (std::size_t gate = 0; gate < static_cast<std::size_t>(z.size(0)); ++gate, row += kFunctions) {
      const double top = *std::max_element(row, row + kFunctions);
      double sum = 0;
      for (int f = 0; f < kFunctions; ++f) sum += std::exp(row[f] - top);
      if (1 / sum > 1 - likely) continue;
      for (int f = 0; f < kFunctions; ++f)
        if (std::exp(row[f] - top) / sum >= likely) all.push_back({layer, gate, f});
    }
  }
  return all;
}

/// Any function for any gate that does something.
std::vector<Choice> working_gates(const Functions& functions) {
  std::vector<Choice> all;
  for (std::size_t layer = 0; layer < functions.size(); ++layer)
    for (std::size_t gate = 0; gate < functions[layer].size(); ++gate)
      for (int f = 0; f < kFunctions && functions[layer][gate] != kPassA; ++f) all.push_back({layer, gate, f});
  return all;
}

Choice any_choice(const Functions& functions, Draw& draw) {
  std::size_t gates = 0, layer = 0;
  for (const auto& of_layer : functions) gates += of_layer.size();
  auto gate = static_cast<std::size_t>(draw.below(gates));
  for (; gate >= functions[layer].size(); ++layer) gate -= functions[layer].size();
  return {layer, gate, static_cast<int>(draw.below(kFunctions))};
}

/// Gates of other functions than before: the two logits change places.
void exchange(const std::vector<State>& layers, const Functions& before, const Functions& now) {
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (before[layer] == now[layer]) continue;
    Array z = layers[layer].value().astype(DType::f64);
    double* row = z.mutable_data<double>();
    for (std::size_t gate = 0; gate < now[layer].size(); ++gate, row += kFunctions)
      std::swap(row[before[layer][gate]], row[now[layer][gate]]);
    State(layers[layer]).set(z.astype(layers[layer].spec().dtype));
  }
}

}  // namespace

std::int64_t polish(const Automaton& automaton, const std::function<std::int64_t(const Circuit&)>& errors,
                    const PolishOptions& options) {
  const std::vector<State> layers = automaton.parameters();
  const Functions before = functions_of(automaton);
  Functions now = before;
  const std::vector<Choice> likely = choices(layers, options.likely), any = working_gates(before);
  std::int64_t best = errors(circuit_of(automaton, now));
  Draw draw(options.seed);
  const auto choose = [&]() -> Choice {
    const double kind = draw.unit();
    if (kind < options.idle || (any.empty() && likely.empty())) return any_choice(now, draw);
    const bool working = likely.empty() || (!any.empty() && kind < options.idle + options.any);
    const std::vector<Choice>& from = working ? any : likely;
    return from[static_cast<std::size_t>(draw.below(from.size()))];
  };
  std::vector<Choice> before_try;
  for (std::int64_t i = 0; i < options.tries && best > 0; ++i) {
    before_try.clear();
    do {
      const Choice choice = choose();
      int& function = now[choice.layer][choice.gate];
      before_try.push_back({choice.layer, choice.gate, function});
      function = choice.function;
    } while (draw.unit() < options.more);
    if (const std::int64_t found = errors(circuit_of(automaton, now)); found <= best) {
      best = found;
      continue;
    }
    for (auto old = before_try.rbegin(); old != before_try.rend(); ++old) now[old->layer][old->gate] = old->function;
  }
  exchange(layers, before, now);
  return best;
}

}  // namespace wr::logic
