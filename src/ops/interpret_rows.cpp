// The interpreter's ops on rows: each row by itself, straight from the definitions.
#include <cmath>
#include <limits>

#include "ops/interpret.h"
#include "ops/rows.h"

namespace wr::ir {
namespace {

using ops::RowOp;
using ops::RowPart;

/// One row of every operand.
struct Rows {
  const Call& call;
  const ops::RowFacts& facts = ops::facts_of(ops::row_op(call.node.op));
  std::size_t n = static_cast<std::size_t>(call.shape(0).back());
  std::size_t count = n == 0 ? static_cast<std::size_t>(row_count()) : call.in[0]->size() / n;
  std::size_t row = 0;

  std::int64_t row_count() const {
    std::int64_t rows = 1;
    for (int i = 0; i + 1 < call.shape(0).rank(); ++i) rows *= call.shape(0)[i];
    return rows;
  }
  double operator()(std::size_t operand, std::size_t i) const {
    const auto& elements = *call.in[operand];
    switch (facts.part(operand)) {
      case RowPart::value:
        return elements[row * n + i];
      case RowPart::column:
        return elements[i];
      default:
        return elements[row];
    }
  }
  template <class F>
  double sum(F f) const {
    double total = 0;
    for (std::size_t i = 0; i < n; ++i) total += f(i);
    return total;
  }
  template <class F>
  double mean(F f) const {
    return n == 0 ? 0 : sum(f) / static_cast<double>(n);
  }
  double top() const {
    double most = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < n; ++i) most = (*this)(0, i) > most || std::isnan((*this)(0, i)) ? (*this)(0, i) : most;
    return most;
  }
  double lse() const {
    const double most = top();
    return std::log(sum([&](std::size_t i) { return std::exp((*this)(0, i) - most); })) + most;
  }
};

/// The label's element, NaN where there is no such.
double hit(const Rows& x) {
  const double label = x(1, 0);
  const bool there = label >= 0 && label < static_cast<double>(x.n);
  return there ? x(0, static_cast<std::size_t>(label)) : std::numeric_limits<double>::quiet_NaN();
}

/// What is the same for all elements of a row.
struct RowTerms {
  double a = 0, b = 0;
};

RowTerms terms_of(const Rows& x, RowOp op, double epsilon) {
  switch (op) {
    case RowOp::softmax: {
      const double most = x.top();
      return {most, x.sum([&](std::size_t i) { return std::exp(x(0, i) - most); })};
    }
    case RowOp::softmax_grad:
      return {x.sum([&](std::size_t i) { return x(0, i) * x(1, i); })};
    case RowOp::log_softmax_grad:
      return {x.sum([&](std::size_t i) { return x(1, i); })};
    case RowOp::log_softmax:
    case RowOp::logsumexp:
    case RowOp::cross_entropy:
      return {x.lse()};
    case RowOp::layer_norm: {
      const double middle = x.mean([&](std::size_t i) { return x(0, i); });
      const double spread = x.mean([&](std::size_t i) { return (x(0, i) - middle) * (x(0, i) - middle); });
      return {middle, 1 / std::sqrt(spread + epsilon)};
    }
    case RowOp::rms_norm:
      return {1 / std::sqrt(x.mean([&](std::size_t i) { return x(0, i) * x(0, i); }) + epsilon)};
    case RowOp::layer_norm_grad:
      return {x.mean([&](std::size_t i) { return x(4, i) * x(1, i); }),
              x.mean([&](std::size_t i) { return x(4, i) * x(1, i) * (x(0, i) - x(2, 0)) * x(3, 0); })};
    case RowOp::rms_norm_grad:
      return {x.mean([&](std::size_t i) { return x(3, i) * x(1, i) * x(0, i) * x(2, 0); })};
    default:
      return {};
  }
}

/// An element of a result that is a value.
double element(const Rows& x, RowOp op, const RowTerms& t, std::size_t i) {
  switch (op) {
    case RowOp::softmax:
      return std::exp(x(0, i) - t.a) / t.b;
    case RowOp::softmax_grad:
      return x(0, i) * (x(1, i) - t.a);
    case RowOp::log_softmax:
      return x(0, i) - t.a;
    case RowOp::log_softmax_grad:
      return x(1, i) - std::exp(x(0, i)) * t.a;
    case RowOp::logsumexp_grad:
      return x(2, 0) * std::exp(x(0, i) - x(1, 0));
    case RowOp::cross_entropy_grad:
      return x(3, 0) * (std::exp(x(0, i) - x(2, 0)) - (x(1, 0) == static_cast<double>(i) ? 1 : 0));
    case RowOp::layer_norm:
      return (x(0, i) - t.a) * t.b * x(1, i) + x(2, i);
    case RowOp::layer_norm_grad:
      return x(3, 0) * (x(4, i) * x(1, i) - t.a - (x(0, i) - x(2, 0)) * x(3, 0) * t.b);
    case RowOp::rms_norm:
      return x(0, i) * t.a * x(1, i);
    case RowOp::rms_norm_grad:
      return x(2, 0) * (x(3, i) * x(1, i) - x(0, i) * x(2, 0) * t.a);
    default:
      return 0;
  }
}

/// A row's result that is one number.
double number(const Rows& x, RowOp op, const RowTerms& t, int result) {
  if (op == RowOp::cross_entropy && result == 0) return t.a - hit(x);
  return op == RowOp::layer_norm && result == 2 ? t.b : t.a;
}

/// What a row adds to a column of a total.
double share(const Rows& x, RowOp op, int result, std::size_t i) {
  if (op == RowOp::rms_norm_grad) return x(3, i) * x(0, i) * x(2, 0);
  return result == 2 ? x(4, i) : x(4, i) * (x(0, i) - x(2, 0)) * x(3, 0);
}

}  // namespace

Elements evaluate_rows(const Call& call) {
  const RowOp op = ops::row_op(call.node.op);
  const RowPart part = ops::facts_of(op).result(static_cast<std::size_t>(call.result));
  Rows rows{call};
  Elements out = part == RowPart::total ? zeros(call.out().shape) : Elements();
  for (; rows.row < rows.count; ++rows.row) {
    if (part == RowPart::total) {
      for (std::size_t i = 0; i < rows.n; ++i) out[i] += share(rows, op, call.result, i);
      continue;
    }
    const RowTerms terms = terms_of(rows, op, ops::epsilon_of(call.node.attrs));
    if (part == RowPart::number) out.push_back(number(rows, op, terms, call.result));
    for (std::size_t i = 0; part == RowPart::value && i < rows.n; ++i) out.push_back(element(rows, op, terms, i));
  }
  return out;
}

}  // namespace wr::ir
