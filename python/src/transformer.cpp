// windrow.nn: transformers, with positions, and going on one position at a time.
#include "windrow/transformer.h"

#include <nanobind/stl/optional.h>

#include "casters.h"
#include "layer_options.h"

namespace wr::python {
namespace {

using namespace nb::literals;

nn::Causal causal_from(bool causal) { return causal ? nn::Causal::yes : nn::Causal::no; }

nn::TransformerOptions options_from(std::int64_t hidden, double dropout, bool norm_first, bool causal, bool rotary,
                                    DType dtype) {
  nn::TransformerOptions o;
  o.hidden = hidden;
  o.dropout = dropout;
  o.norm_first = norm_first;
  o.causal = causal_from(causal);
  o.rotary = rotary;
  o.dtype = dtype;
  return o;
}

/// next(x, seen, position) of a layer.
template <class Layer>
Tensor next_of(const Layer& layer, nb::handle x, const nn::KeyValues& seen, nb::handle position) {
  const Location w = here();
  return layer.next(tensor_from(x, w), seen, tensor_from(position, w), w);
}

void bind_positions(nb::module_& n) {
  n.def("sinusoidal_positions", &nn::sinusoidal_positions, "length"_a, "width"_a, "base"_a = 10000.0,
        "Row t is sin(t w), cos(t w) in turns, with w from 1 down to 1 / base: f64[length, width].");
  n.def(
      "rotary",
      [](nb::handle x, std::int64_t first, double base) {
        const Location w = here();
        return nn::rotary(tensor_from(x, w), first, base, w);
      },
      "x"_a, "first"_a = 0, "base"_a = 10000.0, "x [b,t,heads,d] turned by positions first, first + 1, ...");
  n.def(
      "rotary_at",
      [](nb::handle x, nb::handle position, std::int64_t length, double base) {
        const Location w = here();
        return nn::rotary_at(tensor_from(x, w), tensor_from(position, w), length, base, w);
      },
      "x"_a, "position"_a, "length"_a, "base"_a = 10000.0,
      "x [b,1,heads,d] turned by one position, i32[], which is below `length`.");
  nb::class_<nn::Positions, nn::Module>(n, "Positions", "x [b,t,width] plus something for each position.")
      .def(
          "__init__",
          [](nn::Positions* self, std::int64_t length, std::int64_t width, bool learned, DType dtype) {
            new (self) nn::Positions(length, width, {learned, dtype}, here());
          },
          "length"_a, "width"_a, "learned"_a = true, "dtype"_a = Type{DType::f32}, "Learned, or sines and cosines.")
      .def(
          "next",
          [](const nn::Positions& p, nb::handle x, nb::handle position) {
            const Location w = here();
            return p.next(tensor_from(x, w), tensor_from(position, w), w);
          },
          "x"_a, "position"_a, "For one position, x [b,1,width], whose number a step is given: i32[].")
      .def_ro("w", &nn::Positions::w);
}

void bind_heads(nb::module_& n) {
  nb::class_<nn::KeyValues>(n, "KeyValues", "Keys and values of the positions seen so far; two States.")
      .def(nb::init<std::int64_t, std::int64_t, std::int64_t, std::int64_t, DType>(), "batch"_a, "length"_a, "heads"_a,
           "width"_a, "dtype"_a = Type{DType::f32})
      .def_ro("keys", &nn::KeyValues::keys)
      .def_ro("values", &nn::KeyValues::values);
  nb::class_<nn::MultiHeadAttention, nn::Module>(n, "MultiHeadAttention",
                                                 "Attention of a sequence [b,t,width] to itself, or to another one.")
      .def(
          "__init__",
          [](nn::MultiHeadAttention* self, std::int64_t width, std::int64_t heads, bool causal, bool bias, bool rotary,
             DType dtype) {
            new (self) nn::MultiHeadAttention(width, heads, {causal_from(causal), bias, rotary, dtype}, here());
          },
          "width"_a, "heads"_a, "causal"_a = false, "bias"_a = true, "rotary"_a = false, "dtype"_a = Type{DType::f32})
      .def(
          "attend",
          [](const nn::MultiHeadAttention& a, nb::handle x, nb::handle source, nb::handle mask,
             const std::string& mode) {
            const Location w = here();
            return a.attend(tensor_from(x, w), tensor_from(source, w), mask.is_none() ? Tensor() : tensor_from(mask, w),
                            mode == "eval" ? nn::Mode::eval : nn::Mode::train, w);
          },
          "x"_a, "source"_a, "mask"_a.none() = nb::none(), "mode"_a = "train",
          "Queries from x [b,t,width], keys and values from source [b,s,width].")
      .def("next", &next_of<nn::MultiHeadAttention>, "x"_a, "seen"_a, "position"_a,
           "One more position, x [b,1,width], of a sequence whose earlier ones `seen` holds.")
      .def_prop_ro("heads", &nn::MultiHeadAttention::heads)
      .def_ro("q", &nn::MultiHeadAttention::q)
      .def_ro("k", &nn::MultiHeadAttention::k)
      .def_ro("v", &nn::MultiHeadAttention::v)
      .def_ro("out", &nn::MultiHeadAttention::out);
}

void bind_layers(nb::module_& n) {
  nb::class_<nn::TransformerEncoderLayer, nn::Module>(
      n, "TransformerEncoderLayer",
      "Attention of a sequence [b,t,width] to itself, then two dense layers at each position; each with a norm and "
      "added to what it came from.")
      .def(
          "__init__",
          [](nn::TransformerEncoderLayer* self, std::int64_t width, std::int64_t heads, std::int64_t hidden,
             double dropout, bool norm_first, bool causal, bool rotary, DType dtype) {
            new (self) nn::TransformerEncoderLayer(
                width, heads, options_from(hidden, dropout, norm_first, causal, rotary, dtype), here());
          },
          "width"_a, "heads"_a, "hidden"_a = 0, "dropout"_a = 0.0, "norm_first"_a = true, "causal"_a = false,
          "rotary"_a = false, "dtype"_a = Type{DType::f32}, "hidden: of the dense layers; 0 for 4 * width.")
      .def("next", &next_of<nn::TransformerEncoderLayer>, "x"_a, "seen"_a, "position"_a,
           "One more position, x [b,1,width], of a sequence whose earlier ones `seen` holds.");
  nb::class_<nn::TransformerDecoderLayer, nn::Module>(
      n, "TransformerDecoderLayer", "The same, with attention to another sequence [b,s,width] between the two.")
      .def(
          "__init__",
          [](nn::TransformerDecoderLayer* self, std::int64_t width, std::int64_t heads, std::int64_t hidden,
             double dropout, bool norm_first, bool rotary, DType dtype) {
            new (self) nn::TransformerDecoderLayer(
                width, heads, options_from(hidden, dropout, norm_first, true, rotary, dtype), here());
          },
          "width"_a, "heads"_a, "hidden"_a = 0, "dropout"_a = 0.0, "norm_first"_a = true, "rotary"_a = false,
          "dtype"_a = Type{DType::f32})
      .def(
          "__call__",
          [](const nn::TransformerDecoderLayer& d, nb::handle x, nb::handle source, const std::string& mode) {
            const Location w = here();
            return d(tensor_from(x, w), tensor_from(source, w), mode == "eval" ? nn::Mode::eval : nn::Mode::train, w);
          },
          "x"_a, "source"_a, "mode"_a = "train");
}

}  // namespace

void bind_transformer(nb::module_& nn_module) {
  bind_positions(nn_module);
  bind_heads(nn_module);
  bind_layers(nn_module);
}

}  // namespace wr::python
