// Contractions in semirings, their shares and gradients, as tiles in registers: some rows of one vector of columns
// where a group has one item, a small tile of scalars an item otherwise.
#include <algorithm>
#include <cmath>

#include "backend/device/choose.h"
#include "backend/device/vectors.h"
#include "ir/attributes.h"

namespace wr::device {

using ir::Op;

namespace {

bool has_columns_together(const View& v) { return v.strides[2] == 1 || v.shape[2] == 1; }

View turned(View v) {
  std::swap(v.shape[1], v.shape[2]);
  std::swap(v.strides[1], v.strides[2]);
  return v;
}

/// What of operand v (by number) stands at a row and a column.
std::string element(std::size_t operand, const View& v, const std::string& row, const std::string& column) {
  return cat('p', operand, " + ", place(v, {"batch", row, column}));
}

/// The text of one job: every element of the result has one or two states, which each step along the depth changes.
class Contraction {
 public:
  /// Operands: the result; the row's, of which there are two in gradients; the panel; perhaps what is the element's
  /// own.
  Contraction(Op op, Semiring semiring, DType dtype, bool accumulate)
      : op_(op), semiring_(semiring), dtype_(dtype), accumulate_(accumulate) {}

  bool counts_factors() const { return op_ == Op::contract_share && semiring_ == Semiring::noisy_or; }
  bool has_second() const { return op_ == Op::contract_grad && semiring_ != Semiring::lukasiewicz; }
  bool has_own() const { return op_ != Op::contract; }
  bool accumulates() const { return accumulate_; }

  std::string start() const {
    if (op_ != Op::contract || semiring_ == Semiring::lukasiewicz) return literal(dtype_, 0);
    if (semiring_ == Semiring::noisy_or) return literal(dtype_, 1);
    return literal(dtype_, semiring_ == Semiring::min_plus ? HUGE_VAL : -HUGE_VAL);
  }

  /// What becomes of state s (and, of factors, state o) with x and y of the row, b of the panel and the element's own.
  std::vector<std::string> step(int width, const std::string& s, const std::string& o, const std::string& x,
                                const std::string& y, const std::string& b, const std::string& own) const {
    const auto number = [&](double value) { return vector_of(dtype_, width, literal(dtype_, value)); };
    const std::string all = met(width, op_ == Op::contract_grad ? own : x, b), zero = number(0), one = number(1);
    const auto only_where = [&](const std::string& condition, const std::string& value) {
      return cat(s, " = ", s, " + ((", condition, ") ? ", value, " : ", zero, ");");
    };
    if (op_ == Op::contract) return {cat(s, " = ", merged(s, all), ';')};
    if (counts_factors())
      return {cat(o, " = ", o, " * ((", all, " == ", zero, ") ? ", one, " : ", all, ");"),
              only_where(cat(all, " == ", zero), one)};
    if (op_ == Op::contract_share) return {only_where(cat(all, " == ", own), one)};
    switch (semiring_) {
      case Semiring::lukasiewicz:
        return {only_where(cat(all, " > ", zero), x)};
      case Semiring::noisy_or:
        return {cat(s, " = fma(", b, ", ((", all, " == ", zero, ") ? ", y, " : ", x, " / ", all, "), ", s, ");")};
      case Semiring::max_product:
        return {only_where(cat(all, " == ", x), cat(y, " * ", b))};
      case Semiring::max_min:  // the winner is the smaller of the two; if they are equal, each has half
        return {only_where(cat('(', all, " == ", x, ") & (", b, " >= ", own, ')'),
                           cat('(', b, " == ", own, " ? ", y, " * ", number(0.5), " : ", y, ')'))};
      default:
        return {only_where(cat(all, " == ", x), y)};
    }
  }

  std::string finished(int width, const std::string& s, const std::string& o) const {
    if (op_ != Op::contract_share) return s;
    const std::string one = vector_of(dtype_, width, literal(dtype_, 1));
    if (counts_factors())
      return cat("((", s, " == ", one, ") ? ", o, " : ", vector_of(dtype_, width, literal(dtype_, 0)), ')');
    return cat(one, " / ", s);
  }

 private:
  std::string met(int width, const std::string& a, const std::string& b) const {
    const std::string one = vector_of(dtype_, width, literal(dtype_, 1));
    switch (semiring_) {
      case Semiring::max_plus:
      case Semiring::min_plus:
        return cat('(', a, " + ", b, ')');
      case Semiring::max_min:
        return cat("wr_min(", a, ", ", b, ')');
      case Semiring::lukasiewicz:
        return cat("wr_max((", a, " + (", b, " - ", one, ")), ", vector_of(dtype_, width, literal(dtype_, 0)), ')');
      case Semiring::noisy_or:
        return cat("fma(-", a, ", ", b, ", ", one, ')');
      default:
        return cat('(', a, " * ", b, ')');
    }
  }

  std::string merged(const std::string& s, const std::string& all) const {
    if (semiring_ == Semiring::lukasiewicz) return cat(s, " + ", all);
    if (semiring_ == Semiring::noisy_or) return cat(s, " * ", all);
    return cat(semiring_ == Semiring::min_plus ? "wr_min(" : "wr_max(", s, ", ", all, ')');
  }

  Op op_;
  Semiring semiring_;
  DType dtype_;
  bool accumulate_;
};

/// Where the elements of a tile stand.
struct TileOf {
  const std::vector<View>& operands;  // result, first, second, panel, own
  std::vector<std::string> rows, columns;
  int width = 1;
};

void write_tile(Writer& w, const Contraction& job, const TileOf& t) {
  enum : std::size_t { kResult, kFirst, kSecond, kPanel, kOwn };
  const DType dtype = t.operands[kResult].dtype;
  const std::string type = vector_type(dtype, t.width);
  const auto loaded = [&](std::size_t operand, const std::string& row, const std::string& column) {
    return vector_load(t.width, element(operand, t.operands[operand], row, column));
  };
  const auto spread = [&](std::size_t operand, const std::string& row) {
    return vector_of(dtype, t.width, vector_load(1, element(operand, t.operands[operand], row, "d")));
  };
  const auto each = [&](const auto& body) {
    for (std::size_t r = 0; r < t.rows.size(); ++r)
      for (std::size_t c = 0; c < t.columns.size(); ++c) body(r, c, cat('s', r, '_', c), cat('o', r, '_', c));
  };
  each([&](std::size_t r, std::size_t c, const std::string& s, const std::string& o) {
    w.line(type, ' ', s, " = ", vector_of(dtype, t.width, job.start()), ';');
    if (job.counts_factors()) w.line(type, ' ', o, " = ", vector_of(dtype, t.width, literal(dtype, 1)), ';');
    if (job.has_own()) w.line("const ", type, " own", r, '_', c, " = ", loaded(kOwn, t.rows[r], t.columns[c]), ';');
  });
  if (!w.form().vectors()) w.line("WR_FOURFOLD");
  w.open("for (int d = 0; d < ", t.operands[kPanel].shape[1], "; ++d)");
  for (std::size_t c = 0; c < t.columns.size(); ++c)
    w.line("const ", type, " b", c, " = ", loaded(kPanel, "d", t.columns[c]), ';');
  for (std::size_t r = 0; r < t.rows.size(); ++r) {
    w.line("const ", type, " x", r, " = ", spread(kFirst, t.rows[r]), ';');
    if (job.has_second()) w.line("const ", type, " y", r, " = ", spread(kSecond, t.rows[r]), ';');
  }
  each([&](std::size_t r, std::size_t c, const std::string& s, const std::string& o) {
    for (const std::string& line :
         job.step(t.width, s, o, cat('x', r), cat('y', r), cat('b', c), cat("own", r, '_', c)))
      w.line(line);
  });
  w.close();
  each([&](std::size_t r, std::size_t c, const std::string& s, const std::string& o) {
    const std::string to = element(kResult, t.operands[kResult], t.rows[r], t.columns[c]);
    const std::string made = job.finished(t.width, s, o);
    w.line(vector_store(t.width, job.accumulates() ? cat(vector_load(t.width, to), " + ", made) : made, to), ';');
  });
}

void write_vectors(Writer& w, const Contraction& job, const std::vector<View>& operands) {
  constexpr std::int64_t kRows = 4;
  const Shape& s = operands[0].shape;
  const std::int64_t whole = s[1] / kRows * kRows;
  for (const Run& run : runs(s[2], Form::lanes(operands[0].dtype))) {
    const auto rows = [&](std::int64_t count) {
      TileOf tile{operands, {}, {"column"}, run.width};
      for (std::int64_t r = 0; r < count; ++r) tile.rows.push_back(cat("(row + ", r, ')'));
      w.line("const int column = ", run.begin, " + t * ", run.width, ';');
      write_tile(w, job, tile);
    };
    if (whole > 0)
      w.each({{"batch", s[0]}, {"block", whole / kRows}, {"t", run.count}}, [&] {
        w.line("const int row = block * ", kRows, ';');
        rows(kRows);
      });
    if (whole < s[1])
      w.each({{"batch", s[0]}, {"t", run.count}}, [&] {
        w.line("const int row = ", whole, ';');
        rows(s[1] - whole);
      });
  }
}

void write_items(Writer& w, const Contraction& job, const std::vector<View>& operands) {
  const Shape& s = operands[0].shape;
  // Two rows and two columns an item, where that leaves every item something to do.
  const bool small = s[0] * ((s[1] + 1) / 2) * ((s[2] + 1) / 2) < w.form().items;
  const std::int64_t tall = small || s[1] == 1 ? 1 : 2, wide = small || s[2] == 1 ? 1 : 2;
  // Neighbouring items have neighbouring columns: their loads lie together. What is left over is a stage of its own.
  const auto part = [&](std::int64_t row0, std::int64_t rows, std::int64_t column0, std::int64_t columns,
                        std::int64_t down, std::int64_t across) {
    if (rows <= 0 || columns <= 0) return;
    w.each({{"batch", s[0]}, {"i", rows}, {"j", columns}}, [&] {
      TileOf tile{operands, {}, {}, 1};
      for (std::int64_t r = 0; r < down; ++r) tile.rows.push_back(cat("(i + ", row0 + r * rows, ')'));
      for (std::int64_t c = 0; c < across; ++c) tile.columns.push_back(cat("(j + ", column0 + c * columns, ')'));
      write_tile(w, job, tile);
    });
  };
  const std::int64_t rows = s[1] / tall, columns = s[2] / wide;
  part(0, rows, 0, columns, tall, wide);
  part(tall * rows, s[1] - tall * rows, 0, columns, 1, wide);
  part(0, s[1], wide * columns, s[2] - wide * columns, 1, 1);
}

}  // namespace

/// As on the CPU: the gradient by a is [m,k] of x and y [m,n] with b turned, [n,k]; the others are [m,n] of a [m,k]
/// with b [k,n].
void Chooser::contract() {
  const bool gradient = node_.op == Op::contract_grad;
  const Contraction job(node_.op, ir::semiring_of(node_.attrs), out().dtype, work_.out[0].accumulate);
  const auto together = [&](const View& v) { return form().vectors() && !has_columns_together(v) ? dense(v) : v; };
  const bool direct = !form().vectors() || has_columns_together(out());
  if (!direct && job.accumulates()) throw Error("internal: a sum of contractions whose columns are apart");
  const View result = direct ? out() : emit_.scratch(out().dtype, out().shape);
  const View first = in(gradient ? 2 : 0), panel = together(gradient ? turned(in(1)) : in(1));
  const View own = gradient ? together(in(0)) : job.has_own() ? together(in(2)) : first;
  const View& second = gradient ? in(3) : first;
  const Operands operands{result, first, second, panel, own};
  call(operands,
       [&](Writer& w) { form().vectors() ? write_vectors(w, job, operands) : write_items(w, job, operands); });
  if (!direct) copy(out(), result);
}

}  // namespace wr::device
