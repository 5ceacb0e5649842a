// What was detected on this computer and what was chosen for it.
#pragma once

#include <string>

namespace wr {

/// A report for people: CPU, caches, the machine that plans are made for, SIMD, threads, kernels of some matrix
/// products.
std::string doctor();

}  // namespace wr
