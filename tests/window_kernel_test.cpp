// Window kernels against plain loops, on every SIMD target, over many shapes, with guards round the destination.
#include "backend/cpu/window.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "kernel_speed.h"

namespace wr::cpu {
namespace {

using std::int64_t;

std::string text(const WindowParams& p) {
  std::ostringstream s;
  s << "batch " << p.batch << " in " << p.in_h << "x" << p.in_w << "x" << p.channels << " out " << p.out_h << "x"
    << p.out_w << " kernel " << p.kernel_h << "x" << p.kernel_w << " stride " << p.stride_h << "," << p.stride_w
    << " pad " << p.pad_top << "," << p.pad_left << " dilation " << p.dilation_h << "," << p.dilation_w;
  return s.str();
}

// Calls f(b, oh, ow, kh, kw, ih, iw, inside) for every position of every window, in the documented order.
template <class F>
void for_each_position(const WindowParams& p, F f) {
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t oh = 0; oh < p.out_h; ++oh)
      for (int64_t ow = 0; ow < p.out_w; ++ow)
        for (int64_t kh = 0; kh < p.kernel_h; ++kh)
          for (int64_t kw = 0; kw < p.kernel_w; ++kw) {
            const int64_t ih = oh * p.stride_h - p.pad_top + kh * p.dilation_h;
            const int64_t iw = ow * p.stride_w - p.pad_left + kw * p.dilation_w;
            f(b, oh, ow, kh, kw, ih, iw, ih >= 0 && ih < p.in_h && iw >= 0 && iw < p.in_w);
          }
}

int64_t x_size(const WindowParams& p) { return p.batch * p.x_batch_stride; }
int64_t out_size(const WindowParams& p) { return p.batch * p.out_batch_stride; }
int64_t x_at(const WindowParams& p, int64_t b, int64_t ih, int64_t iw) {
  return b * p.x_batch_stride + (ih * p.in_w + iw) * p.channels;
}
int64_t out_at(const WindowParams& p, int64_t b, int64_t oh, int64_t ow) {
  return b * p.out_batch_stride + (oh * p.out_w + ow) * p.channels;
}
int64_t cols_at(const WindowParams& p, int64_t b, int64_t oh, int64_t ow, int64_t kh, int64_t kw) {
  return b * p.out_batch_stride + (((oh * p.out_w + ow) * p.kernel_h + kh) * p.kernel_w + kw) * p.channels;
}

template <class T>
std::vector<T> unfold_plain(const WindowParams& p, const std::vector<T>& x, std::vector<T> cols) {
  for_each_position(
      p, [&](int64_t b, int64_t oh, int64_t ow, int64_t kh, int64_t kw, int64_t ih, int64_t iw, bool inside) {
        for (int64_t c = 0; c < p.channels; ++c)
          cols[cols_at(p, b, oh, ow, kh, kw) + c] = inside ? x[x_at(p, b, ih, iw) + c] : T(0);
      });
  return cols;
}

template <class T>
void clear_images(const WindowParams& p, std::vector<T>& x) {
  for (int64_t b = 0; b < p.batch; ++b)
    std::fill_n(x.begin() + b * p.x_batch_stride, p.in_h * p.in_w * p.channels, T(0));
}

template <class T>
std::vector<T> fold_plain(const WindowParams& p, const std::vector<T>& cols, std::vector<T> x) {
  clear_images(p, x);
  // In order of kh, then kw at every pixel, as documented.
  for (int64_t kh = 0; kh < p.kernel_h; ++kh)
    for (int64_t kw = 0; kw < p.kernel_w; ++kw)
      for_each_position(
          p, [&](int64_t b, int64_t oh, int64_t ow, int64_t h, int64_t w, int64_t ih, int64_t iw, bool inside) {
            if (!inside || h != kh || w != kw) return;
            for (int64_t c = 0; c < p.channels; ++c)
              x[x_at(p, b, ih, iw) + c] += cols[cols_at(p, b, oh, ow, kh, kw) + c];
          });
  return x;
}

// For every output element, where the first maximum of x is; -1 where the window is all padding.
template <class T>
std::vector<int64_t> winners(const WindowParams& p, const std::vector<T>& x) {
  std::vector<int64_t> best(out_size(p), -1);
  for_each_position(p, [&](int64_t b, int64_t oh, int64_t ow, int64_t, int64_t, int64_t ih, int64_t iw, bool inside) {
    if (!inside) return;
    for (int64_t c = 0; c < p.channels; ++c) {
      int64_t& at = best[out_at(p, b, oh, ow) + c];
      const int64_t here = x_at(p, b, ih, iw) + c;
      if (at < 0 || (!std::isnan(x[at]) && (x[here] > x[at] || std::isnan(x[here])))) at = here;
    }
  });
  return best;
}

enum class Values { normal, ties, with_nan };

template <class T>
std::vector<T> random_values(int64_t n, Values kind, unsigned seed) {
  std::mt19937 gen(seed);
  std::normal_distribution<double> normal;
  std::vector<T> v(n);
  for (auto& x : v) {
    x = kind == Values::ties ? static_cast<T>(static_cast<int>(gen() % 3)) - 1 : static_cast<T>(normal(gen));
    if (kind == Values::with_nan && gen() % 5 == 0) x = std::numeric_limits<T>::quiet_NaN();
    if (kind == Values::with_nan && gen() % 5 == 0) x = -std::numeric_limits<T>::infinity();
  }
  return v;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  for (size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) return false;
  return a.size() == b.size();
}

constexpr int64_t kGuard = 40;
constexpr double kGuardValue = -77;

// Runs a kernel into a guarded destination. Inputs are copied to blocks of exactly their size, for the sanitizer's
// sake.
template <class T>
void check(WindowKernel kernel, const WindowParams& p, const std::vector<T>& want, std::vector<std::vector<T>> inputs,
           const std::string& what) {
  std::vector<T> out(want.size() + 2 * kGuard, T(kGuardValue)), guarded = out;
  std::copy(want.begin(), want.end(), guarded.begin() + kGuard);
  void* ptr[4] = {out.data() + kGuard};
  for (size_t i = 0; i < inputs.size(); ++i) ptr[1 + i] = inputs[i].data();
  kernel(p, ptr, 0);
  ASSERT_TRUE(same(out, guarded)) << what << ": " << text(p);
}

template <class T>
void check_columns(const WindowParams& p) {
  const auto x = random_values<T>(x_size(p), Values::normal, 1),
             cols = random_values<T>(out_size(p), Values::normal, 2);
  const std::vector<T> gap_x(x_size(p), T(kGuardValue)), gap_cols(out_size(p), T(kGuardValue));
  const auto want_cols = unfold_plain(p, x, gap_cols), want_x = fold_plain(p, cols, gap_x);
  for (Target target : available_targets()) {
    const std::string on = std::string(name_of(target)) + " " + std::string(name_of(dtype_of<T>));
    check<T>(find_unfold(dtype_of<T>, target), p, want_cols, {x}, "unfold " + on);
    check<T>(find_fold(dtype_of<T>, target), p, want_x, {cols}, "fold " + on);
  }
}

template <class T>
void check_pool(const WindowParams& p, Values kind) {
  const auto x = random_values<T>(x_size(p), kind, 3), u = random_values<T>(x_size(p), Values::normal, 4);
  const auto dy = random_values<T>(out_size(p), Values::normal, 5);
  const auto at = winners(p, x);
  std::vector<T> largest(out_size(p), T(kGuardValue)), picked = largest, dx(x_size(p), T(kGuardValue));
  clear_images(p, dx);
  for (int64_t b = 0; b < p.batch; ++b)
    for (int64_t i = 0; i < p.out_h * p.out_w * p.channels; ++i) {
      const int64_t o = b * p.out_batch_stride + i;
      largest[o] = at[o] < 0 ? -std::numeric_limits<T>::infinity() : x[at[o]];
      picked[o] = at[o] < 0 ? T(0) : u[at[o]];
      if (at[o] >= 0) dx[at[o]] += dy[o];
    }
  for (Target target : available_targets()) {
    const std::string on = std::string(name_of(target)) + " " + std::string(name_of(dtype_of<T>));
    check<T>(find_max_pool(dtype_of<T>, target), p, largest, {x}, "max_pool " + on);
    check<T>(find_max_pool_pick(dtype_of<T>, target), p, picked, {x, u}, "max_pool_pick " + on);
    check<T>(find_max_pool_scatter(dtype_of<T>, target), p, dx, {x, dy}, "max_pool_scatter " + on);
  }
}

void check_all(const WindowParams& p, int64_t gap = 0) {
  WindowParams columns = with_dense_columns(p), pool = with_dense_pool(p);
  columns.x_batch_stride += gap, columns.out_batch_stride += gap, pool.x_batch_stride += gap,
      pool.out_batch_stride += gap;
  check_columns<float>(columns);
  check_columns<double>(columns);
  for (Values kind : {Values::normal, Values::ties, Values::with_nan}) {
    check_pool<float>(pool, kind);
    check_pool<double>(pool, kind);
  }
}

WindowParams square_window(int64_t batch, int64_t side, int64_t channels, int64_t kernel, int64_t stride, int64_t pad) {
  WindowParams p;
  p.batch = batch, p.in_h = p.in_w = side, p.channels = channels, p.kernel_h = p.kernel_w = kernel;
  p.stride_h = p.stride_w = stride, p.pad_top = p.pad_left = pad;
  p.out_h = p.out_w = (side + 2 * pad - kernel) / stride + 1;
  return p;
}

TEST(WindowKernel, CommonShapes) {
  for (int64_t channels : {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 32, 33, 40}) {
    check_all(square_window(2, 6, channels, 2, 2, 0));
    check_all(square_window(2, 7, channels, 2, 2, 0));
    check_all(square_window(2, 6, channels, 3, 1, 1));
    check_all(square_window(1, 5, channels, 1, 1, 0));
    check_all(square_window(1, 7, channels, 5, 1, 2));
    check_all(square_window(1, 9, channels, 3, 2, 1), 3);
  }
}

TEST(WindowKernel, EmptyAndSingle) {
  check_all(square_window(0, 6, 8, 2, 2, 0));
  check_all(square_window(1, 1, 1, 1, 1, 0));
  check_all(square_window(1, 40, 5, 3, 1, 1));  // too large for the padded copy
  check_all(square_window(1, 1, 0, 1, 1, 0));
  check_all(square_window(1, 1, 3, 3, 1, 1));
  WindowParams p = square_window(1, 4, 2, 2, 1, 0);
  p.out_w = 0;
  check_all(p);
}

TEST(WindowKernel, WindowsAllInThePadding) {
  WindowParams p = square_window(1, 3, 8, 2, 2, 4);
  check_all(p);
  p.in_h = 0;
  check_all(p);
}

TEST(WindowKernel, RandomShapes) {
  std::mt19937 gen(11);
  const auto pick = [&](int low, int high) { return low + static_cast<int>(gen() % (high - low + 1)); };
  for (int trial = 0; trial < 400; ++trial) {
    WindowParams p;
    p.batch = pick(1, 3), p.in_h = pick(1, 9), p.in_w = pick(1, 9), p.channels = pick(1, 20);
    p.kernel_h = pick(1, 4), p.kernel_w = pick(1, 4), p.stride_h = pick(1, 3), p.stride_w = pick(1, 3);
    p.dilation_h = pick(1, 3), p.dilation_w = pick(1, 3), p.pad_top = pick(-1, 3), p.pad_left = pick(-1, 3);
    p.out_h = pick(1, 6), p.out_w = pick(1, 6);
    check_all(p, trial % 3);
  }
}

// <fold(c), x> == <c, unfold(x)>: the two are adjoint whatever the reference says.
TEST(WindowKernel, FoldIsTheAdjointOfUnfold) {
  const WindowParams p = with_dense_columns(square_window(3, 9, 6, 3, 2, 1));
  auto x = random_values<double>(x_size(p), Values::normal, 1),
       cols = random_values<double>(out_size(p), Values::normal, 2);
  std::vector<double> folded(x.size()), unfolded(cols.size());
  void* fold[] = {folded.data(), cols.data()};
  void* unfold[] = {unfolded.data(), x.data()};
  find_fold(DType::f64, active_target())(p, fold, 0);
  find_unfold(DType::f64, active_target())(p, unfold, 0);
  double left = 0, right = 0;
  for (size_t i = 0; i < x.size(); ++i) left += folded[i] * x[i];
  for (size_t i = 0; i < cols.size(); ++i) right += cols[i] * unfolded[i];
  EXPECT_NEAR(left, right, 1e-9 * std::abs(left));
}

TEST(WindowKernel, OnlyFloatsHaveKernels) {
  for (DType t : {DType::i32, DType::u8, DType::boolean}) EXPECT_EQ(find_unfold(t, active_target()), nullptr);
  EXPECT_EQ(find_max_pool(DType::i32, active_target()), nullptr);
}

TEST(WindowKernel, DISABLED_Speed) {
  SpeedArray<float> a = speed_input<float>(8 << 20), b = a, c = a;
  void* ptr[] = {a.data(), b.data(), c.data()};
  const auto columns = [&](const std::string& shape, WindowParams p) {
    p = with_dense_columns(p);
    const double bytes = 4.0 * static_cast<double>(x_size(p) + out_size(p));
    print_speed("unfold " + shape, bytes, [&](Target t) { find_unfold(DType::f32, t)(p, ptr, 0); });
    print_speed("fold " + shape, bytes, [&](Target t) { find_fold(DType::f32, t)(p, ptr, 0); });
  };
  columns("64x14x14x8 3x3 same", square_window(64, 14, 8, 3, 1, 1));
  columns("8x14x14x8 3x3 same", square_window(8, 14, 8, 3, 1, 1));
  columns("8x28x28x1 3x3 same", square_window(8, 28, 1, 3, 1, 1));
  columns("8x32x32x3 3x3 same", square_window(8, 32, 3, 3, 1, 1));
  columns("8x14x14x16 3x3 same", square_window(8, 14, 16, 3, 1, 1));
  columns("8x28x28x8 3x3 stride 2", square_window(8, 28, 8, 3, 2, 1));
  const auto pool = [&](const std::string& shape, WindowParams p) {
    p = with_dense_pool(p);
    const double x = 4.0 * static_cast<double>(x_size(p)), out = 4.0 * static_cast<double>(out_size(p));
    print_speed("max_pool " + shape, x + out, [&](Target t) { find_max_pool(DType::f32, t)(p, ptr, 0); });
    print_speed("max_pool_pick " + shape, 2 * x + out, [&](Target t) { find_max_pool_pick(DType::f32, t)(p, ptr, 0); });
    print_speed("max_pool_scatter " + shape, 2 * x + out,
                [&](Target t) { find_max_pool_scatter(DType::f32, t)(p, ptr, 0); });
  };
  pool("64x28x28x8 2x2", square_window(64, 28, 8, 2, 2, 0));
  pool("8x28x28x8 2x2", square_window(8, 28, 8, 2, 2, 0));
  pool("8x28x28x16 2x2", square_window(8, 28, 16, 2, 2, 0));
  pool("8x28x28x32 2x2", square_window(8, 28, 32, 2, 2, 0));
  pool("8x28x28x1 2x2", square_window(8, 28, 1, 2, 2, 0));
  pool("8x28x28x8 3x3 stride 2", square_window(8, 28, 8, 3, 2, 1));
}

}  // namespace
}  // namespace wr::cpu
