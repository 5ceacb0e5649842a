// Contractions of f64 for every SIMD target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/contract_f64.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h

#include "backend/cpu/contract-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
ContractKernel contract_f64(ContractJob job, Semiring semiring) { return find_contract_kernel<double>(job, semiring); }
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

template <>
ContractKernel contract_kernel<double>(ContractJob job, Semiring semiring, Target target) {
  WINDROW_RETURN_FOR(target, contract_f64(job, semiring))
  return HWY_NAMESPACE::contract_f64(job, semiring);  // the baseline, which every machine has
}

}  // namespace wr::cpu
#endif  // HWY_ONCE
