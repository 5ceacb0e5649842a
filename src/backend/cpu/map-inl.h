// The loops of the elementwise kernels, generic over the formula. Included again for every target.
//
// A kernel is two loops made from its formula, `segment` (n elements in a row) and `narrow` (rows shorter than a
// vector), and `run`, which cuts rows x cols into segments and does not depend on the formula. In a segment each
// operand advances with the element or stands still: a value that is shared is spread over a small buffer which a mask
// on the index keeps rereading, so that no pattern of broadcasting needs a loop of its own.
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

/// Rows of a segment's operands: element i of the first row is at base + (i & advance), and so on by `step` bytes a
/// row.
template <int kInputs>
struct Segment {
  char* to;
  std::int64_t to_step = 0;
  const char* base[kInputs];
  std::size_t advance[kInputs];  // all ones, or 0 for a value spread over kUnroll vectors
  std::int64_t step[kInputs] = {};
  const char* value[kInputs] = {};  // a value a row, to be spread into `room`, else null
  char* room[kInputs] = {};
};

inline constexpr std::size_t kUnroll = 4;  // vectors an iteration of cheap formulas, and the width of a spread value
inline constexpr int kHeavy = 12;          // from this cost on, one vector an iteration suffices
inline constexpr std::size_t kMaxPeriod = 32;  // rows shorter than this may be repeated into a buffer

// ---- operands: stored as T, or as bytes that say true or false ----

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

/// Fills whole vectors, at least `width` elements, with one value.
template <class S>
HWY_INLINE void spread(const char* from, char* to, std::size_t width) {
  const hn::ScalableTag<S> d;
  const auto v = hn::Set(d, *reinterpret_cast<const S*>(from));
  for (std::size_t i = 0; i < width; i += hn::Lanes(d)) hn::Store(v, d, reinterpret_cast<S*>(to) + i);
}

// ---- the two loops of a formula ----

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

  /// Spreads this row's values, those that differ from row to row.
  template <std::size_t... k>
  HWY_INLINE static void spread_values(const Segment<kInputs>& s, std::size_t width, std::index_sequence<k...>) {
    ((s.value[k] ? spread<S>(s.value[k], s.room[k], width) : void()), ...);
  }

  static HWY_NOINLINE void segment(Segment<kInputs> s, std::size_t n, std::int64_t rows) {
    const std::size_t lanes = hn::Lanes(hn::ScalableTag<T>());
    const std::size_t width = std::min(kUnroll * lanes, n + lanes - 1);
    for (; rows > 0; --rows) {
      spread_values(s, width, Sequence());
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
      s.to += s.to_step;
      for (int k = 0; k < kInputs; ++k) (s.value[k] ? s.value[k] : s.base[k]) += s.step[k];
    }
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

  /// Rows of no more elements than a vector has.
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

// ---- cutting rows x cols into segments ----

/// How an operand lies over rows x cols.
enum class Lie { flat, scalar, shared_row, other };

inline Lie lie_of(std::int64_t row_stride, std::int64_t col_stride, std::int64_t cols, std::int64_t rows) {
  if (cols == 1) col_stride = row_stride == 1 ? 1 : 0;
  if (rows == 1) return col_stride ? Lie::flat : Lie::scalar;
  if (col_stride) return row_stride == cols ? Lie::flat : row_stride == 0 ? Lie::shared_row : Lie::other;
  return row_stride == 0 ? Lie::scalar : Lie::other;
}

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
  static constexpr std::size_t kLanes = hn::MaxLanes(hn::ScalableTag<T>());
  static constexpr std::size_t kNarrow = kMasksSafe<T> ? kLanes : kLanes - 1;
  // An operand that stands still needs room: a value for kUnroll vectors, or a short row repeated.
  static constexpr std::size_t kRoom = (kMaxPeriod + 2) * kLanes * sizeof(T);
  using SegmentLoop = void (*)(Segment<kInputs>, std::size_t, std::int64_t);
  using NarrowLoop = void (*)(const MapParams&, void* const*, std::size_t, std::int64_t);
  using Sequence = std::index_sequence_for<S...>;

  struct Call {
    const MapParams& params;
    void* const* ptr;
    std::int64_t rows;
    std::size_t to_size;
    Lie lie[kInputs];
  };

  template <class Q>
  HWY_INLINE static void place(const Call& call, int k, std::size_t period, bool by_rows, char* room,
                               Segment<kInputs>& s) {
    const Lie lie = call.lie[k];
    const std::int64_t row = call.params.row_stride[k + 1] * static_cast<std::int64_t>(sizeof(Q));
    s.base[k] = static_cast<const char*>(call.ptr[k + 1]);
    s.advance[k] = ~std::size_t{0};
    s.step[k] = by_rows ? row : static_cast<std::int64_t>(period * sizeof(Q));
    s.room[k] = room;
    if (lie == Lie::scalar) {
      spread<Q>(s.base[k], room, kUnroll * kLanes);
    } else if (lie == Lie::shared_row && !by_rows) {
      repeat(s.base[k], static_cast<std::size_t>(call.params.cols), period, reinterpret_cast<Q*>(room));
    } else {
      if (lie == Lie::other && call.params.col_stride[k + 1] == 0) {
        s.value[k] = s.base[k];
        s.base[k] = room;
        s.advance[k] = 0;
      }
      return;
    }
    s.base[k] = room;
    s.step[k] = 0;
    if (lie == Lie::scalar) s.advance[k] = 0;
  }

  template <std::size_t... k>
  HWY_INLINE static Segment<kInputs> place_all(const Call& call, std::size_t period, bool by_rows, char (*room)[kRoom],
                                               std::index_sequence<k...>) {
    Segment<kInputs> s;
    s.to = static_cast<char*>(call.ptr[0]);
    s.to_step = (by_rows ? call.params.row_stride[0] : static_cast<std::int64_t>(period)) *
                static_cast<std::int64_t>(call.to_size);
    (place<S>(call, k, period, by_rows, room[k], s), ...);
    return s;
  }

  /// A multiple of both a row and a vector, longer where there is more to do; 0 if repeating does not pay.
  static std::size_t period_of(std::size_t cols, std::size_t total) {
    if (cols > kMaxPeriod || cols % (kUnroll * kLanes) == 0 || total < 64 * kLanes) return 0;
    std::size_t period = cols * (kLanes / std::min(kLanes, cols & (~cols + 1)));
    while (2 * period <= kMaxPeriod * kLanes && 8 * period <= total) period *= 2;
    return period;
  }

  static HWY_NOINLINE void run(const MapParams& params, void* const* ptr, std::int64_t rows, std::size_t to_size,
                               SegmentLoop segment, NarrowLoop narrow) {
    const auto cols = static_cast<std::size_t>(params.cols);
    if (rows <= 0 || cols == 0) return;
    Call call{params, ptr, rows, to_size, {}};
    bool shared = false, other = rows > 1 && params.row_stride[0] != params.cols;
    for (int k = 0; k < kInputs; ++k) {
      call.lie[k] = lie_of(params.row_stride[k + 1], params.col_stride[k + 1], params.cols, rows);
      shared |= call.lie[k] == Lie::shared_row;
      other |= call.lie[k] == Lie::other;
    }
    const std::size_t total = cols * static_cast<std::size_t>(rows);
    alignas(64) char room[kInputs][kRoom];
    if (!other && !shared) return segment(place_all(call, total, false, room, Sequence()), total, 1);
    if (const std::size_t period = other ? 0 : period_of(cols, total)) {
      const Segment<kInputs> s = place_all(call, period, false, room, Sequence());
      const auto whole = static_cast<std::int64_t>(total / period);
      segment(s, period, whole);
      Segment<kInputs> last = s;
      last.to += whole * s.to_step;
      for (int k = 0; k < kInputs; ++k) last.base[k] += whole * s.step[k];
      return segment(last, total % period, 1);
    }
    if (narrow && cols <= kNarrow) return narrow(params, ptr, to_size, rows);
    segment(place_all(call, cols, true, room, Sequence()), cols, rows);
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
  if constexpr (!ops::accepts(ops::row_of(op).types, dtype_of<T>))
    return nullptr;
  else if constexpr (arity == 1)
    return &map_kernel<F, T, Out, T>;
  else if constexpr (arity == 2)
    return &map_kernel<F, T, Out, T, T>;
  else if constexpr (arity == 3)
    return &map_kernel<F, T, Out, T, T, T>;
  else
    return &map_kernel<F, T, Out, T, T, T, T, T>;
}

/// The kernel of an arithmetic row of elementwise.def on T; null for other rows.
template <class T>
MapKernel arithmetic(ops::Elementwise op) {
  switch (op) {
#define WINDROW_CASE(name, ...) \
  case ops::Elementwise::name:  \
    return kernel_of_row<ops::Elementwise::name, T, T>();
#define WINDROW_UNARY WINDROW_CASE
#define WINDROW_BINARY WINDROW_CASE
#define WINDROW_TERNARY WINDROW_CASE
#define WINDROW_QUINARY WINDROW_CASE
#include "windrow/elementwise.def"
#undef WINDROW_CASE
    default:
      return nullptr;
  }
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // include guard of this target
