// Gate layers and neighbourhoods of cells.
#include <algorithm>

#include "backend/cpu/gates.h"
#include "backend/device/choose.h"
#include "backend/device/vectors.h"

namespace wr::device {

using ir::Op;

namespace {

using Cells = std::function<void(int width, const std::string& cell)>;

/// A number of each of several turns: where they stand among the tables, all of the first number, then all of the next
/// (side by side, a compiler would make a vector of what is only two addresses).
struct Turns {
  std::int64_t count, table;

  Turns(Kernels& kernels, const std::vector<std::vector<std::int32_t>>& numbers)
      : count(static_cast<std::int64_t>(numbers[0].size())) {
    std::vector<std::int32_t> all;
    for (const auto& one : numbers) all.insert(all.end(), one.begin(), one.end());
    table = kernels.keep(all);
  }
  std::string number(std::int64_t k) const { return cat("tables[", table + k * count, " + turn]"); }
};

/// Rows of cells, [wires or gates, cells].
struct Rows {
  const View& view;
  std::string pointer, type;

  bool dense() const { return view.strides[1] == 1 || view.shape[1] == 1; }
  /// A pointer to one row.
  void declare(Writer& w, const char* name, const char* row) const {
    w.line(type, ' ', name, " = ", pointer, " + ", place(view, {row, "0"}), ';');
  }
  std::string at(const std::string& row, const std::string& cell) const {
    return cat(row, " + ", place(view, {"0", cell}));
  }
  std::string at(const std::string& all, const char* row, const char* column) const {
    return cat(all, " + ", place(view, {row, column}));
  }
};

/// A run of cells in vectors, few of them written out.
void each_vector(Writer& w, const Run& run, const Cells& body) {
  constexpr std::int64_t kWrittenOut = 4;
  if (run.count > kWrittenOut) {
    w.open("for (int i = ", run.begin, "; i < ", run.begin + run.count * run.width, "; i += ", run.width, ")");
    body(run.width, "i");
    return w.close();
  }
  for (std::int64_t v = 0; v < run.count; ++v) {
    w.open("");
    body(run.width, std::to_string(run.begin + v * run.width));
    w.close();
  }
}

void let(Writer& w, DType dtype, int width, const std::string& name, const std::string& value) {
  w.line("const ", vector_type(dtype, width), ' ', name, " = ", value, ';');
}

/// All gates' first wires, and their second ones.
std::vector<std::vector<std::int32_t>> wires_of(const std::vector<std::int32_t>& wiring) {
  std::vector<std::vector<std::int32_t>> wires(2);
  for (std::size_t i = 0; i < wiring.size(); ++i) wires[i % 2].push_back(wiring[i]);
  return wires;
}

}  // namespace

void Chooser::gates() {
  if (node_.op != Op::gates) return gates_grad();
  const std::int64_t rows = node_.attrs.ints[0], cells = in(0).shape[1];
  const Turns turns(kernels_, wires_of({node_.attrs.ints.begin() + 1, node_.attrs.ints.end()}));
  const DType dtype = out().dtype;
  const Operands operands = all();
  const Rows x{in(0), "p1", pointer_type(form(), in(0))}, to{out(), "p0", pointer_type(form(), out())};
  const auto gate = [&](Writer& w, int width, const std::string& cell) {
    let(w, dtype, width, "va", vector_load(width, x.at("xa", cell)));
    let(w, dtype, width, "vb", vector_load(width, x.at("xb", cell)));
    for (const char* k : {"0", "1", "2", "3"}) let(w, dtype, width, cat("c", k), vector_of(dtype, width, cat("k", k)));
    w.line(vector_store(width, "fma(va, fma(vb, c3, c1), fma(vb, c2, c0))", to.at("y", cell)), ';');
  };
  call(operands, [&](Writer& w) {
    const bool vectors = w.form().vectors();
    std::vector<Axis> axes{{"turn", turns.count}};
    if (!vectors) axes.push_back({"i", cells});
    w.each(axes, [&] {
      w.line("const int a = ", turns.number(0), ", b = ", turns.number(1), ", row = turn % ", rows, ';');
      for (const char* k : {"0", "1", "2", "3"})
        w.line("const ", type_name(dtype), " k", k, " = ", cat("p2[", place(in(1), {"row", k}), ']'), ';');
      x.declare(w, "xa", "a");
      x.declare(w, "xb", "b");
      to.declare(w, "y", "turn");
      if (!vectors) return gate(w, 1, "i");
      for (const Run& run : runs(cells, x.dense() && to.dense() ? Form::lanes(dtype) : 1))
        each_vector(w, run, [&](int width, const std::string& cell) { gate(w, width, cell); });
    });
  });
}

namespace {

/// The way back over a layer of gates: what a gate does with some cells, and what goes round it.
class GatesBack {
 public:
  GatesBack(const lower::Work& work, const Form& form)
      : dtype_(work.in[0].dtype), type_(type_name(dtype_)), accumulate_(work.out.back().accumulate) {
    const Op op = work.node().op;
    const std::size_t outs = work.out.size();
    const auto of = [&](const View& v, std::size_t k) { return Rows{v, cat('p', k), pointer_type(form, v)}; };
    x_.push_back(of(work.in[0], outs));
    x_.push_back(of(work.in.back(), outs + work.in.size() - 1));
    if (op != Op::gates_grad_coefficients) {
      x_.push_back(of(work.out[0].view, 0));
      coefficients_.push_back(of(work.in[1], outs + 1));
    }
    if (op != Op::gates_grad_x) sums_.push_back(of(work.out.back().view, outs - 1));
  }
  bool by_x() const { return x_.size() == 3; }
  bool by_coefficients() const { return !sums_.empty(); }
  std::int64_t cells() const { return x_[0].view.shape[1]; }

  /// The turn's gate: its wires, where they stand, its coefficients.
  void declare(Writer& w, const Turns& turns) const {
    const char* names[] = {"a", "b", "gate", "row", "begins"};
    for (std::int64_t k = 0; k < 5; ++k) w.line("const int ", names[k], " = ", turns.number(k), ';');
    declare_cells(w);
    if (!by_x()) return;
    for (const char* k : {"1", "2", "3"})
      w.line("const ", type_, " k", k, " = *(", coefficients_[0].at(coefficients_[0].pointer, "row", k), ");");
    x_[2].declare(w, "da", "a");
    x_[2].declare(w, "db", "b");
  }
  void declare_cells(Writer& w) const {
    x_[0].declare(w, "xa", "a");
    x_[0].declare(w, "xb", "b");
    x_[1].declare(w, "g", "gate");
  }
  void load(Writer& w, int width, const std::string& cell) const {
    let(w, dtype_, width, "va", vector_load(width, x_[0].at("xa", cell)));
    let(w, dtype_, width, "vb", vector_load(width, x_[0].at("xb", cell)));
    let(w, dtype_, width, "by", vector_load(width, x_[1].at("g", cell)));
  }
  /// To four sums v0, ..., what the loaded cells have.
  void add(Writer& w, int width) const {
    let(w, dtype_, width, "both", "by * vb");
    w.line("v0 += by; v1 = fma(by, va, v1); v2 += both; v3 = fma(both, va, v3);");
  }
  /// To both wires what they have of the loaded cells.
  void hand_back(Writer& w, int width, const std::string& cell) const {
    for (const char* k : {"1", "2", "3"}) let(w, dtype_, width, cat("c", k), vector_of(dtype_, width, cat("k", k)));
    let(w, dtype_, width, "to_a", "by * fma(vb, c3, c1)");
    let(w, dtype_, width, "to_b", "by * fma(va, c3, c2)");
    // b may be a: its sum is read after a's is written.
    const auto put = [&](const char* name, const char* to, int first) {
      const std::string place = x_[2].at(to, cell);
      w.line("if (begins & ", first, ") ", vector_store(width, name, place), ';');
      w.line("else ", vector_store(width, cat(name, " + ", vector_load(width, place)), place), ';');
    };
    put("to_a", "da", cpu::GateTurn::kOfA);
    put("to_b", "db", cpu::GateTurn::kOfB);
  }
  /// All cells of a gate: one walk for both gradients.
  void gate(Writer& w) const {
    const bool dense = std::all_of(x_.begin(), x_.end(), [](const Rows& r) { return r.dense(); });
    const std::string four = vector_type(dtype_, 4);
    if (by_coefficients()) w.line(four, " sum = ", vector_of(dtype_, 4, literal(dtype_, 0)), ';');
    for (const Run& run : runs(cells(), dense ? Form::lanes(dtype_) : 1)) {
      w.open("");
      for (const char* v : {"v0", "v1", "v2", "v3"})
        if (by_coefficients())
          w.line(vector_type(dtype_, run.width), ' ', v, " = ", vector_of(dtype_, run.width, literal(dtype_, 0)), ';');
      each_vector(w, run, [&](int width, const std::string& cell) {
        load(w, width, cell);
        if (by_coefficients()) add(w, width);
        if (by_x()) hand_back(w, width, cell);
      });
      if (by_coefficients()) w.line("sum += ", sums_of_four(w, dtype_, run.width, {"v0", "v1", "v2", "v3"}), ';');
      w.close();
    }
    if (!by_coefficients()) return;
    w.open("if (", accumulate_ ? "0" : cat("begins & ", int{cpu::GateTurn::kOfRow}), ")");
    put_sums(w, false);
    w.close();
    w.open("else");
    put_sums(w, true);
    w.close();
  }
  /// Of one cell after the other, in a row's own turn.
  void row(Writer& w, std::int64_t gates, std::int64_t rows, const Turns& wires) const {
    w.line(type_, " v0 = ", literal(dtype_, 0), ", v1 = v0, v2 = v0, v3 = v0;");
    w.open("for (int turn = row; turn < ", gates, "; turn += ", rows, ")");
    w.line("const int a = ", wires.number(0), ", b = ", wires.number(1), ", gate = turn;");
    declare_cells(w);
    w.open("for (int i = 0; i < ", cells(), "; ++i)");
    load(w, 1, "i");
    add(w, 1);
    w.close();
    w.close();
    for (const char* k : {"0", "1", "2", "3"})
      w.line("*(", sums_[0].at(sums_[0].pointer, "row", k), ") ", accumulate_ ? "+=" : "=", " v", k, ';');
  }

 private:
  void put_sums(Writer& w, bool add) const {
    const Rows& to = sums_[0];
    if (to.dense()) {
      const std::string place = to.at(to.pointer, "row", "0");
      return w.line(vector_store(4, add ? cat("sum + ", vector_load(4, place)) : "sum", place), ';');
    }
    for (const char* k : {"0", "1", "2", "3"})
      w.line("*(", to.at(to.pointer, "row", k), ") ", add ? "+=" : "=", " WR_PART(sum, ", k, ");");
  }

  DType dtype_;
  std::string type_;
  bool accumulate_;
  std::vector<Rows> x_;                    // x, what comes from above, the gradient by x
  std::vector<Rows> coefficients_, sums_;  // where they are wanted
};

}  // namespace

void Chooser::gates_grad() {
  const GatesBack back(work_, form());
  const std::int64_t rows = node_.attrs.ints[0];
  const std::vector<std::int32_t> wiring(node_.attrs.ints.begin() + 1, node_.attrs.ints.end());
  const cpu::GateWalk walk = cpu::walk_of(wiring, rows, in(0).shape[0]);
  std::vector<std::vector<std::int32_t>> numbers(5);
  for (const cpu::GateTurn& t : walk.turns) {
    const std::int32_t of[] = {t.a, t.b, t.gate, t.row, t.first};
    for (std::size_t k = 0; k < 5; ++k) numbers[k].push_back(of[k]);
  }
  const Turns turns(kernels_, numbers);
  call(all(), [&](Writer& w) {
    const auto idle = [&] {
      if (!back.by_x() || walk.idle.empty()) return;
      const Turns wires(kernels_, {walk.idle});
      const std::string to = cat("p0[", place(out(), {wires.number(0), "i"}), ']');
      w.each(
          {{"turn", wires.count}, {"i", back.cells()}}, [&] { w.line(to, " = ", literal(out().dtype, 0), ';'); }, true);
    };
    idle();
    if (w.form().vectors()) {
      return w.each({{"turn", turns.count}}, [&] {
        back.declare(w, turns);
        back.gate(w);
      });
    }
    // Gates share wires: one turn has a cell of all gates.
    if (back.by_x())
      w.each({{"i", back.cells()}}, [&] {
        w.open("for (int turn = 0; turn < ", turns.count, "; ++turn)");
        back.declare(w, turns);
        back.load(w, 1, "i");
        back.hand_back(w, 1, "i");
        w.close();
      });
    if (!back.by_coefficients()) return;
    const Turns wires(kernels_, wires_of(wiring));
    w.each({{"row", rows}}, [&] { back.row(w, turns.count, rows, wires); });
  });
}

/// Channel by channel, the cell `down` rows and `right` columns away (neighbours), or what the nine cells round a cell
/// have of it (neighbours_sum).
void Chooser::neighbours() {
  const bool summed = node_.op == Op::neighbours_sum;
  const std::int64_t height = node_.attrs.ints[0], width = node_.attrs.ints[1];
  const bool wrap = node_.attrs.ints[2] != 0;
  const std::string zero = literal(out().dtype, 0);
  const auto away = [&](Writer& w, const char* sign) {
    w.line("const int down = k / 3 - 1, right = k % 3 - 1;");
    w.line("int y = cell / ", width, " % ", height, ' ', sign, " down, x = cell % ", width, ' ', sign, " right;");
    w.line("const int there = y >= 0 && y < ", height, " && x >= 0 && x < ", width, ';');
    w.line("y = (y + ", height, ") % ", height, "; x = (x + ", width, ") % ", width, ';');
    w.line("const int from = cell / ", height * width, " * ", height * width, " + y * ", width, " + x;");
  };
  const std::string own = cat("const int cell = i", work_.cut.is_along() ? " + (int)row0;" : ";");
  call({out(), in()}, [&](Writer& w) {
    if (!summed)
      return w.each(
          {{"channel", in().shape[0]}, {"k", 9}, {"i", out().shape[1]}},
          [&] {
            w.line(own);
            away(w, "+");
            const std::string x = cat("p1[", place(in(), {"channel", "from"}), ']');
            w.line("p0[", place(out(), {"(channel * 9 + k)", "i"}), "] = ", wrap ? x : cat("there ? ", x, " : ", zero),
                   ';');
          },
          true);
    w.each({{"channel", out().shape[0]}, {"i", out().shape[1]}}, [&] {
      w.line(own);
      w.line(type_name(out().dtype), " sum = ", zero, ';');
      w.open("for (int k = 0; k < 9; ++k)");
      away(w, "-");
      w.line(wrap ? "" : "if (there) ", "sum += p1[", place(in(), {"(channel * 9 + k)", "from"}), "];");
      w.close();
      w.line("p0[", place(out(), {"channel", "i"}), "] = sum;");
    });
  });
}

}  // namespace wr::device
