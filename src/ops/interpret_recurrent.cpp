// The interpreter's recurrent nets.
#include <cmath>

#include "ops/interpret.h"

namespace wr::ir {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Walks through one row after the other, moment by moment, and holds the places of its elements.
struct Walk {
  const Call& call;
  std::int64_t batch, time, hidden, gates;
  bool reverse;
  const Elements* lengths;

  Walk(const Call& c, const Shape& sequence, const Shape& w_h)
      : call(c),
        batch(sequence[0]),
        time(sequence[1]),
        hidden(w_h[0]),
        gates(w_h[1] / w_h[0]),
        reverse(c.ints()[0] != 0),
        lengths(c.ints()[1] ? c.in.back() : nullptr) {}

  bool held(std::int64_t b, std::int64_t t) const { return lengths && static_cast<double>(t) >= (*lengths)[b]; }
  std::int64_t moment(std::int64_t step) const { return reverse ? time - 1 - step : step; }
  /// Of gate `which` of so many, in a sequence.
  std::size_t at(std::int64_t b, std::int64_t t, std::int64_t j, std::int64_t which = 0, std::int64_t of = 1) const {
    return static_cast<std::size_t>(((b * time + t) * of + which) * hidden + j);
  }
  std::size_t in_state(std::int64_t b, std::int64_t j) const { return static_cast<std::size_t>(b * hidden + j); }

  /// h . w_h, gate by gate.
  Elements times_weights(const Elements& h, const Elements& w_h) const {
    Elements out(static_cast<std::size_t>(gates * hidden));
    for (std::int64_t k = 0; k < hidden; ++k)
      for (std::size_t n = 0; n < out.size(); ++n) out[n] += h[k] * w_h[static_cast<std::size_t>(k) * out.size() + n];
    return out;
  }
  /// h += d . w_h'
  void add_back(Elements& h, const Elements& d, const Elements& w_h) const {
    for (std::size_t k = 0; k < h.size(); ++k)
      for (std::size_t n = 0; n < d.size(); ++n) h[k] += d[n] * w_h[k * d.size() + n];
  }
  Elements row(const Elements& state, std::int64_t b) const {
    const auto begin = state.begin() + b * hidden;
    return {begin, begin + hidden};
  }
};

Elements lstm(const Call& call) {
  const Walk w(call, call.shape(0), call.shape(1));
  Elements out = zeros(call.out().shape);
  for (std::int64_t b = 0; b < w.batch; ++b) {
    Elements h = w.row(*call.in[2], b), c = w.row(*call.in[3], b);
    for (std::int64_t step = 0; step < w.time; ++step) {
      const auto t = w.moment(step);
      const Elements from_h = w.times_weights(h, *call.in[1]), before = h;
      for (std::int64_t j = 0; j < w.hidden; ++j) {
        const auto unit = static_cast<std::size_t>(j);
        const auto gate = [&](std::int64_t which) {
          return (*call.in[0])[w.at(b, t, j, which, 4)] + from_h[which * w.hidden + j];
        };
        const double i = sigmoid(gate(0)), f = sigmoid(gate(1)), g = std::tanh(gate(2)), o = sigmoid(gate(3));
        if (!w.held(b, t)) {
          c[unit] = f * c[unit] + i * g;
          h[unit] = o * std::tanh(c[unit]);
        }
        const double acts[] = {i, f, g, o};
        for (int k = 0; call.result == 2 && k < 4; ++k) out[w.at(b, t, j, k, 4)] = w.held(b, t) ? 0 : acts[k];
        if (call.result != 2)
          out[w.at(b, t, j)] = call.result == 0 ? h[unit] : call.result == 1 ? before[unit] : c[unit];
      }
    }
  }
  return out;
}

Elements lstm_grad(const Call& call) {
  const Walk w(call, call.shape(0), call.shape(4));
  const Elements &acts = *call.in[1], &c = *call.in[2];
  const Elements* by_c = call.ints()[2] ? call.in[5] : nullptr;
  Elements out = zeros(call.out().shape);
  for (std::int64_t b = 0; b < w.batch; ++b) {
    Elements dh(static_cast<std::size_t>(w.hidden)), dc(dh.size());
    for (std::int64_t step = w.time - 1; step >= 0; --step) {
      const auto t = w.moment(step);
      Elements d(4 * dh.size());
      for (std::int64_t j = 0; j < w.hidden; ++j) {
        const auto unit = static_cast<std::size_t>(j);
        dh[unit] += (*call.in[0])[w.at(b, t, j)];
        if (by_c) dc[unit] += (*by_c)[w.at(b, t, j)];
        if (w.held(b, t)) continue;
        const double i = acts[w.at(b, t, j, 0, 4)], f = acts[w.at(b, t, j, 1, 4)];
        const double g = acts[w.at(b, t, j, 2, 4)], o = acts[w.at(b, t, j, 3, 4)];
        const double before = step > 0 ? c[w.at(b, w.moment(step - 1), j)] : (*call.in[3])[w.in_state(b, j)];
        const double tc = std::tanh(c[w.at(b, t, j)]);
        dc[unit] += dh[unit] * o * (1 - tc * tc);
        const double by_gate[] = {dc[unit] * g * i * (1 - i), dc[unit] * before * f * (1 - f),
                                  dc[unit] * i * (1 - g * g), dh[unit] * tc * o * (1 - o)};
        dc[unit] *= f;
        dh[unit] = 0;
        for (int k = 0; k < 4; ++k) {
          d[k * w.hidden + j] = by_gate[k];
          if (call.result == 0) out[w.at(b, t, j, k, 4)] = by_gate[k];
        }
      }
      w.add_back(dh, d, *call.in[4]);
    }
    for (std::int64_t j = 0; call.result > 0 && j < w.hidden; ++j)
      out[w.in_state(b, j)] = (call.result == 1 ? dh : dc)[j];
  }
  return out;
}

Elements gru(const Call& call) {
  const Walk w(call, call.shape(0), call.shape(1));
  Elements out = zeros(call.out().shape);
  for (std::int64_t b = 0; b < w.batch; ++b) {
    Elements h = w.row(*call.in[2], b);
    for (std::int64_t step = 0; step < w.time; ++step) {
      const auto t = w.moment(step);
      const Elements from_h = w.times_weights(h, *call.in[1]), before = h;
      for (std::int64_t j = 0; j < w.hidden; ++j) {
        const auto unit = static_cast<std::size_t>(j);
        const auto x = [&](std::int64_t which) { return (*call.in[0])[w.at(b, t, j, which, 3)]; };
        const auto from = [&](std::int64_t which) {
          const auto at = static_cast<std::size_t>(which * w.hidden + j);
          return from_h[at] + (*call.in[3])[at];
        };
        const double r = sigmoid(x(0) + from(0)), z = sigmoid(x(1) + from(1)), n = std::tanh(x(2) + r * from(2));
        if (!w.held(b, t)) h[unit] = n + z * (h[unit] - n);
        const double acts[] = {r, z, n, from(2)};
        for (int k = 0; call.result == 2 && k < 4; ++k) out[w.at(b, t, j, k, 4)] = w.held(b, t) ? 0 : acts[k];
        if (call.result != 2) out[w.at(b, t, j)] = call.result == 0 ? h[unit] : before[unit];
      }
    }
  }
  return out;
}

Elements gru_grad(const Call& call) {
  const Walk w(call, call.shape(0), call.shape(3));
  const Elements &acts = *call.in[1], &before = *call.in[2];
  Elements out = zeros(call.out().shape);
  for (std::int64_t b = 0; b < w.batch; ++b) {
    Elements dh(static_cast<std::size_t>(w.hidden));
    for (std::int64_t step = w.time - 1; step >= 0; --step) {
      const auto t = w.moment(step);
      Elements d(3 * dh.size());
      for (std::int64_t j = 0; j < w.hidden; ++j) {
        const auto unit = static_cast<std::size_t>(j);
        dh[unit] += (*call.in[0])[w.at(b, t, j)];
        if (w.held(b, t)) continue;
        const double r = acts[w.at(b, t, j, 0, 4)], z = acts[w.at(b, t, j, 1, 4)];
        const double n = acts[w.at(b, t, j, 2, 4)], from_h = acts[w.at(b, t, j, 3, 4)];
        const double dn = dh[unit] * (1 - z) * (1 - n * n);
        const double dz = dh[unit] * (before[w.at(b, t, j)] - n) * z * (1 - z), dr = dn * from_h * r * (1 - r);
        const double by_x[] = {dr, dz, dn}, by_h[] = {dr, dz, dn * r};
        dh[unit] *= z;
        for (int k = 0; k < 3; ++k) {
          d[k * w.hidden + j] = by_h[k];
          if (call.result < 2) out[w.at(b, t, j, k, 3)] = call.result == 0 ? by_x[k] : by_h[k];
        }
      }
      w.add_back(dh, d, *call.in[3]);
    }
    for (std::int64_t j = 0; call.result == 2 && j < w.hidden; ++j) out[w.in_state(b, j)] = dh[j];
  }
  return out;
}

}  // namespace

Elements evaluate_recurrent(const Call& call) {
  switch (call.node.op) {
    case Op::lstm:
      return lstm(call);
    case Op::lstm_grad:
      return lstm_grad(call);
    case Op::gru:
      return gru(call);
    default:
      return gru_grad(call);
  }
}

}  // namespace wr::ir
