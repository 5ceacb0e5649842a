// Convolutions, pools, patches, and the ops of logic gates.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "casters.h"
#include "layer_options.h"

namespace wr::python {

using namespace nb::literals;

Padding padding_from(nb::handle padding) {
  if (nb::isinstance<nb::str>(padding)) {
    const auto name = nb::cast<std::string>(padding);
    if (name == "same") return Padding::same;
    if (name == "valid") return Padding::valid;
    throw nb::value_error(("padding: '" + name + "' is not 'same', 'valid' or a number of zeros").c_str());
  }
  return nb::cast<std::int64_t>(padding);
}

Border border_from(const std::string& border) {
  if (border == "zero") return Border::zero;
  if (border == "wrap") return Border::wrap;
  throw nb::value_error(("border: '" + border + "' is not 'zero' or 'wrap'").c_str());
}

namespace {

void bind_convolutions(nb::module_& m) {
#define CONV(op, doc)                                                                                      \
  m.def(                                                                                                   \
      #op,                                                                                                 \
      [](nb::handle x, nb::handle weights, nb::handle padding, std::int64_t stride, std::int64_t dilation, \
         std::int64_t groups) {                                                                            \
        const Location w = here();                                                                         \
        const ConvOptions o{padding_from(padding), stride, dilation, groups};                              \
        return either(                                                                                     \
            {x, weights}, [&] { return op(tensor_from(x, w), tensor_from(weights, w), o, w); },            \
            [&] { return op(ArrayIn(x, #op), ArrayIn(weights, #op), o, w); });                             \
      },                                                                                                   \
      "x"_a, "weights"_a, "padding"_a = 0, "stride"_a = 1, "dilation"_a = 1, "groups"_a = 1, doc);
  CONV(conv2d,
       "x [b,h,w,c] with weights [kh,kw,c / groups,o] gives [b,h',w',o]. padding: 'valid', 'same' or zeros on every "
       "side.")
  CONV(conv1d, "x [b,t,c] with weights [k,c / groups,o] gives [b,t',o].")
  CONV(conv_transpose2d, "The adjoint of conv2d in its image: x [b,h,w,c] with weights [c,kh,kw,o].")
#undef CONV
}

void bind_pools(nb::module_& m) {
  nb::class_<Window>(m, "Window", "A window over images: its size, stride, dilation and what stands round the image.")
      .def(
          "__init__",
          [](Window* self, std::int64_t height, std::int64_t width, std::int64_t stride_h, std::int64_t stride_w,
             std::int64_t dilation_h, std::int64_t dilation_w, std::int64_t top, std::int64_t bottom, std::int64_t left,
             std::int64_t right) {
            new (self) Window{height, width, stride_h, stride_w, dilation_h, dilation_w, top, bottom, left, right};
          },
          "height"_a, "width"_a, "stride_h"_a = 1, "stride_w"_a = 1, "dilation_h"_a = 1, "dilation_w"_a = 1,
          "pad_top"_a = 0, "pad_bottom"_a = 0, "pad_left"_a = 0, "pad_right"_a = 0)
      .def_rw("height", &Window::height)
      .def_rw("width", &Window::width)
      .def_rw("stride_h", &Window::stride_h)
      .def_rw("stride_w", &Window::stride_w)
      .def_rw("dilation_h", &Window::dilation_h)
      .def_rw("dilation_w", &Window::dilation_w)
      .def_rw("pad_top", &Window::pad_top)
      .def_rw("pad_bottom", &Window::pad_bottom)
      .def_rw("pad_left", &Window::pad_left)
      .def_rw("pad_right", &Window::pad_right);
#define POOL(op, doc)                                                                                                 \
  m.def(                                                                                                              \
      #op,                                                                                                            \
      [](nb::handle x, nb::handle size, std::int64_t stride) {                                                        \
        const Location w = here();                                                                                    \
        if (nb::isinstance<Window>(size)) {                                                                           \
          const auto& window = nb::cast<const Window&>(size);                                                         \
          return either(                                                                                              \
              {x}, [&] { return op(tensor_from(x, w), window, w); }, [&] { return op(ArrayIn(x, #op), window, w); }); \
        }                                                                                                             \
        const auto n = nb::cast<std::int64_t>(size);                                                                  \
        return either(                                                                                                \
            {x}, [&] { return op(tensor_from(x, w), n, stride, w); },                                                 \
            [&] { return op(ArrayIn(x, #op), n, stride, w); });                                                       \
      },                                                                                                              \
      "x"_a, "size"_a, "stride"_a = 0, doc);
  POOL(max_pool, "Largest element of each window; size is a number or a Window.")
  POOL(avg_pool, "Mean of each window; the padding's zeros count.")
#undef POOL
  m.def(
      "unfold",
      [](nb::handle x, const Window& window) {
        const Location w = here();
        return either(
            {x}, [&] { return unfold(tensor_from(x, w), window, w); },
            [&] { return unfold(ArrayIn(x, "unfold"), window, w); });
      },
      "x"_a, "window"_a, "Patches: [b,h,w,c] to [b,h',w',kh,kw,c], zeros outside.");
  m.def(
      "fold",
      [](nb::handle x, const Shape& image, const Window& window) {
        const Location w = here();
        return either(
            {x}, [&] { return fold(tensor_from(x, w), image, window, w); },
            [&] { return fold(ArrayIn(x, "fold"), image, window, w); });
      },
      "patches"_a, "image"_a, "window"_a, "The adjoint of unfold: overlaps add up.");
}

void bind_gates(nb::module_& m) {
  m.def(
      "gates",
      [](nb::handle x, nb::handle coefficients, const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs) {
        const Location w = here();
        Wiring wiring;
        for (const auto& [a, b] : pairs) wiring.push_back({a, b});
        return gates(tensor_from(x, w), tensor_from(coefficients, w), wiring, w);
      },
      "x"_a, "coefficients"_a, "wiring"_a,
      "x [wires, cells] to [gates, cells]: gate i is c0 + c1 a + c2 b + c3 ab, of the wires wiring[i]; traced.");
  m.def(
      "gate_coefficients",
      [](nb::handle logits) {
        const Location w = here();
        return gate_coefficients(tensor_from(logits, w), w);
      },
      "logits"_a, "Mixtures of the sixteen Boolean functions, by logits [..., 16], as coefficients [..., 4]; traced.");
  m.def(
      "neighbours",
      [](nb::handle x, std::int64_t height, std::int64_t width, const std::string& border) {
        const Location w = here();
        return neighbours(tensor_from(x, w), height, width, border_from(border), w);
      },
      "x"_a, "height"_a, "width"_a, "border"_a = "zero",
      "States [channels, cells] of grids to the 3x3 neighbourhood of each cell, [channels * 9, cells]; traced.");
}

}  // namespace

void bind_window_ops(nb::module_& m) {
  bind_convolutions(m);
  bind_pools(m);
  bind_gates(m);
}

}  // namespace wr::python
