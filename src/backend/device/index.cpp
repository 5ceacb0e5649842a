// Ops that read or write where an index says. An index out of range never touches memory: reading there gives NaN (0 of
// integers), writing there is left out. Where turns could write to one place, one turn has all that goes there, in
// order.
#include <cmath>

#include "backend/device/choose.h"

namespace wr::device {

using ir::Op;

namespace {

/// x[outer, size, inner] round an axis.
struct Round {
  std::int64_t outer = 1, size = 1, inner = 1;
};

Round round_axis(const Shape& shape, int axis) {
  Round r;
  for (int i = 0; i < axis; ++i) r.outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) r.inner *= shape[i];
  r.size = shape[axis];
  return r;
}

std::string missing(DType dtype) { return literal(dtype, is_floating(dtype) ? NAN : 0); }

/// A sequence of additions, in order, to every inner element: turns of their own where there are many items, else the
/// innermost loop, of vectors.
void in_order(Writer& w, const std::vector<Axis>& outer, const Axis& inner, std::int64_t count,
              const std::string& target, const std::string& condition, const std::string& addition) {
  std::vector<Axis> axes = outer;
  const bool vectors = w.form().vectors();
  if (!vectors) axes.push_back(inner);
  w.each(axes, [&] {
    w.open("for (int j = 0; j < ", count, "; ++j)");
    w.line("const int target = ", target, ';');
    w.open("if (", condition, ")");
    if (vectors) {
      w.line("WR_VECTORISE");
      w.line("for (int ", inner.name, " = 0; ", inner.name, " < ", inner.size, "; ++", inner.name, ") ", addition);
    } else {
      w.line(addition);
    }
    w.close();
    w.close();
  });
}

std::string in_range(const std::string& index, std::int64_t size) {
  return cat(index, " >= 0 && ", index, " < ", size);
}

}  // namespace

void Chooser::index() {
  const auto& [to, accumulate] = work_.out[0];
  const View made = to.dense() ? to : emit_.scratch(to.dtype, to.shape);
  const DType type = to.dtype;
  const std::string none = missing(type), zero = literal(type, 0);
  const int axis = node_.attrs.ints.empty() ? 0 : static_cast<int>(node_.attrs.ints[0]);
  const auto clear = [&](Writer& w, std::int64_t count) {
    w.each(
        {{"i", count}}, [&] { w.line("p0[i] = ", zero, ';'); }, true);
  };
  switch (node_.op) {
    case Op::gather: {
      const Round r = round_axis(in(0).shape, axis);
      const std::int64_t count = in(1).count();
      call({made, dense(in(0)), dense(in(1))}, [&](Writer& w) {
        w.each({{"o", r.outer}, {"j", count}, {"i", r.inner}}, [&] {
          w.line("const int row = p2[j];");
          w.line("p0[(o * ", count, " + j) * ", r.inner, " + i] = ", in_range("row", r.size), " ? p1[(o * ", r.size,
                 " + row) * ", r.inner, " + i] : ", none, ';');
        });
      });
      break;
    }
    case Op::scatter_add: {
      const Round r = round_axis(made.shape, axis);
      const std::int64_t count = in(1).count();
      copy(made, in(0));
      call({made, dense(in(2)), dense(in(1))}, [&](Writer& w) {
        in_order(w, {{"o", r.outer}}, {"i", r.inner}, count, "p2[j]", in_range("target", r.size),
                 cat("p0[(o * ", r.size, " + target) * ", r.inner, " + i] += p1[(o * ", count, " + j) * ", r.inner,
                     " + i];"));
      });
      break;
    }
    case Op::take_along: {
      const Round r = round_axis(in(0).shape, axis);
      const std::int64_t count = in(1).shape[axis];
      call({made, dense(in(0)), dense(in(1))}, [&](Writer& w) {
        w.each({{"o", r.outer}, {"j", count}, {"i", r.inner}}, [&] {
          const std::string at = cat("(o * ", count, " + j) * ", r.inner, " + i");
          w.line("const int row = p2[", at, "];");
          w.line("p0[", at, "] = ", in_range("row", r.size), " ? p1[(o * ", r.size, " + row) * ", r.inner,
                 " + i] : ", none, ';');
        });
      });
      break;
    }
    case Op::put_along: {
      const Round r = round_axis(made.shape, axis);
      const std::int64_t count = in(0).shape[axis];
      call({made, dense(in(1)), dense(in(0))}, [&](Writer& w) {
        clear(w, made.count());
        w.each({{"o", r.outer}, {"i", r.inner}}, [&] {
          w.open("for (int j = 0; j < ", count, "; ++j)");
          const std::string at = cat("(o * ", count, " + j) * ", r.inner, " + i");
          w.line("const int row = p2[", at, "];");
          w.line("if (", in_range("row", r.size), ") p0[(o * ", r.size, " + row) * ", r.inner, " + i] += p1[", at,
                 "];");
          w.close();
        });
      });
      break;
    }
    case Op::one_hot:
      call({made, dense(in(0))}, [&](Writer& w) {
        w.each(
            {{"r", in(0).count()}, {"c", node_.attrs.ints[0]}},
            [&] {
              w.line("p0[r * ", node_.attrs.ints[0], " + c] = p1[r] == c ? ", literal(type, 1), " : ", zero, ';');
            },
            true);
      });
      break;
    case Op::embedding_sum: {
      const std::int64_t terms = in(1).shape.back(), width = in(0).shape[1], entries = in(0).shape[0];
      call({made, dense(in(0)), dense(in(1))}, [&](Writer& w) {
        w.each({{"r", made.count() / std::max<std::int64_t>(width, 1)}, {"c", width}}, [&] {
          w.line(type_name(type), " sum = ", zero, ';');
          w.open("for (int j = 0; j < ", terms, "; ++j)");
          w.line("const int row = p2[r * ", terms, " + j];");
          w.line("sum += ", in_range("row", entries), " ? p1[row * ", width, " + c] : ", none, ';');
          w.close();
          w.line("p0[r * ", width, " + c] = sum;");
        });
      });
      break;
    }
    case Op::embedding_grad: {
      const std::int64_t rows = in(0).shape[0], terms = in(0).shape[1], width = made.shape[1];
      const bool part = work_.cut == plan::Cut::along(0);
      call({made, dense(in(1)), dense(in(0))}, [&](Writer& w) {
        if (!accumulate) clear(w, made.count());
        in_order(w, {}, {"c", width}, rows * terms, cat("p2[j]", part ? " - (int)row0" : ""),
                 in_range("target", made.shape[0]),
                 cat("p0[target * ", width, " + c] += p1[j / ", terms, " * ", width, " + c];"));
      });
      break;
    }
    default: {  // index_order: where an index goes is how many go before it
      const std::int64_t count = in(0).count();
      call({made, dense(in(0))}, [&](Writer& w) {
        w.each({{"i", count}}, [&] {
          w.line("const int own = p1[i];");
          w.line("int before = 0;");
          w.line("for (int j = 0; j < i; ++j) before += p1[j] <= own;");
          w.line("for (int j = i + 1; j < ", count, "; ++j) before += p1[j] < own;");
          w.line("p0[before] = own;");
          w.line("p0[", count, " + before] = i;");
        });
      });
    }
  }
  if (!to.dense()) copy(to, made);
}

/// Entries row0, ... of a table, whose gradient is rows and, in order, where they go.
void Chooser::update_rows() {
  const auto update = ops::update_of(node_.op);
  const auto kept = static_cast<std::size_t>(ops::row_of(update).values) - 1, results = work_.out.size();
  const std::int64_t rows = out().shape[0], width = out().shape[1], terms = node_.attrs.ints[0];
  const bool touched_only = node_.attrs.ints[1] != 0;
  const std::int64_t count = in(kept).shape[1];
  Operands operands = all();
  operands[results + kept] = dense(in(kept));
  operands[results + kept + 1] = dense(in(kept + 1));
  const auto type = type_name(out().dtype);
  const auto at = [&](std::size_t k) { return cat('p', k, '[', place(operands[k], {"r", "c"}), ']'); };
  std::vector<std::string> x;
  for (std::size_t k = 0; k < kept; ++k) x.push_back(cat('x', k));
  x.push_back("g");
  for (std::size_t k = kept + 2; k < work_.in.size(); ++k) x.push_back(cat('p', results + k, "[0]"));
  const std::vector<std::string> y = formulas(update, out().dtype, x);
  const std::string order = cat('p', results + kept), gradient = cat('p', results + kept + 1);
  call(operands, [&](Writer& w) {
    w.each({{"r", rows}}, [&] {
      w.line("const int entry = (int)row0 + r;");
      w.line("int first = 0, end = ", count, ';');
      w.open("while (first < end)");
      w.line("const int middle = (first + end) / 2;");
      w.line("if (", order, "[middle] < entry) first = middle + 1; else end = middle;");
      w.close();
      w.line("while (end < ", count, " && ", order, "[end] == entry) ++end;");
      w.open("for (int c = 0; c < ", width, "; ++c)");
      w.line(type, " g = ", literal(out().dtype, 0), ';');
      w.line("for (int i = first; i < end; ++i) g += ", gradient, '[', order, '[', count, " + i] / ", terms, " * ",
             width, " + c];");
      for (std::size_t k = 0; k < kept; ++k) w.line("const ", type, " x", k, " = ", at(results + k), ';');
      for (std::size_t k = 0; k < results; ++k)
        w.line("const ", type, " y", k, " = ", touched_only ? cat("first == end ? x", k, " : ", y[k]) : y[k], ';');
      for (std::size_t k = 0; k < results; ++k) w.line(at(k), " = y", k, ';');
      w.close();
    });
  });
}

}  // namespace wr::device
