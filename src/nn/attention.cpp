// Attention.
#include "windrow/attention.h"

#include <fmt/format.h>

#include "nn/sizes.h"

namespace wr::nn {

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, Causal causal, Where where) {
  return wr::attention(q, k, v, AttentionForm{.causal = causal == Causal::yes}, where);
}

namespace {

Dense projection(std::int64_t width, const AttentionOptions& options, const Where& where) {
  return {width,
          width,
          {.bias = options.bias, .weights = init::xavier_uniform(), .biases = init::zeros(), .dtype = options.dtype},
          where};
}

}  // namespace

Attention::Attention(std::int64_t width, std::int64_t heads, const AttentionOptions& options, Where where)
    : q(child("q", projection(width, options, where))),
      k(child("k", projection(width, options, where))),
      v(child("v", projection(width, options, where))),
      out(child("out", projection(width, options, where))),
      heads_(heads),
      causal_(options.causal) {
  expect_positive("Attention", "heads", heads, where);
  if (width % heads) fail(where, fmt::format("Attention: width {} does not divide into {} heads", width, heads));
}

std::string Attention::kind() const { return fmt::format("Attention({}, {} heads)", q.w.shape()[0], heads_); }

Tensor Attention::forward(const Tensor& x, Mode mode, const Where& where) const { return attend(x, x, mode, where); }

Tensor Attention::attend(const Tensor& x, const Tensor& source, Mode mode, Where where) const {
  for (const Tensor* t : {&x, &source}) {
    expect_rank("Attention", *t, 3, "[batch, time, width]", where);
    expect_features("Attention", *t, 3, q.w.shape()[0], q.w.spec().dtype, where);
  }
  const auto split = [&](const Dense& part, const Tensor& t) {
    return reshape(part(t, mode, where), {t.size(0), t.size(1), heads_, t.size(2) / heads_}, where);
  };
  const Tensor seen = attention(split(q, x), split(k, source), split(v, source), causal_, where);
  return out(reshape(seen, x.shape(), where), mode, where);
}

}  // namespace wr::nn
