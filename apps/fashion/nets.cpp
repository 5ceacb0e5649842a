// The image nets by name. All take f32[batch,28,28,1] and give logits f32[batch,10].
#include "apps/fashion/fashion.h"
#include "windrow/error.h"
#include "windrow/logic.h"

namespace wr::apps {
namespace {

using namespace wr::nn;

Sequential softmax_net() { return Sequential().add(Flatten()).add("out", Dense(784, 10)); }

Sequential mlp() {
  return Sequential().add(Flatten()).add("hidden", Dense(784, 128)).add(Relu()).add("out", Dense(128, 10));
}

Sequential cnn() {
  const ConvLayerOptions same{.padding = Padding::same};
  Sequential net;
  net.add("conv1", Conv2D(1, 8, 3, same)).add(Relu()).add(MaxPool(2));
  net.add("conv2", Conv2D(8, 16, 3, same)).add(Relu()).add(MaxPool(2));
  return net.add(Flatten()).add("out", Dense(784, 10));
}

Sequential lenet() {
  Sequential net;
  net.add("conv1", Conv2D(1, 6, 5, {.padding = Padding::same})).add(Relu()).add(MaxPool(2));
  net.add("conv2", Conv2D(6, 16, 5)).add(Relu()).add(MaxPool(2)).add(Flatten());
  net.add("hidden1", Dense(400, 120)).add(Relu()).add("hidden2", Dense(120, 84)).add(Relu());
  return net.add("out", Dense(84, 10));
}

void add_block(Sequential& net, const std::string& number, std::int64_t in, std::int64_t out, bool pool) {
  net.add("conv" + number, Conv2D(in, out, 3, {.padding = Padding::same, .bias = false}));
  // The usual order pools last. This one normalises a quarter of the values, and learns as well.
  if (pool) net.add(MaxPool(2));
  net.add("norm" + number, BatchNorm(out)).add(Relu());
}

Sequential best() {
  Sequential net;
  add_block(net, "1", 1, 16, true);
  add_block(net, "2", 16, 32, false);
  add_block(net, "3", 32, 64, true);
  add_block(net, "4", 64, 64, false);
  add_block(net, "5", 64, 128, true);
  return net.add(Flatten()).add("dropout", Dropout(0.3)).add("out", Dense(3 * 3 * 128, 10));
}

/// Pixels above some levels, five layers of gates, as many of them on for each class as it is likely. In eval mode the
/// gates are hard: what is tested is the circuit.
Sequential logic_net() {
  const std::vector<std::int64_t> sizes{784 * 3, 6000, 6000, 6000, 6000, 6000};
  Sequential net;
  net.add(logic::Thresholds({-0.75, -0.2, 0.8}));  // in deviations from the mean pixel
  net.add("gates", logic::GateLayers(sizes, logic::Connect::random, {.pass = 2, .noise = 1}, 1));
  return net.add(logic::GroupSum(kClasses, 20));
}

}  // namespace

nn::Sequential make_net(const std::string& name) {
  if (name == "softmax") return softmax_net();
  if (name == "mlp") return mlp();
  if (name == "cnn") return cnn();
  if (name == "lenet") return lenet();
  if (name == "best") return best();
  if (name == "logic") return logic_net();
  throw Error("there is no net called '" + name + "'");
}

}  // namespace wr::apps
