// The interpreter's scan: the body, as often as there are moments.
#include <algorithm>

#include "ir/scan.h"
#include "ops/interpret.h"

namespace wr::ir {
namespace {

/// A result as it grows from moment to moment.
struct Growing {
  Elements all;
  std::size_t length = 0;  // of one moment

  void put(const Elements& value, std::int64_t slot) {
    std::copy(value.begin(), value.end(), all.begin() + slot * static_cast<std::int64_t>(length));
  }
  void add(const Elements& value) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i] += value[i];
  }
};

}  // namespace

std::vector<Elements> evaluate_scan(const Call& call) {
  const ScanForm form = ScanForm::of(call.node.attrs);
  const Graph& body = *call.node.attrs.body;
  const auto carries = static_cast<std::size_t>(form.carries);
  const auto fixed = carries + static_cast<std::size_t>(form.sequences);
  std::vector<Elements> moment(fixed);
  for (std::size_t c = 0; c < carries; ++c) moment[c] = *call.in[c];
  std::vector<const Elements*> in = call.in;
  for (std::size_t k = 0; k < fixed; ++k) in[k] = &moment[k];

  std::vector<Growing> results;
  for (std::int64_t turn = 0; turn < form.steps; ++turn) {
    const std::int64_t time = form.reverse ? form.steps - 1 - turn : turn;
    for (std::size_t s = carries; s < fixed; ++s) {
      const auto n = static_cast<std::int64_t>(call.in[s]->size()) / form.steps;
      moment[s].assign(call.in[s]->begin() + time * n, call.in[s]->begin() + (time + 1) * n);
    }
    std::vector<Elements> made = evaluate_body(body, in, call.rounding);
    for (int r = 0; r < form.results(); ++r) {
      const auto at = static_cast<std::size_t>(r);
      if (turn == 0) {
        const auto moments = form.has_time(r) ? form.steps + (form.is_carry(r) ? 1 : 0) : 1;
        results.push_back({Elements(made[at].size() * static_cast<std::size_t>(moments)), made[at].size()});
        if (form.is_carry(r) && form.has_time(r)) results[at].put(moment[at], form.first_slot());
      }
      if (form.is_sum(r))
        results[at].add(made[at]);
      else
        results[at].put(made[at], !form.has_time(r) ? 0 : form.is_carry(r) ? time + form.after_slot() : time);
    }
    for (std::size_t c = 0; c < carries; ++c) moment[c] = std::move(made[c]);
  }
  std::vector<Elements> elements;
  for (Growing& r : results) elements.push_back(std::move(r.all));
  return elements;
}

}  // namespace wr::ir
