// Ops over sequences: attention, recurrent nets, cross entropy of rows; and the sparse update of a table.
#include <nanobind/stl/tuple.h>

#include "casters.h"
#include "windrow/attention.h"

namespace wr::python {

using namespace nb::literals;

namespace {

Tensor optional(nb::handle h, Location w) { return h.is_none() ? Tensor() : tensor_from(h, w); }

nb::object tensor_or_none(const Tensor& t) { return t.empty() ? nb::none() : nb::cast(t); }

nb::tuple as_tuple(const Recurrence& r) {
  return nb::make_tuple(nb::cast(r.h), nb::cast(r.last_h), tensor_or_none(r.last_c));
}

void bind_recurrent(nb::module_& m) {
  m.def(
      "lstm",
      [](nb::handle gates, nb::handle w_h, nb::handle h, nb::handle c, bool reverse, nb::handle lengths) {
        const Location w = here();
        return as_tuple(lstm(tensor_from(gates, w), tensor_from(w_h, w), tensor_from(h, w), tensor_from(c, w),
                             {reverse, optional(lengths, w)}, w));
      },
      "gates"_a, "w_h"_a, "h"_a, "c"_a, "reverse"_a = false, "lengths"_a.none() = nb::none(),
      "An LSTM over all of the time as one op. gates [batch, time, 4 hidden]: what the input gives to the gates input, "
      "forget, cell and output; w_h [hidden, 4 hidden]; h and c [batch, hidden] at the beginning; lengths i32[batch]. "
      "Gives (h [batch, time, hidden], the last h, the last c). For traced values.");
  m.def(
      "gru",
      [](nb::handle gates, nb::handle w_h, nb::handle b_h, nb::handle h, bool reverse, nb::handle lengths) {
        const Location w = here();
        const Recurrence r = gru(tensor_from(gates, w), tensor_from(w_h, w), tensor_from(b_h, w), tensor_from(h, w),
                                 {reverse, optional(lengths, w)}, w);
        return nb::make_tuple(nb::cast(r.h), nb::cast(r.last_h));
      },
      "gates"_a, "w_h"_a, "b_h"_a, "h"_a, "reverse"_a = false, "lengths"_a.none() = nb::none(),
      "A GRU over all of the time as one op. gates [batch, time, 3 hidden]: what the input gives to the gates reset, "
      "update and new; w_h [hidden, 3 hidden] and b_h [3 hidden]: what h gives. Gives (h [batch, time, hidden], the "
      "last h). For traced values.");
}

void bind_attention(nb::module_& m) {
  m.def(
      "attention",
      [](nb::handle q, nb::handle k, nb::handle v, bool causal, std::int64_t first, double scale, nb::handle mask) {
        const Location w = here();
        return attention(tensor_from(q, w), tensor_from(k, w), tensor_from(v, w),
                         {causal, first, scale, optional(mask, w)}, w);
      },
      "q"_a, "k"_a, "v"_a, "causal"_a = false, "first"_a = 0, "scale"_a = 0.0, "mask"_a.none() = nb::none(),
      "softmax(scale q k') v for q [b,t,heads,d], k and v [b,s,heads,d], in memory linear in the length. scale 0 is "
      "1 / sqrt(d); first is the position of the first query among the keys; mask bool[b|1, heads|1, t|1, s] says "
      "which "
      "keys a query sees. For traced values.");
  m.def(
      "cross_entropy_of_rows",
      [](nb::handle logits, nb::handle labels) {
        const Location w = here();
        return cross_entropy_of_rows(tensor_from(logits, w), tensor_from(labels, w), w);
      },
      "logits"_a, "labels"_a, "-log softmax(logits)[label] of each row. For traced values.");
}

void bind_table_update(nb::module_& m) {
  m.def(
      "sparse_adam_step",
      [](nb::handle parameter, nb::handle mean, nb::handle square, nb::handle gradient, nb::handle rate,
         nb::handle epsilon, double mean_share, double square_share) {
        const Location w = here();
        const SparseAdamStep s = sparse_adam_step(
            tensor_from(parameter, w), tensor_from(mean, w), tensor_from(square, w), tensor_from(gradient, w),
            tensor_from(rate, w), tensor_from(epsilon, w), mean_share, square_share, w);
        return nb::make_tuple(nb::cast(s.parameter), nb::cast(s.mean), nb::cast(s.square));
      },
      "parameter"_a, "mean"_a, "square"_a, "gradient"_a, "rate"_a, "epsilon"_a, "mean_share"_a, "square_share"_a,
      "Adam on a table of which rows were looked up; the others keep their value and their means. Gives (parameter, "
      "mean, "
      "square). For traced values.");
}

}  // namespace

void bind_sequence_ops(nb::module_& m) {
  bind_recurrent(m);
  bind_attention(m);
  bind_table_update(m);
}

}  // namespace wr::python
