// Hard gates on some grids, all steps kept: a change is followed from wire to wire as far as it reaches.
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

BitRollout::BitRollout(const Automaton& automaton, const std::vector<BitGrid>& starts,
                       const std::vector<BitGrid>& targets, std::int64_t steps, Border border)
    : frame_(std::ssize(targets), targets.at(0).height(), targets.at(0).width(), border),
      steps_(steps),
      base_(functions_of(automaton)),
      tried_(base_),
      circuit_(circuit_of(automaton)),
      inputs_(static_cast<std::size_t>(circuit_.inputs)),
      channels_(circuit_.outputs.size()),
      wires_(inputs_ + circuit_.gates.size()),
      words_(static_cast<std::size_t>(frame_.words())),
      perception_layers_(automaton.perception().size()) {
  for (const std::size_t count : gates_by_layer(automaton)) {
    first_of_layer_.push_back(layer_.size());
    layer_.insert(layer_.end(), count, static_cast<std::int32_t>(first_of_layer_.size()) - 1);
  }
  waiting_.resize(first_of_layer_.size());
  seen_.assign(layer_.size(), 0);
  readers_.resize(wires_);
  for (std::size_t g = 0; g < layer_.size(); ++g) connect(g);
  for (std::int64_t c = 0; c < targets[0].channels(); ++c) targets_.push_back(frame_.plane_of(targets, c));
  values_.assign(static_cast<std::size_t>(steps) * wires_ * words_, 0);
  made_.resize(words_);
  for (std::size_t c = 0; c < channels_; ++c) {
    const auto channel = static_cast<std::int64_t>(c);
    take_in(0, channel, frame_.plane_of(starts, channel).data());
  }
  std::vector<std::int32_t> all(layer_.size());
  std::iota(all.begin(), all.end(), 0);
  follow(all);
  keep();
}

void BitRollout::connect(std::size_t gate) {
  readers_[circuit_.gates[gate].a].push_back({static_cast<std::int32_t>(gate), true});
  readers_[circuit_.gates[gate].b].push_back({static_cast<std::int32_t>(gate), false});
}

void BitRollout::disconnect(std::size_t gate) {
  for (const bool by_a : {true, false}) {
    auto& readers = readers_[by_a ? circuit_.gates[gate].a : circuit_.gates[gate].b];
    readers.erase(std::find(readers.begin(), readers.end(), Reader{static_cast<std::int32_t>(gate), by_a}));
  }
}

std::size_t BitRollout::gates_of(std::size_t update_layer) const {
  const std::size_t layer = perception_layers_ + update_layer;
  return (layer + 1 < first_of_layer_.size() ? first_of_layer_[layer + 1] : layer_.size()) - first_of_layer_[layer];
}

std::size_t BitRollout::wires_before(std::size_t update_layer) const {
  const std::size_t layer = perception_layers_ + update_layer;
  const std::size_t driven = first_of_layer_[layer] - first_of_layer_[layer - 1];
  return update_layer > 0 ? driven : channels_ + driven;
}

std::size_t BitRollout::wire_before(std::size_t update_layer, std::size_t number) const {
  const std::size_t first = inputs_ + first_of_layer_[perception_layers_ + update_layer - 1];
  if (update_layer > 0) return first + number;
  return number < channels_ ? 9 * number + 4 : first + number - channels_;  // 4: the cell itself
}

/// A wire's new value; if it is another one, the gates that read the wire wait to be computed.
bool BitRollout::store(std::int64_t step, std::size_t wire, const Word* bits) {
  Word* old = values_.data() + (static_cast<std::size_t>(step) * wires_ + wire) * words_;
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
    const Polynomial& f = polynomial_of(circuit_.gates[reader.gate].function);
    if ((f.ab | (reader.by_a ? f.a : f.b)) != 0) wait(reader.gate);
  }
  return true;
}

void BitRollout::wait(std::int32_t gate) {
  const auto g = static_cast<std::size_t>(gate);
  if (seen_[g] == look_) return;
  seen_[g] = look_;
  waiting_[layer_[g]].push_back(gate);
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
    for (std::int64_t c : before) take_in(step, c, value(step - 1, static_cast<std::size_t>(circuit_.outputs[c])));
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
  const logic::Gate& gate = circuit_.gates[g];
  const Polynomial& f = polynomial_of(gate.function);
  const Word* a = value(step, static_cast<std::size_t>(gate.a));
  const Word* b = value(step, static_cast<std::size_t>(gate.b));
  for (std::size_t block = 0; block < words_; block += kBlock)
    for (std::size_t i = block; i < block + kBlock; ++i)
      made_[i] = f.one ^ (f.a & a[i]) ^ (f.b & b[i]) ^ (f.ab & a[i] & b[i]);
  return store(step, inputs_ + g, made_.data());
}

void BitRollout::keep() {
  log_.clear();
  gates_before_.clear();
}

void BitRollout::take_back() {
  for (auto before = log_.rbegin(); before != log_.rend(); ++before)
    std::copy_n(before->bits.begin(), kBlock, values_.data() + before->at);
  for (auto before = gates_before_.rbegin(); before != gates_before_.rend(); ++before) {
    disconnect(before->gate);
    circuit_.gates[before->gate] = before->was;
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
      const std::size_t end = layer + 1 < functions.size() ? first_of_layer_[layer + 1] : layer_.size();
      for (std::size_t g = first_of_layer_[layer] + i; g < end; g += functions[layer].size()) {
        circuit_.gates[g].function = functions[layer][i];
        changed.push_back(static_cast<std::int32_t>(g));
      }
    }
  tried_ = functions;
  return changed;
}

std::int64_t BitRollout::wrong() const {
  std::int64_t n = 0;
  for (std::size_t c = 0; c < targets_.size(); ++c) {
    const Word* bits = value(steps_ - 1, static_cast<std::size_t>(circuit_.outputs[c]));
    for (std::size_t i = 0; i < words_; ++i) n += std::popcount((bits[i] ^ targets_[c][i]) & frame_.inside()[i]);
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

std::int64_t BitRollout::wrong_with(const std::vector<GateChange>& changes) {
  std::vector<std::int32_t> changed;
  for (const GateChange& change : changes) {
    const std::size_t g = wire_of(change.layer, change.gate) - inputs_;
    const auto end = [&](std::int32_t number) {
      return static_cast<std::int32_t>(wire_before(change.layer, static_cast<std::size_t>(number)));
    };
    gates_before_.push_back({g, circuit_.gates[g]});
    disconnect(g);
    circuit_.gates[g] = {change.function, end(change.wire.a), end(change.wire.b)};
    connect(g);
    changed.push_back(static_cast<std::int32_t>(g));
  }
  follow(changed);
  return wrong();
}

std::int64_t BitRollout::bytes(const Automaton& automaton, std::int64_t grids, std::int64_t height, std::int64_t width,
                               std::int64_t steps) {
  const auto counts = gates_by_layer(automaton);
  const auto gates = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  const auto wires = 9 * automaton.options().channels + static_cast<std::int64_t>(gates);
  return wires * steps * Frame::words_of(grids, height, width) * static_cast<std::int64_t>(sizeof(Word));
}

}  // namespace wr::apps
