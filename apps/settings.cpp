#include "apps/settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>

#include "apps/fields.h"
#include "windrow/error.h"

namespace wr::apps {
namespace {

std::string joined(const std::vector<std::string>& names) { return fmt::format("{}", fmt::join(names, ", ")); }

[[noreturn]] void refuse(const std::string& name, const std::string& text, const std::string& expected) {
  throw Error(fmt::format("{} is '{}'; expected {}", name, text, expected));
}

template <class T>
T number(const std::string& name, const std::string& text, T low, T high) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= low && value <= high))
    refuse(name, text, fmt::format("a number from {} to {}", low, high));
  return value;
}

struct Field {
  const char* name;
  std::function<std::string(const Settings&)> get;
  std::function<void(Settings&, const std::string&)> set;
};

template <class T>
Field numeric(const char* name, T Settings::*member, T low, T high) {
  return {name, [=](const Settings& s) { return fmt::format("{}", s.*member); },
          [=](Settings& s, const std::string& text) { s.*member = number<T>(name, text, low, high); }};
}

Field choice(const char* name, std::string Settings::*member, std::vector<std::string> (*names)()) {
  return {name, [=](const Settings& s) { return s.*member; },
          [=](Settings& s, const std::string& text) {
            const auto all = names();
            if (std::find(all.begin(), all.end(), text) == all.end()) refuse(name, text, "one of " + joined(all));
            s.*member = text;
          }};
}

const std::vector<Field>& fields() {
  constexpr std::int64_t kMany = 1'000'000;
  static const std::vector<Field> all{
      choice("net", &Settings::net, net_names),
      numeric<std::int64_t>("epochs", &Settings::epochs, 1, kMany),
      numeric<std::int64_t>("batch", &Settings::batch, 1, kMany),
      choice("optim", &Settings::optim, optimiser_names),
      numeric("lr", &Settings::lr, 1e-12, 1e3),
      choice("schedule", &Settings::schedule, schedule_names),
      numeric("weight-decay", &Settings::weight_decay, 0.0, 1e3),
      numeric("smoothing", &Settings::smoothing, 0.0, 0.99),
      numeric<std::uint64_t>("seed", &Settings::seed, 0, ~std::uint64_t{0}),
      numeric<std::int64_t>("shift", &Settings::shift, 0, 27),
      {"flip", [](const Settings& s) { return std::string(s.flip ? "yes" : "no"); },
       [](Settings& s, const std::string& text) {
         if (text != "yes" && text != "no") refuse("flip", text, "yes or no");
         s.flip = text == "yes";
       }},
      numeric("noise", &Settings::noise, 0.0, 10.0),
      numeric("validation", &Settings::validation, 0.0, 0.9),
      {"data", [](const Settings& s) { return s.data; }, [](Settings& s, const std::string& text) { s.data = text; }},
  };
  return all;
}

const Field& field(const std::string& name) {
  for (const Field& f : fields())
    if (name == f.name) return f;
  throw Error(fmt::format("there is no setting called '{}'", name));
}

/// A schedule that ends is made for a number of epochs.
bool may_change(const std::string& name, const Settings& file) {
  return name == "lr" || name == "data" || (name == "epochs" && file.schedule == "constant");
}

}  // namespace

std::vector<std::string> net_names() { return {"softmax", "mlp", "cnn", "lenet", "best", "logic"}; }
std::vector<std::string> optimiser_names() { return {"sgd", "adam", "adamw", "rmsprop"}; }
std::vector<std::string> schedule_names() { return {"constant", "cosine", "one-cycle"}; }

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

Texts to_texts(const Settings& settings) {
  Texts texts;
  for (const Field& f : fields()) texts[f.name] = f.get(settings);
  return texts;
}

void set(Settings& settings, const std::string& name, const std::string& text) { field(name).set(settings, text); }

Settings settings_of(const Metadata& metadata, const std::string& path) {
  expect_app(metadata, path, "fashion", "`windrow train fashion`");
  return fields_from<Settings>(metadata, path, fields());
}

Settings merge(const Settings& file, const Texts& given, const std::string& path) {
  Settings merged = file;
  for (const auto& [name, text] : given) {
    set(merged, name, text);
    const std::string now = field(name).get(merged), then = field(name).get(file);
    if (now != then && !may_change(name, file)) {
      throw Error(
          fmt::format("--{} {}: {} was trained with {} {}{}", name, now, path, name, then,
                      name == "epochs" ? fmt::format(", and its schedule ({}) ends there", file.schedule) : ""));
    }
  }
  return merged;
}

}  // namespace wr::apps
