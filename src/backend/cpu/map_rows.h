// Between the files of elementwise kernels: each element type's rows are compiled apart, to keep compile times short.
#pragma once

#include "backend/cpu/kernel.h"
#include "ops/formula.h"

namespace wr::cpu {

MapKernel find_arithmetic_f32(ops::Elementwise op, Target target);
MapKernel find_arithmetic_f64(ops::Elementwise op, Target target);
MapKernel find_arithmetic_i32(ops::Elementwise op, Target target);

}  // namespace wr::cpu
