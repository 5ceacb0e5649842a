// Which SIMD instruction set the kernels use: detected once, or forced by WINDROW_SIMD or set_target().
#pragma once

#include <string_view>
#include <vector>

namespace wr::cpu {

enum class Target { sse4, avx2, avx512, neon };
inline constexpr int kTargets = 4;

std::string_view name_of(Target target);
/// The targets this build has kernels for and this machine can run, weakest first; never empty.
const std::vector<Target>& available_targets();
/// The target of that name. Throws Error if there is none, or if it is not available.
Target target_named(std::string_view name);
/// The target in use: the best available one unless forced.
Target active_target();
/// Forces a target from now on (plans made earlier keep theirs). Throws Error if it is not available.
void set_target(Target target);
void set_target(std::string_view name);

}  // namespace wr::cpu
