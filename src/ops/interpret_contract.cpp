// Contractions in semirings by plain loops. Winners are found anew, in double, so that rounded results make no
// difference.
#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/attributes.h"
#include "ops/interpret.h"

namespace wr::ir {
namespace {

double met(Semiring semiring, double a, double b) {
  switch (semiring) {
    case Semiring::max_plus:
    case Semiring::min_plus:
      return a + b;
    case Semiring::max_min:
      return std::isnan(a) || std::isnan(b) ? std::nan("") : std::min(a, b);
    case Semiring::lukasiewicz:
      return std::isnan(a + b) ? std::nan("") : std::max(0.0, a + (b - 1));
    case Semiring::noisy_or:
      return 1 - a * b;
    default:
      return a * b;
  }
}

/// One element of the result with all that it is made of: b, i, j and every k.
struct Cell {
  const Call& call;
  Semiring semiring;
  std::int64_t m, k, n;
  std::int64_t batch, i, j;

  double a(std::int64_t at) const { return (*call.in[0])[(batch * m + i) * k + at]; }
  double b(std::int64_t at) const { return (*call.in[1])[(batch * k + at) * n + j]; }
  double both(std::int64_t at) const { return met(semiring, a(at), b(at)); }
  std::size_t here() const { return static_cast<std::size_t>((batch * m + i) * n + j); }

  double result() const {
    const bool least = semiring == Semiring::min_plus;
    const double inf = std::numeric_limits<double>::infinity();
    double best = least ? inf : -inf, sum = 0, product = 1;
    for (std::int64_t at = 0; at < k; ++at) {
      const double x = both(at);
      sum += x;
      product *= x;
      if (std::isnan(x) || (!std::isnan(best) && (least ? x < best : x > best))) best = x;
    }
    return semiring == Semiring::lukasiewicz ? sum : semiring == Semiring::noisy_or ? product : best;
  }

  double share() const {
    const bool factors = semiring == Semiring::noisy_or;
    const double looked_for = factors ? 0 : result();
    double count = 0, others = 1;
    for (std::int64_t at = 0; at < k; ++at)
      if (const double x = both(at); x == looked_for) {
        ++count;
      } else {
        others *= x;
      }
    if (factors) return count == 1 ? others : 0;
    return 1 / count;
  }

  /// The part of the gradient by a(at) that comes through this element.
  double part(std::int64_t at, double best) const {
    const double x = (*call.in[2])[here()], y = (*call.in[3])[here()], all = both(at);
    switch (semiring) {
      case Semiring::lukasiewicz:
        return all > 0 ? x : 0;
      case Semiring::noisy_or:
        return b(at) * (all == 0 ? y : x / all);
      case Semiring::max_product:
        return all == best ? y * b(at) : 0;
      case Semiring::max_min:
        return all == best ? (b(at) > a(at) ? y : b(at) == a(at) ? y / 2 : 0) : 0;
      default:
        return all == best ? y : 0;
    }
  }
};

}  // namespace

Elements evaluate_contract(const Call& call) {
  const Semiring semiring = semiring_of(call.node.attrs);
  const Shape &a = call.shape(0), &b = call.shape(1);
  Elements out = zeros(call.out().shape);
  Cell cell{call, semiring, a[1], a[2], b[2], 0, 0, 0};
  for (cell.batch = 0; cell.batch < a[0]; ++cell.batch)
    for (cell.i = 0; cell.i < cell.m; ++cell.i)
      for (cell.j = 0; cell.j < cell.n; ++cell.j) {
        if (call.node.op == Op::contract) out[cell.here()] = cell.result();
        if (call.node.op == Op::contract_share) out[cell.here()] = cell.share();
        if (call.node.op != Op::contract_grad) continue;
        const double best = cell.result();
        for (std::int64_t at = 0; at < cell.k; ++at)
          out[(cell.batch * cell.m + cell.i) * cell.k + at] += cell.part(at, best);
      }
  return out;
}

}  // namespace wr::ir
