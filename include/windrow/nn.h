// Layers: compositions of the ops of tensor.h that own parameters, and nets made of them.
//
//   wr::nn::Sequential net{wr::nn::Dense(784, 128), wr::nn::Relu(), wr::nn::Dense(128, 10)};
//
// Layouts: vectors [batch, features], sequences [batch, time, features], images [batch, height, width, channels].
//
// Modes. Dropout and BatchNorm compute one thing while training and another when used. Which one is an argument of the
// call, net(x) or net(x, Mode::eval): a trace is of one mode, a train step and an eval step are two compiled steps that
// share the parameters, and no flag can be left in the wrong position.
//
// A layer is a handle, as a State is: copies share the parameters. One that is part of two nets has its path in the net
// that was made last.
#pragma once

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "windrow/tensor.h"

namespace wr::nn {

using Where = Location;
enum class Mode : bool { train, eval };

// ---- initial values ----
/// From here on, in this thread, layers made in the same order start with the same values. Each drawing of values (and
/// each Dropout) takes the next of the seed's streams. Without a call the seed is 0.
void seed(std::uint64_t seed);
std::uint64_t next_seed();

/// How many inputs an output element is summed from, and how many outputs an input element goes into.
struct Fans {
  std::int64_t in = 1, out = 1;
};
/// f64 values of a shape from a seed.
using Initialiser = std::function<Array(const Shape& shape, const Fans& fans, std::uint64_t seed)>;

namespace init {
Initialiser zeros();
Initialiser constant(double value);
Initialiser uniform(double low, double high);
Initialiser normal(double deviation = 1, double mean = 0);
/// Normal, drawn again beyond two deviations.
Initialiser truncated_normal(double deviation = 1, double mean = 0);
/// For layers followed by ReLU: variance 2 / fan in.
Initialiser he_normal();
Initialiser he_uniform();
/// Variance gain^2 * 2 / (fan in + fan out).
Initialiser xavier_normal(double gain = 1);
Initialiser xavier_uniform(double gain = 1);
/// Uniform within 1 / sqrt(fan in) of 0: what PyTorch's layers start with.
Initialiser fan_in_uniform();
/// Orthonormal columns (rows, where there are fewer of them) of the values as a matrix [all other axes, last axis].
Initialiser orthogonal(double gain = 1);
}  // namespace init

namespace detail {
/// A type's name as the user wrote it.
std::string name_of(const std::type_info& type);
}  // namespace detail

// ---- the interface ----
/// Tensors in, tensor out, with parameters (trained) and buffers (running statistics, random counters).
/// Their names are paths: "0.w" in a Sequential, "encoder.conv1.b" where modules are named.
class Module {
 public:
  virtual ~Module();
  Module(const Module& other);
  Module& operator=(const Module& other);
  /// In a trace. An error names the caller's line, the layer and the sizes.
  Tensor operator()(const Tensor& x, Mode mode = Mode::train, WINDROW_WHERE) const;
  std::vector<State> parameters() const;
  /// Parameters and buffers: what a checkpoint holds.
  std::vector<State> states() const;
  /// What it is and its sizes: "Dense(784, 128)".
  virtual std::string kind() const = 0;
  /// The path from the net's root; empty for the root.
  const std::string& path() const { return record_->path; }
  /// Makes this a path, and renames all states below it. For a net, before its step is compiled.
  void rename(const std::string& path) const;
  std::vector<std::shared_ptr<const Module>> children() const;

 protected:
  Module();
  /// Registers the parts that have not registered themselves, if there may be some.
  virtual void find_parts() const {}
  /// Makes the modules that stand within these bytes parts of this one, in their order.
  void find_parts_in(const void* begin, std::size_t bytes) const;
  virtual Tensor forward(const Tensor& x, Mode mode, const Where& where) const = 0;
  State parameter(const std::string& name, const Array& initial);
  State buffer(const std::string& name, const State& state);
  /// Registers a part, gives it its path and returns it: `Dense hidden = child("hidden", Dense(4, 8));`
  template <std::derived_from<Module> M>
  M child(const std::string& name, const M& module) {
    adopt(name, std::make_shared<M>(module));
    return module;
  }
  void adopt(const std::string& name, std::shared_ptr<const Module> module);

 private:
  friend Array predict(const Module& net, const Array& x, Location where);
  struct Predictor;
  struct Own {
    std::string name;
    State state;
    bool trained;
  };
  struct Record;
  struct Child {
    std::string name;
    std::shared_ptr<const Module> module;  // empty for a member: it is where it is
    std::shared_ptr<Record> record;
  };
  struct Record {
    std::string path;
    std::vector<Own> own;
    std::vector<Child> children;
    std::shared_ptr<Predictor> predictor;  // made by predict()

    void rename(const std::string& to);
    void collect(std::vector<State>& list, bool buffers) const;
    bool holds(const Record* other) const;
  };
  void add_child(Child child) const;
  std::shared_ptr<Record> record_;  // shared by copies
};

/// What a net says to some rows, in Mode::eval, outside of any trace. Any number of rows: the net is compiled once for
/// each of the last few shapes.
///
///   wr::Array answers = wr::nn::predict(net, rows);
Array predict(const Module& net, const Array& x, WINDROW_WHERE);

/// A module of one's own. Members that are modules are its parts, by themselves: their parameters are its parameters,
/// and their paths are their positions, 0, 1, ... in the order they are declared.
///
///   struct Block : wr::nn::Net<Block> {
///     wr::nn::LayerNorm norm{64};
///     wr::nn::Dense up{64, 256}, down{256, 64};
///     wr::Tensor operator()(const wr::Tensor& x) const { return x + down(gelu(up(norm(x)))); }
///   };
///
/// The function may take more tensors, or a Mode after the first: (x) or (x, mode) can be part of a Sequential. A
/// member named by child("up", ...) has that name instead; parameter() and buffer() give it states of its own. Parts in
/// a container are not members: use Sequential, or List.
template <class Derived>
class Net : public Module {
 public:
  std::string kind() const override { return detail::name_of(typeid(Derived)); }

 protected:
  void find_parts() const override { find_parts_in(static_cast<const Derived*>(this), sizeof(Derived)); }
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override {
    const auto& self = static_cast<const Derived&>(*this);
    if constexpr (std::is_invocable_r_v<Tensor, const Derived&, const Tensor&, Mode>)
      return self(x, mode);
    else if constexpr (std::is_invocable_r_v<Tensor, const Derived&, const Tensor&>)
      return self(x);
    else
      fail(where, kind() + ": is not a function of one tensor");
  }
};

/// Modules of one kind, as many as it takes: `nn::List<Block> blocks{6, [] { return Block(); }};`
template <std::derived_from<Module> M>
class List : public Module {
 public:
  List() = default;
  List(int count, const std::function<M()>& make) {
    for (int i = 0; i < count; ++i) add(make());
  }
  void add(const M& part) { parts_.push_back(child(std::to_string(parts_.size()), part)); }
  std::size_t size() const { return parts_.size(); }
  const M& operator[](std::size_t i) const {
    if (i >= size()) fail({}, "List: part " + std::to_string(i) + " was asked for; it has " + std::to_string(size()));
    return parts_[i];
  }
  auto begin() const { return parts_.begin(); }
  auto end() const { return parts_.end(); }
  std::string kind() const override { return "List(" + std::to_string(parts_.size()) + " parts)"; }

 protected:
  /// One after the other.
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override {
    Tensor y = x;
    for (const Module& part : parts_) y = part(y, mode, where);
    return y;
  }

 private:
  std::vector<M> parts_;
};

/// One after the other. Parts are named by their position, or by name: `net.add("conv1", Conv2D(1, 8, 3))`.
class Sequential : public Module {
 public:
  Sequential() = default;
  template <std::derived_from<Module>... Parts>
  explicit Sequential(const Parts&... parts) {
    (add(parts), ...);
  }
  template <std::derived_from<Module> M>
  Sequential& add(const M& part) {
    return add(std::to_string(children().size()), part);
  }
  template <std::derived_from<Module> M>
  Sequential& add(const std::string& name, const M& part) {
    child(name, part);
    return *this;
  }
  std::string kind() const override;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
};

/// Several parts on the same input, their results put together along an axis.
class Concat : public Module {
 public:
  template <std::derived_from<Module>... Parts>
  explicit Concat(int axis, const Parts&... parts) : axis_(axis) {
    int i = 0;
    (child(std::to_string(i++), parts), ...);
  }
  std::string kind() const override;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  int axis_;
};

/// x + part(x).
class Residual : public Module {
 public:
  template <std::derived_from<Module> M>
  explicit Residual(const M& part) {
    child("0", part);
  }
  std::string kind() const override { return "Residual"; }

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
};

/// A function without parameters as a layer: activations, reshapes, anything of the user's.
class Lambda : public Module {
 public:
  using Function = std::function<Tensor(const Tensor& x, const Where& where)>;
  Lambda(std::string kind, Function function) : kind_(std::move(kind)), function_(std::move(function)) {}
  std::string kind() const override { return kind_; }

 private:
  Tensor forward(const Tensor& x, Mode, const Where& where) const override { return function_(x, where); }
  std::string kind_;
  Function function_;
};

// ---- activations and shapes ----
Lambda Relu();
Lambda Relu6();
Lambda LeakyRelu(double slope = 0.01);
Lambda Elu();
Lambda Softplus();
Lambda Silu();
Lambda Gelu();
Lambda Sigmoid();
Lambda Tanh();
Lambda Softmax(int axis = -1);
Lambda LogSoftmax(int axis = -1);
/// [batch, ...] to [batch, features].
Lambda Flatten();
/// [batch, ...] to [batch, sizes...]; one size may be -1.
Lambda Reshape(const Shape& sizes);

// ---- layers ----
struct DenseOptions {
  bool bias = true;
  Initialiser weights = init::he_uniform();
  Initialiser biases = init::zeros();
  DType dtype = DType::f32;
};
/// x . w + b over the last axis; w [in, out].
class Dense : public Module {
 public:
  Dense(std::int64_t in, std::int64_t out, const DenseOptions& options = {}, WINDROW_WHERE);
  std::string kind() const override;
  State w, b;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
};

struct EmbeddingOptions {
  Initialiser weights = init::normal();
  DType dtype = DType::f32;
};
/// Rows of a table [entries, width] by i32 indices of any shape.
class Embedding : public Module {
 public:
  Embedding(std::int64_t entries, std::int64_t width, const EmbeddingOptions& options = {}, WINDROW_WHERE);
  std::string kind() const override;
  State w;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
};

/// While training: each element 0 with the given probability, the others scaled up. A new mask each run, the same at
/// any thread count; its counter is a buffer, so that a resumed run goes on with the next mask.
class Dropout : public Module {
 public:
  explicit Dropout(double probability, WINDROW_WHERE);
  std::string kind() const override;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  double probability_;
  Random random_;
};

struct ConvLayerOptions {
  Padding padding = Padding::valid;  // or Padding::same, or a number of zeros on every side
  std::int64_t stride = 1, dilation = 1;
  std::int64_t groups = 1;  // Conv1D and Conv2D: each group of outputs sees its own group of inputs
  bool bias = true;
  Initialiser weights = init::he_uniform();
  Initialiser biases = init::zeros();
  DType dtype = DType::f32;
};
/// [b,h,w,in] to [b,h',w',out]; w [size, size, in / groups, out].
class Conv2D : public Module {
 public:
  Conv2D(std::int64_t in, std::int64_t out, std::int64_t size, const ConvLayerOptions& options = {}, WINDROW_WHERE);
  std::string kind() const override;
  State w, b;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  ConvLayerOptions options_;
  std::int64_t in_;
};
/// [b,t,in] to [b,t',out]; w [size, in / groups, out].
class Conv1D : public Module {
 public:
  Conv1D(std::int64_t in, std::int64_t out, std::int64_t size, const ConvLayerOptions& options = {}, WINDROW_WHERE);
  std::string kind() const override;
  State w, b;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  ConvLayerOptions options_;
  std::int64_t in_;
};
/// The adjoint of a Conv2D from out to in, as conv_transpose2d() has it; w [in, size, size, out].
class ConvTranspose2D : public Module {
 public:
  ConvTranspose2D(std::int64_t in, std::int64_t out, std::int64_t size, const ConvLayerOptions& options = {},
                  WINDROW_WHERE);
  std::string kind() const override;
  State w, b;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  ConvLayerOptions options_;
};

/// Over images [b,h,w,c] or sequences [b,t,c]; the stride is the size where none is given. What pads a maximum is less
/// than any number, what pads a mean is 0 and counts.
Lambda MaxPool(std::int64_t size, std::int64_t stride = 0, Padding padding = Padding::valid);
Lambda AvgPool(std::int64_t size, std::int64_t stride = 0, Padding padding = Padding::valid);
/// [b, ..., c] to [b, c].
Lambda GlobalMaxPool();
Lambda GlobalAvgPool();

struct NormOptions {
  double epsilon = 1e-5;
  bool affine = true;     // learn a scale and a shift for each feature
  double momentum = 0.1;  // BatchNorm: how far the running statistics move towards a batch's
  DType dtype = DType::f32;
};
/// What the normalising layers share: the last axis has `width` features, with a learned scale and shift.
class Norm : public Module {
 public:
  std::string kind() const override;
  State scale, shift;

 protected:
  Norm(std::string name, std::int64_t width, const NormOptions& options, bool shifted, const Where& where);
  void expect_width(const Tensor& x, int least_rank, const Where& where) const;
  std::string name_;
  std::int64_t width_;
  NormOptions options_;
};
/// Over all axes but the last: by the batch's statistics while training, by running ones in Mode::eval.
class BatchNorm : public Norm {
 public:
  explicit BatchNorm(std::int64_t width, const NormOptions& options = {}, WINDROW_WHERE);
  State mean, variance;  // running; the variance of n values over n - 1, as PyTorch has it

 private:
  Tensor by_running_statistics(const Tensor& x, const Where& where) const;
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
};
/// Over the last axis.
class LayerNorm : public Norm {
 public:
  explicit LayerNorm(std::int64_t width, const NormOptions& options = {}, WINDROW_WHERE);

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
};
/// x / sqrt(mean of squares + epsilon) over the last axis; a scale, no shift.
class RmsNorm : public Norm {
 public:
  explicit RmsNorm(std::int64_t width, const NormOptions& options = {}, WINDROW_WHERE);

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
};
/// Each sample over its positions and the channels of a group.
class GroupNorm : public Norm {
 public:
  GroupNorm(std::int64_t groups, std::int64_t width, const NormOptions& options = {}, WINDROW_WHERE);

 protected:
  GroupNorm(const std::string& name, std::int64_t groups, std::int64_t width, const NormOptions& options,
            const Where& where);

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  std::int64_t groups_;
};
/// Each channel of each sample over its positions. A scale and shift only if asked for: NormOptions{.affine = true}.
class InstanceNorm : public GroupNorm {
 public:
  explicit InstanceNorm(std::int64_t width, const NormOptions& options = {.affine = false}, WINDROW_WHERE);
};

enum class Returns { sequence, last };
enum class Directions { forwards, both };
struct RecurrentOptions {
  Returns returns = Returns::sequence;
  Recompute recompute = Recompute::no;  // of each layer keep only what goes in for the backward pass
  DType dtype = DType::f32;
  int layers = 1;                                // each takes the outputs of the one before
  Directions directions = Directions::forwards;  // both: each layer gives [forwards, backwards], 2 hidden wide
};
/// What a recurrent net may be given beside its input, and all that it gives. States are [layers, b, hidden]; with both
/// directions, each layer has two, forwards first.
struct RecurrentStart {
  Tensor h = {}, c = {};  // empty: zeros; c of Lstm alone
  Tensor lengths = {};    // i32[b]: moments of each row; later ones change no state, and their outputs are 0
};
struct RecurrentRun {
  Tensor outputs;  // [b,t,hidden], of the last layer
  Tensor h, c;     // the states at the end
};
/// [b,t,in] to [b,t,hidden] or, with Returns::last, to the state at the end, [b,hidden]. Gates in the order input,
/// forget, cell, output along the last axis of w_x [in, 4 hidden], w_h [hidden, 4 hidden], b [4 hidden].
class Lstm : public Module {
 public:
  Lstm(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {}, WINDROW_WHERE);
  std::string kind() const override;
  RecurrentRun run(const Tensor& x, const RecurrentStart& start = {}, WINDROW_WHERE) const;

  struct Weights {
    State w_x, w_h, b;
  };
  State w_x, w_h, b;  // of the first layer, forwards
  /// Of all, in the order of the states: "w_x", "w_x_back", "w_x_1", "w_x_1_back", ...
  std::vector<Weights> weights;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  RecurrentOptions options_;
};
/// The same with gates reset, update, new; the reset gate acts after the product, as in PyTorch and cuDNN, so that
/// there are two biases, b_x and b_h.
class Gru : public Module {
 public:
  Gru(std::int64_t in, std::int64_t hidden, const RecurrentOptions& options = {}, WINDROW_WHERE);
  std::string kind() const override;
  RecurrentRun run(const Tensor& x, const RecurrentStart& start = {}, WINDROW_WHERE) const;

  struct Weights {
    State w_x, w_h, b_x, b_h;
  };
  State w_x, w_h, b_x, b_h;
  std::vector<Weights> weights;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  RecurrentOptions options_;
};

enum class Causal : bool { no = false, yes = true };
/// softmax(q k' / sqrt(d)) v for q [b,t,heads,d], k and v [b,s,heads,d]. Causal: position t sees s <= t.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, Causal causal = Causal::no, WINDROW_WHERE);

struct AttentionOptions {
  Causal causal = Causal::no;
  bool bias = true;
  DType dtype = DType::f32;
};
/// Multi-head attention of a sequence [b,t,width] to itself, or to another one.
class Attention : public Module {
 public:
  Attention(std::int64_t width, std::int64_t heads, const AttentionOptions& options = {}, WINDROW_WHERE);
  std::string kind() const override;
  /// Queries from x [b,t,width], keys and values from source [b,s,width].
  Tensor attend(const Tensor& x, const Tensor& source, Mode mode = Mode::train, WINDROW_WHERE) const;
  Dense q, k, v, out;

 private:
  Tensor forward(const Tensor& x, Mode mode, const Where& where) const override;
  std::int64_t heads_;
  Causal causal_;
};

// ---- summary ----
struct Summary {
  struct Row {
    std::string path, kind;
    Spec output;
    std::int64_t parameters = 0;
    double flops = 0;                 // of the forward pass, as the plan counts them
    std::size_t parameter_bytes = 0;  // and buffers
    std::size_t output_bytes = 0;
  };
  std::vector<Row> rows;
  Row total;  // its output is the net's
};
/// The layers of the net on an input of this type, in Mode::eval.
Summary summary(const Module& net, const Spec& input, WINDROW_WHERE);
/// A table for people.
std::string to_string(const Summary& summary);

}  // namespace wr::nn
