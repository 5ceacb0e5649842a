// The interpreter's scan: the body, as often as there are moments.
#include <algorithm>

#include "ir/scan.h"
#include "ops/interpret.h"

namespace wr::ir {

Elements evaluate_scan(const Call& call) {
  const ScanForm form = ScanForm::of(call.node.attrs);
  const Graph& body = *call.node.attrs.body;
  const auto carries = static_cast<std::size_t>(form.carries), wanted = static_cast<std::size_t>(call.result);
  const auto fixed = carries + static_cast<std::size_t>(form.sequences);
  const auto length = static_cast<std::size_t>(
      form.has_time(call.result) ? call.out().shape.count() / call.out().shape[0] : call.out().shape.count());
  std::vector<Elements> moment(fixed);
  for (std::size_t c = 0; c < carries; ++c) moment[c] = *call.in[c];
  std::vector<const Elements*> in = call.in;
  for (std::size_t k = 0; k < fixed; ++k) in[k] = &moment[k];

  Elements out = zeros(call.out().shape);
  const auto put = [&](const Elements& value, std::int64_t slot) {
    std::copy(value.begin(), value.end(), out.begin() + slot * static_cast<std::int64_t>(length));
  };
  if (form.is_carry(call.result) && form.has_time(call.result)) put(moment[wanted], form.first_slot());
  for (std::int64_t turn = 0; turn < form.steps; ++turn) {
    const std::int64_t time = form.reverse ? form.steps - 1 - turn : turn;
    for (std::size_t s = carries; s < fixed; ++s) {
      const auto n = static_cast<std::int64_t>(call.in[s]->size()) / form.steps;
      moment[s].assign(call.in[s]->begin() + time * n, call.in[s]->begin() + (time + 1) * n);
    }
    std::vector<Elements> made = evaluate_body(body, in, call.rounding);
    if (form.is_stacked(call.result)) put(made[wanted], time);
    if (form.is_carry(call.result)) put(made[wanted], form.has_time(call.result) ? time + form.after_slot() : 0);
    if (form.is_sum(call.result))
      for (std::size_t i = 0; i < out.size(); ++i) out[i] += made[wanted][i];
    for (std::size_t c = 0; c < carries; ++c) moment[c] = std::move(made[c]);
  }
  return out;
}

}  // namespace wr::ir
