#include "apps/fashion/settings.h"

#include <fmt/format.h>

#include "windrow/error.h"

namespace wr::apps {
namespace {

/// A schedule that ends is made for a number of epochs.
bool may_change(const std::string& name, const Settings& file) {
  return name == "lr" || name == "data" || (name == "epochs" && file.schedule == "constant");
}

}  // namespace

std::vector<std::string> net_names() { return {"softmax", "mlp", "cnn", "lenet", "best", "logic"}; }
std::vector<std::string> optimiser_names() { return {"sgd", "adam", "adamw", "rmsprop"}; }
std::vector<std::string> schedule_names() { return {"constant", "cosine", "one-cycle"}; }

const std::vector<NamedField<Settings>>& fashion_fields() {
  constexpr std::int64_t kMany = 1'000'000;
  using S = Settings;
  static const std::vector<NamedField<S>> all{
      choice_field<S>("net", &S::net, net_names(), "Which net (cnn); each has its own recipe"),
      number_field<S, std::int64_t>("epochs", &S::epochs, 1, kMany, "Times through the training images"),
      number_field<S, std::int64_t>("batch", &S::batch, 1, kMany, "Images a step"),
      number_field("lr", &S::lr, 1e-12, 1e3, "Learning rate, at its highest"),
      choice_field<S>("optim", &S::optim, optimiser_names(), "Optimiser"),
      choice_field<S>("schedule", &S::schedule, schedule_names(), "How the learning rate changes"),
      number_field("weight-decay", &S::weight_decay, 0.0, 1e3, "Weight decay"),
      number_field("smoothing", &S::smoothing, 0.0, 0.99, "Share of each label spread over all classes"),
      number_field<S, std::uint64_t>("seed", &S::seed, 0, ~std::uint64_t{0},
                                     "Of initial values, order of the images, dropout"),
      number_field("validation", &S::validation, 0.0, 0.9, "Share of the training images put aside (0.05)"),
      text_field("data", &S::data, "DIR",
                 "Folder with MNIST's four files (default: the system's Fashion-MNIST, else digits)"),
      number_field<S, std::int64_t>("shift", &S::shift, 0, 27, ""),  // these three are --augment
      yes_no_field("flip", &S::flip, ""),
      number_field("noise", &S::noise, 0.0, 10.0, ""),
  };
  return all;
}

Settings recipe(const std::string& net) {
  Settings s;
  set(s, "net", net);
  s.epochs = 10;
  if (net == "mlp") {
    s.epochs = 14;
    s.optim = "adamw";
    s.weight_decay = 0.1;
  } else if (net == "cnn") {
    s.epochs = 30;
    s.lr = 6e-3;
    s.schedule = "one-cycle";
    s.shift = 1;
  } else if (net == "best") {
    s.epochs = 20;
    s.batch = 128;
    s.optim = "adamw";
    s.lr = 3e-3;
    s.schedule = "one-cycle";
    s.weight_decay = 0.05;
    s.smoothing = 0.05;
    s.shift = 1;
    s.flip = true;
  }
  if (net == "logic") {
    s.epochs = 10;
    s.batch = 128;
    s.lr = 0.02;
  }
  return s;
}

Texts to_texts(const Settings& settings) { return texts_of(settings, fashion_fields()); }

void set(Settings& settings, const std::string& name, const std::string& text) {
  field_named(fashion_fields(), name).set(settings, text);
}

Settings settings_of(const Metadata& metadata, const std::string& path) {
  expect_app(metadata, path, "fashion", "`windrow train fashion`");
  return fields_from<Settings>(metadata, path, fashion_fields());
}

Settings merge(const Settings& file, const Texts& given, const std::string& path) {
  Settings merged = file;
  for (const auto& [name, text] : given) {
    set(merged, name, text);
    const auto& field = field_named(fashion_fields(), name);
    const std::string now = field.get(merged), then = field.get(file);
    if (now != then && !may_change(name, file)) {
      throw Error(
          fmt::format("--{} {}: {} was trained with {} {}{}", name, now, path, name, then,
                      name == "epochs" ? fmt::format(", and its schedule ({}) ends there", file.schedule) : ""));
    }
  }
  return merged;
}

}  // namespace wr::apps
