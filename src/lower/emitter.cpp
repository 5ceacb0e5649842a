// Buffers of one Code: lifetimes, in-place reuse, offsets.
#include "lower/emitter.h"

#include <algorithm>

#include "plan/memory.h"

namespace wr::lower {

View Emitter::scratch(DType dtype, const Shape& shape) {
  View v = dense_view(kScratch, 0, dtype, shape);
  v.buffer = static_cast<int>(buffers_.size());
  buffers_.push_back({static_cast<std::size_t>(std::max<std::int64_t>(shape.count(), 1)) * size_of(dtype)});
  buffers_.back().loop = loop_;
  return v;
}

View Emitter::lasting_scratch(DType dtype, const Shape& shape) {
  const View v = scratch(dtype, shape);
  if (loop_ >= 0) buffers_.back().loop = loops_[loop_].outer;
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

void Emitter::call(int kernel, const std::vector<View>& operands, const char* name, unsigned in_place) {
  Pending p{{kernel, static_cast<int>(operands.size()), node, name, inside}, {}, operands_.size(), in_place};
  const int now = static_cast<int>(calls_.size());
  for (const View& v : operands) {
    operands_.push_back({v.base, v.offset, v.advance, v.inner, v.step});
    operand_buffers_.push_back(v.buffer);
    (v.base == kScratch ? p.cost.scratch_bytes
     : v.advance == 0   ? p.cost.whole_bytes
                        : p.cost.strip_bytes) += distinct_bytes(v);
    if (v.buffer < 0) continue;
    Buffer& b = buffers_[v.buffer];
    if (b.first < 0) b.first = now;
    b.last = now;
  }
  calls_.push_back(p);
}

int Emitter::begin_list() {
  lists_.push_back(static_cast<int>(calls_.size()));
  return static_cast<int>(lists_.size()) - 1;
}

void Emitter::begin_loop() {
  loops_.push_back({static_cast<int>(calls_.size()), 0, loop_});
  loop_ = static_cast<int>(loops_.size()) - 1;
}

void Emitter::end_loop() {
  Loop& loop = loops_[loop_];
  loop.end = static_cast<int>(calls_.size());
  loop_ = loop.outer;
}

int Emitter::root(int buffer) const {
  while (buffers_[buffer].same_as >= 0) buffer = buffers_[buffer].same_as;
  return buffer;
}

/// Where a call makes a new buffer from one that nobody reads later, both are one.
void Emitter::merge_in_place() {
  for (int now = 0; now < static_cast<int>(calls_.size()); ++now) {
    Pending& p = calls_[now];
    const int* buffer = operand_buffers_.data() + p.first_operand;
    if (p.in_place == 0 || buffer[0] < 0) continue;
    const int made = root(buffer[0]);
    for (int k = 1; k < p.call.operands; ++k) {
      if (!((p.in_place >> k) & 1) || buffer[k] < 0) continue;
      const int from = root(buffer[k]);
      Buffer &a = buffers_[from], &b = buffers_[made];
      if (from == made || a.last != now || b.first != now || a.bytes != b.bytes || a.loop != b.loop) continue;
      a.last = b.last;
      b.same_as = from;
      break;
    }
  }
}

bool Emitter::is_within(int loop, int outer) const {
  while (loop >= 0 && loop != outer) loop = loops_[loop].outer;
  return loop == outer;
}

/// What is read or written in one turn of a loop must keep its place in all turns, unless it is for that turn alone.
void Emitter::keep_through_loops() {
  for (Buffer& b : buffers_)
    for (std::size_t i = 0; i < loops_.size(); ++i) {
      const Loop& loop = loops_[i];
      if (is_within(b.loop, static_cast<int>(i))) continue;
      if (b.first >= 0 && b.first < loop.end && b.last >= loop.begin) {
        b.first = std::min(b.first, loop.begin);
        b.last = std::max(b.last, loop.end - 1);
      }
    }
}

std::vector<CallList> Emitter::finish(std::size_t reserved, Memory& memory) {
  merge_in_place();
  keep_through_loops();
  std::vector<plan::Lifetime> lifetimes;
  std::vector<int> slot(buffers_.size(), -1);
  for (std::size_t i = 0; i < buffers_.size(); ++i)
    if (buffers_[i].same_as < 0 && buffers_[i].first >= 0) {
      slot[i] = static_cast<int>(lifetimes.size());
      lifetimes.push_back({buffers_[i].bytes, buffers_[i].first, buffers_[i].last});
    }
  const plan::MemoryUse use = plan::assign_offsets(lifetimes);
  memory.bytes = std::max(memory.bytes, reserved + use.bytes);
  memory.lower_bound = std::max(memory.lower_bound, reserved + use.lower_bound);
  std::vector<std::int64_t> change(calls_.size() + 1, 0);  // of the bytes in use, at each call
  for (const plan::Lifetime& l : lifetimes) {
    change[l.begin] += static_cast<std::int64_t>(l.bytes);
    change[static_cast<std::size_t>(l.end) + 1] -= static_cast<std::int64_t>(l.bytes);
  }
  std::int64_t live = 0;
  for (std::size_t now = 0; now < calls_.size(); ++now) calls_[now].cost.live_bytes += live += change[now];
  std::vector<CallList> lists(std::max<std::size_t>(lists_.size(), 1));
  for (std::size_t now = 0, list = 0; now < calls_.size(); ++now) {
    while (list + 1 < lists_.size() && lists_[list + 1] <= static_cast<int>(now)) ++list;
    Pending& p = calls_[now];
    for (std::size_t i = p.first_operand; i < p.first_operand + static_cast<std::size_t>(p.call.operands); ++i) {
      Operand operand = operands_[i];
      if (operand_buffers_[i] >= 0) {
        const auto at = static_cast<std::size_t>(slot[root(operand_buffers_[i])]);
        operand.offset += static_cast<std::int64_t>(reserved + lifetimes[at].offset);
      }
      lists[list].operands.push_back(operand);
    }
    p.cost.live_bytes += static_cast<std::int64_t>(reserved);
    lists[list].calls.push_back(p.call);
    lists[list].costs.push_back(p.cost);
  }
  calls_.clear();
  operands_.clear();
  operand_buffers_.clear();
  buffers_.clear();
  loops_.clear();
  lists_.clear();
  return lists;
}

}  // namespace wr::lower
