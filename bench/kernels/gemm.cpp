// GFLOP/s of every matrix multiplication kernel that can serve each of the usual shapes, on one core.
// Usage: gemm [f32|f64] [far] [MxKxN[t|u][+] ...]   t: A transposed, u: B transposed, +: accumulate.
// far: each call has another B, and they are more than stay in L2 together, as a net's weights often are.
// Each figure is the best of many short blocks, for machines that others use at the same time.
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/gemm.h"
#include "backend/cpu/measure.h"
#include "base/machine.h"

namespace {

using wr::cpu::Gemm;
using wr::cpu::GemmShape;

// The thread's own time: what other programs take of the core meanwhile does not count.
double seconds_used() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Buffer {
  explicit Buffer(std::size_t bytes) : memory(std::aligned_alloc(64, (bytes + 127) / 64 * 64)) {}
  ~Buffer() { std::free(memory); }
  Buffer(Buffer&& other) noexcept : memory(std::exchange(other.memory, nullptr)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  void* memory;
};

void fill(void* memory, std::int64_t count, wr::DType dtype) {
  for (std::int64_t i = 0; i < count; ++i) {
    const double value = static_cast<double>(i * 7 % 17) / 17 - 0.5;
    if (dtype == wr::DType::f32) static_cast<float*>(memory)[i] = static_cast<float>(value);
    if (dtype == wr::DType::f64) static_cast<double*>(memory)[i] = value;
  }
}

double best_seconds(const Gemm& gemm, const void* a, const std::vector<Buffer>& b, void* c, void* scratch,
                    double flops) {
  const int calls =
      static_cast<int>(b.size()) * std::max(1, static_cast<int>(5e6 / flops) / static_cast<int>(b.size()));
  const double budget = flops < 1e7 ? 0.05 : 0.4;
  double best = 1e9;
  for (double spent = 0; spent < budget;) {
    const double start = seconds_used();
    for (int i = 0; i < calls; ++i) gemm(a, b[static_cast<std::size_t>(i) % b.size()].memory, c, scratch);
    const double taken = seconds_used() - start;
    best = std::min(best, taken / calls);
    spent += taken;
  }
  return best;
}

GemmShape parse(const std::string& text, wr::DType dtype) {
  long m = 0, k = 0, n = 0;
  std::sscanf(text.c_str(), "%ldx%ldx%ld", &m, &k, &n);
  GemmShape shape = wr::cpu::row_major(dtype, m, n, k, text.find('+') != std::string::npos);
  if (text.find('t') != std::string::npos) shape.a_row = 1, shape.a_col = m;
  if (text.find('u') != std::string::npos) shape.b_row = 1, shape.b_col = k;
  return shape;
}

void measure(const std::string& text, wr::DType dtype, bool far) {
  const GemmShape s = parse(text, dtype);
  const std::size_t size = wr::size_of(dtype);
  const Buffer a(size * s.m * s.k), c(size * s.m * s.n);
  const auto b_bytes = static_cast<std::int64_t>(size) * s.k * s.n;
  std::vector<Buffer> b;
  for (std::int64_t i = 0; i == 0 || (far && i * b_bytes < 4 * wr::cpu::machine().l2); ++i) {
    b.emplace_back(static_cast<std::size_t>(b_bytes));
    fill(b.back().memory, s.k * s.n, dtype);
  }
  fill(a.memory, s.m * s.k, dtype);
  fill(c.memory, s.m * s.n, dtype);
  const double flops = 2.0 * s.m * s.n * s.k;
  const wr::cpu::Target target = wr::cpu::active_target();
  const std::string chosen = wr::cpu::make_gemm(s, target, wr::cpu::machine()).kernel;
  std::printf("%-14s", text.c_str());
  const auto show = [&](const Gemm& gemm) {
    const Buffer scratch(gemm.scratch_bytes);
    gemm.begin(b[0].memory, scratch.memory);
    const double taken = best_seconds(gemm, a.memory, b, c.memory, scratch.memory, flops);
    std::printf("%8.2f us %5.1f%c", taken * 1e6, flops / taken * 1e-9, chosen == gemm.kernel ? '*' : ' ');
  };
  for (const auto name : {"libxsmm", "hwy direct", "hwy panels", "hwy turned", "hwy packed", "row", "dot"}) {
    const auto names = wr::cpu::gemm_kernels(s, target);
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      std::printf("%12s   ", "-");
      continue;
    }
    show(wr::cpu::make_gemm(s, target, name, wr::cpu::machine()));
  }
  const Gemm repeated = wr::cpu::make_repeated_gemm(s, 100, target, wr::cpu::machine());
  if (repeated.prepare && !far) show(repeated);
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> shapes(argv + 1, argv + argc);
  wr::DType dtype = wr::DType::f32;
  bool far = false;
  while (!shapes.empty() && shapes[0][0] == 'f') {
    if (shapes[0] == "f64") dtype = wr::DType::f64;
    if (shapes[0] == "far") far = true;
    shapes.erase(shapes.begin());
  }
  if (shapes.empty())
    shapes = {"32x144x128",    "64x144x128",   "64x128x64",    "64x64x6",       "64x64x7",        "64x128x10",
              "32x784x128",    "784x32x128t",  "784x32x128t+", "144x32x128t",   "144x32x128t+",   "128x64x64t",
              "64x64x6t",      "32x128x144u",  "32x64x128u",   "64x10x128u",    "196x72x16",      "72x196x16t",
              "196x16x72u",    "784x9x8",      "9x784x8t",     "8x784x128",     "16x16x16",       "256x256x256",
              "256x256x256t",  "256x256x256u", "500x500x500",  "500x1000x1000", "500x1000x1000t", "500x1000x1000u",
              "512x1024x1024", "1x144x128",    "1x128x64",     "1x64x6",        "1x144x128u",     "1x1000x1000",
              "1x1000x1000u",  "4x144x128",    "4x144x128u",   "128x144x1",     "1000x1000x1",    "128x144x1t",
              "128x1x144",     "1000x1x1000"};
  std::printf("%-14s%-18s%-18s%-18s%-18s%-18s%-18s%-18s%-18s  (GFLOP/s, * chosen)\n", "m x k x n", "   libxsmm",
              "   hwy direct", "   hwy panels", "   hwy turned", "   hwy packed", "   row", "   dot", "   hwy kept");
  for (const std::string& shape : shapes) measure(shape, dtype, far);
}
