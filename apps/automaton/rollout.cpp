// Hard gates on one grid, all steps kept: a change is followed from wire to wire as far as it reaches.
#include "apps/automaton/rollout.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace wr::apps {

using namespace logic;

namespace {

constexpr std::int64_t kBlock = Frame::kBlock;  // words that are computed together

Polynomial made_polynomial(int function) {
  const auto at = [&](bool x, bool y) { return apply(function, x, y) ? ~Word{0} : Word{0}; };
  const Word one = at(false, false), a = at(true, false) ^ one, b = at(false, true) ^ one;
  return {one, a, b, at(true, true) ^ one ^ a ^ b};
}

std::size_t differences(const Functions& x, const Functions& y) {
  std::size_t n = 0;
  for (std::size_t layer = 0; layer < x.size(); ++layer)
    for (std::size_t gate = 0; gate < x[layer].size(); ++gate) n += x[layer][gate] != y[layer][gate];
  return n;
}

}  // namespace

const Polynomial& polynomial_of(int function) {
  static const auto all = [] {
    std::array<Polynomial, kFunctions> made;
    for (int f = 0; f < kFunctions; ++f) made[f] = made_polynomial(f);
    return made;
  }();
  return all[function];
}

BitRollout::BitRollout(const Automaton& automaton, const BitGrid& start, const BitGrid& target, std::int64_t steps,
                       Border border)
    : frame_(target.height(), target.width(), border),
      steps_(steps),
      base_(functions_of(automaton)),
      tried_(base_),
      perception_layers_(automaton.perception().size()),
      channels_(automaton.options().channels) {
  const Circuit circuit = circuit_of(automaton);
  inputs_ = static_cast<std::size_t>(circuit.inputs);
  for (const std::size_t count : gates_by_layer(automaton)) add_layer(circuit, count);
  waiting_.resize(first_of_layer_.size());
  seen_.assign(gates_.size(), 0);
  readers_.resize(inputs_ + gates_.size());
  for (std::size_t g = 0; g < gates_.size(); ++g) connect(g);
  for (std::int64_t c = 0; c < target.channels(); ++c) wanted_.push_back(frame_.plane_of(target, c));
  words_ = static_cast<std::size_t>(frame_.words());
  values_.assign(static_cast<std::size_t>(steps) * (inputs_ + gates_.size()) * words_, 0);
  made_.resize(words_);
  for (std::int64_t c = 0; c < start.channels(); ++c) take_in(0, c, frame_.plane_of(start, c).data());
  std::vector<std::int32_t> all(gates_.size());
  std::iota(all.begin(), all.end(), 0);
  follow(all);
  keep();
}

void BitRollout::add_layer(const Circuit& circuit, std::size_t count) {
  const auto layer = static_cast<std::int32_t>(first_of_layer_.size());
  first_of_layer_.push_back(gates_.size());
  for (std::size_t i = 0; i < count; ++i) {
    const logic::Gate& g = circuit.gates[gates_.size()];
    gates_.push_back({g.a, g.b, g.function, layer});
  }
}

void BitRollout::connect(std::size_t gate) {
  readers_[gates_[gate].a].push_back({static_cast<std::int32_t>(gate), true});
  readers_[gates_[gate].b].push_back({static_cast<std::int32_t>(gate), false});
}

void BitRollout::disconnect(std::size_t gate) {
  for (const bool by_a : {true, false}) {
    auto& readers = readers_[by_a ? gates_[gate].a : gates_[gate].b];
    readers.erase(std::find(readers.begin(), readers.end(), Reader{static_cast<std::int32_t>(gate), by_a}));
  }
}

std::int32_t BitRollout::wire_before(std::size_t update_layer, std::int32_t wire) const {
  const std::size_t layer = perception_layers_ + update_layer;
  if (update_layer > 0) return static_cast<std::int32_t>(inputs_ + first_of_layer_[layer - 1]) + wire;
  if (wire < channels_) return 9 * wire + 4;  // the cell itself
  return static_cast<std::int32_t>(inputs_ + first_of_layer_[layer - 1] + static_cast<std::size_t>(wire - channels_));
}

std::size_t BitRollout::wires_before(std::size_t update_layer) const {
  const std::size_t layer = perception_layers_ + update_layer;
  const std::size_t count = first_of_layer_[layer] - first_of_layer_[layer - 1];
  return update_layer > 0 ? count : count + static_cast<std::size_t>(channels_);
}

/// A wire's new value; if it is another one, the gates that read the wire wait to be computed.
bool BitRollout::store(std::int64_t step, std::size_t wire, const Word* bits) {
  Word* old = at(step, wire);
  Word change = 0;
  for (std::size_t i = 0; i < words_; ++i) change |= old[i] ^ bits[i];
  if (change == 0) return false;
  for (std::size_t block = 0; block < words_; block += kBlock) {
    Before& before = log_.emplace_back();
    before.at = static_cast<std::size_t>(old - values_.data()) + block;
    std::copy_n(old + block, kBlock, before.bits.begin());
  }
  std::copy_n(bits, words_, old);
  for (const Reader& reader : readers_[wire]) {
    const Polynomial& f = polynomial_of(gates_[reader.gate].function);
    if ((f.ab | (reader.by_a ? f.a : f.b)) != 0) wait(reader.gate);
  }
  return true;
}

void BitRollout::wait(std::int32_t gate) {
  const auto g = static_cast<std::size_t>(gate);
  if (seen_[g] == look_) return;
  seen_[g] = look_;
  waiting_[gates_[g].layer].push_back(gate);
}

void BitRollout::take_in(std::int64_t step, std::int64_t channel, const Word* state) {
  frame_.look_at(state);
  for (int k = 0; k < 9; ++k) {
    frame_.neighbours(k, made_.data());
    store(step, static_cast<std::size_t>(channel * 9 + k), made_.data());
  }
}

/// Computes these gates again in every step, and what changes with them.
void BitRollout::follow(const std::vector<std::int32_t>& changed) {
  std::vector<std::int64_t> other_channels, before;
  for (std::int64_t step = 0; step < steps_; ++step) {
    std::swap(before, other_channels);
    other_channels.clear();
    for (std::int64_t c : before) take_in(step, c, value(step - 1, inputs_ + output(static_cast<std::size_t>(c))));
    for (std::int32_t g : changed) wait(g);
    for (auto& layer : waiting_) {
      for (std::int32_t g : layer)
        if (run_gate(step, static_cast<std::size_t>(g)) && &layer == &waiting_.back())
          other_channels.push_back(g - static_cast<std::int32_t>(first_of_layer_.back()));
      layer.clear();
    }
    ++look_;
  }
}

bool BitRollout::run_gate(std::int64_t step, std::size_t g) {
  const Polynomial& f = polynomial_of(gates_[g].function);
  const Word* a = value(step, static_cast<std::size_t>(gates_[g].a));
  const Word* b = value(step, static_cast<std::size_t>(gates_[g].b));
  for (std::size_t block = 0; block < words_; block += kBlock)
    for (std::size_t i = block; i < block + kBlock; ++i)
      made_[i] = f.one ^ (f.a & a[i]) ^ (f.b & b[i]) ^ (f.ab & a[i] & b[i]);
  return store(step, inputs_ + g, made_.data());
}

void BitRollout::take_back() {
  for (auto before = log_.rbegin(); before != log_.rend(); ++before)
    std::copy_n(before->bits.begin(), kBlock, values_.data() + before->at);
  for (auto before = gates_before_.rbegin(); before != gates_before_.rend(); ++before) {
    disconnect(before->gate);
    gates_[before->gate] = before->was;
    connect(before->gate);
  }
  keep();
}

/// Functions to gates; which of them had another.
std::vector<std::int32_t> BitRollout::give(const Functions& functions) {
  std::vector<std::int32_t> changed;
  for (std::size_t layer = 0; layer < functions.size(); ++layer)
    for (std::size_t i = 0; i < functions[layer].size(); ++i) {
      if (functions[layer][i] == tried_[layer][i]) continue;
      const std::size_t end = layer + 1 < functions.size() ? first_of_layer_[layer + 1] : gates_.size();
      for (std::size_t g = first_of_layer_[layer] + i; g < end; g += functions[layer].size()) {
        gates_[g].function = functions[layer][i];
        changed.push_back(static_cast<std::int32_t>(g));
      }
    }
  tried_ = functions;
  return changed;
}

std::int64_t BitRollout::wrong() const {
  std::int64_t n = 0;
  for (std::size_t c = 0; c < wanted_.size(); ++c) {
    const Word* bits = value(steps_ - 1, inputs_ + output(c));
    for (std::size_t i = 0; i < words_; ++i) n += std::popcount((bits[i] ^ wanted_[c][i]) & frame_.inside()[i]);
  }
  return n;
}

std::int64_t BitRollout::wrong(const Functions& functions) {
  if (differences(functions, base_) < differences(functions, tried_)) {
    take_back();
    give(base_);
  }
  base_ = tried_;
  keep();
  follow(give(functions));
  return wrong();
}

std::int64_t BitRollout::attempt(const std::vector<GateChange>& changes) {
  std::vector<std::int32_t> changed;
  for (const GateChange& change : changes) {
    const std::size_t g = gate_of(change.layer, change.gate);
    gates_before_.push_back({g, gates_[g]});
    disconnect(g);
    gates_[g].function = change.function;
    gates_[g].a = wire_before(change.layer, change.wire.a);
    gates_[g].b = wire_before(change.layer, change.wire.b);
    connect(g);
    changed.push_back(static_cast<std::int32_t>(g));
  }
  follow(changed);
  return wrong();
}

std::int64_t BitRollout::bytes(const Automaton& automaton, std::int64_t height, std::int64_t width,
                               std::int64_t steps) {
  const auto counts = gates_by_layer(automaton);
  const auto gates = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const auto wires = 9 * automaton.options().channels + static_cast<std::int64_t>(gates);
  return wires * steps * Frame::words_of(height, width) * static_cast<std::int64_t>(sizeof(Word));
}

}  // namespace wr::apps
