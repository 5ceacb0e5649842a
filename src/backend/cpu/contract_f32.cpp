// Contractions of f32 for every SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/contract_f32.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "backend/cpu/contract-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
ContractKernel contract_f32(ContractJob job, Semiring semiring) { return find_contract_kernel<float>(job, semiring); }
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

template <>
ContractKernel contract_kernel<float>(ContractJob job, Semiring semiring, Target target) {
  WINDROW_RETURN_FOR(target, contract_f32(job, semiring))
  return HWY_NAMESPACE::contract_f32(job, semiring);  // the baseline, which every machine has
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
