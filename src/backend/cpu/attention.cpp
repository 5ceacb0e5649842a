// Attention in blocks. Scores are made with keys as rows, so that what belongs to a query is a vector along them and
// nothing is summed over a row. Forward, a few queries meet all keys that they see, a long block of them after the
// other; what they have summed up so far is scaled down where a later block holds a larger score. Backward, a few keys
// meet all queries that see them: scores are made again, and the long sums of the gradients by keys and values go
// through registers. Exponents are of 2: its powers are exact.
#include "backend/cpu/attention.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/attention.cpp"
#include <hwy/foreach_target.h>
// foreach_target.h comes first: it includes this file again for every target but the last.
#include <hwy/highway.h>

#include <algorithm>
#include <limits>

#include "backend/cpu/gemm-inl.h"
#include "backend/cpu/row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace wr::cpu::HWY_NAMESPACE {

template <class T>
struct AttentionLoops {
  using D = hn::ScalableTag<T>;
  using V = hn::Vec<D>;
  static constexpr T kNothing = -std::numeric_limits<T>::infinity();
  const AttentionParams& p;
  int64_t first;  // position of the first query
  const std::uint8_t* mask;
  char* products;  // scratch

  static constexpr double kLog2E = 1.4426950408889634074, kLn2 = 0.69314718055994530942;
  static constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));

  static T* at(void* base, const HeadStrides& s, int64_t b, int64_t h) {
    return static_cast<T*>(base) + b * s.batch + h * s.head;
  }
  static int64_t down_to(int64_t x, int64_t unit) { return x / unit * unit; }
  static int64_t up_to(int64_t x, int64_t unit) { return down_to(x + unit - 1, unit); }

  /// The product of `few` (of a block of so many) on one side and `many` on the long one.
  HWY_INLINE const Gemm& sized(const BlockGemms& gemms, int64_t few, int64_t block, int64_t many) const {
    return gemms.of[few < block][many % p.unit != 0][(many - 1) / p.unit];
  }

  /// The rows of a head one after the other. As they lie, all heads' rows stand between two of them, often a power of
  /// two of bytes: they would fall into few sets of the cache.
  static const T* together(T* to, const T* from, int64_t stride, int64_t count, int64_t width, int64_t wanted) {
    if (stride == wanted) return from;
    for (int64_t i = 0; i < count; ++i) copy_line(from + i * stride, width, to + i * width, width);
    return to;
  }

  HWY_INLINE void clear(T* to, int64_t stride, int64_t rows) const {
    for (int64_t i = 0; i < rows; ++i) std::fill_n(to + i * stride, p.width, T{0});
  }

  /// to = factor * from
  HWY_INLINE static void scale_row(T* to, const T* from, int64_t n, T factor) {
    const V f = hn::Set(D(), factor);
    RowLoops<T>{n}.each([=](int64_t i, auto part) HWY_ATTR { part.store(hn::Mul(part.load(from + i), f), to + i); });
  }

  HWY_INLINE static void hide(T* row, const std::uint8_t* seen, int64_t n, int64_t step) {
    for (int64_t j = 0; j < n; ++j)
      if (!seen[j * step]) row[j] = kNothing;
  }

  /// Queries of a block go by whole vectors: what stands beyond the last of them is computed along, and must be
  /// numbers.
  HWY_INLINE void prepare_lines(T* lines) const {
    if (p.queries % kLanes != 0) std::fill_n(lines, p.key_block * p.query_line, T{0});
  }

  /// v in the lanes from `lane` on, the other before.
  HWY_INLINE static V from_lane(int64_t lane, V v, V before) {
    return hn::IfThenElse(hn::Lt(hn::Iota(D(), 0), hn::Set(D(), static_cast<T>(lane))), before, v);
  }

  // ---- forward ----

  /// What blocks of a head share.
  struct Seen {
    const T *q, *k, *v;
    T *out, *lse;
    const std::uint8_t* seen;
    T *qt, *scores, *results, *tops, *totals, *factors;  // of a block of queries
  };

  /// The scores of a vector of queries to shares that are not yet divided by their sum: of n keys its first query sees
  /// the first `seen`, each further one a key more. What they have summed up so far is to be scaled by `factors`.
  HWY_INLINE void take_queries(T* column, int64_t n, int64_t seen, T* tops, T* totals, T* factors) const {
    const D d;
    const int64_t line = p.query_line;
    const int64_t all = std::clamp<int64_t>(seen, 0, n), some = std::clamp<int64_t>(seen + kLanes - 1, 0, n);
    const V top = hn::LoadU(d, tops);
    V a = top, b = top, c = top, e = top;
    int64_t j = 0;
    for (; j + 4 <= all; j += 4) {
      a = hn::Max(a, hn::LoadU(d, column + j * line));
      b = hn::Max(b, hn::LoadU(d, column + (j + 1) * line));
      c = hn::Max(c, hn::LoadU(d, column + (j + 2) * line));
      e = hn::Max(e, hn::LoadU(d, column + (j + 3) * line));
    }
    for (; j < all; ++j) a = hn::Max(a, hn::LoadU(d, column + j * line));
    for (; j < some; ++j) {
      const V visible = from_lane(j - seen + 1, hn::LoadU(d, column + j * line), hn::Set(d, kNothing));
      hn::StoreU(visible, d, column + j * line);
      b = hn::Max(b, visible);
    }
    const V most = hn::Max(hn::Max(a, b), hn::Max(c, e));
    const V shift = hn::IfThenZeroElse(hn::Eq(most, hn::Set(d, kNothing)), most);  // of queries that see nothing yet
    V even = hn::Zero(d), odd = hn::Zero(d);
    const auto share = [=](T* at) HWY_ATTR {
      const V made = exp2_or_zero(d, hn::Sub(hn::LoadU(d, at), shift));
      hn::StoreU(made, d, at);
      return made;
    };
    for (j = 0; j + 2 <= some; j += 2) {
      even = hn::Add(even, share(column + j * line));
      odd = hn::Add(odd, share(column + (j + 1) * line));
    }
    if (j < some) even = hn::Add(even, share(column + j++ * line));
    for (; j < n; ++j) hn::StoreU(hn::Zero(d), d, column + j * line);
    const V factor = exp2_or_zero(d, hn::Sub(top, shift));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, totals), factor, hn::Add(even, odd)), d, totals);
    hn::StoreU(factor, d, factors);
    hn::StoreU(most, d, tops);
  }

  void block_of_keys(const Seen& head, int64_t i0, int64_t m, int64_t j0, int64_t n) const {
    sized(p.scores, m, p.query_block, n)(head.k + j0 * p.k_row, head.qt, head.scores, products);
    if (head.seen)
      for (int64_t j = 0; j < n; ++j)
        hide(head.scores + j * p.query_line, head.seen + i0 * p.mask_query + j0 + j, m, p.mask_query);
    for (int64_t i = 0; i < m; i += kLanes)
      take_queries(head.scores + i, n, p.causal ? first + i0 + i + 1 - j0 : n, head.tops + i, head.totals + i,
                   head.factors + i);
    if (j0 > 0)
      for (int64_t i = 0; i < m; ++i)
        if (head.factors[i] != T{1}) {
          T* const row = head.results + i * p.width;
          scale_row(row, row, p.width, head.factors[i]);
        }
    sized(p.values, m, p.query_block, n)(head.scores, head.v + j0 * p.v_row, head.results, products);
  }

  /// What a block of queries has summed up to its results and the logarithms of its sums.
  void finish_queries(const Seen& head, int64_t i0, int64_t m) const {
    const D d;
    for (int64_t i = 0; i < m; i += kLanes) {
      const V total = hn::LoadU(d, head.totals + i), one = hn::Set(d, T{1});
      const auto nothing = hn::Eq(total, hn::Zero(d));
      const V log = hn::MulAdd(hn::LoadU(d, head.tops + i), constant(d, kLn2), log_of(d, total));
      hn::StoreU(hn::Div(one, hn::IfThenElse(nothing, one, total)), d, head.factors + i);
      hn::StoreU(hn::IfThenElse(nothing, hn::Set(d, -kNothing), log), d, head.tops + i);
    }
    for (int64_t i = 0; i < m; ++i) {
      scale_row(head.out + (i0 + i) * p.out.position, head.results + i * p.width, p.width, head.factors[i]);
      head.lse[(i0 + i) * p.lse.position] = head.tops[i];
    }
  }

  void query_block(const Seen& head, int64_t i0) const {
    const int64_t m = std::min(p.query_block, p.queries - i0);
    transpose<false>(head.q + i0 * p.q.position, p.q.position, m, p.width, head.qt, p.query_line);
    for (int64_t c = 0; c < p.width; ++c) {
      T* const row = head.qt + c * p.query_line;
      scale_row(row, row, m, static_cast<T>(p.scale * kLog2E));
    }
    std::fill_n(head.tops, p.query_line, kNothing);
    std::fill_n(head.totals, p.query_line, T{0});
    const int64_t visible = p.causal ? std::clamp<int64_t>(first + i0 + m, 0, p.keys) : p.keys;
    const int64_t end = std::min(up_to(visible, p.unit), p.keys);
    if (!p.once || end == 0) clear(head.results, p.width, m);
    for (int64_t j0 = 0; j0 < end; j0 += p.key_block) block_of_keys(head, i0, m, j0, std::min(p.key_block, end - j0));
    finish_queries(head, i0, m);
  }

  void forward(void* const* ptr) const {
    T* const room = static_cast<T*>(ptr[5]);
    const AttentionScratch places = scratch_of(p, false);
    prepare_lines(room + places.scores);
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h) {
        const Seen head{at(ptr[2], p.q, b, h),
                        together(room + places.k_rows, at(ptr[3], p.k, b, h), p.k.position, p.keys, p.width, p.k_row),
                        together(room + places.v_rows, at(ptr[4], p.v, b, h), p.v.position, p.keys, p.width, p.v_row),
                        at(ptr[0], p.out, b, h),
                        at(ptr[1], p.lse, b, h),
                        mask ? mask + b * p.mask_batch + h * p.mask_head : nullptr,
                        room + places.qt,
                        room + places.scores,
                        room + places.results,
                        room + places.tops,
                        room + places.tops + p.query_line,
                        room + places.tops + 2 * p.query_line};
        for (int64_t i0 = 0; i0 < p.queries; i0 += p.query_block) query_block(head, i0);
      }
  }

  // ---- backward ----

  /// Scores of a key to shares, and the gradients of shares to those of scores; queries from `from` on see the key.
  HWY_INLINE void take_key(T* shares, T* slopes, const T* lse, const T* along, int64_t from, int64_t m) const {
    const D d;
    const V scale = hn::Set(d, static_cast<T>(p.scale)), scale2 = hn::Set(d, static_cast<T>(p.scale * kLog2E));
    const auto take = [=](int64_t i, int64_t lane) HWY_ATTR {
      V share = exp2_or_zero(d, hn::MulSub(hn::LoadU(d, shares + i), scale2, hn::LoadU(d, lse + i)));
      if (lane > 0) share = from_lane(lane, share, hn::Zero(d));
      const V slope = hn::Sub(hn::LoadU(d, slopes + i), hn::LoadU(d, along + i));
      hn::StoreU(share, d, shares + i);
      hn::StoreU(hn::Mul(hn::Mul(share, scale), slope), d, slopes + i);
    };
    from = std::clamp<int64_t>(from, 0, m);
    int64_t i = 0;
    for (; i + kLanes <= from; i += kLanes) {
      hn::StoreU(hn::Zero(d), d, shares + i);
      hn::StoreU(hn::Zero(d), d, slopes + i);
    }
    if (i < from) {
      take(i, from - i);
      i += kLanes;
    }
    for (; i < m; i += kLanes) take(i, 0);
  }

  struct Head {
    const T *q, *k, *v, *g;
    T *dq, *dk, *dv;
    const std::uint8_t* seen;
    T *lse, *along, *qt, *gt;  // of all queries
    T *shares, *slopes;        // of a block
  };

  void block_of_queries(const Head& head, int64_t j0, int64_t n, int64_t i0, int64_t m) const {
    const int64_t turned = down_to(i0, p.query_block) / p.query_block * p.query_line * p.width + i0 % p.query_block;
    sized(p.scores, n, p.key_block, m)(head.k + j0 * p.k_row, head.qt + turned, head.shares, products);
    sized(p.along, n, p.key_block, m)(head.v + j0 * p.v_row, head.gt + turned, head.slopes, products);
    for (int64_t j = 0; j < n; ++j) {
      T* const shares = head.shares + j * p.query_line;
      if (head.seen) hide(shares, head.seen + i0 * p.mask_query + j0 + j, m, p.mask_query);
      const int64_t from = p.causal ? j0 + j - first - i0 : 0;
      take_key(shares, head.slopes + j * p.query_line, head.lse + i0, head.along + i0, from, m);
    }
    sized(p.of_v, n, p.key_block, m)(head.shares, head.g + i0 * p.g_row, head.dv + j0 * p.dv.position, products);
    sized(p.of_k, n, p.key_block, m)(head.slopes, head.q + i0 * p.q_row, head.dk + j0 * p.dk.position, products);
    sized(p.of_q, n, p.key_block, m)(head.slopes, head.k + j0 * p.k_row, head.dq + i0 * p.dq.position, products);
  }

  void key_block(const Head& head, int64_t j0) const {
    const int64_t n = std::min(p.key_block, p.keys - j0);
    const int64_t begin = p.causal ? std::min(down_to(std::max<int64_t>(j0 - first, 0), p.unit), p.queries) : 0;
    if (!p.add_dk && (!p.once || begin == p.queries)) clear(head.dk + j0 * p.dk.position, p.dk.position, n);
    if (!p.add_dv && (!p.once || begin == p.queries)) clear(head.dv + j0 * p.dv.position, p.dv.position, n);
    for (int64_t i0 = begin; i0 < p.queries;) {
      const int64_t end = std::min(down_to(i0, p.query_block) + p.query_block, p.queries);
      block_of_queries(head, j0, n, i0, end - i0);
      i0 = end;
    }
  }

  /// What all keys need of the queries: their columns together, block by block; the logarithms of their sums one after
  /// the other; each query's result times its gradient.
  void gather_queries(const Head& head, const T* out, const T* sums) const {
    for (int64_t i0 = 0; i0 < p.queries; i0 += p.query_block) {
      const int64_t m = std::min(p.query_block, p.queries - i0), turned = i0 / p.query_block * p.query_line * p.width;
      transpose<false>(head.q + i0 * p.q_row, p.q_row, m, p.width, head.qt + turned, p.query_line);
      transpose<false>(head.g + i0 * p.g_row, p.g_row, m, p.width, head.gt + turned, p.query_line);
    }
    for (int64_t i = 0; i < p.queries; ++i) {
      const T *o = out + i * p.out.position, *g = head.g + i * p.g_row;
      head.lse[i] = sums[i * p.lse.position] * static_cast<T>(kLog2E);
      head.along[i] = RowLoops<T>{p.width}.sum([=](int64_t c, auto part)
                                                   HWY_ATTR { return hn::Mul(part.load(o + c), part.load(g + c)); });
    }
  }

  void backward(void* const* ptr) const {
    T* const room = static_cast<T*>(ptr[9]);
    const AttentionScratch places = scratch_of(p, true);
    prepare_lines(room + places.scores);
    prepare_lines(room + places.slopes);
    std::fill_n(room + places.lse, places.along - places.lse, T{0});  // beyond the last query too
    std::fill_n(room + places.along, places.qt - places.along, T{0});
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h) {
        const Head head{
            together(room + places.q_rows, at(ptr[3], p.q, b, h), p.q.position, p.queries, p.width, p.q_row),
            together(room + places.k_rows, at(ptr[4], p.k, b, h), p.k.position, p.keys, p.width, p.k_row),
            together(room + places.v_rows, at(ptr[5], p.v, b, h), p.v.position, p.keys, p.width, p.v_row),
            together(room + places.g_rows, at(ptr[8], p.g, b, h), p.g.position, p.queries, p.width, p.g_row),
            at(ptr[0], p.dq, b, h),
            at(ptr[1], p.dk, b, h),
            at(ptr[2], p.dv, b, h),
            mask ? mask + b * p.mask_batch + h * p.mask_head : nullptr,
            room + places.lse,
            room + places.along,
            room + places.qt,
            room + places.gt,
            room + places.scores,
            room + places.slopes};
        gather_queries(head, at(ptr[6], p.out, b, h), at(ptr[7], p.lse, b, h));
        clear(head.dq, p.dq.position, p.queries);
        for (int64_t j0 = 0; j0 < p.keys; j0 += p.key_block) key_block(head, j0);
      }
  }
};

template <class T, bool backward>
void run_attention(const AttentionParams& p, void* const* ptr, int64_t row0) {
  constexpr int kMask = backward ? 11 : 7, kProducts = backward ? 10 : 6;
  const AttentionLoops<T> loops{p, p.first + (p.first_is_row ? row0 : 0),
                                p.masked ? static_cast<const std::uint8_t*>(ptr[kMask]) : nullptr,
                                static_cast<char*>(ptr[kProducts])};
  if constexpr (backward) loops.backward(ptr);
  if constexpr (!backward) loops.forward(ptr);
}

AttentionKernel find_attention(DType dtype, bool backward) {
  if (dtype == DType::f32) return backward ? &run_attention<float, true> : &run_attention<float, false>;
  return backward ? &run_attention<double, true> : &run_attention<double, false>;
}

// NOLINTNEXTLINE(google-readability-namespace-comments)
}  // namespace wr::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/dispatch.h"

namespace wr::cpu {

AttentionKernel find_attention(DType dtype, bool backward, Target target) {
  if (!is_floating(dtype)) return nullptr;
  WINDROW_RETURN_FOR(target, find_attention(dtype, backward))
  return nullptr;
}

AttentionScratch scratch_of(const AttentionParams& p, bool backward) {
  AttentionScratch s;
  const auto take = [&](std::int64_t& at, std::int64_t elements) {
    constexpr std::int64_t kLine = 16;
    at = s.size;
    s.size += (elements + kLine - 1) / kLine * kLine;
  };
  const std::int64_t blocks = backward ? (p.queries + p.query_block - 1) / std::max<std::int64_t>(p.query_block, 1) : 1;
  const std::int64_t queries = blocks * p.query_line, block = p.query_line * p.key_block;
  take(s.k_rows, p.k_row == p.k.position ? 0 : p.keys * p.width);
  take(s.v_rows, p.v_row == p.v.position ? 0 : p.keys * p.width);
  take(s.q_rows, backward && p.q_row != p.q.position ? p.queries * p.width : 0);
  take(s.g_rows, backward && p.g_row != p.g.position ? p.queries * p.width : 0);
  take(s.lse, backward ? queries : 0);
  take(s.along, backward ? queries : 0);
  take(s.qt, queries * p.width);
  take(s.gt, backward ? queries * p.width : 0);
  take(s.scores, block);
  take(s.slopes, backward ? block : 0);
  take(s.results, backward ? 0 : p.query_block * p.width);
  take(s.tops, backward ? 0 : 3 * p.query_line);
  return s;
}

}  // namespace wr::cpu
#endif
