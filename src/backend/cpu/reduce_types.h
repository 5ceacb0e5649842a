// Between the files of reduction kernels: element types are compiled apart, to keep compile times short.
#pragma once

#include "backend/cpu/reduce.h"

namespace wr::cpu {

ReduceKernel find_reduce_f32(Reduce op, Target target);
ReduceKernel find_reduce_f64(Reduce op, Target target);
ReduceKernel find_reduce_i32(Reduce op, Target target);
ReduceKernel find_reduce_u8(Reduce op, Target target);

}  // namespace wr::cpu
