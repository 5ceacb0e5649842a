// Gate layers and neighbourhoods of cells.
#include "backend/device/choose.h"
#include "backend/device/vectors.h"

namespace wr::device {

using ir::Op;

namespace {

/// Gate g's wires and its row of coefficients; the cells' loop is the innermost.
struct Gate {
  std::int64_t table;  // where the wiring stands among the tables
  std::int64_t rows;

  void wires(Writer& w) const {
    w.line("const int a = tables[", table, " + 2 * g], b = tables[", table, " + 2 * g + 1], row = g % ", rows, ';');
  }
};

std::string at(std::size_t operand, const View& v, const char* row, const char* column) {
  return cat('p', operand, '[', place(v, {row, column}), ']');
}

}  // namespace

void Chooser::gates() {
  const Op op = node_.op;
  std::vector<std::int32_t> wiring(node_.attrs.ints.begin() + 1, node_.attrs.ints.end());
  const Gate gate{kernels_.keep(wiring), node_.attrs.ints[0]};
  const auto count = static_cast<std::int64_t>(wiring.size()) / 2;
  const DType dtype = out().dtype;
  const auto type = type_name(dtype);
  const View& x = in(0);
  const std::int64_t cells = x.shape[1];
  const Operands operands = all();
  const std::size_t first = work_.out.size(), last = operands.size() - 1;  // x, and what comes from above
  const std::string xa = at(first, x, "a", "i"), xb = at(first, x, "b", "i");

  if (op == Op::gates) {
    call(operands, [&](Writer& w) {
      std::vector<Axis> axes{{"g", count}};
      const auto coefficient = [&](const char* k) { return at(first + 1, in(1), "row", k); };
      const std::string statement =
          cat(at(0, out(), "g", "i"), " = fma(", xa, ", fma(", xb, ", k3, k1), fma(", xb, ", k2, k0));");
      const bool vectors = w.form().vectors();
      if (!vectors) axes.push_back({"i", cells});
      w.each(axes, [&] {
        gate.wires(w);
        for (const char* k : {"0", "1", "2", "3"}) w.line("const ", type, " k", k, " = ", coefficient(k), ';');
        if (vectors) w.line("WR_VECTORISE");
        w.line(vectors ? cat("for (int i = 0; i < ", cells, "; ++i) ") : "", statement);
      });
    });
    return;
  }

  const bool by_x = op != Op::gates_grad_coefficients, by_coefficients = op != Op::gates_grad_x;
  const std::size_t to_coefficients = op == Op::gates_grad ? 1 : 0;
  const View& g = in(work_.in.size() - 1);
  call(operands, [&](Writer& w) {
    const bool vectors = w.form().vectors();
    const std::string gi = at(last, g, "g", "i"), zero = literal(dtype, 0);
    if (by_x) {
      // Gates share wires: one turn has a cell of all gates, in order.
      w.each(
          {{"wire", out().shape[0]}, {"i", cells}}, [&] { w.line(at(0, out(), "wire", "i"), " = ", zero, ';'); }, true);
      const auto add = [&] {
        for (const char* k : {"1", "2", "3"})
          w.line("const ", type, " k", k, " = ", at(first + 1, in(1), "row", k), ';');
        if (vectors) w.line("WR_VECTORISE");
        w.line(vectors ? cat("for (int i = 0; i < ", cells, "; ++i) ") : "", "{ const ", type, " va = ", xa,
               ", vb = ", xb, ", by = ", gi, "; ", at(0, out(), "a", "i"), " += by * fma(vb, k3, k1); ",
               at(0, out(), "b", "i"), " += by * fma(va, k3, k2); }");
      };
      std::vector<Axis> axes;
      if (!vectors) axes.push_back({"i", cells});
      w.each(axes, [&] {
        w.open("for (int g = 0; g < ", count, "; ++g)");
        gate.wires(w);
        add();
        w.close();
      });
    }
    if (!by_coefficients) return;
    const View& to = out(to_coefficients);
    const bool accumulate = work_.out[to_coefficients].accumulate;
    w.each({{"row", gate.rows}}, [&] {
      const int lanes = vectors ? Form::lanes(dtype) : 1;
      const std::int64_t whole = cells / lanes * lanes;
      const auto is_dense = [](const View& v) { return v.strides[1] == 1 || v.shape[1] == 1; };
      const bool wide = vectors && whole > 0 && is_dense(x) && is_dense(g);
      for (int k = 0; k < 4; ++k) {
        w.line(type, " s", k, " = ", zero, ';');
        if (wide) w.line(vector_type(dtype, lanes), " v", k, " = ", vector_of(dtype, lanes, zero), ';');
      }
      w.open("for (int g = row; g < ", count, "; g += ", gate.rows, ")");
      w.line("const int a = tables[", gate.table, " + 2 * g], b = tables[", gate.table, " + 2 * g + 1];");
      if (wide) {
        w.open("for (int i = 0; i < ", whole, "; i += ", lanes, ")");
        const auto load = [&](const std::string& element) { return vector_load(lanes, "&" + element); };
        w.line("const ", vector_type(dtype, lanes), " va = ", load(xa), ", vb = ", load(xb), ", by = ", load(gi),
               ", both = by * va;");
        w.line("v0 += by; v1 += both; v2 += by * vb; v3 += both * vb;");
        w.close();
      }
      w.open("for (int i = ", wide ? whole : 0, "; i < ", cells, "; ++i)");
      w.line("const ", type, " va = ", xa, ", vb = ", xb, ", by = ", gi, ';');
      w.line("s0 += by; s1 += by * va; s2 += by * vb; s3 += by * va * vb;");
      w.close();
      w.close();
      for (int k = 0; k < 4; ++k) {
        if (wide) {
          w.line("{ ", type, " lanes[", lanes, "]; ", vector_store(lanes, cat('v', k), "lanes"),
                 "; for (int l = 0; l < ", lanes, "; ++l) s", k, " += lanes[l]; }");
        }
        const std::string at_k = cat('p', to_coefficients, '[', place(to, {"row", std::to_string(k)}), ']');
        w.line(at_k, accumulate ? " += s" : " = s", k, ';');
      }
    });
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
