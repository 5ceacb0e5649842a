// Buffers of one Code: lifetimes, in-place reuse, offsets.
#include "backend/cpu/emit.h"

#include <algorithm>

namespace wr::cpu {

View Emitter::scratch(DType dtype, const Shape& shape) {
  View v = dense_view(kScratch, 0, dtype, shape);
  v.buffer = static_cast<int>(buffers_.size());
  buffers_.push_back({static_cast<std::size_t>(std::max<std::int64_t>(shape.count(), 1)) * size_of(dtype)});
  return v;
}

View Emitter::scratch_bytes(std::size_t bytes) { return scratch(DType::u8, {static_cast<std::int64_t>(bytes)}); }

namespace {

/// Bytes of the elements a view has; one that is repeated along an axis counts once.
std::int64_t distinct_bytes(const View& v) {
  std::int64_t n = v.elem();
  for (int i = 0; i < v.shape.rank(); ++i)
    if (v.strides[i] != 0) n *= v.shape[i];
  return n;
}

}  // namespace

void Emitter::add(Instr::Fn fn, const void* params, const std::vector<View>& operands, const char* name,
                  unsigned in_place) {
  Pending p;
  p.in_place = in_place;
  p.instr.fn = fn;
  p.instr.params = params;
  p.instr.operands = static_cast<int>(operands.size());
  p.instr.node = node;
  p.instr.kernel = name;
  const int now = static_cast<int>(calls_.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const View& v = operands[i];
    p.instr.operand[i] = {v.base, v.offset, v.advance};
    p.buffer[i] = v.buffer;
    (v.base == kScratch ? p.cost.scratch_bytes
     : v.advance == 0   ? p.cost.whole_bytes
                        : p.cost.strip_bytes) += distinct_bytes(v);
    if (v.buffer < 0) continue;
    Buffer& b = buffers_[static_cast<std::size_t>(v.buffer)];
    if (b.first < 0) b.first = now;
    b.last = now;
  }
  calls_.push_back(p);
}

int Emitter::root(int buffer) const {
  while (buffers_[static_cast<std::size_t>(buffer)].same_as >= 0)
    buffer = buffers_[static_cast<std::size_t>(buffer)].same_as;
  return buffer;
}

/// Where a call makes a new buffer from one that nobody reads later, both are one.
void Emitter::merge_in_place() {
  for (int now = 0; now < static_cast<int>(calls_.size()); ++now) {
    Pending& p = calls_[static_cast<std::size_t>(now)];
    if (p.in_place == 0 || p.buffer[0] < 0) continue;
    const int made = root(p.buffer[0]);
    for (int k = 1; k < p.instr.operands; ++k) {
      if (!((p.in_place >> k) & 1) || p.buffer[k] < 0) continue;
      const int from = root(p.buffer[k]);
      Buffer &a = buffers_[static_cast<std::size_t>(from)], &b = buffers_[static_cast<std::size_t>(made)];
      if (from == made || a.last != now || b.first != now || a.bytes != b.bytes) continue;
      a.last = b.last;
      b.same_as = from;
      break;
    }
  }
}

std::vector<Instr> Emitter::finish(std::size_t reserved, std::vector<CallCost>& costs) {
  merge_in_place();
  std::vector<plan::Lifetime> lifetimes;
  std::vector<int> slot(buffers_.size(), -1);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (buffers_[i].same_as < 0 && buffers_[i].first >= 0) {
      slot[i] = static_cast<int>(lifetimes.size());
      lifetimes.push_back({buffers_[i].bytes, buffers_[i].first, buffers_[i].last});
    }
  const plan::MemoryUse use = plan::assign_offsets(lifetimes);
  program_.scratch_bytes = std::max(program_.scratch_bytes, reserved + use.bytes);
  program_.scratch_lower_bound = std::max(program_.scratch_lower_bound, reserved + use.lower_bound);
  std::vector<Instr> instrs;
  for (Pending& p : calls_) {
    for (int i = 0; i < p.instr.operands; ++i)
      if (p.buffer[i] >= 0) {
        const auto at = static_cast<std::size_t>(slot[static_cast<std::size_t>(root(p.buffer[i]))]);
        p.instr.operand[i].offset += static_cast<std::int64_t>(reserved + lifetimes[at].offset);
      }
    instrs.push_back(p.instr);
    p.cost.live_bytes = static_cast<std::int64_t>(reserved);
    costs.push_back(p.cost);
  }
  for (const plan::Lifetime& l : lifetimes)
    for (int now = l.begin; now <= l.end; ++now)
      costs[static_cast<std::size_t>(now)].live_bytes += static_cast<std::int64_t>(l.bytes);
  calls_.clear();
  buffers_.clear();
  return instrs;
}

}  // namespace wr::cpu
