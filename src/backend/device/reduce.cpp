// Reductions over axes, and ops on rows.
#include <algorithm>

#include "backend/device/choose.h"
#include "backend/device/vectors.h"
#include "ir/attributes.h"
#include "ops/rows.h"

namespace wr::device {

using ir::Op;
using ops::RowOp;
using ops::RowPart;

namespace {

std::string identity(Op op, DType dtype) {
  const bool real = is_floating(dtype);
  switch (op) {
    case Op::reduce_prod:
      return literal(dtype, 1);
    case Op::reduce_max:
      return literal(dtype, real ? -HUGE_VAL : -2147483648.0);
    case Op::reduce_min:
      return literal(dtype, real ? HUGE_VAL : 2147483647.0);
    default:
      return literal(dtype, 0);
  }
}

/// The axes of a reduction, those of size 1 left out.
struct Axes {
  struct One {
    std::int64_t size, in, out;
  };
  std::vector<One> kept, reduced;
  std::int64_t kept_count = 1, reduced_count = 1;
};

Axes axes_of(const View& in, const View& out, const ir::Node& node) {
  Axes a;
  const bool flat = in.shape.rank() != out.shape.rank();
  const Dims axes = flat ? Dims{0} : ir::list_of(node.attrs);
  for (int i = 0; i < in.shape.rank(); ++i) {
    const bool goes = axes.contains(i);
    (goes ? a.reduced_count : a.kept_count) *= in.shape[i];
    if (in.shape[i] == 1) continue;
    (goes ? a.reduced : a.kept).push_back({in.shape[i], in.strides[i], goes ? 0 : out.strides[i]});
  }
  // What lies together comes last, so that it is the innermost loop.
  const auto wider = [](const Axes::One& x, const Axes::One& y) { return x.in > y.in; };
  std::stable_sort(a.kept.begin(), a.kept.end(), wider);
  return a;
}

std::string place_of(const std::vector<Axes::One>& axes, char letter, std::int64_t Axes::One::*stride) {
  std::string text = "0";
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (axes[i].*stride != 0) text += cat(" + ", letter, i, " * ", axes[i].*stride);
  return text;
}

std::vector<Axis> named(const std::vector<Axes::One>& axes, char letter) {
  std::vector<Axis> list;
  for (std::size_t i = 0; i < axes.size(); ++i) list.push_back({cat(letter, i), axes[i].size});
  return list;
}

void open_loops(Writer& w, const std::vector<Axis>& axes) {
  for (const Axis& axis : axes)
    w.open("for (int ", axis.name, " = 0; ", axis.name, " < ", axis.size, "; ++", axis.name, ")");
}

}  // namespace

void Chooser::reduce() {
  const Op op = node_.op;
  const DType dtype = out().dtype;
  const bool add = work_.out[0].accumulate;
  Axes a = axes_of(in(), out(), node_);
  const auto type = type_name(dtype);
  const int lanes = Form::lanes(dtype);
  const bool vectors = form().vectors() && dtype != DType::u8 && dtype != DType::boolean;

  // One turn of this many items a result would leave most of a group idle: shares first, then their sum.
  if (!form().vectors() && a.kept_count * 4 <= form().items && a.reduced_count >= 64) {
    const std::int64_t parts = form().items / a.kept_count;
    const View shares = emit_.scratch(dtype, {a.kept_count, parts});
    call({shares, in()}, [&](Writer& w) {
      std::vector<Axis> axes = named(a.kept, 'i');
      axes.push_back({"part", parts});
      w.each(axes, [&] {
        w.line(type, " value = ", identity(op, dtype), ';');
        w.open("for (int r = part; r < ", a.reduced_count, "; r += ", parts, ")");
        std::int64_t inner = a.reduced_count;
        for (std::size_t i = 0; i < a.reduced.size(); ++i) {
          inner /= a.reduced[i].size;
          w.line("const int r", i, " = r / ", inner, " % ", a.reduced[i].size, ';');
        }
        w.line("value = ",
               combine(op, "value",
                       cat("p1[", place_of(a.kept, 'i', &Axes::One::in), " + ",
                           place_of(a.reduced, 'r', &Axes::One::in), ']')),
               ';');
        w.close();
        std::string at = "0";
        std::int64_t step = 1;
        for (std::size_t i = a.kept.size(); i-- > 0; step *= a.kept[i].size) at += cat(" + i", i, " * ", step);
        w.line("p0[(", at, ") * ", parts, " + part] = value;");
      });
    });
    call({out(), shares}, [&](Writer& w) {
      w.each(named(a.kept, 'i'), [&] {
        const std::string to = cat("p0[", place_of(a.kept, 'i', &Axes::One::out), ']');
        w.line(type, " value = ", add ? to : identity(op, dtype), ';');
        std::string at = "0";
        std::int64_t step = 1;
        for (std::size_t i = a.kept.size(); i-- > 0; step *= a.kept[i].size) at += cat(" + i", i, " * ", step);
        w.line("for (int part = 0; part < ", parts,
               "; ++part) value = ", combine(op, "value", cat("p1[(", at, ") * ", parts, " + part]")), ';');
        w.line(to, " = value;");
      });
    });
    return;
  }

  const bool rows = vectors && !a.reduced.empty() && a.reduced.back().in == 1 && a.reduced.back().size >= lanes;
  const bool columns = vectors && !rows && !a.kept.empty() && a.kept.back().in == 1 && a.kept.back().out == 1;
  call({out(), in()}, [&](Writer& w) {
    const std::string to = place_of(a.kept, 'i', &Axes::One::out), from = place_of(a.kept, 'i', &Axes::One::in);
    if (columns) {
      const Axes::One across = a.kept.back();
      Axes outer = a;
      outer.kept.pop_back();
      const std::string last = cat('i', a.kept.size() - 1);
      for (const Run& run : runs(across.size, lanes))
        w.each(named(outer.kept, 'i'), [&] {
          w.open("for (int t = 0; t < ", run.count, "; ++t)");
          w.line("const int ", last, " = ", run.begin, " + t * ", run.width, ';');
          w.line(vector_type(dtype, run.width), " value = ",
                 add ? vector_load(run.width, cat("p0 + ", to)) : vector_of(dtype, run.width, identity(op, dtype)),
                 ';');
          open_loops(w, named(a.reduced, 'r'));
          const std::string x =
              vector_load(run.width, cat("p1 + ", from, " + ", place_of(a.reduced, 'r', &Axes::One::in)));
          w.line("const ", vector_type(dtype, run.width), " x = ", x, ';');
          w.line("value = ", combine(op, "value", "x"), ';');
          for (std::size_t i = 0; i < a.reduced.size(); ++i) w.close();
          w.line(vector_store(run.width, "value", cat("p0 + ", to)), ';');
          w.close();
        });
      return;
    }
    w.each(named(a.kept, 'i'), [&] {
      w.line(type, " value = ", add ? cat("p0[", to, ']') : identity(op, dtype), ';');
      if (rows) {
        Axes outer = a;
        outer.reduced.pop_back();
        const std::int64_t size = a.reduced.back().size, whole = size / lanes * lanes;
        const std::string base = cat("p1 + ", from, " + ", place_of(outer.reduced, 'r', &Axes::One::in));
        w.line(vector_type(dtype, lanes), " sums = ", vector_of(dtype, lanes, identity(op, dtype)), ';');
        open_loops(w, named(outer.reduced, 'r'));
        w.open("for (int t = 0; t < ", whole, "; t += ", lanes, ")");
        w.line("const ", vector_type(dtype, lanes), " x = ", vector_load(lanes, cat(base, " + t")), ';');
        w.line("sums = ", combine(op, "sums", "x"), ';');
        w.close();
        if (whole < size)
          w.line("for (int t = ", whole, "; t < ", size,
                 "; ++t) value = ", combine(op, "value", cat("(*(", base, " + t))")), ';');
        for (std::size_t i = 0; i < outer.reduced.size(); ++i) w.close();
        fold_lanes(w, op, dtype, lanes, "sums", "value");
      } else {
        open_loops(w, named(a.reduced, 'r'));
        w.line("value = ", combine(op, "value", cat("p1[", from, " + ", place_of(a.reduced, 'r', &Axes::One::in), ']')),
               ';');
        for (std::size_t i = 0; i < a.reduced.size(); ++i) w.close();
      }
      w.line("p0[", to, "] = value;");
    });
  });
}

/// The index of the first largest or smallest, in row-major order over the reduced axes.
void Chooser::arg() {
  const Axes a = axes_of(in(), out(), node_);
  const char* sign = node_.op == Op::reduce_argmax ? ">" : "<";
  call({out(), in()}, [&](Writer& w) {
    w.each(named(a.kept, 'i'), [&] {
      const std::string from = place_of(a.kept, 'i', &Axes::One::in);
      w.line("int best = 0, now = 0;");
      w.line(type_name(in().dtype), " most = p1[", from, "];");
      open_loops(w, named(a.reduced, 'r'));
      w.line("const ", type_name(in().dtype), " x = p1[", from, " + ", place_of(a.reduced, 'r', &Axes::One::in), "];");
      w.line("if (x ", sign, " most) { most = x; best = now; }");
      w.line("++now;");
      for (std::size_t i = 0; i < a.reduced.size(); ++i) w.close();
      w.line("p0[", place_of(a.kept, 'i', &Axes::One::out), "] = best;");
    });
  });
}

// ---- ops on rows ----

namespace {

/// Text over one row of an op's operands and results.
class RowText {
 public:
  RowText(Writer& w, const lower::Work& work, std::size_t temporary)
      : w_(w),
        work_(work),
        facts_(ops::facts_of(ops::row_op(work.node().op))),
        dtype_(work.in[0].dtype),
        n_(work.in[0].shape.back()),
        temporary_(cat('p', temporary)) {
    for (int i = 0; i + 1 < work.in[0].shape.rank(); ++i) rows_.push_back({cat('i', i), work.in[0].shape[i]});
  }

  const std::vector<Axis>& rows() const { return rows_; }
  std::int64_t size() const { return n_; }
  DType dtype() const { return dtype_; }

  /// Operand k at column c of the row.
  std::string operator()(std::size_t k, const std::string& c = "0") const {
    return cat('p', work_.out.size() + k, '[', at(work_.in[k], facts_.part(k), c), ']');
  }
  std::string result(std::size_t k, const std::string& c = "0") const {
    return cat('p', k, '[', at(work_.out[k].view, facts_.result(k), c), ']');
  }
  std::string exp(const std::string& x) const { return cat(dtype_ == DType::f32 ? "wr_exp(" : "exp(", x, ')'); }
  std::string one_over_n() const { return literal(dtype_, 1.0 / static_cast<double>(std::max<std::int64_t>(n_, 1))); }

  /// name = the sum (or maximum) of an expression of column c over the row. In the form with vectors the terms stay
  /// behind in the temporary row.
  void fold(const std::string& name, Op op, const std::string& term) {
    const auto type = type_name(dtype_);
    w_.line(type, ' ', name, " = ", identity(op, dtype_), ';');
    if (!w_.form().vectors()) {
      w_.line("for (int c = 0; c < ", n_, "; ++c) { const ", type, " x = ", term, "; ", name, " = ",
              combine(op, name, "x"), "; }");
      return;
    }
    w_.line("WR_VECTORISE");
    w_.line("for (int c = 0; c < ", n_, "; ++c) ", temporary_, "[c] = ", term, ';');
    const int lanes = Form::lanes(dtype_);
    const std::int64_t whole = n_ / lanes * lanes;
    if (whole > 0) {
      w_.open("");
      w_.line(vector_type(dtype_, lanes), " all = ", vector_load(lanes, temporary_), ';');
      w_.open("for (int c = ", lanes, "; c < ", whole, "; c += ", lanes, ")");
      w_.line("const ", vector_type(dtype_, lanes), " x = ", vector_load(lanes, cat(temporary_, " + c")), ';');
      w_.line("all = ", combine(op, "all", "x"), ';');
      w_.close();
      fold_lanes(w_, op, dtype_, lanes, "all", name);
      w_.close();
    }
    if (whole < n_)
      w_.line("for (int c = ", whole, "; c < ", n_, "; ++c) ", name, " = ", combine(op, name, cat(temporary_, "[c]")),
              ';');
  }
  void sum(const std::string& name, const std::string& term) { fold(name, Op::reduce_sum, term); }
  void mean(const std::string& name, const std::string& term) {
    sum(name, term);
    w_.line(name, " *= ", one_over_n(), ';');
  }
  /// The terms of the last fold, computed again where they were not kept.
  std::string term(const std::string& again) const { return w_.form().vectors() ? cat(temporary_, "[c]") : again; }
  void fill(const std::string& value) {
    w_.line("WR_VECTORISE");
    w_.line("for (int c = 0; c < ", n_, "; ++c) ", result(0, "c"), " = ", value, ';');
  }
  void top() { fold("top", Op::reduce_max, (*this)(0, "c")); }
  std::string shifted() const { return exp(cat((*this)(0, "c"), " - top")); }
  void logsumexp() {
    top();
    sum("total", shifted());
    w_.line("const ", type_name(dtype_), " lse = log(total) + top;");
  }

 private:
  std::string at(const View& v, RowPart part, const std::string& c) const {
    if (part == RowPart::column || part == RowPart::total) return place(v, {c});
    std::vector<std::string> index;
    for (const Axis& axis : rows_) index.push_back(axis.name);
    index.push_back(part == RowPart::value ? c : "0");
    return place(v, index);
  }

  Writer& w_;
  const lower::Work& work_;
  const ops::RowFacts& facts_;
  DType dtype_;
  std::int64_t n_;
  std::string temporary_;
  std::vector<Axis> rows_;
};

/// What one row makes, beside its share in totals.
void write_row(Writer& w, RowText& x, RowOp op, double epsilon) {
  const auto type = type_name(x.dtype());
  const std::string e = literal(x.dtype(), epsilon), one = literal(x.dtype(), 1);
  switch (op) {
    case RowOp::softmax:
      x.top();
      x.sum("total", x.shifted());
      return x.fill(cat(x.term(x.shifted()), " / total"));
    case RowOp::softmax_grad:
      x.sum("total", cat(x(0, "c"), " * ", x(1, "c")));
      return x.fill(cat(x(0, "c"), " * (", x(1, "c"), " - total)"));
    case RowOp::log_softmax:
      x.logsumexp();
      return x.fill(cat(x(0, "c"), " - lse"));
    case RowOp::log_softmax_grad:
      x.sum("total", x(1, "c"));
      return x.fill(cat(x(1, "c"), " - ", x.exp(x(0, "c")), " * total"));
    case RowOp::logsumexp:
      x.logsumexp();
      w.line(x.result(0), " = lse;");
      return;
    case RowOp::logsumexp_grad:
      w.line("const ", type, " g = ", x(2), ", y = ", x(1), ';');
      return x.fill(cat("g * ", x.exp(cat(x(0, "c"), " - y"))));
    case RowOp::cross_entropy:
      x.logsumexp();
      w.line("const int label = ", x(1), ';');
      w.line(x.result(0), " = lse - (label >= 0 && label < ", x.size(), " ? ", x(0, "label"), " : ",
             literal(x.dtype(), NAN), ");");
      w.line(x.result(1), " = lse;");
      return;
    case RowOp::cross_entropy_grad:
      w.line("const int label = ", x(1), ';');
      w.line("const ", type, " lse = ", x(2), ", g = ", x(3), ';');
      return x.fill(
          cat("g * (", x.exp(cat(x(0, "c"), " - lse")), " - (label == c ? ", one, " : ", literal(x.dtype(), 0), "))"));
    case RowOp::layer_norm:
      x.mean("middle", x(0, "c"));
      x.mean("spread", cat('(', x(0, "c"), " - middle) * (", x(0, "c"), " - middle)"));
      w.line("const ", type, " deviation = ", one, " / sqrt(spread + ", e, ");");
      x.fill(cat('(', x(0, "c"), " - middle) * deviation * ", x(1, "c"), " + ", x(2, "c")));
      w.line(x.result(1), " = middle;");
      w.line(x.result(2), " = deviation;");
      return;
    case RowOp::rms_norm:
      x.mean("square", cat(x(0, "c"), " * ", x(0, "c")));
      w.line("const ", type, " deviation = ", one, " / sqrt(square + ", e, ");");
      x.fill(cat(x(0, "c"), " * deviation * ", x(1, "c")));
      w.line(x.result(1), " = deviation;");
      return;
    case RowOp::layer_norm_grad:
      w.line("const ", type, " middle = ", x(2), ", deviation = ", x(3), ';');
      x.mean("first", cat(x(4, "c"), " * ", x(1, "c")));
      x.mean("second", cat(x(4, "c"), " * ", x(1, "c"), " * (", x(0, "c"), " - middle) * deviation"));
      return x.fill(cat("deviation * (", x(4, "c"), " * ", x(1, "c"), " - first - (", x(0, "c"),
                        " - middle) * deviation * second)"));
    case RowOp::rms_norm_grad:
      w.line("const ", type, " deviation = ", x(2), ';');
      x.mean("first", cat(x(3, "c"), " * ", x(1, "c"), " * ", x(0, "c"), " * deviation"));
      return x.fill(cat("deviation * (", x(3, "c"), " * ", x(1, "c"), " - ", x(0, "c"), " * deviation * first)"));
  }
}

/// What a row adds to column c of a total.
std::string share(const RowText& x, RowOp op, std::size_t result) {
  if (op == RowOp::rms_norm_grad) return cat(x(3, "c"), " * ", x(0, "c"), " * ", x(2));
  return result == 2 ? x(4, "c") : cat(x(4, "c"), " * (", x(0, "c"), " - ", x(2), ") * ", x(3));
}

void write_total(Writer& w, RowText& x, RowOp op, std::size_t k, bool add) {
  const std::string to = x.result(k, "c"), zero = literal(x.dtype(), 0);
  if (w.form().vectors()) {
    if (!add)
      w.each(
          {{"c", x.size()}}, [&] { w.line(to, " = ", zero, ';'); }, true);
    std::vector<Axis> axes = x.rows();
    axes.push_back({"c", x.size()});
    return w.each(
        axes, [&] { w.line(to, " += ", share(x, op, k), ';'); }, true);
  }
  w.each({{"c", x.size()}}, [&] {
    w.line(type_name(x.dtype()), " total = ", add ? to : zero, ';');
    open_loops(w, x.rows());
    w.line("total += ", share(x, op, k), ';');
    for (std::size_t i = 0; i < x.rows().size(); ++i) w.close();
    w.line(to, " = total;");
  });
}

}  // namespace

void Chooser::rows() {
  const RowOp op = ops::row_op(node_.op);
  const ops::RowFacts& facts = ops::facts_of(op);
  Operands operands = all();
  const std::size_t temporary = operands.size();
  if (form().vectors()) operands.push_back(emit_.scratch(in().dtype, {std::max<std::int64_t>(in().shape.back(), 1)}));
  call(operands, [&](Writer& w) {
    RowText x(w, work_, temporary);
    w.each(x.rows(), [&] { write_row(w, x, op, ops::epsilon_of(node_.attrs)); });
    for (std::size_t k = 0; k < work_.out.size(); ++k)
      if (facts.result(k) == RowPart::total) write_total(w, x, op, k, work_.out[k].accumulate);
  });
}

}  // namespace wr::device
