// The register tile of contractions: "and" and "or" of each semiring, and how their gradients are gathered. Included
// again for every target, by one file an element type.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "backend/cpu/contract.h"
#include "backend/cpu/gemm-inl.h"
#include "backend/cpu/math-inl.h"

#if defined(WINDROW_BACKEND_CPU_CONTRACT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef WINDROW_BACKEND_CPU_CONTRACT_INL_H
#undef WINDROW_BACKEND_CPU_CONTRACT_INL_H
#else
#define WINDROW_BACKEND_CPU_CONTRACT_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {
namespace {

// ---- semirings ----

/// a + b, with the same bits, where products are computed: Zen adds and compares on the same two of four ports, so what
/// does both leaves the two that multiply idle. `one` is 1, which a compiler that knew it would turn into an addition.
template <class V>
HWY_INLINE V sum_as_product(V a, V b, V one) {
#if HWY_NATIVE_FMA
  return hn::MulAdd(a, one, b);
#else
  static_cast<void>(one);
  return hn::Add(a, b);
#endif
}

template <Semiring semiring, class V>
HWY_INLINE V met(V a, V b) {
  const hn::DFromV<V> d;
  if constexpr (semiring == Semiring::max_product) return hn::Mul(a, b);
  if constexpr (semiring == Semiring::max_plus || semiring == Semiring::min_plus) return hn::Add(a, b);
  if constexpr (semiring == Semiring::max_min) return hn::Min(a, b);
  // Panels of lukasiewicz hold b - 1.
  if constexpr (semiring == Semiring::lukasiewicz) return larger_of(hn::Zero(d), hn::Add(a, b));
  return hn::NegMulAdd(a, b, hn::Set(d, 1));
}

constexpr bool is_won(Semiring s) { return s != Semiring::lukasiewicz && s != Semiring::noisy_or; }

/// The better of two. Careful: NaN if either is.
template <Semiring semiring, bool careful, class V>
HWY_INLINE V better(V a, V b) {
  const V best = semiring == Semiring::min_plus ? smaller_of(a, b) : larger_of(a, b);
  return careful ? hn::IfThenElse(hn::IsNaN(a), a, best) : best;
}

/// What one "and" of a tile has at hand: `b` of the panel, `x` and `y` of the row, `own` of the element.
template <class V>
struct Step {
  V b, x, y, own, one;
  bool even_row;
};

// What a tile keeps for every element and does with one "and". Rows and vectors are what registers hold. Where
// `kWhole`, the whole depth is gone through at once. Where `kSkips`, steps of the depth whose "and" is 0 everywhere in
// a strip are left out, which changes no bit: of lukasiewicz those are most, unless results are near 1 anyway.

template <Semiring semiring, bool careful>
struct Result {
  static constexpr Semiring kSemiring = semiring;
  static constexpr bool kSecond = false, kOwn = false, kWhole = false;
  static constexpr bool kSkips = semiring == Semiring::lukasiewicz;
  // The careful tile is rarely wanted: a small one compiles fast.
  static constexpr int kStates = 1;
  static constexpr int kRows = careful ? 2 : kManyRegisters ? 8 : 4;
  static constexpr int kVectors = careful ? 1 : kManyRegisters ? 3 : 2;
  template <class V>
  static HWY_INLINE void start(V& s, V&) {
    using T = hn::TFromV<V>;
    const hn::DFromV<V> d;
    constexpr T inf = std::numeric_limits<T>::infinity();
    s = semiring == Semiring::noisy_or      ? hn::Set(d, 1)
        : semiring == Semiring::lukasiewicz ? hn::Zero(d)
                                            : hn::Set(d, semiring == Semiring::min_plus ? inf : -inf);
  }
  template <class V>
  static HWY_INLINE V merged(V a, V b) {
    if constexpr (semiring == Semiring::noisy_or) return hn::Mul(a, b);
    if constexpr (semiring == Semiring::lukasiewicz) return hn::Add(a, b);
    return better<semiring, careful>(a, b);
  }
  template <class V>
  static HWY_INLINE void step(V& s, V&, const Step<V>& at) {
    if constexpr (semiring == Semiring::lukasiewicz) {
      // Three operations: by turns one of them and two of them go to the ports of products.
      const V sum = at.even_row ? sum_as_product(at.x, at.b, at.one) : hn::Add(at.x, at.b);
      s = sum_as_product(larger_of(hn::Zero(hn::DFromV<V>()), sum), s, at.one);
    } else if constexpr (semiring == Semiring::max_plus || semiring == Semiring::min_plus) {
      s = merged(s, sum_as_product(at.x, at.b, at.one));
    } else if constexpr (careful && semiring == Semiring::max_min) {
      // hn::Min drops a NaN of its first operand.
      s = merged(s, hn::IfThenElse(hn::IsNaN(at.x), at.x, smaller_of(at.x, at.b)));
    } else {
      s = merged(s, met<semiring>(at.x, at.b));
    }
  }
  template <class V>
  static HWY_INLINE V finished(V s, V) {
    return s;
  }
};

template <Semiring semiring>
struct Share {
  static constexpr Semiring kSemiring = semiring;
  static constexpr bool kSecond = false, kOwn = true, kWhole = true, kSkips = false;
  static constexpr bool kFactors = semiring == Semiring::noisy_or;
  static constexpr int kStates = kFactors ? 2 : 1;
  static constexpr int kRows = kManyRegisters ? (kFactors ? 2 : 4) : 2;
  static constexpr int kVectors = kManyRegisters ? 3 : (kFactors ? 1 : 2);
  template <class V>
  static HWY_INLINE void start(V& s, V& others) {
    const hn::DFromV<V> d;
    s = hn::Zero(d);
    if constexpr (kFactors) others = hn::Set(d, 1);
  }
  template <class V>
  static HWY_INLINE void step(V& s, V& others, const Step<V>& at) {
    const hn::DFromV<V> d;
    const V both = met<semiring>(at.x, at.b), one = hn::Set(d, 1);
    if constexpr (kFactors) {
      const auto zero = hn::Eq(both, hn::Zero(d));
      others = hn::Mul(others, hn::IfThenElse(zero, one, both));
      s = hn::Add(s, hn::IfThenElseZero(zero, one));
    } else {
      s = hn::Add(s, hn::IfThenElseZero(hn::Eq(both, at.own), one));
    }
  }
  template <class V>
  static HWY_INLINE V finished(V s, V others) {
    const V one = hn::Set(hn::DFromV<V>(), 1);
    if constexpr (kFactors) return hn::IfThenElseZero(hn::Eq(s, one), others);
    return hn::Div(one, s);
  }
  template <class V>
  static HWY_INLINE V merged(V, V b) {
    return b;
  }
};

template <Semiring semiring>
struct ByFirst {
  static constexpr Semiring kSemiring = semiring;
  static constexpr bool kSecond = semiring != Semiring::lukasiewicz, kOwn = true, kWhole = false, kSkips = false;
  static constexpr int kStates = 1, kRows = kManyRegisters ? 4 : 2, kVectors = kManyRegisters ? 3 : 2;
  template <class V>
  static HWY_INLINE void start(V& s, V&) {
    s = hn::Zero(hn::DFromV<V>());
  }
  template <class V>
  static HWY_INLINE V merged(V a, V b) {
    return hn::Add(a, b);
  }
  template <class V>
  static HWY_INLINE void step(V& s, V&, const Step<V>& at) {
    const hn::DFromV<V> d;
    const V b = at.b, x = at.x, y = at.y, own = at.own;
    const V both = met<semiring>(own, b);
    if constexpr (semiring == Semiring::lukasiewicz) {
      s = hn::Add(s, hn::IfThenElseZero(hn::Gt(both, hn::Zero(d)), x));
    } else if constexpr (semiring == Semiring::noisy_or) {
      const auto zero = hn::Eq(both, hn::Zero(d));
      const V through = hn::IfThenElse(zero, y, hn::Mul(x, reciprocal_of(d, both)));
      s = hn::MulAdd(b, through, s);
    } else if constexpr (semiring == Semiring::max_product) {
      s = hn::MulAdd(hn::IfThenElseZero(hn::Eq(both, x), b), y, s);
    } else if constexpr (semiring == Semiring::max_min) {
      // The winner is the smaller of the two; if they are equal, each has half.
      const V half = hn::IfThenElseZero(hn::Eq(own, b), hn::Mul(y, hn::Set(d, 0.5)));
      s = hn::Add(s, hn::IfThenElseZero(hn::Eq(both, x), hn::IfThenElse(hn::Lt(own, b), y, half)));
    } else {
      s = hn::Add(s, hn::IfThenElseZero(hn::Eq(both, x), y));
    }
  }
  template <class V>
  static HWY_INLINE V finished(V s, V) {
    return s;
  }
};

// ---- the tile ----

template <class T>
struct Square {
  const T *first, *second, *panel, *own;
  T* out;
  i64 first_row, first_col, second_row, second_col, own_row, out_row;
  i64 depth, last;  // lanes of the last vector that are columns
  bool merge;
  T one = 1;  // not known to the compiler where it is used
  const std::int32_t* steps =
      nullptr;  // of a list: the steps of the depth, for which `first` has the rows side by side
};

template <class Cell, class T, int Rows, int Vectors, bool Listed = false>
HWY_NOINLINE void run_square(const Square<T>& t) {
  const Tag<T> d;
  using V = hn::Vec<Tag<T>>;
  constexpr i64 N = kLanes<T>;
  const FirstLanes<T> last(t.last);
  const bool partial = t.last != N;
  V state[Rows][Vectors], more[Cell::kStates == 2 ? Rows : 1][Cell::kStates == 2 ? Vectors : 1];
  V own[Cell::kOwn ? Rows : 1][Cell::kOwn ? Vectors : 1];
  const auto at = [](auto& list, int i, int j) HWY_ATTR -> V& {
    constexpr bool all = std::extent_v<std::remove_reference_t<decltype(list)>, 0> == Rows &&
                         std::extent_v<std::remove_reference_t<decltype(list)>, 1> == Vectors;
    return list[all ? i : 0][all ? j : 0];
  };
  const auto load = [&](const T* p, int j) HWY_ATTR {
    return j == Vectors - 1 && partial ? last.load(p + j * N) : hn::LoadU(d, p + j * N);
  };
  WR_UNROLL for (int i = 0; i < Rows; ++i) {
    WR_UNROLL for (int j = 0; j < Vectors; ++j) {
      if constexpr (Cell::kOwn) own[i][j] = load(t.own + i * t.own_row, j);
      Cell::start(state[i][j], at(more, i, j));
    }
  }
  const V one = hn::Set(d, t.one);
  const T *HWY_RESTRICT a = t.first, *HWY_RESTRICT second = t.second, *HWY_RESTRICT b = t.panel;
  for (i64 k = 0; k < t.depth; ++k) {
    V row[Vectors];
    if constexpr (Listed) b = t.panel + t.steps[k] * (Vectors * N);
    WR_UNROLL for (int j = 0; j < Vectors; ++j) row[j] = hn::LoadU(d, b + j * N);
    WR_UNROLL for (int i = 0; i < Rows; ++i) {
      const V x = hn::Set(d, a[Listed ? i : i * t.first_row]);
      V y = x;
      if constexpr (Cell::kSecond) y = hn::Set(d, second[i * t.second_row]);
      WR_UNROLL for (int j = 0; j < Vectors; ++j)
          Cell::step(state[i][j], at(more, i, j), Step<V>{row[j], x, y, at(own, i, j), one, i % 2 == 0});
    }
    a += Listed ? Rows : t.first_col;
    if constexpr (Cell::kSecond) second += t.second_col;
    if constexpr (!Listed) b += Vectors * N;
  }
  WR_UNROLL for (int i = 0; i < Rows; ++i) {
    WR_UNROLL for (int j = 0; j < Vectors; ++j) {
      T* const to = t.out + i * t.out_row;
      V v = Cell::finished(state[i][j], at(more, i, j));
      if (t.merge) v = Cell::merged(load(to, j), v);
      if (j == Vectors - 1 && partial) {
        last.store(v, to + j * N);
      } else {
        hn::StoreU(v, d, to + j * N);
      }
    }
  }
}

template <class T>
using SquareFunction = void (*)(const Square<T>&);

/// Tiles are as high as registers allow, then half of that, and so on.
template <class Cell, class T, int Rows, bool Listed = false>
SquareFunction<T> square_of(i64 rows, i64 vectors) {
  if constexpr (Rows > 1 && !Listed)
    if (rows < Rows) return square_of<Cell, T, Rows / 2>(rows, vectors);
  if constexpr (Cell::kVectors >= 3)
    if (vectors == 3) return run_square<Cell, T, Rows, 3, Listed>;
  if constexpr (Cell::kVectors >= 2)
    if (vectors == 2) return run_square<Cell, T, Rows, 2, Listed>;
  return run_square<Cell, T, Rows, 1, Listed>;
}
inline i64 height_of(i64 most, i64 left) {
  while (most > left) most /= 2;
  return most;
}

// ---- all of it ----

/// Whether a row holds what would let a NaN come about or get lost among the comparisons: then the careful tile runs.
template <Semiring semiring, class T>
HWY_INLINE bool is_unusual(const T* p, i64 count, i64 step) {
  using V = hn::Vec<Tag<T>>;
  const Tag<T> d;
  constexpr T inf = std::numeric_limits<T>::infinity();
  const auto odd = [&](V v) HWY_ATTR {
    if constexpr (semiring == Semiring::max_product) return hn::Not(hn::IsFinite(v));
    if constexpr (semiring == Semiring::max_min) return hn::IsNaN(v);
    return hn::Or(hn::IsNaN(v), hn::Eq(v, hn::Set(d, semiring == Semiring::min_plus ? -inf : inf)));
  };
  i64 i = 0;
  if (step == 1)
    for (; i + kLanes<T> <= count; i += kLanes<T>)
      if (!hn::AllFalse(d, odd(hn::LoadU(d, p + i)))) return true;
  for (; i < count; ++i)
    if (!hn::AllFalse(d, odd(hn::Set(d, p[i * step])))) return true;
  return false;
}

template <Semiring semiring, class T>
bool is_unusual(const T* p, i64 rows, i64 row, i64 columns, i64 column) {
  if (column != 1 && row == 1) return is_unusual<semiring>(p, columns, column, rows, row);
  for (i64 i = 0; i < rows; ++i)
    if (is_unusual<semiring>(p + i * row, columns, column)) return true;
  return false;
}

/// No factor is 0 where no product is: nothing to share.
template <class T>
bool has_zero(const Square<T>& t, i64 rows, i64 columns) {
  for (i64 i = 0; i < rows; ++i)
    for (i64 j = 0; j < columns; ++j)
      if (t.own[i * t.own_row + j] == T{0}) return true;
  return false;
}

// ---- steps that are left out ----

/// Memory behind the panels, for each step of the depth: the greatest number of the block's columns, the strip's rows
/// and the number of the step.
template <class Cell>
constexpr i64 kSpare = Cell::kSkips ? Cell::kRows + 2 : 0;

/// The greatest numbers of all columns for each step, NaN where one is.
template <class T>
void find_highest(const T* packed, const Panels& columns, i64 depth, T* highest) {
  const Tag<T> d;
  constexpr i64 N = kLanes<T>;
  std::fill_n(highest, depth, -std::numeric_limits<T>::infinity());
  for (i64 p = 0; p < columns.count(); ++p)
    for (i64 k = 0; k < depth; ++k) {
      auto most = hn::Set(d, highest[k]);
      for (i64 j = 0; j < columns.width(p); j += N, packed += N)
        most = better<Semiring::max_plus, true>(most, hn::LoadU(d, packed));
      highest[k] =
          hn::AllFalse(d, hn::IsNaN(most)) ? hn::GetLane(hn::MaxOfLanes(d, most)) : std::numeric_limits<T>::quiet_NaN();
    }
}

/// In how many steps something may be above 0. A NaN may be.
template <int Rows, class T>
i64 count_useful(const Square<T>& t, const T* highest) {
  const Tag<T> d;
  constexpr i64 N = kLanes<T>;
  i64 k = 0, useless = 0;
  for (; k + N <= t.depth; k += N) {
    const auto high = hn::LoadU(d, highest + k);
    auto none = hn::Le(hn::Add(hn::LoadU(d, t.first + k), high), hn::Zero(d));
    WR_UNROLL for (int i = 1; i < Rows; ++i) none =
        hn::And(none, hn::Le(hn::Add(hn::LoadU(d, t.first + i * t.first_row + k), high), hn::Zero(d)));
    useless += static_cast<i64>(hn::CountTrue(d, none));
  }
  return t.depth - useless;
}

/// Only a list of few steps pays for being made, and only beside many columns.
template <class Cell, class T>
bool make_list(Square<T>& t, i64 columns, T* spare) {
  constexpr int kRows = Cell::kRows;
  if (t.first_col != 1 || columns < 4 * kLanes<T> || 2 * count_useful<kRows>(t, spare) > t.depth) return false;
  T* const rows = spare + t.depth;
  auto* const steps = reinterpret_cast<std::int32_t*>(rows + kRows * t.depth);
  i64 count = 0;
  for (i64 k = 0; k < t.depth; ++k) {
    bool none = true;
    WR_UNROLL for (int i = 0; i < kRows; ++i) {
      const T a = t.first[i * t.first_row + k];
      rows[count * kRows + i] = a;
      none &= a + spare[k] <= 0;
    }
    steps[count] = static_cast<std::int32_t>(k);
    count += none ? 0 : 1;
  }
  t.first = rows;
  t.steps = steps;
  t.depth = count;
  return true;
}

template <class Cell, class T>
void run_strip(Square<T> t, i64 rows, const Panels& columns, const T* packed, T* spare) {
  constexpr i64 N = kLanes<T>;
  const i64 depth = t.depth;
  bool listed = false;
  if constexpr (Cell::kSkips) listed = rows == Cell::kRows && make_list<Cell>(t, columns.size, spare);
  T* const out = t.out;
  const T* const own = t.own;
  for (i64 p = 0, j = 0; p < columns.count(); j += columns.width(p++)) {
    const i64 width = columns.width(p), here = std::min(width, columns.size - j);
    t.panel = packed + j * depth;
    t.out = out + j;
    t.own = own + j;
    t.last = here - (width / N - 1) * N;
    if constexpr (std::is_same_v<Cell, Share<Semiring::noisy_or>>)
      if (!has_zero(t, rows, here)) {
        for (i64 i = 0; i < rows; ++i) std::fill_n(t.out + i * t.out_row, here, T{0});
        continue;
      }
    if constexpr (Cell::kSkips)
      if (listed) {
        square_of<Cell, T, Cell::kRows, true>(rows, width / N)(t);
        continue;
      }
    square_of<Cell, T, Cell::kRows>(rows, width / N)(t);
  }
}

/// Panels as `met` wants them.
template <Semiring semiring, class T>
void prepare_panels(T* packed, i64 vectors) {
  const Tag<T> d;
  if constexpr (semiring == Semiring::lukasiewicz)
    for (i64 i = 0; i < vectors; ++i, packed += kLanes<T>)
      hn::StoreU(hn::Sub(hn::LoadU(d, packed), hn::Set(d, 1)), d, packed);
}

template <class Cell, class T>
void run_matrix(const Contraction& made, const T* first, const T* second, const T* panel, const T* own, T* out,
                T* packed) {
  const ContractShape& s = made.shape;
  const Panels across(s.columns, kLanes<T>, made.column_block / kLanes<T>);
  const Parts deep(std::max<i64>(s.depth, 1), made.depth_block);
  for (i64 x = 0, j = 0; x < across.count(); j += across.width(x++)) {
    const Panels columns(std::min(across.width(x), s.columns - j), kLanes<T>, Cell::kVectors);
    for (i64 z = 0, k = 0; z < deep.count; k += deep.length(z++)) {
      const i64 depth = s.depth == 0 ? 0 : deep.length(z);
      pack_block(panel + k * s.panel.row + j * s.panel.column, s.panel.column, s.panel.row, columns, depth, packed);
      prepare_panels<Cell::kSemiring>(packed, across.width(x) / kLanes<T> * depth);
      T* const spare = packed + made.column_block * made.depth_block;
      if constexpr (Cell::kSkips) find_highest(packed, columns, depth, spare);
      for (i64 i = 0, rows = 0; i < s.rows; i += rows) {
        rows = height_of(Cell::kRows, s.rows - i);
        const Square<T> t{first + i * s.first.row + k * s.first.column,
                          second + i * s.second.row + k * s.second.column,
                          packed,
                          own + i * s.own.row + j,
                          out + i * s.out.row + j,
                          s.first.row,
                          s.first.column,
                          s.second.row,
                          s.second.column,
                          s.own.row,
                          s.out.row,
                          depth,
                          0,
                          z > 0 || s.accumulate};
        run_strip<Cell, T>(t, rows, columns, packed, spare);
      }
    }
  }
}

template <class Cell, class Careful, class T>
void run_contraction(const Contraction& made, const Contraction::Operands& given) {
  const ContractShape& s = made.shape;
  for (i64 b = 0; b < s.batch; ++b) {
    const T* first = static_cast<const T*>(given.first) + b * s.first.batch;
    const T* second = static_cast<const T*>(given.second) + b * s.second.batch;
    const T* panel = static_cast<const T*>(given.panel) + b * s.panel.batch;
    const T* own = static_cast<const T*>(given.own) + b * s.own.batch;
    T *out = static_cast<T*>(given.out) + b * s.out.batch, *packed = static_cast<T*>(given.scratch);
    if constexpr (!std::is_same_v<Cell, Careful>) {
      constexpr Semiring ring = Cell::kSemiring;
      if (is_unusual<ring>(first, s.rows, s.first.row, s.depth, s.first.column) ||
          is_unusual<ring>(panel, s.depth, s.panel.row, s.columns, s.panel.column)) {
        run_matrix<Careful, T>(made, first, second, panel, own, out, packed);
        continue;
      }
    }
    run_matrix<Cell, T>(made, first, second, panel, own, out, packed);
  }
}

template <Semiring semiring, class T>
ContractKernel kernel_of(ContractJob job) {
  constexpr i64 N = kLanes<T>;
  constexpr bool careful = is_won(semiring);
  if (job == ContractJob::result)
    return {run_contraction<Result<semiring, false>, Result<semiring, careful>, T>, N,
            Result<semiring, false>::kVectors * N, kSpare<Result<semiring, false>>};
  if (job == ContractJob::share && semiring != Semiring::lukasiewicz)
    return {run_contraction<Share<semiring>, Share<semiring>, T>, N, Share<semiring>::kVectors * N};
  return {run_contraction<ByFirst<semiring>, ByFirst<semiring>, T>, N, ByFirst<semiring>::kVectors * N};
}

}  // namespace

template <class T>
ContractKernel find_contract_kernel(ContractJob job, Semiring semiring) {
  switch (semiring) {
    case Semiring::max_plus:
      return kernel_of<Semiring::max_plus, T>(job);
    case Semiring::min_plus:
      return kernel_of<Semiring::min_plus, T>(job);
    case Semiring::max_min:
      return kernel_of<Semiring::max_min, T>(job);
    case Semiring::lukasiewicz:
      return kernel_of<Semiring::lukasiewicz, T>(job);
    case Semiring::noisy_or:
      return kernel_of<Semiring::noisy_or, T>(job);
    default:
      return kernel_of<Semiring::max_product, T>(job);
  }
}

}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
