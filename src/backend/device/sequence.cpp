// Recurrent nets, moment by moment, and attention, query by query.
#include <algorithm>
#include <cmath>

#include "backend/device/choose.h"
#include "backend/device/vectors.h"

namespace wr::device {
namespace {

/// The texts that the four recurrent functions share.
struct Cell {
  Writer& w;
  const std::vector<View>& operands;
  DType dtype;
  std::int64_t rows, time, hidden;
  bool reverse;
  int lengths;  // operand, or -1

  std::string at(std::size_t k, const std::vector<std::string>& index) const {
    return cat('p', k, '[', place(operands[k], index), ']');
  }
  std::string gate(std::size_t k, int which) const { return at(k, {"b", "t", cat('(', which * hidden, " + j)")}); }
  std::string state(std::size_t k) const { return at(k, {"b", "j"}); }
  std::string moment(std::size_t k) const { return at(k, {"b", "t", "j"}); }
  std::string one() const { return literal(dtype, 1); }
  std::string zero() const { return literal(dtype, 0); }
  std::string exp(const std::string& x) const { return cat(dtype == DType::f32 ? "wr_exp(" : "exp(", x, ')'); }
  std::string tanh(const std::string& x) const { return cat(dtype == DType::f32 ? "wr_tanh(" : "tanh(", x, ')'); }
  std::string sigmoid(const std::string& x) const {
    return cat(one(), " / (", one(), " + ", exp(cat("-(", x, ")")), ')');
  }
  std::string held() const {
    return lengths < 0 ? "0" : cat("t >= p", lengths, '[', place(operands[lengths], {"b"}), ']');
  }
  template <class... Parts>
  void let(const char* name, const Parts&... parts) const {
    w.line("const ", type_name(dtype), ' ', name, " = ", parts..., ';');
  }

  void each(const Writer::Body& body) const { w.each({{"b", rows}, {"j", hidden}}, body, true); }
  /// Moments in the order of the recurrence, or against it. Writes t, and before: the moment before it.
  void over_time(bool back, const Writer::Body& body) const {
    w.open("for (int step = ", back ? cat(time - 1, "; step >= 0; --step)") : cat("0; step < ", time, "; ++step)"));
    w.line("const int t = ", reverse ? cat(time - 1, " - step") : "step", ", before = ", reverse ? "t + 1" : "t - 1",
           ';');
    body();
    w.close();
  }
  /// to[b, n] (+)= from[b, k] . w[k, n], or w transposed.
  void times(const Form& form, std::size_t to, std::size_t from, std::size_t weights, bool transposed) const {
    const View &c = operands[to], &a = operands[from], &b = operands[weights];
    Product p;
    p.dtype = dtype;
    p.rows = {{rows, a.strides[0], 0, c.strides[0]}};
    p.columns = {{b.shape[transposed ? 0 : 1], 0, b.strides[transposed ? 0 : 1], c.strides[1]}};
    p.inner = {{b.shape[transposed ? 1 : 0], a.strides[1], b.strides[transposed ? 1 : 0], 0}};
    p.c = cat('p', to), p.a = cat('p', from), p.b = cat('p', weights);
    p.c_type = pointer_type(form, c), p.a_type = pointer_type(form, a), p.b_type = pointer_type(form, b);
    p.accumulate = transposed;
    write_product(w, p);
  }
};

}  // namespace

/// Operands: the gates' part of the input, w_h, h, c, perhaps lengths. Results: h, h before, gates, c.
void Chooser::lstm() {
  Operands operands = all();
  const std::int64_t rows = out().shape[0], hidden = in(1).shape[0];
  const std::size_t x = 4, w_h = 5, h0 = 6, c0 = 7, h = operands.size(), from_h = h + 1;
  operands.push_back(emit_.scratch(out().dtype, {rows, hidden}));
  operands.push_back(emit_.scratch(out().dtype, {rows, 4 * hidden}));
  operands.push_back(emit_.scratch(out().dtype, {rows, hidden}));
  const std::size_t c = h + 2;
  const int lengths = node_.attrs.ints[1] ? 8 : -1;
  call(operands, [&](Writer& w) {
    const Cell cell{w, operands, out().dtype, rows, out().shape[1], hidden, node_.attrs.ints[0] != 0, lengths};
    cell.each([&] {
      w.line(cell.state(h), " = ", cell.state(h0), ';');
      w.line(cell.state(c), " = ", cell.state(c0), ';');
    });
    cell.over_time(false, [&] {
      cell.times(form(), from_h, h, w_h, false);
      cell.each([&] {
        const auto gate = [&](int which) {
          return cat(cell.gate(x, which), " + ", cell.at(from_h, {"b", cat('(', which * hidden, " + j)")}));
        };
        w.line("const int held = ", cell.held(), ';');
        cell.let("i", cell.sigmoid(gate(0)));
        cell.let("f", cell.sigmoid(gate(1)));
        cell.let("g", cell.tanh(gate(2)));
        cell.let("o", cell.sigmoid(gate(3)));
        cell.let("old", cell.state(h));
        cell.let("kept", "held ? ", cell.state(c), " : f * ", cell.state(c), " + i * g");
        cell.let("now", "held ? old : o * ", cell.tanh("kept"));
        w.line(cell.state(c), " = kept;");
        w.line(cell.state(h), " = now;");
        w.line(cell.moment(0), " = now;");
        w.line(cell.moment(1), " = old;");
        const char* acts[] = {"i", "f", "g", "o"};
        for (int k = 0; k < 4; ++k) w.line(cell.gate(2, k), " = held ? ", cell.zero(), " : ", acts[k], ';');
        w.line(cell.moment(3), " = kept;");
      });
    });
  });
}

/// Operands: g by h, gates, c, c before the first, w_h, perhaps g by c, perhaps lengths. Results: by gates, h, c.
void Chooser::lstm_grad() {
  Operands operands = all();
  const std::int64_t rows = out().shape[0], hidden = in(4).shape[0];
  const std::size_t g_h = 3, acts = 4, c = 5, c0 = 6, w_h = 7, dh = operands.size(), dc = dh + 1, d = dh + 2;
  const bool by_c = node_.attrs.ints[2] != 0;
  const int lengths = node_.attrs.ints[1] ? static_cast<int>(operands.size()) - 1 : -1;
  for (const std::int64_t width : {hidden, hidden, 4 * hidden})
    operands.push_back(emit_.scratch(out().dtype, {rows, width}));
  call(operands, [&](Writer& w) {
    const Cell cell{w, operands, out().dtype, rows, out().shape[1], hidden, node_.attrs.ints[0] != 0, lengths};
    cell.each([&] { w.line(cell.state(dh), " = ", cell.zero(), "; ", cell.state(dc), " = ", cell.zero(), ';'); });
    cell.over_time(true, [&] {
      cell.each([&] {
        w.line("const int held = ", cell.held(), ';');
        cell.let("up", cell.state(dh), " + ", cell.moment(g_h));
        cell.let("side", cell.state(dc), by_c ? cat(" + ", cell.moment(8)) : "");
        const char* names[] = {"i", "f", "g", "o"};
        for (int k = 0; k < 4; ++k) cell.let(names[k], cell.gate(acts, k));
        cell.let("before_it", "step > 0 ? ", cell.at(c, {"b", "(step > 0 ? before : t)", "j"}), " : ", cell.state(c0));
        cell.let("tc", cell.tanh(cell.moment(c)));
        cell.let("of_c", "side + up * o * (", cell.one(), " - tc * tc)");
        const std::string one = cell.one();
        const std::string by[] = {cat("of_c * g * i * (", one, " - i)"), cat("of_c * before_it * f * (", one, " - f)"),
                                  cat("of_c * i * (", one, " - g * g)"), cat("up * tc * o * (", one, " - o)")};
        for (int k = 0; k < 4; ++k) {
          cell.let(cat("by", k).c_str(), "held ? ", cell.zero(), " : ", by[k]);
          w.line(cell.gate(0, k), " = by", k, "; ", cell.at(d, {"b", cat('(', k * hidden, " + j)")}), " = by", k, ';');
        }
        w.line(cell.state(dc), " = held ? side : of_c * f;");
        w.line(cell.state(dh), " = held ? up : ", cell.zero(), ';');
      });
      cell.times(form(), dh, d, w_h, true);
    });
    cell.each([&] { w.line(cell.state(1), " = ", cell.state(dh), "; ", cell.state(2), " = ", cell.state(dc), ';'); });
  });
}

/// Operands: the gates' part of the input, w_h, h, bias, perhaps lengths. Results: h, h before, r z n and n's part of
/// h.
void Chooser::gru() {
  Operands operands = all();
  const std::int64_t rows = out().shape[0], hidden = in(1).shape[0];
  const std::size_t x = 3, w_h = 4, h0 = 5, bias = 6, h = operands.size(), from_h = h + 1;
  operands.push_back(emit_.scratch(out().dtype, {rows, hidden}));
  operands.push_back(emit_.scratch(out().dtype, {rows, 3 * hidden}));
  const int lengths = node_.attrs.ints[1] ? 7 : -1;
  call(operands, [&](Writer& w) {
    const Cell cell{w, operands, out().dtype, rows, out().shape[1], hidden, node_.attrs.ints[0] != 0, lengths};
    cell.each([&] { w.line(cell.state(h), " = ", cell.state(h0), ';'); });
    cell.over_time(false, [&] {
      cell.times(form(), from_h, h, w_h, false);
      cell.each([&] {
        const auto from = [&](int which) {
          const std::string unit = cat('(', which * hidden, " + j)");
          return cat(cell.at(from_h, {"b", unit}), " + ", cell.at(bias, {unit}));
        };
        w.line("const int held = ", cell.held(), ';');
        cell.let("r", cell.sigmoid(cat(cell.gate(x, 0), " + ", from(0))));
        cell.let("z", cell.sigmoid(cat(cell.gate(x, 1), " + ", from(1))));
        cell.let("part", from(2));
        cell.let("n", cell.tanh(cat(cell.gate(x, 2), " + r * part")));
        cell.let("old", cell.state(h));
        cell.let("now", "held ? old : n + z * (old - n)");
        w.line(cell.state(h), " = now;");
        w.line(cell.moment(0), " = now;");
        w.line(cell.moment(1), " = old;");
        const char* acts[] = {"r", "z", "n", "part"};
        for (int k = 0; k < 4; ++k) w.line(cell.gate(2, k), " = held ? ", cell.zero(), " : ", acts[k], ';');
      });
    });
  });
}

/// Operands: g by h, the gates kept, h before, w_h, perhaps lengths. Results: by the input's part, by h's part, h.
void Chooser::gru_grad() {
  Operands operands = all();
  const std::int64_t rows = out().shape[0], hidden = in(3).shape[0];
  const std::size_t g_h = 3, acts = 4, old = 5, w_h = 6, dh = operands.size(), d = dh + 1;
  const int lengths = node_.attrs.ints[1] ? 7 : -1;
  operands.push_back(emit_.scratch(out().dtype, {rows, hidden}));
  operands.push_back(emit_.scratch(out().dtype, {rows, 3 * hidden}));
  call(operands, [&](Writer& w) {
    const Cell cell{w, operands, out().dtype, rows, out().shape[1], hidden, node_.attrs.ints[0] != 0, lengths};
    cell.each([&] { w.line(cell.state(dh), " = ", cell.zero(), ';'); });
    cell.over_time(true, [&] {
      cell.each([&] {
        const std::string one = cell.one(), zero = cell.zero();
        w.line("const int held = ", cell.held(), ';');
        cell.let("up", cell.state(dh), " + ", cell.moment(g_h));
        const char* names[] = {"r", "z", "n", "part"};
        for (int k = 0; k < 4; ++k) cell.let(names[k], cell.gate(acts, k));
        cell.let("dn", "held ? ", zero, " : up * (", one, " - z) * (", one, " - n * n)");
        cell.let("dz", "held ? ", zero, " : up * (", cell.moment(old), " - n) * z * (", one, " - z)");
        cell.let("dr", "dn * part * r * (", one, " - r)");
        const char *by_x[] = {"dr", "dz", "dn"}, *by_h[] = {"dr", "dz", "dn * r"};
        for (int k = 0; k < 3; ++k)
          w.line(cell.gate(0, k), " = ", by_x[k], "; ", cell.gate(1, k), " = ", by_h[k], "; ",
                 cell.at(d, {"b", cat('(', k * hidden, " + j)")}), " = ", by_h[k], ';');
        w.line(cell.state(dh), " = held ? up : up * z;");
      });
      cell.times(form(), dh, d, w_h, true);
    });
    cell.each([&] { w.line(cell.state(2), " = ", cell.state(dh), ';'); });
  });
}

// ---- attention ----

namespace {

/// Scores of queries i with keys j, at b and head h.
struct Scores {
  Writer& w;
  const std::vector<View>& operands;
  const lower::Work& work;
  DType dtype;
  std::size_t q, k;  // operands
  int mask;          // operand, or -1

  const ir::Node& node() const { return work.node(); }
  std::int64_t width() const { return operands[q].shape[3]; }
  std::string pointer(std::size_t operand, const char* position, const char* column = "0") const {
    return cat('p', operand, " + ", place(operands[operand], {"b", position, "h", column}));
  }
  std::string element(std::size_t operand, const char* position, const char* column = "c") const {
    return cat("(*(", pointer(operand, position, column), "))");
  }
  std::string exp(const std::string& x) const { return cat(dtype == DType::f32 ? "wr_exp(" : "exp(", x, ')'); }

  /// name = the product of two rows of columns.
  void dot(const std::string& name, std::size_t a, const char* at_a, std::size_t b, const char* at_b) const {
    const int lanes = Form::lanes(dtype);
    const std::int64_t d = width(), whole = d / lanes * lanes;
    const auto together = [&](std::size_t operand) { return operands[operand].strides[3] == 1; };
    const bool wide = w.form().vectors() && whole > 0 && together(a) && together(b);
    w.line(type_name(dtype), ' ', name, " = ", literal(dtype, 0), ';');
    if (wide) {
      const std::string vector = vector_type(dtype, lanes);
      w.open("");
      w.line(vector, " parts = ", vector_of(dtype, lanes, literal(dtype, 0)), ';');
      w.line("for (int c = 0; c < ", whole, "; c += ", lanes, ") parts = fma(",
             vector_load(lanes, pointer(a, at_a, "c")), ", ", vector_load(lanes, pointer(b, at_b, "c")), ", parts);");
      w.line(type_name(dtype), " lanes[", lanes, "];");
      w.line(vector_store(lanes, "parts", "lanes"), ';');
      w.line("for (int l = 0; l < ", lanes, "; ++l) ", name, " += lanes[l];");
      w.close();
    }
    if (!wide || whole < d)
      w.line("for (int c = ", wide ? whole : 0, "; c < ", d, "; ++c) ", name, " = fma(", element(a, at_a), ", ",
             element(b, at_b), ", ", name, ");");
  }
  /// A statement for every column c.
  template <class... Parts>
  void columns(const Parts&... parts) const {
    w.line("WR_VECTORISE");
    w.line("for (int c = 0; c < ", width(), "; ++c) ", parts...);
  }
  /// Goes on with the next where query i does not see key j.
  void expect_seen() const {
    if (node().attrs.ints[0])
      w.line("if (j > i + ", node().attrs.ints[1], work.cut == plan::Cut::along(1) ? " + (int)row0" : "",
             ") continue;");
    if (mask >= 0) w.line("if (!p", mask, '[', place(operands[mask], {"b", "h", "i", "j"}), "]) continue;");
  }
};

}  // namespace

/// Sums of exponentials go along with the largest score so far.
void Chooser::attention() {
  const Operands operands = all();
  const DType dtype = out().dtype;
  call(operands, [&](Writer& w) {
    const Scores s{w, operands, work_, dtype, 2, 3, work_.in.size() > 3 ? 5 : -1};
    const auto type = type_name(dtype);
    const View& q = operands[2];
    w.each({{"b", q.shape[0]}, {"h", q.shape[2]}, {"i", q.shape[1]}}, [&] {
      w.line(type, " top = ", literal(dtype, -HUGE_VAL), ", total = ", literal(dtype, 0), ';');
      s.columns(s.element(0, "i"), " = ", literal(dtype, 0), ';');
      w.open("for (int j = 0; j < ", operands[3].shape[1], "; ++j)");
      s.expect_seen();
      s.dot("score", 2, "i", 3, "j");
      w.line("score *= ", literal(dtype, node_.attrs.reals[0]), ';');
      w.open("if (score > top)");
      w.line("const ", type, " less = ", s.exp("top - score"), ';');
      w.line("total *= less;");
      s.columns(s.element(0, "i"), " *= less;");
      w.line("top = score;");
      w.close();
      w.line("const ", type, " share = ", s.exp("score - top"), ';');
      w.line("total += share;");
      s.columns(s.element(0, "i"), " += share * ", s.element(4, "j"), ';');
      w.close();
      w.line("const ", type, " scale = total > ", literal(dtype, 0), " ? ", literal(dtype, 1),
             " / total : ", literal(dtype, 0), ';');
      s.columns(s.element(0, "i"), " *= scale;");
      w.line(s.element(1, "i", "0"), " = total > ", literal(dtype, 0),
             " ? top + log(total) : ", literal(dtype, HUGE_VAL), ';');
    });
  });
}

/// Operands: q, k, v, the result, lse, g, perhaps a mask. Results: by q, k, v. Scores are made again.
void Chooser::attention_grad() {
  Operands operands = all();
  const DType dtype = out().dtype;
  const std::size_t q = 3, k = 4, v = 5, y = 6, lse = 7, g = 8, along = operands.size();
  const int mask = work_.in.size() > 6 ? 9 : -1;
  const Shape& of_q = in(0).shape;
  operands.push_back(emit_.scratch(dtype, {of_q[0], of_q[1], of_q[2], 1}));
  call(operands, [&](Writer& w) {
    const Scores s{w, operands, work_, dtype, q, k, mask};
    const auto type = type_name(dtype);
    const std::int64_t keys = operands[k].shape[1];
    const std::string scale = literal(dtype, node_.attrs.reals[0]), zero = literal(dtype, 0);
    const auto share = [&] {
      s.expect_seen();
      s.dot("score", q, "i", k, "j");
      w.line("const ", type, " share = ", s.exp(cat("score * ", scale, " - ", s.element(lse, "i", "0"))), ';');
      s.dot("by", g, "i", v, "j");
      w.line("const ", type, " change = share * (by - ", s.element(along, "i", "0"), ") * ", scale, ';');
    };
    w.each({{"b", of_q[0]}, {"h", of_q[2]}, {"i", of_q[1]}}, [&] {
      s.dot("sum", y, "i", g, "i");
      w.line(s.element(along, "i", "0"), " = sum;");
    });
    w.each({{"b", of_q[0]}, {"h", of_q[2]}, {"i", of_q[1]}}, [&] {
      s.columns(s.element(0, "i"), " = ", zero, ';');
      w.open("for (int j = 0; j < ", keys, "; ++j)");
      share();
      s.columns(s.element(0, "i"), " += change * ", s.element(k, "j"), ';');
      w.close();
    });
    w.each({{"b", of_q[0]}, {"h", of_q[2]}, {"j", keys}}, [&] {
      for (const std::size_t result : {std::size_t{1}, std::size_t{2}})
        if (!work_.out[result].accumulate) s.columns(s.element(result, "j"), " = ", zero, ';');
      w.open("for (int i = 0; i < ", of_q[1], "; ++i)");
      share();
      s.columns(s.element(1, "j"), " += change * ", s.element(q, "i"), ';');
      s.columns(s.element(2, "j"), " += share * ", s.element(g, "i"), ';');
      w.close();
    });
  });
}

}  // namespace wr::device
