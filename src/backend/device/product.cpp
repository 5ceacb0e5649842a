// Products in registers. In the form with vectors a tile is a few rows of one vector of columns (or, where both
// operands lie along k, a few rows and columns of vectors along k); with many items each has a small tile of scalars.
#include "backend/device/product.h"

#include <algorithm>

#include "backend/device/choose.h"
#include "backend/device/vectors.h"
#include "ir/attributes.h"

namespace wr::device {
namespace {

/// Neighbours that lie one inside the other in every operand become one.
void merge(std::vector<Along>& list) {
  std::erase_if(list, [](const Along& x) { return x.size == 1; });
  std::stable_sort(list.begin(), list.end(), [](const Along& x, const Along& y) {
    return std::max({x.c, x.a, x.b}) > std::max({y.c, y.a, y.b});
  });
  std::vector<Along> merged;
  for (const Along& x : list) {
    if (!merged.empty()) {
      Along& outer = merged.back();
      if (outer.a == x.a * x.size && outer.b == x.b * x.size && outer.c == x.c * x.size) {
        outer = {outer.size * x.size, x.a, x.b, x.c};
        continue;
      }
    }
    merged.push_back(x);
  }
  list = std::move(merged);
}

/// Takes the one that a tile runs along: it lies together if one does, else it is the largest.
Along take(std::vector<Along>& list) {
  if (list.empty()) return {};
  const auto together = [](const Along& x) { return x.a == 1 || x.b == 1 || x.c == 1; };
  const auto best = std::max_element(list.begin(), list.end(), [&](const Along& x, const Along& y) {
    return std::pair(together(x) && x.size >= 4, x.size) < std::pair(together(y) && y.size >= 4, y.size);
  });
  const Along taken = *best;
  list.erase(best);
  return taken;
}

std::string moved(const std::vector<Along>& list, char letter, std::int64_t Along::*stride) {
  std::string text;
  for (std::size_t i = 0; i < list.size(); ++i)
    if (list[i].*stride != 0) text += cat(" + ", letter, i, " * ", list[i].*stride);
  return text;
}

class Tiles {
 public:
  Tiles(Writer& w, Product p) : w_(w), p_(std::move(p)) {
    for (auto* list : {&p_.batch, &p_.rows, &p_.columns, &p_.inner}) merge(*list);
    m_ = take(p_.rows);
    n_ = take(p_.columns);
    k_ = take(p_.inner);
    outer_ = p_.batch;
    outer_.insert(outer_.end(), p_.rows.begin(), p_.rows.end());
    outer_.insert(outer_.end(), p_.columns.begin(), p_.columns.end());
  }

  void write() {
    if (!w_.form().vectors()) return write_items();
    choose_form();
    form_ == Kind::dot ? write_dot() : form_ == Kind::batch ? write_batch() : write_vectors();
  }

 private:
  enum class Kind { columns, dot, batch };
  static constexpr std::int64_t kInner = 256;   // a packed panel of that many rows stays in L1
  static constexpr std::int64_t kPackFrom = 4;  // tiles that read a panel

  int lanes() const { return Form::lanes(p_.dtype); }
  std::string type() const { return std::string(type_name(p_.dtype)); }
  std::string zero() const { return literal(p_.dtype, 0); }

  std::vector<Axis> outer_axes() const {
    std::vector<Axis> axes;
    for (std::size_t i = 0; i < outer_.size(); ++i) axes.push_back({cat('o', i), outer_[i].size});
    return axes;
  }
  /// Where the operand's elements begin in a turn of the outer loops.
  std::string start(const std::string& pointer, std::int64_t Along::*stride) const {
    return pointer + moved(outer_, 'o', stride);
  }
  void open_inner() {
    for (std::size_t i = 0; i < p_.inner.size(); ++i) {
      if (!w_.form().vectors()) w_.line("WR_ROLLED");
      w_.open("for (int q", i, " = 0; q", i, " < ", p_.inner[i].size, "; ++q", i, ")");
    }
  }
  void close_inner() {
    for (std::size_t i = 0; i < p_.inner.size(); ++i) w_.close();
  }
  std::string inner_a() const { return moved(p_.inner, 'q', &Along::a); }
  std::string inner_b() const { return moved(p_.inner, 'q', &Along::b); }

  /// Which way vectors lie: along columns, along rows (then operands change places), or along k.
  void choose_form() {
    const auto fill = [&](std::int64_t size) {
      return static_cast<double>(std::min<std::int64_t>(size, lanes())) / lanes();
    };
    const auto is_one = [](std::int64_t stride, std::int64_t size) { return stride == 1 || size == 1; };
    const double by_columns = is_one(n_.b, n_.size) ? fill(n_.size) * (is_one(n_.c, n_.size) ? 1 : 0.7) : 0;
    const double by_rows = is_one(m_.a, m_.size) ? fill(m_.size) * (is_one(m_.c, m_.size) ? 1 : 0.7) : 0;
    const double by_inner = k_.a == 1 && k_.b == 1 ? 0.5 * fill(k_.size) : 0;
    form_ = Kind::columns;
    widest_ = std::max(by_columns, by_rows) > 0 ? lanes() : 1;
    const auto across =
        std::find_if(outer_.begin(), outer_.end(), [](const Along& x) { return x.a == 1 && x.b == 1 && x.c == 1; });
    const double by_batch = across == outer_.end() ? 0 : 0.45 * fill(across->size);
    if (by_batch > std::max({by_columns, by_rows, by_inner})) {
      form_ = Kind::batch;
      batch_ = *across;
      outer_.erase(across);
      for (const Along& x : {m_, n_})
        if (x.size > 1) outer_.push_back(x);
      p_.inner.push_back(k_);
      return;
    }
    if (by_inner > by_columns && by_inner > by_rows) {
      form_ = Kind::dot;
    } else if (by_rows > by_columns) {
      std::swap(m_, n_);
      std::swap(p_.a, p_.b);
      std::swap(p_.a_type, p_.b_type);
      for (auto* list : {&outer_, &p_.inner})
        for (Along& x : *list) std::swap(x.a, x.b);
      for (Along* x : {&m_, &n_, &k_}) std::swap(x->a, x->b);
    }
  }

  // ---- vectors of columns ----
  void write_vectors() {
    const bool blocks = k_.size > kInner && p_.inner.empty();
    if (blocks && !p_.accumulate) clear();
    const bool add = blocks || p_.accumulate;
    w_.each(outer_axes(), [&] {
      w_.line(p_.a_type, " a = ", start(p_.a, &Along::a), ';');
      w_.line(p_.b_type, " b = ", start(p_.b, &Along::b), ';');
      w_.line(p_.c_type, " c = ", start(p_.c, &Along::c), ';');
      if (blocks) {
        w_.open("for (int first = 0; first < ", k_.size, "; first += ", kInner, ")");
        w_.line("const int most = ", k_.size, " - first < ", kInner, " ? ", k_.size, " - first : ", kInner, ';');
      } else {
        w_.line("const int first = 0, most = ", k_.size, ';');
      }
      for (const Run& run : runs(n_.size, widest_)) {
        // Where registers are many a tile has two vectors of columns.
        const std::int64_t pairs = run.width == lanes() && w_.form().registers() > 8 ? run.count / 2 : 0;
        columns(run.begin, pairs, {run.width, 2}, add);
        columns(run.begin + 2 * pairs * run.width, run.count - 2 * pairs, {run.width, 1}, add);
      }
      if (blocks) w_.close();
    });
  }

  /// Vectors of columns that a tile has beside one another.
  struct Across {
    int width, vectors;
    int columns() const { return width * vectors; }
  };

  /// `count` times so many columns.
  void columns(std::int64_t begin, std::int64_t count, const Across& across, bool add) {
    if (count == 0) return;
    // A quarter of the registers is left for what is multiplied. The last tile is about as tall as the others.
    const std::int64_t most = w_.form().registers() * 3 / 4 / across.vectors, tiles = (m_.size + most - 1) / most;
    const std::int64_t rows = (m_.size + tiles - 1) / tiles;
    const bool packs = tiles >= kPackFrom && k_.size >= 16 && p_.inner.empty();
    w_.open("for (int t = 0; t < ", count, "; ++t)");
    w_.line("const int n = ", begin, " + t * ", across.columns(), ';');
    if (packs) pack(across);
    over(m_.size, rows, 'm', [&](std::int64_t some) { tile(some, across, packs, add); });
    w_.close();
  }

  void clear() {
    std::vector<Axis> axes = outer_axes();
    axes.push_back({"m", m_.size});
    axes.push_back({"n", n_.size});
    w_.each(
        axes, [&] { w_.line("*(", start(p_.c, &Along::c), " + m * ", m_.c, " + n * ", n_.c, ") = ", zero(), ';'); },
        n_.c == 1);
  }

  std::string b_at(int width, std::int64_t at, const std::string& k) const {
    const std::int64_t apart = n_.size == 1 ? 0 : n_.b;
    return vector_load(width, cat("b + (", k, ") * ", k_.b, inner_b(), " + (n + ", at, ") * ", apart));
  }

  void pack(const Across& across) {
    w_.line(type(), " panel[", std::min(kInner, k_.size) * across.columns(), "];");
    w_.open("for (int k = 0; k < most; ++k)");
    for (int at = 0; at < across.columns(); at += across.width)
      w_.line(vector_store(across.width, b_at(across.width, at, "first + k"),
                           cat("panel + k * ", across.columns(), " + ", at)),
              ';');
    w_.close();
  }

  void tile(std::int64_t rows, const Across& across, bool packed, bool add) {
    const int width = across.width;
    const std::string vector = vector_type(p_.dtype, width);
    const bool together = n_.c == 1 || width == 1;
    const auto c_at = [&](std::int64_t r, int v) {
      return cat("c + (m + ", r, ") * ", m_.c, " + (n + ", v * width, ") * ", n_.c);
    };
    const auto each = [&](const auto& body) {
      for (std::int64_t r = 0; r < rows; ++r)
        for (int v = 0; v < across.vectors; ++v) body(r, v, cat('c', r, '_', v));
    };
    each([&](std::int64_t r, int v, const std::string& c) {
      w_.line(vector, ' ', c, " = ",
              add && together ? vector_load(width, c_at(r, v)) : vector_of(p_.dtype, width, zero()), ';');
    });
    open_inner();
    w_.open("for (int k = 0; k < most; ++k)");
    for (int v = 0; v < across.vectors; ++v)
      w_.line("const ", vector, " x", v, " = ",
              packed ? vector_load(width, cat("panel + k * ", across.columns(), " + ", v * width))
                     : b_at(width, v * width, "first + k"),
              ';');
    each([&](std::int64_t r, int v, const std::string& c) {
      const std::string a = cat("a[(m + ", r, ") * ", m_.a, " + (first + k) * ", k_.a, inner_a(), ']');
      if (v == 0) w_.line("const ", vector, " a", r, " = ", vector_of(p_.dtype, width, a), ';');
      w_.line(c, " = fma(a", r, ", x", v, ", ", c, ");");
    });
    w_.close();
    close_inner();
    each([&](std::int64_t r, int v, const std::string& c) {
      if (together) return w_.line(vector_store(width, c, c_at(r, v)), ';');
      w_.open("");
      w_.line(type(), " lanes[", width, "];");
      w_.line(vector_store(width, c, "lanes"), ';');
      w_.line("for (int l = 0; l < ", width, "; ++l) *(", c_at(r, v), " + l * ", n_.c, ") ", add ? "+=" : "=",
              " lanes[l];");
      w_.close();
    });
  }

  // ---- vectors along k ----
  void write_dot() {
    const bool many = w_.form().registers() > 8;
    const int width = many ? lanes() : lanes() / 2;
    const std::int64_t most_rows = many ? 4 : 3, most_columns = many ? 5 : 4;
    w_.each(outer_axes(), [&] {
      w_.line(p_.a_type, " a = ", start(p_.a, &Along::a), ';');
      w_.line(p_.b_type, " b = ", start(p_.b, &Along::b), ';');
      w_.line(p_.c_type, " c = ", start(p_.c, &Along::c), ';');
      over(n_.size, most_columns, 'n', [&](std::int64_t columns) {
        over(m_.size, most_rows, 'm', [&](std::int64_t rows) { dot_tile(rows, columns, width); });
      });
    });
  }

  /// Steps of `most`, and what is left.
  void over(std::int64_t size, std::int64_t most, char index, const std::function<void(std::int64_t)>& body) {
    const std::int64_t whole = size / most * most;
    if (whole > 0) {
      w_.open("for (int ", index, " = 0; ", index, " < ", whole, "; ", index, " += ", most, ")");
      body(most);
      w_.close();
    }
    if (whole == size) return;
    w_.open("");
    w_.line("const int ", index, " = ", whole, ';');
    body(size - whole);
    w_.close();
  }

  void dot_tile(std::int64_t rows, std::int64_t columns, int width) {
    const std::string vector = vector_type(p_.dtype, width);
    const std::int64_t whole = k_.size / width * width;
    const auto a_at = [&](std::int64_t r) { return cat("a + (m + ", r, ") * ", m_.a, inner_a(), " + k"); };
    const auto b_at = [&](std::int64_t s) { return cat("b + (n + ", s, ") * ", n_.b, inner_b(), " + k"); };
    const auto each = [&](const auto& body) {
      for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t s = 0; s < columns; ++s) body(r, s, cat("v", r, '_', s), cat("c", r, '_', s));
    };
    each([&](auto, auto, const std::string& v, const std::string& c) {
      w_.line(vector, ' ', v, " = ", vector_of(p_.dtype, width, zero()), ';');
      w_.line(type(), ' ', c, " = ", zero(), ';');
    });
    open_inner();
    w_.open("for (int k = 0; k < ", whole, "; k += ", width, ")");
    for (std::int64_t s = 0; s < columns; ++s)
      w_.line("const ", vector, " y", s, " = ", vector_load(width, b_at(s)), ';');
    for (std::int64_t r = 0; r < rows; ++r) w_.line("const ", vector, " x", r, " = ", vector_load(width, a_at(r)), ';');
    each([&](auto r, auto s, const std::string& v, const std::string&) {
      w_.line(v, " = fma(x", r, ", y", s, ", ", v, ");");
    });
    w_.close();
    if (whole < k_.size) {
      w_.open("for (int k = ", whole, "; k < ", k_.size, "; ++k)");
      each([&](auto r, auto s, const std::string&, const std::string& c) {
        w_.line(c, " = fma(*(", a_at(r), "), *(", b_at(s), "), ", c, ");");
      });
      w_.close();
    }
    close_inner();
    each([&](auto r, auto s, const std::string& v, const std::string& c) {
      fold_lanes(w_, ir::Op::reduce_sum, p_.dtype, width, v, c);
      w_.line("c[(m + ", r, ") * ", m_.c, " + (n + ", s, ") * ", n_.c, "] ", p_.accumulate ? "+=" : "=", ' ', c, ';');
    });
  }

  // ---- vectors along what all three have, such as the channels of a depthwise convolution ----
  void write_batch() {
    for (const Run& run : runs(batch_.size, lanes()))
      w_.each(outer_axes(), [&] {
        w_.open("for (int t = 0; t < ", run.count, "; ++t)");
        w_.line("const int at = ", run.begin, " + t * ", run.width, ';');
        const std::string c_at = cat(start(p_.c, &Along::c), " + at");
        const std::string vector = vector_type(p_.dtype, run.width);
        w_.line(vector,
                " sum = ", p_.accumulate ? vector_load(run.width, c_at) : vector_of(p_.dtype, run.width, zero()), ';');
        open_inner();
        w_.line("sum = fma(", vector_load(run.width, cat(start(p_.a, &Along::a), inner_a(), " + at")), ", ",
                vector_load(run.width, cat(start(p_.b, &Along::b), inner_b(), " + at")), ", sum);");
        close_inner();
        w_.line(vector_store(run.width, "sum", c_at), ';');
        w_.close();
      });
  }

  // ---- many items: a tile of scalars each ----
  void write_items() {
    std::int64_t tm = std::min<std::int64_t>(4, m_.size), tn = std::min<std::int64_t>(4, n_.size), turns = 1;
    for (const Along& x : outer_) turns *= x.size;
    const auto tiles = [&](std::int64_t size, std::int64_t tile) { return (size + tile - 1) / tile; };
    while (tm * tn > 1 && turns * tiles(m_.size, tm) * tiles(n_.size, tn) < w_.form().items)
      (tm >= tn ? tm : tn) = ((tm >= tn ? tm : tn) + 1) / 2;
    const std::int64_t mt = tiles(m_.size, tm), nt = tiles(n_.size, tn);
    std::vector<Axis> axes = outer_axes();
    axes.push_back({"mt", mt});
    axes.push_back({"nt", nt});
    w_.each(axes, [&] {
      w_.line(p_.a_type, " a = ", start(p_.a, &Along::a), ';');
      w_.line(p_.b_type, " b = ", start(p_.b, &Along::b), ';');
      w_.line(p_.c_type, " c = ", start(p_.c, &Along::c), ';');
      // Neighbouring items have neighbouring columns: their loads lie together.
      const auto index = [&](char name, std::int64_t count, std::int64_t tile, std::int64_t size) {
        for (std::int64_t i = 0; i < tile; ++i) {
          const std::string at = cat(name, "t + ", i * count);
          const bool sure = (i + 1) * count <= size;
          w_.line("const int ", name, i, " = ", sure ? at : cat(at, " < ", size, " ? ", at, " : ", size - 1), ';');
        }
      };
      index('m', mt, tm, m_.size);
      index('n', nt, tn, n_.size);
      for (std::int64_t i = 0; i < tm; ++i)
        for (std::int64_t j = 0; j < tn; ++j) w_.line(type(), " c", i, '_', j, " = ", zero(), ';');
      open_inner();
      w_.line("WR_FOURFOLD");
      w_.open("for (int k = 0; k < ", k_.size, "; ++k)");
      for (std::int64_t i = 0; i < tm; ++i)
        w_.line("const ", type(), " x", i, " = a[m", i, " * ", m_.a, " + k * ", k_.a, inner_a(), "];");
      for (std::int64_t j = 0; j < tn; ++j)
        w_.line("const ", type(), " y", j, " = b[n", j, " * ", n_.b, " + k * ", k_.b, inner_b(), "];");
      for (std::int64_t i = 0; i < tm; ++i)
        for (std::int64_t j = 0; j < tn; ++j) w_.line('c', i, '_', j, " = fma(x", i, ", y", j, ", c", i, '_', j, ");");
      w_.close();
      close_inner();
      for (std::int64_t i = 0; i < tm; ++i)
        for (std::int64_t j = 0; j < tn; ++j)
          w_.line("if (mt + ", i * mt, " < ", m_.size, " && nt + ", j * nt, " < ", n_.size, ") c[m", i, " * ", m_.c,
                  " + n", j, " * ", n_.c, "] ", p_.accumulate ? "+=" : "=", " c", i, '_', j, ';');
    });
  }

  Writer& w_;
  Product p_;
  Along m_, n_, k_;
  std::vector<Along> outer_;
  Along batch_;
  Kind form_ = Kind::columns;
  int widest_ = 1;
};

}  // namespace

void write_product(Writer& w, Product product) { Tiles(w, std::move(product)).write(); }

std::string pointer_type(const Form& form, const lower::View& v) {
  const bool local = v.base == lower::kScratch && form.local_bytes > 0;
  return cat(local ? "WR_LOCAL " : "WR_GLOBAL ", type_name(v.dtype), '*');
}

void Chooser::einsum() {
  const ir::Labels labels = ir::Labels::of(node_.attrs.text);
  const std::string &la = labels.operands[0], &lb = labels.operands[1], &lc = labels.result;
  Product p;
  p.dtype = out().dtype;
  for (char label : labels.all()) {
    const auto ia = la.find(label), ib = lb.find(label), ic = lc.find(label);
    const bool in_a = ia != std::string::npos, in_b = ib != std::string::npos, in_c = ic != std::string::npos;
    Along x;
    x.size = in_a ? in(0).shape[static_cast<int>(ia)] : in(1).shape[static_cast<int>(ib)];
    if (in_a) x.a = in(0).strides[static_cast<int>(ia)];
    if (in_b) x.b = in(1).strides[static_cast<int>(ib)];
    if (in_c) x.c = out().strides[static_cast<int>(ic)];
    (in_a && in_b ? (in_c ? p.batch : p.inner) : in_a ? p.rows : p.columns).push_back(x);
  }
  product({out(), in(0), in(1)}, p, work_.out[0].accumulate);
}

void Chooser::product(const Operands& operands, Product p, bool accumulate, std::int64_t a_offset) {
  p.dtype = operands[0].dtype;
  p.c = "p0";
  p.a = a_offset ? cat("p1 + ", a_offset) : "p1";
  p.b = "p2";
  p.c_type = pointer_type(form(), operands[0]);
  p.a_type = pointer_type(form(), operands[1]);
  p.b_type = pointer_type(form(), operands[2]);
  p.accumulate = accumulate;
  call(operands, [&](Writer& w) { write_product(w, p); });
}

}  // namespace wr::device
