// Attention, and cross entropy of rows: ops that stand for many.
#pragma once

#include "windrow/tensor.h"

namespace wr {

struct AttentionForm {
  bool causal = false;     // query i sees keys up to i + first
  std::int64_t first = 0;  // the position of the first query among the keys
  double scale = 0;        // of q k'; 0 for 1 / sqrt(d)
  Tensor mask = {};        // bool[b|1, heads|1, t|1, s]: keys that a query sees; an empty Tensor for all
};
/// softmax(scale q k') v for q [b,t,heads,d], k and v [b,s,heads,d]: as [b,t,heads,d]. One op: the products q k' are
/// never in memory, so that it takes memory linear in the length, going forward and back. A query that sees no key
/// gives 0.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionForm& form, WINDROW_WHERE);

/// -log softmax(logits)[label] of each row: logits [.., classes], labels i32[..].
Tensor cross_entropy_of_rows(const Tensor& logits, const Tensor& labels, WINDROW_WHERE);

}  // namespace wr
