// The interpreter's attention: query by query, with every score in memory.
#include <cmath>
#include <limits>

#include "ops/interpret.h"

namespace wr::ir {
namespace {

struct Sizes {
  std::int64_t b, t, s, heads, d;
};

/// One query of one head against all keys.
struct Query {
  const Call& call;
  Sizes n;
  std::size_t mask;  // operand; there may be none
  std::int64_t b, h, i;

  std::size_t at(std::int64_t length, std::int64_t position, std::int64_t column) const {
    return static_cast<std::size_t>(((b * length + position) * n.heads + h) * n.d + column);
  }
  double query(std::size_t operand, std::int64_t column) const { return (*call.in[operand])[at(n.t, i, column)]; }
  double key(std::size_t operand, std::int64_t j, std::int64_t column) const {
    return (*call.in[operand])[at(n.s, j, column)];
  }
  /// Of a row of queries' with a key's row of an operand.
  double product(std::size_t of_query, std::size_t of_key, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t c = 0; c < n.d; ++c) sum += query(of_query, c) * key(of_key, j, c);
    return sum;
  }
  bool sees(std::int64_t j) const {
    if (call.ints()[0] && j > i + call.ints()[1]) return false;
    if (mask >= call.in.size()) return true;
    const Shape& shape = call.shape(mask);
    const Dims index{shape[0] == 1 ? 0 : b, shape[1] == 1 ? 0 : h, shape[2] == 1 ? 0 : i, j};
    return (*call.in[mask])[position(index, shape)] != 0;
  }
  double score(std::int64_t j) const { return call.node.attrs.reals[0] * product(0, 1, j); }
  /// Infinite where nothing is seen, so that every share is 0.
  double lse() const {
    double top = -std::numeric_limits<double>::infinity(), sum = 0;
    for (std::int64_t j = 0; j < n.s; ++j)
      if (sees(j)) top = std::max(top, score(j));
    for (std::int64_t j = 0; j < n.s; ++j)
      if (sees(j)) sum += std::exp(score(j) - top);
    return sum > 0 ? top + std::log(sum) : std::numeric_limits<double>::infinity();
  }
  double share(std::int64_t j, double lse) const { return sees(j) ? std::exp(score(j) - lse) : 0; }
};

template <class F>
void for_each_query(const Call& call, std::size_t mask, F f) {
  const Shape &q = call.shape(0), &k = call.shape(1);
  const Sizes n{q[0], q[1], k[1], q[2], q[3]};
  for (std::int64_t b = 0; b < n.b; ++b)
    for (std::int64_t i = 0; i < n.t; ++i)
      for (std::int64_t h = 0; h < n.heads; ++h) f(Query{call, n, mask, b, h, i});
}

Elements forward(const Call& call) {
  Elements out = zeros(call.out().shape);
  std::size_t row = 0;
  for_each_query(call, 3, [&](const Query& x) {
    const double lse = x.lse();
    if (call.result == 1) {
      out[row++] = lse;
      return;
    }
    for (std::int64_t j = 0; j < x.n.s; ++j) {
      const double p = x.share(j, lse);
      for (std::int64_t c = 0; c < x.n.d; ++c) out[x.at(x.n.t, x.i, c)] += p * x.key(2, j, c);
    }
  });
  return out;
}

/// Operands: q, k, v, the result, lse, g, perhaps a mask.
Elements backward(const Call& call) {
  Elements out = zeros(call.out().shape);
  std::size_t row = 0;
  for_each_query(call, 6, [&](const Query& x) {
    const double lse = (*call.in[4])[row++];
    double along = 0;
    for (std::int64_t c = 0; c < x.n.d; ++c) along += x.query(3, c) * x.query(5, c);
    for (std::int64_t j = 0; j < x.n.s; ++j) {
      const double p = x.share(j, lse), ds = p * (x.product(5, 2, j) - along) * call.node.attrs.reals[0];
      for (std::int64_t c = 0; c < x.n.d; ++c) {
        if (call.result == 0) out[x.at(x.n.t, x.i, c)] += ds * x.key(1, j, c);
        if (call.result == 1) out[x.at(x.n.s, j, c)] += ds * x.query(0, c);
        if (call.result == 2) out[x.at(x.n.s, j, c)] += p * x.query(5, c);
      }
    }
  });
  return out;
}

}  // namespace

Elements evaluate_attention(const Call& call) { return call.node.op == Op::attention ? forward(call) : backward(call); }

}  // namespace wr::ir
