// What a plan depends on of the machine it is made for, as a value: sizes, and rates measured with our own kernels. It
// can be printed, stored, read again and given by name; the planner and the choice of kernels know nothing else.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace wr {

struct Machine {
  std::string name;  // "zen3"; of one measured here: "this machine"
  std::string cpu;   // that it was measured on
  std::string simd;  // the kernels it was measured with

  // Sizes, in bytes. What several cores share counts by a core's share, except l3, which is shared by all.
  std::int64_t cores = 1;
  std::int64_t l1d = 0, l2 = 0, l3 = 0;  // l3 = 0: there is none
  std::int64_t line = 64;

  // Rates of one core: billions of floating-point operations of products in cache, bytes (read and written) of copies.
  double gflops_f32 = 0, gflops_f64 = 0;
  double product_ramp = 0;  // a product of few rows takes as long as one of so many rows more
  double gbs_l1 = 0, gbs_l2 = 0, gbs_l3 = 0, gbs_memory = 0;
  // All cores together.
  double gbs_l3_all = 0, gbs_memory_all = 0;

  double gbs_cross = 0;   // bytes that another core has just written
  double barrier_ns = 0;  // of all cores
  double call_ns = 0;     // of a kernel with nothing to do
  double exp_ns = 0;      // an f32 element of an op that takes a polynomial

  friend bool operator==(const Machine&, const Machine&) = default;

  /// Copies of a core whose working set is so large while so many cores are at it, in nanoseconds a byte. It grows
  /// smoothly from level to level.
  double ns_byte(double working_set, double busy_cores = 1) const;
};

/// One line a field, "key = value" with units explained; machine_from_text reads it back to an equal value.
std::string to_text(const Machine& machine);
/// Throws Error that names the source, the line and what was expected; trusts nothing.
Machine machine_from_text(std::string_view text, const std::string& source);

/// Descriptions of real machines that come with Windrow.
std::span<const Machine> built_in_machines();
/// A built-in machine by name, a file, or the description itself. Throws Error that lists the names where it is none.
Machine machine_named(const std::string& name_or_file);

/// Nearer memory is never slower, all cores are never slower than one: what is wrong, or nothing.
std::string contradiction(const Machine& machine);
Machine without_contradictions(Machine machine);

/// Same SIMD target, cores and caches near to them?
bool has_sizes_of(const Machine& a, const Machine& b);
/// Are all sizes equal and all rates nearly so? Such a machine may as well be taken for the other: plans stay the same
/// from one measurement to the next.
bool is_like(const Machine& a, const Machine& b);

}  // namespace wr
