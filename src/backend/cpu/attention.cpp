// Attention in blocks. Forward, a block of queries meets one block of keys after the other; what it has summed up so
// far is scaled down where a later block holds a larger score. Backward the scores are made again, with keys as rows,
// so that what belongs to a query is a vector along them and nothing is summed over a row.
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

  /// to[c][i] = factor * from[i][c] for each block of positions; rows of `to` are `block` apart.
  void transpose_blocks(T* to, int64_t block, const T* from, int64_t stride, int64_t count, T factor) const {
    for (int64_t i = 0; i < count; i += block) {
      T* const here = to + i * p.width;
      const int64_t positions = std::min(block, count - i);
      transpose<false>(from + i * stride, stride, positions, p.width, here, block);
      if (factor == T{1}) continue;
      for (int64_t c = 0; c < p.width; ++c) scale_row(here + c * block, positions, factor);
    }
  }

  /// The rows of a head one after the other. As they lie, all heads' rows stand between two of them, often a power of
  /// two of bytes: they would fall into few sets of the cache.
  const T* together(T* to, const T* from, int64_t stride, int64_t count) const {
    if (stride == p.width) return from;
    for (int64_t i = 0; i < count; ++i)
      RowLoops<T>{p.width}.each([=, this](int64_t c, auto part)
                                    HWY_ATTR { part.store(part.load(from + i * stride + c), to + i * p.width + c); });
    return to;
  }

  HWY_INLINE void clear(T* to, int64_t stride, int64_t rows) const {
    for (int64_t i = 0; i < rows; ++i) std::fill_n(to + i * stride, p.width, T{0});
  }

  static HWY_INLINE T exp_of_number(T x) { return hn::GetLane(exp_of(D(), hn::Set(D(), x))); }

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

  // ---- forward
  // --------------------------------------------------------------------------------------------------------

  /// A row of scores to shares that are not yet divided by their sum; the row of results and its sum are scaled along.
  HWY_INLINE void take_row(T* row, int64_t n, int64_t seen, T& top, T& total, T* result) const {
    const RowLoops<T> scores{seen};
    const T most = std::max(top, seen > 0 ? scores.most(row) : kNothing);
    std::fill(row + std::max<int64_t>(seen, 0), row + n, T{0});
    if (most == kNothing) {
      std::fill_n(row, std::max<int64_t>(seen, 0), T{0});
      return;
    }
    const V shift = hn::Set(D(), most);
    const T sum = scores.sum([=](int64_t i, auto part) HWY_ATTR {
      const V e = exp_of(D(), hn::Sub(part.load(row + i), shift));
      part.store(e, row + i);
      return e;
    });
    if (top != most) {
      const T factor = top == kNothing ? T{0} : exp_of_number(top - most);
      if (total != 0) scale_row(result, p.width, factor);
      total *= factor;
      top = most;
    }
    total += sum;
  }

  HWY_INLINE void hide(T* row, const std::uint8_t* seen, int64_t n, int64_t step) const {
    for (int64_t j = 0; j < n; ++j)
      if (!seen[j * step]) row[j] = kNothing;
  }

  /// What blocks of a head share.
  struct Seen {
    const T *q, *kt, *v;
    T *out, *lse;
    const std::uint8_t* seen;
    T *scores, *results, *tops, *totals;  // of a block of queries
  };

  void query_block(const Seen& head, int64_t i0) const {
    const int64_t m = std::min(p.query_block, p.queries - i0);
    const bool last_queries = m < p.query_block;
    clear(head.results, p.width, m);
    std::fill_n(head.tops, m, kNothing);
    std::fill_n(head.totals, m, T{0});
    const int64_t end = visible(i0 + m - 1);
    for (int64_t j0 = 0; j0 < end; j0 += p.key_block) {
      const int64_t n = std::min(p.key_block, p.keys - j0);
      p.scores.at(last_queries, n < p.key_block)(head.q + i0 * p.q.position, head.kt + j0 * p.width, head.scores,
                                                 products);
      for (int64_t r = 0; r < m; ++r) {
        T* row = head.scores + r * p.key_block;
        const int64_t sees = std::min(n, visible(i0 + r) - j0);
        if (head.seen) hide(row, head.seen + (i0 + r) * p.mask_query + j0, sees, 1);
        take_row(row, n, sees, head.tops[r], head.totals[r], head.results + r * p.width);
      }
      p.values.at(last_queries, n < p.key_block)(head.scores, head.v + j0 * p.width, head.results, products);
    }
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
    T* kt = static_cast<T*>(ptr[5]);
    const int64_t key_blocks = (p.keys + p.key_block - 1) / std::max<int64_t>(p.key_block, 1);
    T* const v_rows = kt + key_blocks * p.key_block * p.width;
    T* const scores = v_rows + p.keys * p.width;
    T* const results = scores + p.query_block * p.key_block;
    T* const tops = results + p.query_block * p.width;
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h) {
        transpose_blocks(kt, p.key_block, at(ptr[3], p.k, b, h), p.k.position, p.keys, static_cast<T>(p.scale));
        const Seen head{at(ptr[2], p.q, b, h),
                        kt,
                        together(v_rows, at(ptr[4], p.v, b, h), p.v.position, p.keys),
                        at(ptr[0], p.out, b, h),
                        at(ptr[1], p.lse, b, h),
                        mask ? mask + b * p.mask_batch + h * p.mask_head : nullptr,
                        scores,
                        results,
                        tops,
                        tops + p.query_block};
        for (int64_t i0 = 0; i0 < p.queries; i0 += p.query_block) query_block(head, i0);
      }
  }

  // ---- backward
  // -------------------------------------------------------------------------------------------------------

  /// Scores of a key to shares, and the gradients of shares to those of scores; queries from `from` on see the key.
  HWY_INLINE void take_key(T* shares, T* slopes, const T* lse, const T* along, int64_t from, int64_t m) const {
    from = std::clamp<int64_t>(from, 0, m);
    std::fill_n(shares, from, T{0});
    std::fill_n(slopes, from, T{0});
    const V scale = hn::Set(D(), static_cast<T>(p.scale));
    shares += from, slopes += from, lse += from, along += from;
    RowLoops<T>{m - from}.each([=](int64_t i, auto part) HWY_ATTR {
      const V share = exp_of(D(), hn::Sub(part.load(shares + i), part.load(lse + i)));
      part.store(share, shares + i);
      const V slope = hn::Sub(part.load(slopes + i), part.load(along + i));
      part.store(hn::Mul(hn::Mul(share, scale), slope), slopes + i);
    });
  }

  struct Head {
    const T *q, *k, *v, *g;  // rows one after the other, but for v
    T *dk, *dv;
    const std::uint8_t* seen;
    const T *qt, *gt, *lse, *along;  // of all queries
    T *shares, *slopes, *dq;         // of a block
  };

  void blocks(const Head& head, int64_t i0, int64_t j0) const {
    const int64_t m = std::min(p.query_block, p.queries - i0), n = std::min(p.key_block, p.keys - j0);
    const bool last_q = m < p.query_block, last_k = n < p.key_block;
    p.shares.at(last_q, last_k)(head.k + j0 * p.width, head.qt + i0 * p.width, head.shares, products);
    p.along.at(last_q, last_k)(head.v + j0 * p.v.position, head.gt + i0 * p.width, head.slopes, products);
    for (int64_t j = 0; j < n; ++j) {
      T* shares = head.shares + j * p.query_block;
      if (head.seen) hide(shares, head.seen + i0 * p.mask_query + j0 + j, m, p.mask_query);
      const int64_t from = p.causal ? j0 + j - first - i0 : 0;
      take_key(shares, head.slopes + j * p.query_block, head.lse + i0, head.along + i0, from, m);
    }
    p.of_v.at(last_q, last_k)(head.shares, head.g + i0 * p.width, head.dv + j0 * p.dv.position, products);
    p.of_k.at(last_q, last_k)(head.slopes, head.q + i0 * p.width, head.dk + j0 * p.dk.position, products);
    p.of_q.at(last_q, last_k)(head.slopes, head.k + j0 * p.width, head.dq, products);
  }

  void backward(void* const* ptr) const {
    T* qt = static_cast<T*>(ptr[9]);
    const int64_t rows = (p.queries + p.query_block - 1) / std::max<int64_t>(p.query_block, 1) * p.query_block;
    T *gt = qt + rows * p.width, *lse = gt + rows * p.width, *along = lse + rows;
    T *shares = along + rows, *slopes = shares + p.query_block * p.key_block;
    T *dq = slopes + p.query_block * p.key_block, *q_rows = dq + p.query_block * p.width;
    T *g_rows = q_rows + p.queries * p.width, *k_rows = g_rows + p.queries * p.width;
    for (int64_t b = 0; b < p.batch; ++b)
      for (int64_t h = 0; h < p.heads; ++h) {
        const Head head{together(q_rows, at(ptr[3], p.q, b, h), p.q.position, p.queries),
                        together(k_rows, at(ptr[4], p.k, b, h), p.k.position, p.keys),
                        at(ptr[5], p.v, b, h),
                        together(g_rows, at(ptr[8], p.g, b, h), p.g.position, p.queries),
                        at(ptr[1], p.dk, b, h),
                        at(ptr[2], p.dv, b, h),
                        mask ? mask + b * p.mask_batch + h * p.mask_head : nullptr,
                        qt,
                        gt,
                        lse,
                        along,
                        shares,
                        slopes,
                        dq};
        if (!p.add_dk) clear(head.dk, p.dk.position, p.keys);
        if (!p.add_dv) clear(head.dv, p.dv.position, p.keys);
        transpose_blocks(qt, p.query_block, head.q, p.width, p.queries, static_cast<T>(p.scale));
        transpose_blocks(gt, p.query_block, head.g, p.width, p.queries, T{1});
        const T *out = at(ptr[6], p.out, b, h), *sums = at(ptr[7], p.lse, b, h);
        for (int64_t i = 0; i < p.queries; ++i) {
          const T *o = out + i * p.out.position, *g = head.g + i * p.width;
          lse[i] = sums[i * p.lse.position];
          along[i] = RowLoops<T>{p.width}.sum([=](int64_t c, auto part)
                                                  HWY_ATTR { return hn::Mul(part.load(o + c), part.load(g + c)); });
        }
        T* const by_q = at(ptr[0], p.dq, b, h);
        for (int64_t i0 = 0; i0 < p.queries; i0 += p.query_block) {
          const int64_t m = std::min(p.query_block, p.queries - i0), end = visible(i0 + m - 1);
          clear(dq, p.width, m);
          for (int64_t j0 = 0; j0 < end; j0 += p.key_block) blocks(head, i0, j0);
          for (int64_t i = 0; i < m; ++i) scale_row(by_q + (i0 + i) * p.dq.position, dq + i * p.width, p.width, T{1});
        }
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

std::size_t attention_scratch(const AttentionParams& p, DType dtype, bool backward) {
  const auto blocks = [](std::int64_t size, std::int64_t block) {
    return block == 0 ? 0 : (size + block - 1) / block * block;
  };
  const std::int64_t a_block = p.query_block * p.key_block;
  const std::int64_t queries = blocks(p.queries, p.query_block), keys = blocks(p.keys, p.key_block);
  const std::int64_t elements =
      backward ? 2 * queries * (p.width + 1) + 2 * a_block + (p.query_block + 2 * p.queries + p.keys) * p.width
               : (keys + p.keys + p.query_block) * p.width + a_block + 2 * p.query_block;
  return static_cast<std::size_t>(std::max<std::int64_t>(elements, 1)) * size_of(dtype);
}

}  // namespace wr::cpu
#endif
