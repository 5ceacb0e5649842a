// windrow.nn: the layers of C++. Containers and modules of the user's own are in windrow/nn.py.
#include "windrow/nn.h"

#include <nanobind/stl/function.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "casters.h"
#include "layer_options.h"

namespace wr::python {
namespace {

using namespace nb::literals;

/// An Initialiser is a std::function; as a class of its own it can be a default argument and has a repr.
struct Init {
  std::string name;
  nn::Initialiser make;
};

nn::Initialiser initialiser_from(nb::handle object, const nn::Initialiser& otherwise) {
  if (object.is_none()) return otherwise;
  if (nb::isinstance<Init>(object)) return nb::cast<const Init&>(object).make;
  if (PyCallable_Check(object.ptr())) {  // fn(shape, fan_in, fan_out, seed) -> array
    return [fn = nb::borrow(object)](const Shape& shape, const nn::Fans& fans, std::uint64_t seed) {
      return copied_array(fn(to_python(shape), fans.in, fans.out, seed), DType::f64);
    };
  }
  return [value = copied_array(object, DType::f64)](const Shape& shape, const nn::Fans&, std::uint64_t) {
    return value.broadcast_to(shape).clone();
  };
}

nn::Mode mode_from(const std::string& mode) {
  if (mode == "train") return nn::Mode::train;
  if (mode == "eval") return nn::Mode::eval;
  throw nb::value_error(("mode: '" + mode + "' is not 'train' or 'eval'").c_str());
}

void bind_init(nb::module_& m) {
  nb::class_<Init>(m, "Initialiser", "How a parameter begins.")
      .def("__repr__", [](const Init& i) { return i.name; })
      .def(
          "__call__",
          [](const Init& i, const Shape& shape, std::int64_t fan_in, std::int64_t fan_out, std::uint64_t seed) {
            return i.make(shape, {fan_in, fan_out}, seed);
          },
          "shape"_a, "fan_in"_a = 1, "fan_out"_a = 1, "seed"_a = 0);
  namespace init = nn::init;
  m.def("zeros", [] { return Init{"zeros()", init::zeros()}; });
  m.def(
      "constant",
      [](double v) {
        return Init{"constant", init::constant(v)};
      },
      "value"_a);
  m.def(
      "uniform",
      [](double low, double high) {
        return Init{"uniform", init::uniform(low, high)};
      },
      "low"_a, "high"_a);
  m.def(
      "normal",
      [](double d, double mean) {
        return Init{"normal", init::normal(d, mean)};
      },
      "deviation"_a = 1.0, "mean"_a = 0.0);
  m.def(
      "truncated_normal",
      [](double d, double mean) {
        return Init{"truncated_normal", init::truncated_normal(d, mean)};
      },
      "deviation"_a = 1.0, "mean"_a = 0.0, "Normal, drawn again beyond two deviations.");
  m.def(
      "he_normal",
      [] {
        return Init{"he_normal()", init::he_normal()};
      },
      "Variance 2 / fan in.");
  m.def("he_uniform", [] { return Init{"he_uniform()", init::he_uniform()}; });
  m.def(
      "xavier_normal",
      [](double gain) {
        return Init{"xavier_normal", init::xavier_normal(gain)};
      },
      "gain"_a = 1.0);
  m.def(
      "xavier_uniform",
      [](double gain) {
        return Init{"xavier_uniform", init::xavier_uniform(gain)};
      },
      "gain"_a = 1.0);
  m.def(
      "fan_in_uniform",
      [] {
        return Init{"fan_in_uniform()", init::fan_in_uniform()};
      },
      "Uniform within 1 / sqrt(fan in) of 0: what PyTorch's layers start with.");
  m.def(
      "orthogonal",
      [](double gain) {
        return Init{"orthogonal", init::orthogonal(gain)};
      },
      "gain"_a = 1.0);
}

void bind_module(nb::module_& m) {
  m.def("seed", &nn::seed, "seed"_a, "Layers made from here on, in this order, start with the same values.");
  nb::class_<nn::Module>(m, "Layer", "A layer of C++: tensors in, tensor out, with parameters and buffers.")
      .def(
          "__call__",
          [](const nn::Module& module, nb::handle x, const std::string& mode) {
            const Location w = here();
            return module(tensor_from(x, w), mode_from(mode), w);
          },
          "x"_a, "mode"_a = "train", "In a trace. mode is 'train' or 'eval': Dropout and BatchNorm differ.")
      .def("parameters", &nn::Module::parameters, "What training changes.")
      .def("states", &nn::Module::states, "Parameters and buffers: what a checkpoint holds.")
      .def_prop_ro("kind", &nn::Module::kind)
      .def_prop_ro("path", [](const nn::Module& module) { return module.path(); })
      .def("rename", &nn::Module::rename, "path"_a)
      .def("__repr__", &nn::Module::kind);
  nb::class_<nn::Lambda, nn::Module>(m, "Lambda", "A function without parameters as a layer.")
      .def(
          "__init__",
          [](nn::Lambda* self, nb::callable fn, const std::string& kind) {
            new (self) nn::Lambda(kind, [fn](const Tensor& x, Location w) { return tensor_from(fn(x), w); });
          },
          "fn"_a, "kind"_a = "Lambda");
}

void bind_activations(nb::module_& m) {
#define PLAIN(name) m.def(#name, [] { return nn::name(); })
  PLAIN(Relu);
  PLAIN(Relu6);
  PLAIN(Elu);
  PLAIN(Softplus);
  PLAIN(Silu);
  PLAIN(Gelu);
  PLAIN(Sigmoid);
  PLAIN(Tanh);
  PLAIN(Flatten);
  PLAIN(GlobalMaxPool);
  PLAIN(GlobalAvgPool);
#undef PLAIN
  m.def(
      "LeakyRelu", [](double slope) { return nn::LeakyRelu(slope); }, "slope"_a = 0.01);
  m.def(
      "Softmax", [](int axis) { return nn::Softmax(axis); }, "axis"_a = -1);
  m.def(
      "LogSoftmax", [](int axis) { return nn::LogSoftmax(axis); }, "axis"_a = -1);
  m.def(
      "Reshape", [](const Shape& sizes) { return nn::Reshape(sizes); }, "sizes"_a,
      "[batch, ...] to [batch, sizes...]; one size may be -1.");
  m.def(
      "MaxPool",
      [](std::int64_t size, std::int64_t stride, nb::handle padding) {
        return nn::MaxPool(size, stride, padding_from(padding));
      },
      "size"_a, "stride"_a = 0, "padding"_a = 0);
  m.def(
      "AvgPool",
      [](std::int64_t size, std::int64_t stride, nb::handle padding) {
        return nn::AvgPool(size, stride, padding_from(padding));
      },
      "size"_a, "stride"_a = 0, "padding"_a = 0);
}

void bind_dense(nb::module_& m) {
  nb::class_<nn::Dense, nn::Module>(m, "Dense", "x . w + b over the last axis; w [in, out].")
      .def(
          "__init__",
          [](nn::Dense* self, std::int64_t in, std::int64_t out, bool bias, nb::handle weights, nb::handle biases,
             DType dtype) {
            const nn::DenseOptions d;
            new (self) nn::Dense(
                in, out, {bias, initialiser_from(weights, d.weights), initialiser_from(biases, d.biases), dtype},
                here());
          },
          "inputs"_a, "outputs"_a, "bias"_a = true, "weights"_a.none() = nb::none(), "biases"_a.none() = nb::none(),
          "dtype"_a = Type{DType::f32})
      .def_ro("w", &nn::Dense::w)
      .def_ro("b", &nn::Dense::b);
  nb::class_<nn::Embedding, nn::Module>(m, "Embedding", "Rows of a table [entries, width] by i32 indices of any shape.")
      .def(
          "__init__",
          [](nn::Embedding* self, std::int64_t entries, std::int64_t width, nb::handle weights, DType dtype) {
            new (self) nn::Embedding(entries, width, {initialiser_from(weights, nn::EmbeddingOptions{}.weights), dtype},
                                     here());
          },
          "entries"_a, "width"_a, "weights"_a.none() = nb::none(), "dtype"_a = Type{DType::f32})
      .def_ro("w", &nn::Embedding::w);
  nb::class_<nn::Dropout, nn::Module>(
      m, "Dropout", "While training: each element 0 with the given probability, the others scaled up.")
      .def(
          "__init__", [](nn::Dropout* self, double p) { new (self) nn::Dropout(p, here()); }, "probability"_a);
}

template <class Conv>
void bind_conv(nb::module_& m, const char* name, const char* doc) {
  nb::class_<Conv, nn::Module>(m, name, doc)
      .def(
          "__init__",
          [](Conv* self, std::int64_t in, std::int64_t out, std::int64_t size, nb::handle padding, std::int64_t stride,
             std::int64_t dilation, std::int64_t groups, bool bias, nb::handle weights, nb::handle biases,
             DType dtype) {
            const nn::ConvLayerOptions d;
            new (self) Conv(in, out, size,
                            {padding_from(padding), stride, dilation, groups, bias,
                             initialiser_from(weights, d.weights), initialiser_from(biases, d.biases), dtype},
                            here());
          },
          "inputs"_a, "outputs"_a, "size"_a, "padding"_a = 0, "stride"_a = 1, "dilation"_a = 1, "groups"_a = 1,
          "bias"_a = true, "weights"_a.none() = nb::none(), "biases"_a.none() = nb::none(),
          "dtype"_a = Type{DType::f32})
      .def_ro("w", &Conv::w)
      .def_ro("b", &Conv::b);
}

template <class Norm>
nb::class_<Norm, nn::Norm> bind_norm(nb::module_& m, const char* name, const char* doc, bool affine = true) {
  nb::class_<Norm, nn::Norm> norm(m, name, doc);
  norm.def(
      "__init__",
      [](Norm* self, std::int64_t width, double epsilon, bool learned, double momentum, DType dtype) {
        new (self) Norm(width, nn::NormOptions{epsilon, learned, momentum, dtype}, here());
      },
      "width"_a, "epsilon"_a = 1e-5, "affine"_a = affine, "momentum"_a = 0.1, "dtype"_a = Type{DType::f32});
  return norm;
}

void bind_norms(nb::module_& m) {
  nb::class_<nn::Norm, nn::Module>(m, "Norm", "What the normalising layers share.")
      .def_ro("scale", &nn::Norm::scale)
      .def_ro("shift", &nn::Norm::shift);
  bind_norm<nn::LayerNorm>(m, "LayerNorm", "Over the last axis.");
  bind_norm<nn::RmsNorm>(m, "RmsNorm", "x / sqrt(mean of squares + epsilon) over the last axis; a scale, no shift.");
  bind_norm<nn::InstanceNorm>(m, "InstanceNorm", "Each channel of each sample over its positions.", false);
  auto batch = bind_norm<nn::BatchNorm>(
      m, "BatchNorm",
      "Over all axes but the last: by the batch's statistics while training, by running ones in mode 'eval'.");
  batch.def_ro("mean", &nn::BatchNorm::mean).def_ro("variance", &nn::BatchNorm::variance);
  nb::class_<nn::GroupNorm, nn::Norm>(m, "GroupNorm", "Each sample over its positions and the channels of a group.")
      .def(
          "__init__",
          [](nn::GroupNorm* self, std::int64_t groups, std::int64_t width, double epsilon, bool affine, DType dtype) {
            new (self) nn::GroupNorm(groups, width, nn::NormOptions{epsilon, affine, 0.1, dtype}, here());
          },
          "groups"_a, "width"_a, "epsilon"_a = 1e-5, "affine"_a = true, "dtype"_a = Type{DType::f32});
}

nn::RecurrentOptions recurrent_options(const std::string& returns, bool recompute, DType dtype) {
  if (returns != "sequence" && returns != "last")
    throw nb::value_error(("returns: '" + returns + "' is not 'sequence' or 'last'").c_str());
  return {returns == "last" ? nn::Returns::last : nn::Returns::sequence, recompute ? Recompute::yes : Recompute::no,
          dtype};
}

void bind_sequences(nb::module_& m) {
  nb::class_<nn::Lstm, nn::Module>(m, "Lstm", "[b,t,in] to [b,t,hidden] or, with returns='last', [b,hidden].")
      .def(
          "__init__",
          [](nn::Lstm* self, std::int64_t in, std::int64_t hidden, const std::string& returns, bool recompute,
             DType dtype) { new (self) nn::Lstm(in, hidden, recurrent_options(returns, recompute, dtype), here()); },
          "inputs"_a, "hidden"_a, "returns"_a = "sequence", "recompute"_a = false, "dtype"_a = Type{DType::f32})
      .def_ro("w_x", &nn::Lstm::w_x)
      .def_ro("w_h", &nn::Lstm::w_h)
      .def_ro("b", &nn::Lstm::b);
  nb::class_<nn::Gru, nn::Module>(m, "Gru", "[b,t,in] to [b,t,hidden] or, with returns='last', [b,hidden].")
      .def(
          "__init__",
          [](nn::Gru* self, std::int64_t in, std::int64_t hidden, const std::string& returns, bool recompute,
             DType dtype) { new (self) nn::Gru(in, hidden, recurrent_options(returns, recompute, dtype), here()); },
          "inputs"_a, "hidden"_a, "returns"_a = "sequence", "recompute"_a = false, "dtype"_a = Type{DType::f32})
      .def_ro("w_x", &nn::Gru::w_x)
      .def_ro("w_h", &nn::Gru::w_h)
      .def_ro("b_x", &nn::Gru::b_x)
      .def_ro("b_h", &nn::Gru::b_h);
  nb::class_<nn::Attention, nn::Module>(m, "Attention",
                                        "Multi-head attention of a sequence [b,t,width] to itself, or to another one.")
      .def(
          "__init__",
          [](nn::Attention* self, std::int64_t width, std::int64_t heads, bool causal, bool bias, DType dtype) {
            new (self) nn::Attention(width, heads, {causal ? nn::Causal::yes : nn::Causal::no, bias, dtype}, here());
          },
          "width"_a, "heads"_a, "causal"_a = false, "bias"_a = true, "dtype"_a = Type{DType::f32})
      .def(
          "attend",
          [](const nn::Attention& a, nb::handle x, nb::handle source, const std::string& mode) {
            const Location w = here();
            return a.attend(tensor_from(x, w), tensor_from(source, w), mode_from(mode), w);
          },
          "x"_a, "source"_a, "mode"_a = "train", "Queries from x, keys and values from source.")
      .def_ro("q", &nn::Attention::q)
      .def_ro("k", &nn::Attention::k)
      .def_ro("v", &nn::Attention::v)
      .def_ro("out", &nn::Attention::out);
  m.def(
      "attention",
      [](nb::handle q, nb::handle k, nb::handle v, bool causal) {
        const Location w = here();
        return nn::attention(tensor_from(q, w), tensor_from(k, w), tensor_from(v, w),
                             causal ? nn::Causal::yes : nn::Causal::no, w);
      },
      "q"_a, "k"_a, "v"_a, "causal"_a = false, "softmax(q k' / sqrt(d)) v for q [b,t,heads,d], k and v [b,s,heads,d].");
}

}  // namespace

void bind_nn(nb::module_& m) {
  nb::module_ n = m.def_submodule("nn");
  nb::module_ init = n.def_submodule("init", "How parameters begin.");
  bind_init(init);
  bind_module(n);
  bind_activations(n);
  bind_dense(n);
  bind_conv<nn::Conv2D>(n, "Conv2D", "[b,h,w,in] to [b,h',w',out]; w [size, size, in / groups, out].");
  bind_conv<nn::Conv1D>(n, "Conv1D", "[b,t,in] to [b,t',out]; w [size, in / groups, out].");
  bind_conv<nn::ConvTranspose2D>(n, "ConvTranspose2D",
                                 "The adjoint of a Conv2D from out to in; w [in, size, size, out].");
  bind_norms(n);
  bind_sequences(n);
  bind_transformer(n);
}

}  // namespace wr::python
