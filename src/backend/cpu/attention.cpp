// Attention in blocks. Scores are made with keys as rows, so that what belongs to a query is a vector along them and
// nothing is summed over a row. Forward, a block of queries meets one block of keys after the other; what it has summed
// up so far is scaled down where a later block holds a larger score. Backward the scores are made again.
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

  static T* at(void* base, const HeadStrides& s, int64_t b, int64_t h) {
    return static_cast<T*>(base) + b * s.batch + h * s.head;
  }

  /// to[c][i] = factor * from[i][c] for the positions of a block; rows of `to` are a line of queries apart.
  void transpose_block(T* to, const T* from, int64_t stride, int64_t count, T factor) const {
    transpose<false>(from, stride, count, p.width, to, p.query_line);
    if (factor == T{1}) return;
    for (int64_t c = 0; c < p.width; ++c) scale_row(to + c * p.query_line, count, factor);
  }

  /// The rows of a head one after the other. As they lie, all heads' rows stand between two of them, often a power of
  /// two of bytes: they would fall into few sets of the cache.
  const T* together(T* to, const T* from, int64_t stride, int64_t count, int64_t wanted) const {
    if (stride == wanted) return from;
    for (int64_t i = 0; i < count; ++i)
      RowLoops<T>{p.width}.each([=, this](int64_t c, auto part)
                                    HWY_ATTR { part.store(part.load(from + i * stride + c), to + i * p.width + c); });
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
  HWY_INLINE static void scale_row(T* row, int64_t n, T factor) { scale_row(row, row, n, factor); }

  /// Keys that queries up to this position see.
  HWY_INLINE int64_t visible(int64_t query) const {
    return p.causal ? std::clamp<int64_t>(first + query + 1, 0, p.keys) : p.keys;
  }

  HWY_INLINE static void hide(T* row, const std::uint8_t* seen, int64_t n, int64_t step) {
    for (int64_t j = 0; j < n; ++j)
      if (!seen[j * step]) row[j] = kNothing;
  }

  /// Queries of a block go by whole vectors: what stands beyond the last of them is computed along, and must be
  /// numbers.
  static constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  HWY_INLINE void prepare_lines(T* lines) const {
    if (p.query_line != p.query_block) std::fill_n(lines, p.key_block * p.query_line, T{0});
  }

  // ---- forward
  // --------------------------------------------------------------------------------------------------------

  /// What blocks of a head share.
  struct Seen {
    const T *q, *k, *v;
    T *out, *lse;
    const std::uint8_t* seen;
    T *qt, *scores, *results, *tops, *totals, *factors;  // of a block of queries
  };

  /// The scores of a vector of queries to shares that are not yet divided by their sum. What they have summed up so far
  /// is to be scaled by `factors`.
  HWY_INLINE void take_queries(T* column, int64_t n, T* tops, T* totals, T* factors) const {
    const D d;
    const int64_t line = p.query_line;
    const V top = hn::LoadU(d, tops);
    V a = top, b = top, c = top, e = top;
    int64_t j = 0;
    for (; j + 4 <= n; j += 4) {
      a = hn::Max(a, hn::LoadU(d, column + j * line));
      b = hn::Max(b, hn::LoadU(d, column + (j + 1) * line));
      c = hn::Max(c, hn::LoadU(d, column + (j + 2) * line));
      e = hn::Max(e, hn::LoadU(d, column + (j + 3) * line));
    }
    for (; j < n; ++j) a = hn::Max(a, hn::LoadU(d, column + j * line));
    const V most = hn::Max(hn::Max(a, b), hn::Max(c, e));
    const V shift = hn::IfThenZeroElse(hn::Eq(most, hn::Set(d, kNothing)), most);  // of queries that see nothing yet
    V even = hn::Zero(d), odd = hn::Zero(d);
    const auto share = [=](T* at) HWY_ATTR {
      const V made = exp_or_zero(d, hn::Sub(hn::LoadU(d, at), shift));
      hn::StoreU(made, d, at);
      return made;
    };
    for (j = 0; j + 2 <= n; j += 2) {
      even = hn::Add(even, share(column + j * line));
      odd = hn::Add(odd, share(column + (j + 1) * line));
    }
    if (j < n) even = hn::Add(even, share(column + j * line));
    const V factor = exp_or_zero(d, hn::Sub(top, shift));
    hn::StoreU(hn::MulAdd(hn::LoadU(d, totals), factor, hn::Add(even, odd)), d, totals);
    hn::StoreU(factor, d, factors);
    hn::StoreU(most, d, tops);
  }

  void block_of_keys(const Seen& head, int64_t i0, int64_t m, int64_t j0) const {
    const int64_t n = std::min(p.key_block, p.keys - j0);
    const bool last_q = m < p.query_block, last_k = n < p.key_block;
    p.scores.at(last_q, last_k)(head.k + j0 * p.k_row, head.qt, head.scores, products);
    for (int64_t j = 0; j < n; ++j) {
      T* const row = head.scores + j * p.query_line;
      if (p.causal) std::fill_n(row, std::clamp<int64_t>(j0 + j - first - i0, 0, m), kNothing);
      if (head.seen) hide(row, head.seen + i0 * p.mask_query + j0 + j, m, p.mask_query);
    }
    for (int64_t i = 0; i < m; i += kLanes)
      take_queries(head.scores + i, n, head.tops + i, head.totals + i, head.factors + i);
    if (j0 > 0)
      for (int64_t i = 0; i < m; ++i)
        if (head.factors[i] != T{1}) scale_row(head.results + i * p.width, p.width, head.factors[i]);
    p.values.at(last_q, last_k)(head.scores, head.v + j0 * p.v_row, head.results, products);
  }

  void query_block(const Seen& head, int64_t i0) const {
    const int64_t m = std::min(p.query_block, p.queries - i0);
    transpose_block(head.qt, head.q + i0 * p.q.position, p.q.position, m, static_cast<T>(p.scale));
    clear(head.results, p.width, m);
    std::fill_n(head.tops, p.query_line, kNothing);
    std::fill_n(head.totals, p.query_line, T{0});
    const int64_t end = visible(i0 + m - 1);
    for (int64_t j0 = 0; j0 < end; j0 += p.key_block) block_of_keys(head, i0, m, j0);
    for (int64_t r = 0; r < m; ++r) {
      const T total = head.totals[r];
      scale_row(head.out + (i0 + r) * p.out.position, head.results + r * p.width, p.width,
                total > 0 ? T{1} / total : T{1});
      T& lse = head.lse[(i0 + r) * p.lse.position];
      lse = total > 0 ? head.tops[r] + RowLoops<T>::log_of_number(total) : std::numeric_limits<T>::infinity();
      if (total != total) lse = total;
    }
  }

  void forward(void* const* ptr) const {
    T* const room = static_cast<T*>(ptr[5]);
    const AttentionScratch places = scratch_of(p, false);
    prepare_lines(room + places.scores);
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h) {
        const Seen head{at(ptr[2], p.q, b, h),
                        together(room + places.k_rows, at(ptr[3], p.k, b, h), p.k.position, p.keys, p.k_row),
                        together(room + places.v_rows, at(ptr[4], p.v, b, h), p.v.position, p.keys, p.v_row),
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

  // ---- backward
  // -------------------------------------------------------------------------------------------------------

  /// Scores of a key to shares, and the gradients of shares to those of scores; queries from `from` on see the key.
  HWY_INLINE void take_key(T* shares, T* slopes, const T* lse, const T* along, int64_t from, int64_t m) const {
    const D d;
    from = std::clamp<int64_t>(from, 0, m);
    const V scale = hn::Set(d, static_cast<T>(p.scale));
    for (int64_t i = from / kLanes * kLanes; i < m; i += kLanes) {
      const V share = exp_or_zero(d, hn::Sub(hn::LoadU(d, shares + i), hn::LoadU(d, lse + i)));
      const V slope = hn::Sub(hn::LoadU(d, slopes + i), hn::LoadU(d, along + i));
      hn::StoreU(share, d, shares + i);
      hn::StoreU(hn::Mul(hn::Mul(share, scale), slope), d, slopes + i);
    }
    std::fill_n(shares, from, T{0});
    std::fill_n(slopes, from, T{0});
  }

  struct Head {
    const T *q, *k, *v, *g;
    T *dq, *dk, *dv;
    const std::uint8_t* seen;
    const T *lse, *along;                    // of all queries
    T *qt, *gt, *shares, *slopes, *results;  // of a block
  };

  void blocks(const Head& head, int64_t i0, int64_t m, int64_t j0) const {
    const int64_t n = std::min(p.key_block, p.keys - j0);
    const bool last_q = m < p.query_block, last_k = n < p.key_block;
    p.shares.at(last_q, last_k)(head.k + j0 * p.k_row, head.qt, head.shares, products);
    p.along.at(last_q, last_k)(head.v + j0 * p.v_row, head.gt, head.slopes, products);
    for (int64_t j = 0; j < n; ++j) {
      T* const shares = head.shares + j * p.query_line;
      if (head.seen) hide(shares, head.seen + i0 * p.mask_query + j0 + j, m, p.mask_query);
      const int64_t from = p.causal ? j0 + j - first - i0 : 0;
      take_key(shares, head.slopes + j * p.query_line, head.lse + i0, head.along + i0, from, m);
    }
    p.of_v.at(last_q, last_k)(head.shares, head.g + i0 * p.g_row, head.dv + j0 * p.dv.position, products);
    p.of_k.at(last_q, last_k)(head.slopes, head.q + i0 * p.q_row, head.dk + j0 * p.dk.position, products);
    p.of_q.at(last_q, last_k)(head.slopes, head.k + j0 * p.k_row, head.results, products);
  }

  void block_of_queries(const Head& head, int64_t i0) const {
    const int64_t m = std::min(p.query_block, p.queries - i0), end = visible(i0 + m - 1);
    transpose_block(head.qt, head.q + i0 * p.q_row, p.q_row, m, static_cast<T>(p.scale));
    transpose_block(head.gt, head.g + i0 * p.g_row, p.g_row, m, T{1});
    clear(head.results, p.width, m);
    for (int64_t j0 = 0; j0 < end; j0 += p.key_block) blocks(head, i0, m, j0);
    for (int64_t i = 0; i < m; ++i)
      scale_row(head.dq + (i0 + i) * p.dq.position, head.results + i * p.width, p.width, T{1});
  }

  /// The logarithms of the queries' sums one after the other, and each query's result times its gradient.
  void gather_queries(const Head& head, const T* out, const T* sums, T* lse, T* along) const {
    for (int64_t i = 0; i < p.queries; ++i) {
      const T *o = out + i * p.out.position, *g = head.g + i * p.g_row;
      lse[i] = sums[i * p.lse.position];
      along[i] = RowLoops<T>{p.width}.sum([=](int64_t c, auto part)
                                              HWY_ATTR { return hn::Mul(part.load(o + c), part.load(g + c)); });
    }
  }

  void backward(void* const* ptr) const {
    T* const room = static_cast<T*>(ptr[9]);
    const AttentionScratch places = scratch_of(p, true);
    T *const lse = room + places.lse, *const along = room + places.along;
    prepare_lines(room + places.scores);
    prepare_lines(room + places.slopes);
    std::fill_n(lse, places.along - places.lse, T{0});  // beyond the last query too
    std::fill_n(along, places.qt - places.along, T{0});
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h) {
        const Head head{together(room + places.q_rows, at(ptr[3], p.q, b, h), p.q.position, p.queries, p.q_row),
                        together(room + places.k_rows, at(ptr[4], p.k, b, h), p.k.position, p.keys, p.k_row),
                        together(room + places.v_rows, at(ptr[5], p.v, b, h), p.v.position, p.keys, p.v_row),
                        together(room + places.g_rows, at(ptr[8], p.g, b, h), p.g.position, p.queries, p.g_row),
                        at(ptr[0], p.dq, b, h),
                        at(ptr[1], p.dk, b, h),
                        at(ptr[2], p.dv, b, h),
                        mask ? mask + b * p.mask_batch + h * p.mask_head : nullptr,
                        lse,
                        along,
                        room + places.qt,
                        room + places.gt,
                        room + places.scores,
                        room + places.slopes,
                        room + places.results};
        if (!p.add_dk) clear(head.dk, p.dk.position, p.keys);
        if (!p.add_dv) clear(head.dv, p.dv.position, p.keys);
        gather_queries(head, at(ptr[6], p.out, b, h), at(ptr[7], p.lse, b, h), lse, along);
        for (int64_t i0 = 0; i0 < p.queries; i0 += p.query_block) block_of_queries(head, i0);
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
  const std::int64_t blocks = (p.queries + p.query_block - 1) / std::max<std::int64_t>(p.query_block, 1);
  const std::int64_t queries = blocks * p.query_line, block = p.query_line * p.key_block;
  take(s.k_rows, p.k_row == p.k.position ? 0 : p.keys * p.width);
  take(s.v_rows, p.v_row == p.v.position ? 0 : p.keys * p.width);
  take(s.q_rows, backward && p.q_row != p.q.position ? p.queries * p.width : 0);
  take(s.g_rows, backward && p.g_row != p.g.position ? p.queries * p.width : 0);
  take(s.lse, backward ? queries : 0);
  take(s.along, backward ? queries : 0);
  take(s.qt, p.query_line * p.width);
  take(s.gt, backward ? p.query_line * p.width : 0);
  take(s.scores, block);
  take(s.slopes, backward ? block : 0);
  take(s.results, p.query_block * p.width);
  take(s.tops, backward ? 0 : 3 * p.query_line);
  return s;
}

}  // namespace wr::cpu
#endif
