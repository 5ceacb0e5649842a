// The loops of the elementwise kernels, generic over the formula. Included again for every target.
//
// A kernel is two loops made from its formula, `segment` (n elements in a row) and `narrow` (rows shorter than a vector),
// and `run`, which cuts rows x cols into segments and does not depend on the formula. In a segment each operand advances
// with the element or stands still: a value that is shared is spread over a small buffer which a mask on the index keeps
// rereading, so that no pattern of broadcasting needs a loop of its own.
#include <hwy/highway.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

#include "backend/cpu/kernel.h"
#include "backend/cpu/simd-inl.h"

#if defined(WINDROW_BACKEND_CPU_MAP_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WINDROW_BACKEND_CPU_MAP_INL_H
#undef WINDROW_BACKEND_CPU_MAP_INL_H
#else
#define WINDROW_BACKEND_CPU_MAP_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

/// Where an operand of a segment is: element i at base + (i & advance).
template <int kInputs>
struct Segment {
  char* to;
  const char* base[kInputs];
  std::size_t advance[kInputs];  // all ones, or 0 for a value spread over kUnroll vectors
};

inline constexpr std::size_t kUnroll = 4;  // vectors an iteration of cheap formulas, and the width of a spread value
inline constexpr int kHeavy = 12;          // from this cost on, one vector an iteration suffices
inline constexpr std::size_t kMaxPeriod = 32;  // rows shorter than this may be repeated into a buffer

// ---- operands: stored as T, or as bytes that say true or false ---------------------------------------------------------------

template <class T, class S>
inline constexpr bool kIsTruth = !std::is_same_v<T, S>;

template <class T, class S>
HWY_INLINE auto load(const char* from) {
  if constexpr (kIsTruth<T, S>) {
    return truth_of_bytes<T>(hn::LoadU(Bytes<T>(), reinterpret_cast<const std::uint8_t*>(from)));
  } else {
    return Simd<T>(hn::LoadU(hn::ScalableTag<T>(), reinterpret_cast<const T*>(from)));
  }
}

template <class T, class S>
HWY_INLINE auto load_some(const char* from, std::size_t n) {
  if constexpr (kIsTruth<T, S>) {
    return truth_of_bytes<T>(load_first(Bytes<T>(), reinterpret_cast<const std::uint8_t*>(from), n));
  } else {
    return Simd<T>(load_first(hn::ScalableTag<T>(), reinterpret_cast<const T*>(from), n));
  }
}

template <class T, class S>
HWY_INLINE auto load_one(const char* from) {
  if constexpr (kIsTruth<T, S>) {
    return truth_of_bytes<T>(hn::Set(Bytes<T>(), *reinterpret_cast<const std::uint8_t*>(from)));
  } else {
    return Simd<T>(hn::Set(hn::ScalableTag<T>(), *reinterpret_cast<const T*>(from)));
  }
}

template <class T>
HWY_INLINE void store(Simd<T> value, char* to, std::size_t i) {
  hn::StoreU(value.v, hn::ScalableTag<T>(), reinterpret_cast<T*>(to) + i);
}
template <class T>
HWY_INLINE void store(Truth<T> value, char* to, std::size_t i) {
  hn::StoreU(bytes_of_truth(value), Bytes<T>(), reinterpret_cast<std::uint8_t*>(to) + i);
}
template <class T>
HWY_INLINE void store_some(Simd<T> value, char* to, std::size_t i, std::size_t n) {
  store_first(hn::ScalableTag<T>(), value.v, reinterpret_cast<T*>(to) + i, n);
}
template <class T>
HWY_INLINE void store_some(Truth<T> value, char* to, std::size_t i, std::size_t n) {
  store_first(Bytes<T>(), bytes_of_truth(value), reinterpret_cast<std::uint8_t*>(to) + i, n);
}

// ---- the two loops of a formula ----------------------------------------------------------------------------------------------

/// F has kCost and evaluate(); T is the lane type, S the stored types of the operands.
template <class F, class T, class... S>
struct Loops {
  static constexpr int kInputs = sizeof...(S);
  static constexpr std::size_t kSizes[] = {sizeof(S)...};
  using Sequence = std::index_sequence_for<S...>;

  template <std::size_t... k>
  HWY_INLINE static auto full(const Segment<kInputs>& s, std::size_t i, std::size_t within, std::index_sequence<k...>) {
    return F::evaluate(load<T, S>(s.base[k] + ((i & s.advance[k]) + within) * sizeof(S))...);
  }
  template <std::size_t... k>
  HWY_INLINE static auto some(const Segment<kInputs>& s, std::size_t i, std::size_t n, std::index_sequence<k...>) {
    return F::evaluate(load_some<T, S>(s.base[k] + (i & s.advance[k]) * sizeof(S), n)...);
  }

  static HWY_NOINLINE void segment(const Segment<kInputs>& segment, std::size_t n) {
    const Segment<kInputs> s = segment;  // a copy, as stores through char* might change the original
    const std::size_t lanes = hn::Lanes(hn::ScalableTag<T>());
    std::size_t i = 0;
    if constexpr (F::kCost < kHeavy) {
      for (; i + kUnroll * lanes <= n; i += kUnroll * lanes) {
        store(full(s, i, 0, Sequence()), s.to, i);
        store(full(s, i, lanes, Sequence()), s.to, i + lanes);
        store(full(s, i, 2 * lanes, Sequence()), s.to, i + 2 * lanes);
        store(full(s, i, 3 * lanes, Sequence()), s.to, i + 3 * lanes);
      }
    }
    for (; i + lanes <= n; i += lanes) store(full(s, i, 0, Sequence()), s.to, i);
    if (i < n) store_some(some(s, i, n - i, Sequence()), s.to, i, n - i);
  }

  template <class Q>
  HWY_INLINE static auto narrow_operand(const char* from, std::int64_t col_stride, std::size_t cols) {
    return col_stride ? load_some<T, Q>(from, cols) : load_one<T, Q>(from);
  }
  template <std::size_t... k>
  HWY_INLINE static auto narrow_row(const char* const* at, const std::int64_t* col_stride, std::size_t cols,
                                    std::index_sequence<k...>) {
    return F::evaluate(narrow_operand<S>(at[k], col_stride[k], cols)...);
  }

  /// Rows of fewer elements than a vector has.
  static HWY_NOINLINE void narrow(const MapParams& params, void* const* ptr, std::size_t to_size, std::int64_t rows) {
    const auto cols = static_cast<std::size_t>(params.cols);
    const char* at[kInputs];
    std::int64_t step[kInputs], col_stride[kInputs];
    for (int k = 0; k < kInputs; ++k) {
      at[k] = static_cast<const char*>(ptr[k + 1]);
      step[k] = params.row_stride[k + 1] * static_cast<std::int64_t>(kSizes[k]);
      col_stride[k] = params.col_stride[k + 1];
    }
    char* to = static_cast<char*>(ptr[0]);
    const std::int64_t to_step = params.row_stride[0] * static_cast<std::int64_t>(to_size);
    for (; rows > 0; --rows) {
      store_some(narrow_row(at, col_stride, cols, Sequence()), to, 0, cols);
      to += to_step;
      for (int k = 0; k < kInputs; ++k) at[k] += step[k];
    }
  }
};

// ---- cutting rows x cols into segments ---------------------------------------------------------------------------------------

/// How an operand lies over rows x cols.
enum class Lie { flat, scalar, shared_row, other };

inline Lie lie_of(std::int64_t row_stride, std::int64_t col_stride, std::int64_t cols, std::int64_t rows) {
  if (cols == 1) col_stride = row_stride == 1 ? 1 : 0;
  if (rows == 1) return col_stride ? Lie::flat : Lie::scalar;
  if (col_stride) return row_stride == cols ? Lie::flat : row_stride == 0 ? Lie::shared_row : Lie::other;
  return row_stride == 0 ? Lie::scalar : Lie::other;
}

/// Room for an operand that stands still: a spread value, or a short row repeated.
template <class S>
struct Spread {
  static constexpr std::size_t kLanes = hn::MaxLanes(hn::ScalableTag<S>());
  alignas(64) S value[kUnroll * hn::MaxLanes(hn::ScalableTag<std::uint8_t>())];  // for lanes of T, whatever T is

  HWY_INLINE const char* fill(const char* from, std::size_t n) {
    const hn::ScalableTag<S> d;
    const auto v = hn::Set(d, *reinterpret_cast<const S*>(from));
    for (std::size_t i = 0; i < n; i += kLanes) hn::Store(v, d, value + i);
    return reinterpret_cast<const char*>(value);
  }
};

/// Repeats `cols` elements until `length` are there.
template <class S>
HWY_INLINE void repeat(const char* from, std::size_t cols, std::size_t length, S* to) {
  const hn::ScalableTag<S> d;
  const std::size_t lanes = hn::Lanes(d);
  for (std::size_t c = 0; c < cols; c += lanes) {  // whole vectors: each copy mends what the one before spilled over
    const S* source = reinterpret_cast<const S*>(from) + c;
    const auto v = cols - c >= lanes ? hn::LoadU(d, source) : load_first(d, source, cols - c);
    if (c == 0 && cols <= lanes) {
      for (std::size_t i = 0; i < length; i += cols) hn::StoreU(v, d, to + i);
      return;
    }
    for (std::size_t i = 0; i < length; i += cols) {
      if (cols - c >= lanes) {
        hn::StoreU(v, d, to + i + c);
      } else {
        store_first(d, v, to + i + c, cols - c);
      }
    }
  }
}

template <class T, class... S>
struct Runner {
  static constexpr int kInputs = sizeof...(S);
  static constexpr std::size_t kSizes[] = {sizeof(S)...};
  static constexpr std::size_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  static constexpr std::size_t kPeriodBytes = (kMaxPeriod + 8) * kLanes + 64;
  using SegmentLoop = void (*)(const Segment<kInputs>&, std::size_t);
  using NarrowLoop = void (*)(const MapParams&, void* const*, std::size_t, std::int64_t);
  struct Call {
    const MapParams& params;
    void* const* ptr;
    std::int64_t rows;
    std::size_t to_size;
    SegmentLoop segment;
    Lie lie[kInputs];
  };
  using Sequence = std::index_sequence_for<S...>;

  /// Everything advances together, except scalars and (if period > 0) short rows repeated to `period` elements.
  template <std::size_t... k>
  HWY_INLINE static void run_flat(const Call& call, std::size_t period, std::index_sequence<k...>) {
    std::tuple<Spread<S>...> spread;
    Segment<kInputs> s;
    s.to = static_cast<char*>(call.ptr[0]);
    const auto cols = static_cast<std::size_t>(call.params.cols);
    const std::size_t total = cols * static_cast<std::size_t>(call.rows);
    alignas(64) char repeated[kInputs][kPeriodBytes * sizeof(T)];
    const auto place = [&](auto index, Lie lie, const void* from) HWY_ATTR {
      constexpr std::size_t i = decltype(index)::value;
      using Q = std::tuple_element_t<i, std::tuple<S...>>;
      s.base[i] = static_cast<const char*>(from);
      s.advance[i] = ~std::size_t{0};
      if (lie == Lie::scalar) {
        s.base[i] = std::get<i>(spread).fill(s.base[i], kUnroll * kLanes);
        s.advance[i] = 0;
      } else if (lie == Lie::shared_row) {
        repeat(s.base[i], cols, period, reinterpret_cast<Q*>(repeated[i]));
        s.base[i] = repeated[i];
      }
    };
    (place(std::integral_constant<std::size_t, k>(), call.lie[k], call.ptr[k + 1]), ...);
    if (period == 0) return call.segment(s, total);
    for (std::size_t done = 0; done < total; done += period) {
      call.segment(s, std::min(period, total - done));
      s.to += period * call.to_size;
      ((s.base[k] += call.lie[k] == Lie::flat ? period * sizeof(S) : 0), ...);
    }
  }

  template <std::size_t... k>
  HWY_INLINE static void run_rows(const Call& call, std::index_sequence<k...>) {
    std::tuple<Spread<S>...> spread;
    Segment<kInputs> s;
    s.to = static_cast<char*>(call.ptr[0]);
    const MapParams& params = call.params;
    const char* at[kInputs] = {static_cast<const char*>(call.ptr[k + 1])...};
    ((s.advance[k] = params.col_stride[k + 1] ? ~std::size_t{0} : 0), ...);
    const auto cols = static_cast<std::size_t>(params.cols);
    const std::size_t width = std::min(kUnroll * kLanes, (cols + kLanes - 1) / kLanes * kLanes);
    for (std::int64_t r = 0; r < call.rows; ++r) {
      // A value shared by all rows is spread once.
      ((s.base[k] = s.advance[k] ? at[k]
                    : r > 0 && params.row_stride[k + 1] == 0
                        ? s.base[k]
                        : std::get<k>(spread).fill(at[k], width)),
       ...);
      call.segment(s, cols);
      s.to += params.row_stride[0] * static_cast<std::int64_t>(call.to_size);
      ((at[k] += params.row_stride[k + 1] * static_cast<std::int64_t>(sizeof(S))), ...);
    }
  }

  static HWY_NOINLINE void run(const MapParams& params, void* const* ptr, std::int64_t rows, std::size_t to_size,
                               SegmentLoop segment, NarrowLoop narrow) {
    const auto cols = static_cast<std::size_t>(params.cols);
    if (rows <= 0 || cols == 0) return;
    Call call{params, ptr, rows, to_size, segment, {}};
    bool shared = false, other = rows > 1 && params.row_stride[0] != params.cols;
    for (int k = 0; k < kInputs; ++k) {
      call.lie[k] = lie_of(params.row_stride[k + 1], params.col_stride[k + 1], params.cols, rows);
      shared |= call.lie[k] == Lie::shared_row;
      other |= call.lie[k] == Lie::other;
    }
    if (!other && !shared) return run_flat(call, 0, Sequence());
    if (!other && cols <= kMaxPeriod) {
      // The least common multiple of a row and a vector, but enough of it for the segment loop to get going.
      std::size_t period = cols * (kLanes / std::min(kLanes, cols & (~cols + 1)));
      while (period < kUnroll * kLanes) period *= 2;
      if (cols * static_cast<std::size_t>(rows) >= 2 * period) return run_flat(call, period, Sequence());
    }
    if (narrow && cols < kLanes) return narrow(params, ptr, to_size, rows);
    run_rows(call, Sequence());
  }
};

/// The kernel of formula F on lanes of T, with operands stored as S and results as Out.
template <class F, class T, class Out, class... S>
void map_kernel(const MapParams& params, void* const* ptr, std::int64_t rows) {
  using L = Loops<F, T, S...>;
  if constexpr (F::kCost < kHeavy) {
    Runner<T, S...>::run(params, ptr, rows, sizeof(Out), &L::segment, &L::narrow);
  } else {
    Runner<T, S...>::run(params, ptr, rows, sizeof(Out), &L::segment, nullptr);
  }
}

// One row of elementwise.def on lanes of T, by the number of its operands.
template <ops::Elementwise op, class T, class Out>
constexpr MapKernel kernel_of_row() {
  using F = VectorFormula<op>;
  constexpr int arity = ops::row_of(op).arity;
  if constexpr (!ops::accepts(ops::row_of(op).types, dtype_of<T>)) return nullptr;
  else if constexpr (arity == 1) return &map_kernel<F, T, Out, T>;
  else if constexpr (arity == 2) return &map_kernel<F, T, Out, T, T>;
  else if constexpr (arity == 3) return &map_kernel<F, T, Out, T, T, T>;
  else return &map_kernel<F, T, Out, T, T, T, T, T>;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
