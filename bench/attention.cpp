// Attention alone, forward and back, at any length: 4 heads of 64 columns. The oracle would take minutes at the lengths
// that matter, so that some queries and keys of one head are checked.
#include <cmath>

#include <fmt/format.h>

#include "bench/prepared.h"
#include "windrow/attention.h"

namespace wr::bench {
namespace {

constexpr std::int64_t kHeads = 4, kColumns = 64;
constexpr std::int64_t kHead = 1;  // that is checked

/// One head of an array [1, t, heads, columns], or of the first sample of several.
struct Head {
  const float* data;
  double at(std::int64_t position, std::int64_t column) const {
    return data[(position * kHeads + kHead) * kColumns + column];
  }
  double dot(std::int64_t i, const Head& other, std::int64_t j) const {
    double sum = 0;
    for (std::int64_t c = 0; c < kColumns; ++c) sum += at(i, c) * other.at(j, c);
    return sum;
  }
};

struct Exact {
  Head q, k, v, g;
  std::int64_t length;
  std::vector<double> lse, along;  // of each query

  double score(std::int64_t i, std::int64_t j) const { return q.dot(i, k, j) / std::sqrt(double{kColumns}); }
  double share(std::int64_t i, std::int64_t j) const { return std::exp(score(i, j) - lse[std::size_t(i)]); }
  double slope(std::int64_t i, std::int64_t j) const {
    return share(i, j) * (g.dot(i, v, j) - along[std::size_t(i)]) / std::sqrt(double{kColumns});
  }
  double result(std::int64_t i, std::int64_t c) const {
    double sum = 0;
    for (std::int64_t j = 0; j < length; ++j) sum += share(i, j) * v.at(j, c);
    return sum;
  }
};

Exact exact_of(const std::vector<Array>& a, std::int64_t length, const Head& out) {
  Exact e{{a[0].data<float>()}, {a[1].data<float>()}, {a[2].data<float>()}, {a[3].data<float>()}, length, {}, {}};
  for (std::int64_t i = 0; i < length; ++i) {
    double sum = 0;  // scores of normal numbers are small: no maximum is needed
    for (std::int64_t j = 0; j < length; ++j) sum += std::exp(e.score(i, j));
    e.lse.push_back(std::log(sum));
    e.along.push_back(e.g.dot(i, out, i));
  }
  return e;
}

std::string check(Step& step, const std::vector<Array>& arguments, std::int64_t length) {
  std::vector<const Array*> list;
  for (const Array& a : arguments) list.push_back(&a);
  step.run(list);
  const Head out{step.output(0).data<float>()}, dq{step.output(1).data<float>()}, dk{step.output(2).data<float>()},
      dv{step.output(3).data<float>()};
  const Exact e = exact_of(arguments, length, out);
  for (const std::int64_t at : {std::int64_t{0}, length / 3, length - 1})
    for (const std::int64_t c : {std::int64_t{0}, kColumns - 1}) {
      double q = 0, k = 0, v = 0;
      for (std::int64_t other = 0; other < length; ++other) {
        q += e.slope(at, other) * e.k.at(other, c);
        k += e.slope(other, at) * e.q.at(other, c);
        v += e.share(other, at) * e.g.at(other, c);
      }
      const double got[] = {out.at(at, c), dq.at(at, c), dk.at(at, c), dv.at(at, c)},
                   want[] = {e.result(at, c), q, k, v};
      for (int r = 0; r < 4; ++r)
        if (!(std::abs(got[r] - want[r]) <= 1e-4))
          return fmt::format("result {} at {} is {}, not {}", r, at, got[r], want[r]);
    }
  return "";
}

}  // namespace

Prepared attention_case(int threads, std::int64_t batch, std::int64_t length) {
  std::vector<Array> arguments;
  for (std::uint64_t i = 0; i < 4; ++i) arguments.push_back(random_normal({batch, length, kHeads, kColumns}, i + 1));
  const Spec spec = f32(batch, length, kHeads, kColumns);
  Prepared made = prepared(
      threads, fmt::format("attention_step_w{}_b{}", length, batch), std::move(arguments), 1e-3,
      [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g) {
        const Tensor y = attention(q, k, v, {});
        const auto by = grad(sum(y * g), {q, k, v});
        return std::vector<Tensor>{y, by[0], by[1], by[2]};
      },
      spec, spec, spec, spec);
  made.check = [length](Step& s, const std::vector<Array>& a) { return check(s, a, length); };
  return made;
}

}  // namespace wr::bench
