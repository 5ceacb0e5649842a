// From trained gates to a small circuit.
#include "windrow/circuit.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

namespace wr::logic {
namespace {

std::vector<int> likeliest(const State& logits) {
  const Array z = logits.value().astype(DType::f64);
  const double* row = z.data<double>();
  std::vector<int> functions;
  for (std::int64_t i = 0; i < z.size(0); ++i, row += kFunctions)
    functions.push_back(static_cast<int>(std::max_element(row, row + kFunctions) - row));
  return functions;
}

/// Adds a layer whose wire w is before[w]; returns its own wires.
std::vector<std::int32_t> add_layer(Circuit& c, const Wiring& wiring, const std::vector<int>& functions,
                                    const std::vector<std::int32_t>& before) {
  std::vector<std::int32_t> made;
  for (std::size_t i = 0; i < wiring.size(); ++i) {
    made.push_back(static_cast<std::int32_t>(c.inputs + static_cast<std::int64_t>(c.gates.size())));
    c.gates.push_back({functions[i % functions.size()], before[wiring[i].a], before[wiring[i].b]});
  }
  return made;
}

std::vector<std::int32_t> input_wires(std::int64_t n) {
  std::vector<std::int32_t> wires(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < wires.size(); ++i) wires[i] = static_cast<std::int32_t>(i);
  return wires;
}

/// A wire or its complement, or a constant.
struct Literal {
  std::int32_t wire = kZero;
  bool inverted = false;  // of kZero too: then it is 1
};

/// f as a function of the complements of its arguments where they are inverted.
int with_inverted(int f, bool a, bool b) {
  int g = 0;
  for (int x = 0; x < 2; ++x)
    for (int y = 0; y < 2; ++y)
      if (apply(f, (x != 0) != a, (y != 0) != b)) g |= 1 << (3 - (2 * x + y));
  return g;
}

class Simplifier {
 public:
  explicit Simplifier(const Circuit& from) : from_(from) { out_.inputs = from.inputs; }

  Circuit run() {
    for (std::int64_t i = 0; i < from_.inputs; ++i) known_.push_back({static_cast<std::int32_t>(i), false});
    for (const Gate& g : from_.gates) known_.push_back(literal(g.function, of(g.a), of(g.b)));
    for (auto o : from_.outputs) out_.outputs.push_back(wire_of(of(o)));
    remove_unread();
    return out_;
  }

 private:
  Literal of(std::int32_t wire) const {
    if (wire == kZero) return {};
    if (wire == kOne) return {kZero, true};
    return known_[wire];
  }

  /// A function of one argument, by its values at 0 and at 1.
  static Literal unary(bool at_0, bool at_1, Literal x) {
    if (at_0 == at_1) return {kZero, at_0};
    return {x.wire, x.inverted != at_0};
  }

  Literal literal(int f, Literal a, Literal b) {
    if (a.wire == kZero) return unary(apply(f, a.inverted, false), apply(f, a.inverted, true), b);
    if (b.wire == kZero) return unary(apply(f, false, b.inverted), apply(f, true, b.inverted), a);
    f = with_inverted(f, a.inverted, b.inverted);
    if (a.wire == b.wire) return unary(apply(f, false, false), apply(f, true, true), {a.wire, false});
    if (apply(f, false, false) == apply(f, false, true) && apply(f, true, false) == apply(f, true, true))
      return unary(apply(f, false, false), apply(f, true, false), {a.wire, false});
    if (apply(f, false, false) == apply(f, true, false) && apply(f, false, true) == apply(f, true, true))
      return unary(apply(f, false, false), apply(f, false, true), {b.wire, false});
    if (a.wire > b.wire) {
      std::swap(a, b);
      f = (f & 0b1001) | (f >> 1 & 0b0010) | (f << 1 & 0b0100);  // swaps f(0,1) and f(1,0)
    }
    const bool complement = apply(f, false, false);  // all gates kept are 0 at (0, 0); a complement is the reader's
    return {gate(complement ? 15 - f : f, a.wire, b.wire), complement};
  }

  /// The one gate of this function on these wires.
  std::int32_t gate(int f, std::int32_t a, std::int32_t b) {
    const auto [it, fresh] =
        made_.emplace(std::tuple(f, a, b), static_cast<std::int32_t>(out_.inputs + std::ssize(out_.gates)));
    if (fresh) out_.gates.push_back({f, a, b});
    return it->second;
  }

  std::int32_t wire_of(Literal l) {
    constexpr int kNot = 12;
    if (l.wire == kZero) return l.inverted ? kOne : kZero;
    return l.inverted ? gate(kNot, l.wire, l.wire) : l.wire;
  }

  void remove_unread() {
    std::vector<bool> read(static_cast<std::size_t>(out_.inputs) + out_.gates.size(), false);
    auto mark = [&](std::int32_t wire) {
      if (wire >= 0) read[wire] = true;
    };
    for (auto o : out_.outputs) mark(o);
    for (std::size_t i = out_.gates.size(); i-- > 0;)
      if (read[static_cast<std::size_t>(out_.inputs) + i]) {
        mark(out_.gates[i].a);
        mark(out_.gates[i].b);
      }
    std::vector<std::int32_t> renamed(read.size());
    std::vector<Gate> kept;
    auto name = [&](std::int32_t wire) { return wire < 0 ? wire : renamed[wire]; };
    for (std::size_t w = 0; w < read.size(); ++w) {
      const auto inputs = static_cast<std::size_t>(out_.inputs);
      if (w < inputs) {
        renamed[w] = static_cast<std::int32_t>(w);
      } else if (read[w]) {
        renamed[w] = static_cast<std::int32_t>(inputs + kept.size());
        const Gate& g = out_.gates[w - inputs];
        kept.push_back({g.function, name(g.a), name(g.b)});
      }
    }
    for (auto& o : out_.outputs) o = name(o);
    out_.gates = std::move(kept);
  }

  const Circuit& from_;
  Circuit out_;
  std::vector<Literal> known_;  // by wire of the given circuit
  std::map<std::tuple<int, std::int32_t, std::int32_t>, std::int32_t> made_;
};

}  // namespace

std::vector<bool> Circuit::operator()(const std::vector<bool>& in) const {
  std::vector<bool> value = in;
  if (static_cast<std::int64_t>(in.size()) != inputs)
    throw Error("circuit: " + std::to_string(in.size()) + " values for " + std::to_string(inputs) + " inputs");
  auto at = [&](std::int32_t wire) { return wire == kOne || (wire >= 0 && value[wire]); };
  for (const Gate& g : gates) value.push_back(apply(g.function, at(g.a), at(g.b)));
  std::vector<bool> out;
  for (auto o : outputs) out.push_back(at(o));
  return out;
}

Circuit circuit_of(const std::vector<Layer>& layers, std::int64_t inputs) {
  Circuit c;
  c.inputs = inputs;
  std::vector<std::int32_t> wires = input_wires(inputs);
  for (const Layer& layer : layers) wires = add_layer(c, layer.wiring, likeliest(layer.logits), wires);
  c.outputs = wires;
  return c;
}

Functions functions_of(const Automaton& automaton) {
  Functions all;
  for (const State& logits : automaton.parameters()) all.push_back(likeliest(logits));
  return all;
}

Circuit circuit_of(const Automaton& automaton) { return circuit_of(automaton, functions_of(automaton)); }

Circuit circuit_of(const Automaton& automaton, const Functions& functions) {
  auto of_layer = functions.begin();
  const auto channels = automaton.options().channels;
  Circuit c;
  c.inputs = channels * 9;
  std::vector<std::int32_t> wires = input_wires(c.inputs);
  for (std::size_t i = 0; i < automaton.spread().size(); ++i)
    wires = add_layer(c, automaton.spread()[i], *of_layer++, wires);
  std::vector<std::int32_t> read;
  for (std::int64_t k = 0; k < channels; ++k) read.push_back(static_cast<std::int32_t>(k * 9 + 4));  // the cell itself
  read.insert(read.end(), wires.begin(), wires.end());
  for (const Layer& layer : automaton.update()) read = add_layer(c, layer.wiring, *of_layer++, read);
  c.outputs = read;
  return c;
}

std::vector<std::size_t> gates_by_layer(const Automaton& automaton) {
  std::vector<std::size_t> counts;
  for (const Wiring& wiring : automaton.spread()) counts.push_back(wiring.size());
  for (const Layer& layer : automaton.update()) counts.push_back(layer.wiring.size());
  return counts;
}

Circuit simplified(const Circuit& circuit) { return Simplifier(circuit).run(); }

std::vector<bool> seen_wires(const Circuit& c, std::int64_t visible, const std::vector<std::int32_t>& also) {
  const auto inputs = static_cast<std::size_t>(c.inputs), channels = c.outputs.size();
  std::vector<bool> seen(channels, false), read;
  for (std::size_t k = 0; k < channels && static_cast<std::int64_t>(k) < visible; ++k) seen[k] = true;
  for (bool changed = true; changed;) {
    changed = false;
    read.assign(inputs + c.gates.size(), false);
    auto mark = [&](std::int32_t wire) {
      if (wire >= 0) read[wire] = true;
    };
    for (const std::int32_t wire : also) mark(wire);
    for (std::size_t k = 0; k < channels; ++k)
      if (seen[k]) mark(c.outputs[k]);
    for (std::size_t i = c.gates.size(); i-- > 0;) {
      if (!read[inputs + i]) continue;
      const Gate& g = c.gates[i];
      const auto differs = [&](bool a, bool b, bool x, bool y) {
        return apply(g.function, a, b) != apply(g.function, x, y);
      };
      if (differs(false, false, true, false) || differs(false, true, true, true)) mark(g.a);
      if (differs(false, false, false, true) || differs(true, false, true, true)) mark(g.b);
    }
    for (std::size_t in = 0; in < inputs; ++in)
      if (read[in] && !seen[in / 9]) changed = seen[in / 9] = true;
  }
  return read;
}

Circuit without_unseen_channels(const Circuit& circuit, std::int64_t visible) {
  Circuit c = simplified(circuit);
  const std::vector<bool> seen = seen_wires(c, visible);
  for (std::size_t k = 0; k < c.outputs.size(); ++k) {
    const auto first = seen.begin() + static_cast<std::ptrdiff_t>(9 * k);
    if (static_cast<std::int64_t>(k) >= visible && std::find(first, first + 9, true) == first + 9) c.outputs[k] = kZero;
  }
  return simplified(c);
}

std::map<std::string, std::int64_t> count_by_kind(const Circuit& circuit) {
  static constexpr std::array<const char*, 16> kKinds = {
      "constant", "and",  "and-not", "pass",   "and-not", "pass",   "xor",  "or",
      "nor",      "xnor", "not",     "or-not", "not",     "or-not", "nand", "constant"};
  std::map<std::string, std::int64_t> counts;
  for (const Gate& g : circuit.gates) ++counts[kKinds.at(static_cast<std::size_t>(g.function))];
  return counts;
}

}  // namespace wr::logic
