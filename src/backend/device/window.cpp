// Windows over images, and convolutions. A convolution is a product over the image itself: a row of the product is a
// pixel, what it sums over are the pixels of its window. Where windows reach over the edge, the image is copied into
// zeros first; going back, the gradient's pixels stand as far apart as the windows did.
#include <algorithm>

#include "backend/device/choose.h"
#include "backend/device/vectors.h"
#include "ir/attributes.h"

namespace wr::device {

using ir::Op;

namespace {

/// A statement for every channel c: a loop of its own where one item has all channels.
void channels(Writer& w, std::int64_t count, const std::string& statement) {
  if (!w.form().vectors()) return w.line(statement);
  w.line("WR_VECTORISE");
  w.line("for (int c = 0; c < ", count, "; ++c) ", statement);
}

std::vector<Axis> with_channels(const Form& form, std::vector<Axis> axes, std::int64_t count) {
  if (!form.vectors()) axes.push_back({"c", count});
  return axes;
}

/// Opens loops over the pixels (y, x) of window (row, column) that are in the image, at (h, v) there.
void open_window(Writer& w, const Window& window, const Shape& image) {
  w.open("for (int y = 0; y < ", window.height, "; ++y)");
  w.line("const int h = row * ", window.stride_h, " + y * ", window.dilation_h, " - ", window.pad_top, ';');
  w.line("if (h < 0 || h >= ", image[1], ") continue;");
  w.open("for (int x = 0; x < ", window.width, "; ++x)");
  w.line("const int v = column * ", window.stride_w, " + x * ", window.dilation_w, " - ", window.pad_left, ';');
  w.line("if (v < 0 || v >= ", image[2], ") continue;");
}

void close_window(Writer& w) {
  w.close();
  w.close();
}

std::string at(std::size_t operand, const View& v, const std::vector<std::string>& index) {
  return cat('p', operand, '[', place(v, index), ']');
}

}  // namespace

void Chooser::window() {
  const Window win = ir::window_of(node_.attrs);
  const DType dtype = out().dtype;
  const std::string zero = literal(dtype, 0);
  const std::vector<std::string> pixel{"b", "h", "v", "c"};
  const std::int64_t count = node_.op == Op::unfold ? in().shape[3] : out().shape[3];
  switch (node_.op) {
    case Op::unfold:
      return call({out(), in()}, [&](Writer& w) {
        const Shape& s = out().shape;
        const auto axes =
            with_channels(w.form(), {{"b", s[0]}, {"row", s[1]}, {"column", s[2]}, {"y", s[3]}, {"x", s[4]}}, count);
        w.each(axes, [&] {
          w.line("const int h = row * ", win.stride_h, " + y * ", win.dilation_h, " - ", win.pad_top, ';');
          w.line("const int v = column * ", win.stride_w, " + x * ", win.dilation_w, " - ", win.pad_left, ';');
          w.line("const int inside = h >= 0 && h < ", in().shape[1], " && v >= 0 && v < ", in().shape[2], ';');
          const std::string to = at(0, out(), {"b", "row", "column", "y", "x", "c"});
          w.open("if (inside)");
          channels(w, count, cat(to, " = ", at(1, in(), pixel), ';'));
          w.close();
          w.open("else");
          channels(w, count, cat(to, " = ", zero, ';'));
          w.close();
        });
      });
    case Op::fold:
      return call({out(), in()}, [&](Writer& w) {
        const Shape& s = out().shape;
        w.each(with_channels(w.form(), {{"b", s[0]}, {"h", s[1]}, {"v", s[2]}}, count), [&] {
          channels(w, count, cat(at(0, out(), pixel), " = ", zero, ';'));
          w.open("for (int y = 0; y < ", win.height, "; ++y)");
          w.line("const int up = h + ", win.pad_top, " - y * ", win.dilation_h, ", row = up / ", win.stride_h, ';');
          w.line("if (up < 0 || up % ", win.stride_h, " != 0 || row >= ", in().shape[1], ") continue;");
          w.open("for (int x = 0; x < ", win.width, "; ++x)");
          w.line("const int left = v + ", win.pad_left, " - x * ", win.dilation_w, ", column = left / ", win.stride_w,
                 ';');
          w.line("if (left < 0 || left % ", win.stride_w, " != 0 || column >= ", in().shape[2], ") continue;");
          channels(w, count, cat(at(0, out(), pixel), " += ", at(1, in(), {"b", "row", "column", "y", "x", "c"}), ';'));
          close_window(w);
        });
      });
    default:
      return max_pool();
  }
}

namespace {

/// A pool's windows: the largest of an image's pixels in each, the first where several are. Vectors run over channels.
class Pool {
 public:
  Pool(const Window& window, const View& image, DType dtype) : window_(window), image_(image), dtype_(dtype) {}

  /// Of `width` channels from c on: what stands at the largest of p1 in another image, p2, at `to`.
  void pick(Writer& w, const View& picked, int width, const std::string& to) const {
    const std::string type = vector_type(dtype_, width);
    w.line(type, " best = ", vector_of(dtype_, width, literal(dtype_, 0)), ", top = best;");
    w.line("int any = 0;");
    open_window(w, window_, image_.shape);
    w.line("const ", type, " now = ", load(1, image_, width), ", there = ", load(2, picked, width), ';');
    keep_larger(w, "there");
    close_window(w);
    w.line(vector_store(width, "best", to), ';');
  }

  /// To the largest of p1 in p0 is added what comes from above.
  void scatter(Writer& w, const View& out, int width, const std::string& above) const {
    const std::string type = vector_type(dtype_, width), zero = vector_of(dtype_, width, literal(dtype_, 0));
    w.line(type, " best = ", zero, ", top = best;");
    w.line("int any = 0;");
    open_window(w, window_, image_.shape);
    w.line("const ", type, " now = ", load(1, image_, width), ", here = ", number(width), ';');
    keep_larger(w, "here");
    close_window(w);
    w.line("const ", type, " by = ", vector_load(width, above), ';');
    open_window(w, window_, image_.shape);
    const std::string sum = cat(load(0, out, width), " + (best == ", number(width), " ? by : ", zero, ')');
    w.line(vector_store(width, sum, place_of(0, out)), ';');
    close_window(w);
  }

 private:
  /// What belongs to the largest of the pixels so far.
  static void keep_larger(Writer& w, const char* belongs) {
    w.open("if (any)");
    w.line("best = now > top ? ", belongs, " : best;");
    w.line("top = now > top ? now : top;");
    w.close();
    w.open("else");
    w.line("best = ", belongs, ';');
    w.line("top = now;");
    w.close();
    w.line("any = 1;");
  }
  static std::string place_of(std::size_t operand, const View& v) {
    return cat('p', operand, " + ", place(v, {"b", "h", "v", "c"}));
  }
  static std::string load(std::size_t operand, const View& v, int width) {
    return vector_load(width, place_of(operand, v));
  }
  /// Of a window's pixel.
  std::string number(int width) const {
    return vector_of(dtype_, width, cat('(', type_name(dtype_), ")(y * ", window_.width, " + x)"));
  }

  const Window& window_;
  const View& image_;
  DType dtype_;
};

}  // namespace

void Chooser::max_pool() {
  const Window win = ir::window_of(node_.attrs);
  const bool picks = node_.op == Op::max_pool_pick;
  const View& cells = picks ? out() : in(1);
  const Pool pool(win, in(0), out().dtype);
  const Operands operands = all();
  const std::int64_t count = in(0).shape[3];
  const bool dense = std::all_of(operands.begin(), operands.end(), [](const View& v) { return v.strides[3] == 1; });
  const auto cell = [&](std::size_t k) { return cat('p', k, " + ", place(cells, {"b", "row", "column", "c"})); };
  const auto windows = [&](Writer& w, std::vector<Axis> axes, const std::function<void(int)>& body) {
    if (!w.form().vectors()) {
      axes.push_back({"c", count});
      return w.each(axes, [&] { body(1); });
    }
    w.each(axes, [&] {
      for (const Run& run : runs(count, dense ? Form::lanes(out().dtype) : 1)) {
        w.open("for (int c = ", run.begin, "; c < ", run.begin + run.count * run.width, "; c += ", run.width, ")");
        body(run.width);
        w.close();
      }
    });
  };
  call(operands, [&](Writer& w) {
    const Shape& s = cells.shape;
    if (picks)
      return windows(w, {{"b", s[0]}, {"row", s[1]}, {"column", s[2]}},
                     [&](int width) { pool.pick(w, in(1), width, cell(0)); });
    const Shape& image = out().shape;
    w.each(
        {{"b", image[0]}, {"h", image[1]}, {"v", image[2]}, {"c", image[3]}},
        [&] {
          w.line(at(0, out(), {"b", "h", "v", "c"}), " = ", literal(out().dtype, 0), ';');
        },
        true);
    // Windows may overlap, so one turn has all windows of a channel.
    windows(w, {{"b", s[0]}}, [&](int width) {
      w.open("for (int row = 0; row < ", s[1], "; ++row) for (int column = 0; column < ", s[2], "; ++column)");
      pool.scatter(w, out(), width, cell(2));
      w.close();
    });
  });
}

View Chooser::framed(const View& image, std::int64_t height, std::int64_t width, std::int64_t top, std::int64_t left,
                     std::int64_t apart_h, std::int64_t apart_w) {
  if (top == 0 && left == 0 && apart_h == 1 && apart_w == 1 && height <= image.shape[1] && width <= image.shape[2])
    return image;
  const View frame = emit_.scratch(image.dtype, {image.shape[0], height, width, image.shape[3]});
  const std::int64_t count = image.shape[3];
  call({frame, image}, [&](Writer& w) {
    w.each(with_channels(w.form(), {{"b", image.shape[0]}, {"h", height}, {"v", width}}, count), [&] {
      w.line("const int y = h - ", top, ", x = v - ", left, ';');
      w.line("const int inside = y >= 0 && x >= 0 && y % ", apart_h, " == 0 && x % ", apart_w, " == 0 && y / ", apart_h,
             " < ", image.shape[1], " && x / ", apart_w, " < ", image.shape[2], ';');
      const std::string to = at(0, frame, {"b", "h", "v", "c"});
      w.open("if (inside)");
      w.line("const int row = y / ", apart_h, ", column = x / ", apart_w, ';');
      channels(w, count, cat(to, " = ", at(1, image, {"b", "row", "column", "c"}), ';'));
      w.close();
      w.open("else");
      channels(w, count, cat(to, " = ", literal(frame.dtype, 0), ';'));
      w.close();
    });
  });
  return frame;
}

void Chooser::conv() {
  const ir::Convolution attrs = ir::Convolution::of(node_.attrs);
  const Window& win = attrs.window;
  const std::int64_t groups = attrs.groups;
  const View& weights = node_.op == Op::conv_grad_w ? out() : in(1);
  const std::int64_t wide = weights.shape[2], deep = weights.shape[3] / groups;  // channels of a group, in and out
  const auto stride = [](const View& v, int axis) { return v.shape[axis] == 1 ? 0 : v.strides[axis]; };

  if (node_.op != Op::conv_grad_x) {
    const View& y = node_.op == Op::conv ? out() : in(1);
    const View x =
        framed(in(0), (y.shape[1] - 1) * win.stride_h + (win.height - 1) * win.dilation_h + 1,
               (y.shape[2] - 1) * win.stride_w + (win.width - 1) * win.dilation_w + 1, win.pad_top, win.pad_left, 1, 1);
    // As a product x . w -> y; the gradient by w has the same pixels with w and y exchanged.
    const Along batch{y.shape[0], stride(x, 0), 0, stride(y, 0)};
    const Along rows{y.shape[1], win.stride_h * stride(x, 1), 0, stride(y, 1)};
    const Along columns{y.shape[2], win.stride_w * stride(x, 2), 0, stride(y, 2)};
    const Along tall{win.height, win.dilation_h * stride(x, 1), stride(weights, 0), 0};
    const Along broad{win.width, win.dilation_w * stride(x, 2), stride(weights, 1), 0};
    const Along in_channels{wide, stride(x, 3), stride(weights, 2), 0};
    const Along out_channels{deep, 0, stride(weights, 3), stride(y, 3)};
    const Along group{groups, wide * stride(x, 3), deep * stride(weights, 3), deep * stride(y, 3)};
    Product p;
    if (node_.op == Op::conv) {
      p.batch = {group};
      p.rows = {batch, rows, columns};
      p.columns = {out_channels};
      p.inner = {tall, broad, in_channels};
      return product({out(), x, in(1)}, p, work_.out[0].accumulate);
    }
    const auto turned = [](Along along) { return Along{along.size, along.a, along.c, along.b}; };
    p.batch = {turned(group)};
    p.rows = {turned(tall), turned(broad), turned(in_channels)};
    p.columns = {turned(out_channels)};
    p.inner = {turned(batch), turned(rows), turned(columns)};
    return product({out(), x, in(1)}, p, work_.out[0].accumulate);
  }

  // dx[h] = sum over y of g[(h + pad - y * dilation) / stride], where that divides: g's pixels stride apart, in zeros,
  // and a window that is gone through backwards.
  const View& g = in(0);
  const std::int64_t reach_h = (win.height - 1) * win.dilation_h, reach_w = (win.width - 1) * win.dilation_w;
  const std::int64_t top = std::max<std::int64_t>(reach_h - win.pad_top, 0),
                     left = std::max<std::int64_t>(reach_w - win.pad_left, 0);
  const View frame = framed(g, out().shape[1] + win.pad_top + top, out().shape[2] + win.pad_left + left, top, left,
                            win.stride_h, win.stride_w);
  View w = emit_.scratch(weights.dtype, {weights.shape[0], weights.shape[1], weights.shape[3], weights.shape[2]});
  View turned = w;  // [y, x, in, out] as a view of [y, x, out, in]
  turned.shape = weights.shape;
  std::swap(turned.strides[2], turned.strides[3]);
  copy(turned, weights);
  Product p;
  p.batch = {{groups, deep * stride(frame, 3), deep * turned.strides[3], wide * stride(out(), 3)}};
  p.rows = {{out().shape[0], stride(frame, 0), 0, stride(out(), 0)},
            {out().shape[1], stride(frame, 1), 0, stride(out(), 1)},
            {out().shape[2], stride(frame, 2), 0, stride(out(), 2)}};
  p.columns = {{wide, 0, turned.strides[2], stride(out(), 3)}};
  p.inner = {{win.height, -win.dilation_h * stride(frame, 1), turned.strides[0], 0},
             {win.width, -win.dilation_w * stride(frame, 2), turned.strides[1], 0},
             {deep, stride(frame, 3), turned.strides[3], 0}};
  product({out(), frame, w}, p, work_.out[0].accumulate,
          (win.pad_top + top) * stride(frame, 1) + (win.pad_left + left) * stride(frame, 2));
}

}  // namespace wr::device
