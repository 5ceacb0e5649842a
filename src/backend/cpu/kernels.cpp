// Kernels of a program: numbers for calls, tables, copies.
#include "backend/cpu/kernels.h"

#include <algorithm>

#include "backend/cpu/choose.h"
#include "backend/cpu/copy.h"

namespace wr::cpu {

void Kernels::make(const lower::Work& work, lower::Emitter& emit) { Chooser(*this, work, emit).run(); }

void Kernels::copy(const View& to, const View& from, lower::Emitter& emit) {
  const CopyParams params = make_copy(to.shape, to.strides, from.strides, static_cast<int>(to.elem()));
  emit.call(bind(find_copy(params, target_), params), {to, from}, "copy");
}

const std::int32_t* Kernels::keep(const std::vector<std::int32_t>& numbers) {
  const std::int32_t*& kept = tables_[numbers];
  if (!kept) {
    void* memory = memory_.allocate(std::max<std::size_t>(1, numbers.size()) * sizeof(std::int32_t), 64);
    kept = static_cast<const std::int32_t*>(memory);
    std::copy(numbers.begin(), numbers.end(), static_cast<std::int32_t*>(memory));
  }
  return kept;
}

void Chooser::expect_operands(std::size_t count) {
  if (count > kMostOperands) throw Error("internal: a call of " + std::to_string(count) + " operands");
}

View Chooser::dense(const View& v) {
  if (v.dense()) {
    View plain = v;
    plain.strides = contiguous_strides(v.shape);  // an axis of one element may come with any stride
    return plain;
  }
  const View d = emit_.scratch(v.dtype, v.shape);
  copy(d, v);
  return d;
}

}  // namespace wr::cpu
