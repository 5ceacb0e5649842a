// Ten training steps of small nets, with each optimiser and each loss, against what PyTorch made of the same (the files
// of tests/golden are written by scripts/golden.py). Compared are all parameters and running statistics after the last
// step and the loss of every step, each tensor by |ours - theirs| / |theirs| in the 2-norm: at most 1e-5 in f32, 1e-10
// in f64.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>

#include "base/json.h"
#include "windrow/losses.h"
#include "windrow/nn.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using Tensors = std::map<std::string, Array>;

Tensors read_golden(DType dtype) {
  const auto folder = std::filesystem::path(WINDROW_TEST_DATA).parent_path() / "golden";
  const std::string path = (folder / (std::string(name_of(dtype)) + ".safetensors")).string();
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(path + ": cannot be read; scripts/golden.py writes it");
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof header_size);
  const Json header = parse_json(std::string_view(bytes).substr(sizeof header_size, header_size), path);
  const std::map<std::string, DType> types{{"F32", DType::f32}, {"F64", DType::f64}, {"I32", DType::i32}};
  Tensors tensors;
  for (const auto& [name, entry] : header.members()) {
    Shape shape;
    for (const Json& n : entry.at("shape").items()) shape.push_back(static_cast<std::int64_t>(n.number()));
    const auto* data = bytes.data() + sizeof header_size + header_size +
                       static_cast<std::size_t>(entry.at("data_offsets").at(0).number());
    tensors[name] = Array::borrow(static_cast<const void*>(data), shape, types.at(entry.at("dtype").text())).clone();
  }
  return tensors;
}

const Tensors& golden(DType dtype) {
  static const Tensors f32_tensors = read_golden(DType::f32), f64_tensors = read_golden(DType::f64);
  return dtype == DType::f32 ? f32_tensors : f64_tensors;
}

double relative_error(const Array& ours, const Array& theirs) {
  const auto a = ours.astype(DType::f64).to_vector<double>(), b = theirs.astype(DType::f64).to_vector<double>();
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / size);
}

// ---- the nets of scripts/golden.py ----
nn::Sequential make_net(const std::string& name, DType t) {
  using namespace nn;
  const auto dense = [t](int in, int out) { return Dense(in, out, {.dtype = t}); };
  const ConvLayerOptions same{.padding = Padding::same, .dtype = t};
  const RecurrentOptions last{.returns = Returns::last, .dtype = t};
  if (name == "mlp") return Sequential{dense(12, 16), Relu(), dense(16, 5)};
  if (name == "linear") return Sequential{dense(6, 5)};
  if (name == "cnn")
    return Sequential{Conv2D(1, 4, 3, same), Relu(), MaxPool(2), Conv2D(4, 8, 3, same), Relu(), MaxPool(2), Flatten(),
                      dense(72, 5)};
  if (name == "lstm") return Sequential{Lstm(6, 8, last), dense(8, 5)};
  if (name == "lstm2") return Sequential{Lstm(4, 5, {.dtype = t}), Lstm(5, 6, last), dense(6, 5)};
  if (name == "gru") return Sequential{Gru(6, 8, {.dtype = t}), dense(8, 3)};
  if (name == "convs")
    return Sequential{Conv2D(2, 4, 3, {.stride = 2, .dtype = t}),
                      Tanh(),
                      Conv2D(4, 4, 3, {.padding = Padding::same, .dilation = 2, .groups = 2, .dtype = t}),
                      Tanh(),
                      ConvTranspose2D(4, 3, 3, {.stride = 2, .dtype = t}),
                      GlobalAvgPool()};
  if (name == "conv1d") return Sequential{Conv1D(3, 4, 3, {.dtype = t}), Relu(), AvgPool(2), Flatten(), dense(16, 5)};
  if (name == "batchnorm") return Sequential{dense(6, 8), BatchNorm(8, {.dtype = t}), Relu(), dense(8, 5)};
  if (name == "norms")
    return Sequential{Conv2D(2, 4, 3, {.dtype = t}),
                      GroupNorm(2, 4, {.dtype = t}),
                      InstanceNorm(4, {.dtype = t}),
                      LayerNorm(4, {.dtype = t}),
                      RmsNorm(4, {.dtype = t}),
                      Flatten(),
                      dense(64, 5)};
  if (name == "attention")
    return Sequential{Embedding(9, 8, {.dtype = t}), Attention(8, 2, {.causal = Causal::yes, .dtype = t}), Flatten(),
                      dense(48, 5)};
  if (name == "activations")
    return Sequential{dense(6, 8),
                      Concat(-1, Relu6(), LeakyRelu(0.1), Elu(), Softplus(), Silu(), Gelu(), Sigmoid(), Tanh(),
                             Softmax(), LogSoftmax()),
                      dense(80, 5)};
  throw Error("no net " + name);
}

Tensor loss_of(const std::string& name, const Tensor& z, const Tensor& y) {
  if (name == "mse") return loss::mse(z, y);
  if (name == "mse_sum") return loss::mse(z, y, {.reduction = loss::Reduction::sum});
  if (name == "mae") return loss::mae(z, y);
  if (name == "huber") return loss::huber(z, y, {.delta = 0.7});
  if (name == "labels" || name == "soft") return loss::cross_entropy(z, y);
  if (name == "labels_smooth" || name == "soft_smooth") return loss::cross_entropy(z, y, {.label_smoothing = 0.1});
  if (name == "soft_probabilities") return loss::cross_entropy_of_probabilities(softmax(z), y, {.floor = 0.05});
  if (name == "binary") return loss::binary_cross_entropy(z, y);
  if (name == "kl") return loss::kl_divergence(log_softmax(z), y);
  if (name == "hinge") return loss::hinge(z, y);
  throw Error("no loss " + name);
}

std::unique_ptr<optim::Optimiser> make_optimiser(const std::string& name, const nn::Module& net) {
  using namespace optim;
  const auto sgd = [](const Sgd::Options& o) { return std::make_unique<Sgd>(o); };
  if (name == "sgd") return sgd({.lr = 0.1});
  if (name == "momentum") return sgd({.lr = 0.1, .momentum = 0.9});
  if (name == "nesterov") return sgd({.lr = 0.1, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
  if (name == "adam") return std::make_unique<Adam>(Adam::Options{.lr = 1e-2});
  if (name == "adam_decay")
    return std::make_unique<Adam>(
        Adam::Options{.lr = 1e-2, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-3, .weight_decay = 0.1});
  if (name == "adamw") return std::make_unique<AdamW>(Adam::Options{.lr = 1e-2, .weight_decay = 0.1});
  if (name == "rmsprop") return std::make_unique<RmsProp>(RmsProp::Options{.lr = 1e-2});
  if (name == "rmsprop_momentum")
    return std::make_unique<RmsProp>(RmsProp::Options{
        .lr = 1e-3, .alpha = 0.9, .epsilon = 1e-4, .momentum = 0.9, .centred = true, .weight_decay = 0.01});
  if (name == "groups") {
    auto adamw = std::make_unique<AdamW>(Adam::Options{.lr = 1e-2, .weight_decay = 0.1});
    std::vector<State> biases;
    for (const State& p : net.parameters())
      if (p.name().ends_with(".b")) biases.push_back(p);
    adamw->add_group({.parameters = biases, .lr = 3e-3, .weight_decay = 0.0});
    return adamw;
  }
  if (name == "clip_norm") return sgd({.lr = 0.5, .clip = {.norm = 0.3}});
  if (name == "clip_value") return sgd({.lr = 0.5, .clip = {.value = 0.05}});
  if (name == "step") return sgd({.lr = 0.5, .schedule = schedule::step(3, 0.5)});
  if (name == "cosine") return sgd({.lr = 0.5, .schedule = schedule::cosine(8, 0.1)});
  if (name == "warm_up") return sgd({.lr = 0.5, .schedule = schedule::warm_up(4, {}, 0.2)});
  if (name == "one_cycle") return sgd({.lr = 0.5, .schedule = schedule::one_cycle(10)});
  throw Error("no optimiser " + name);
}

// ---- the cases ----
struct Golden {
  std::string name, net, loss, optimiser;
};

std::vector<Golden> cases() {
  std::vector<Golden> list;
  for (const char* net : {"mlp", "lstm2", "conv1d", "batchnorm", "norms", "attention", "activations"})
    list.push_back({net, net, "labels", "sgd"});
  for (const char* net : {"cnn", "lstm"}) list.push_back({net, net, "labels", "adam"});
  for (const char* net : {"gru", "convs"}) list.push_back({net, net, "mse", "sgd"});
  for (const char* loss : {"mse", "mse_sum", "mae", "huber", "labels", "labels_smooth", "soft", "soft_smooth",
                           "soft_probabilities", "binary", "kl", "hinge"})
    list.push_back({std::string("loss_") + loss, "linear", loss, "sgd"});
  for (const char* optimiser :
       {"sgd", "momentum", "nesterov", "adam", "adam_decay", "adamw", "rmsprop", "rmsprop_momentum", "groups",
        "clip_norm", "clip_value", "step", "cosine", "warm_up", "one_cycle"})
    list.push_back({std::string("optim_") + optimiser, "mlp", "labels", optimiser});
  return list;
}

class GoldenTest : public testing::TestWithParam<std::tuple<int, DType>> {};

TEST_P(GoldenTest, TenStepsAgreeWithPyTorch) {
  const Golden c = cases()[std::get<0>(GetParam())];
  const DType dtype = std::get<1>(GetParam());
  const Tensors& all = golden(dtype);
  const double tolerance = dtype == DType::f32 ? 1e-5 : 1e-10;

  const nn::Sequential net = make_net(c.net, dtype);
  std::size_t stored = 0;
  for (const auto& [name, value] : all) stored += name.starts_with(c.name + "/before/");
  ASSERT_EQ(net.states().size(), stored);
  for (State s : net.states()) s.set(all.at(c.name + "/before/" + s.name()));

  const Array x = all.at(c.name + "/x"), y = all.at(c.name + "/y"), losses = all.at(c.name + "/loss");
  const auto optimiser = make_optimiser(c.optimiser, net);
  Step step = compile(
      [&](const std::vector<Tensor>& in) -> std::vector<Tensor> {
        const Tensor loss = loss_of(c.loss, net(in[0]), in[1]);
        optimiser->minimize(loss, net.parameters());
        return {loss};
      },
      {Spec{x.dtype(), x.select(0, 0).shape()}, Spec{y.dtype(), y.select(0, 0).shape()}});
  std::vector<double> ours;
  for (std::int64_t t = 0; t < x.size(0); ++t)
    ours.push_back(step(x.select(0, t).contiguous(), y.select(0, t).contiguous()));

  double worst = relative_error(Array::from(ours), losses), moved = 0;
  EXPECT_LE(worst, tolerance) << "loss";
  for (const State& s : net.states()) {
    const Array& theirs = all.at(c.name + "/after/" + s.name());
    const double error = relative_error(s.value(), theirs);
    EXPECT_LE(error, tolerance) << s.name();
    worst = std::max(worst, error);
    moved = std::max(moved, relative_error(all.at(c.name + "/before/" + s.name()), theirs));
  }
  EXPECT_GT(moved, 1e-2) << "the steps hardly change anything: the comparison says nothing";
  RecordProperty("worst_relative_error", fmt::format("{:.1e}", worst));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest,
                         testing::Combine(testing::Range(0, static_cast<int>(cases().size())),
                                          testing::Values(DType::f32, DType::f64)),
                         [](const auto& info) {
                           return cases()[std::get<0>(info.param)].name + "_" +
                                  std::string(name_of(std::get<1>(info.param)));
                         });

}  // namespace
}  // namespace wr
