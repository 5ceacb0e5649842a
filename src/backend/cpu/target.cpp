// Detection and choice of the SIMD target.
#include "backend/cpu/target.h"

#include <hwy/highway.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <string>

#include "windrow/error.h"

namespace wr::cpu {
namespace {

constexpr std::string_view kNames[kTargets] = {"sse4", "avx2", "avx512", "neon"};

std::string names_of_build() {
  std::string names;
  const auto add = [&](bool has, Target target) {
    if (has) names += (names.empty() ? "" : ", ") + std::string(name_of(target));
  };
  add(HWY_TARGETS & HWY_SSE4, Target::sse4);
  add(HWY_TARGETS & HWY_AVX2, Target::avx2);
  add(HWY_TARGETS & HWY_AVX3, Target::avx512);
  add(HWY_TARGETS & HWY_NEON, Target::neon);
  return names;
}

#if HWY_ARCH_ARM_A64
// Every AArch64 processor has NEON. Highway's own answer is not asked for: it wants AES too, which a Raspberry Pi 4
// lacks and no kernel of ours uses.
std::vector<Target> detect() { return {Target::neon}; }
#else
std::vector<Target> detect() {
  const auto supported = hwy::SupportedTargets() & HWY_TARGETS;  // of those this build has
  std::vector<Target> found;
  if (supported & HWY_SSE4) found.push_back(Target::sse4);
  if (supported & HWY_AVX2) found.push_back(Target::avx2);
  if (supported & HWY_AVX3) found.push_back(Target::avx512);
  if (found.empty())
    throw Error("this build of windrow has no kernels for this CPU, which has none of " + names_of_build() +
                "; build it on this machine, or for all of them (make build, or cmake -DWINDROW_TARGETS=all)");
  return found;
}
#endif

Target parse(std::string_view name) {
  for (int i = 0; i < kTargets; ++i)
    if (kNames[i] == name) return static_cast<Target>(i);
  throw Error("unknown SIMD target '" + std::string(name) + "'; expected sse4, avx2, avx512 or neon");
}

Target checked(Target target) {
  const auto& have = available_targets();
  if (std::find(have.begin(), have.end(), target) == have.end())
    throw Error("this CPU or this build cannot run the SIMD target " + std::string(name_of(target)) +
                "; this build is for " + names_of_build() + ", the best this CPU has of them is " +
                std::string(name_of(have.back())));
  return target;
}

std::atomic<int>& active() {
  static std::atomic<int> target = [] {
    const char* forced = std::getenv("WINDROW_SIMD");
    return static_cast<int>(forced && *forced ? checked(parse(forced)) : available_targets().back());
  }();
  return target;
}

}  // namespace

std::string_view name_of(Target target) { return kNames[static_cast<int>(target)]; }

const std::vector<Target>& available_targets() {
  static const std::vector<Target> targets = detect();
  return targets;
}

Target active_target() { return static_cast<Target>(active().load(std::memory_order_relaxed)); }
void set_target(Target target) { active() = static_cast<int>(checked(target)); }
void set_target(std::string_view name) { set_target(parse(name)); }
Target target_named(std::string_view name) { return checked(parse(name)); }

}  // namespace wr::cpu
