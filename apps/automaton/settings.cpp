// Settings of automata as text, and the recipe of each task.
#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "apps/automaton/automaton.h"
#include "apps/common/fields.h"

namespace wr::apps {
namespace {

using S = AutomatonSettings;

using Field = NamedField<S>;

Field layers(const std::string& name, std::string S::*member, const std::string& help) {
  return {name, help, "LIST", [=](const S& s) { return s.*member; },
          [=](S& s, const std::string& text) {
            layer_sizes(text);
            s.*member = text;
          }};
}

}  // namespace

const std::vector<NamedField<AutomatonSettings>>& automaton_fields() {
  static const std::vector<Field> all{
      choice_field<S>("task", &S::task, automaton_tasks(), ""),
      number_field<S, std::uint64_t>("seed", &S::seed, 0, std::numeric_limits<std::uint64_t>::max(),
                                     "Of wiring, starts and masks"),
      number_field<S, std::int64_t>("updates", &S::updates, 1, 100'000'000,
                                    "At most so many; ends when the hard circuit is exact"),
      number_field<S, std::int64_t>("height", &S::height, 1, 4096, "Of the grid"),
      number_field<S, std::int64_t>("width", &S::width, 1, 4096, "Of the grid"),
      choice_field<S>("border", &S::border, {"zero", "wrap"}, "What lies outside the grid"),
      number_field<S, std::int64_t>("steps", &S::steps, 1, 1000, "Of the automaton before the loss"),
      number_field<S, std::int64_t>("batch", &S::batch, 1, 100'000, "Grids at once"),
      number_field<S, std::int64_t>("accumulate", &S::accumulate, 1, 100'000, "Batches an update"),
      number_field<S, std::int64_t>("channels", &S::channels, 1, 4096, "Bits of a cell"),
      number_field<S, std::int64_t>("kernels", &S::kernels, 1, 4096,
                                    "Small trees of gates that look at each channel's neighbourhood"),
      layers("kernel-gates", &S::kernel_gates, "Their layers"),
      layers("update-gates", &S::update_gates, "Layers of the update, such as 256x10,128,8"),
      number_field("fire", &S::fire, 0.01, 1.0, "Share of cells that take their new state in a step"),
      number_field("lr", &S::lr, 1e-9, 1e3, "Learning rate"),
      number_field("weight-decay", &S::weight_decay, 0.0, 1e3, "Weight decay"),
      number_field("beta2", &S::beta2, 0.0, 0.999999, "AdamW's"),
      number_field("epsilon", &S::epsilon, 0.0, 1.0,
                   "AdamW's; a small one lets gates that are nearly hard go on learning"),
      number_field("clip", &S::clip, 0.0, 1e12, "Largest element of a gradient; 0: none"),
      number_field("pass", &S::pass, -100.0, 100.0, "Logit of pass-through at the start"),
      number_field("noise", &S::noise, 0.0, 100.0, "Deviation of all logits at the start"),
      choice_field<S>(
          "look", &S::look, {"alike", "odd", "even"},
          "At the start all kernels see the same neighbour, or each whether an odd or an even number of the "
          "three cells on one side is on"),
      number_field("sharpen", &S::sharpen, 0.0, 1.0,
                   "Growth of the sharpness an update while the soft loss is low; 0: none"),
      number_field("hard", &S::hard, 0.0, 1.0, "Share of gates that are hard in an update, drawn anew for each"),
      number_field("harden", &S::harden, 0.0, 1.0,
                   "Growth of the share of gates that are hard an update while the loss is low; 0: none"),
      number_field<S, std::int64_t>("restore", &S::restore, 0, 10,
                                    "Times that each step's values are drawn towards 0 and 1, as real gates do"),
      number_field("early", &S::early, 0.0, 1.0,
                   "Share of the loss that is taken after every step of the second half: the rule settles sooner"),
      number_field("solved", &S::solved, 0.0, 1.0, "What low is"),
      number_field<S, std::int64_t>(
          "polish", &S::polish, 0, 100'000'000,
          "Updates between searches for hard gates that work, while the loss is low; 0: never"),
      number_field<S, std::int64_t>("tries", &S::tries, 1, 100'000'000, "Circuits that such a search tries"),
      number_field<S, std::int64_t>("finish", &S::finish, 0, 100'000'000,
                                    "Such searches in a row that may find nothing, when updates come no nearer"),
      number_field<S, std::int64_t>(
          "attempt", &S::attempt, 0, 100'000'000,
          "Updates after which a run that is not nearly exact begins again, wired anew; 0: never"),
      choice_field<S>("memory", &S::memory, {"recompute", "keep"},
                      "Compute gates again going back, or keep all activations"),
      choice_field<S>("dtype", &S::dtype, {"f32", "f64"}, "Of states and logits"),
      text_field("picture", &S::picture, "FILE", ""),
  };
  return all;
}

std::vector<std::string> automaton_tasks() {
  return {"life", "checkerboard", "checkerboard-async", "pattern", "colour"};
}

bool grows_picture(const std::string& task) { return task == "pattern" || task == "colour"; }

Border border_of(const AutomatonSettings& settings) { return settings.border == "wrap" ? Border::wrap : Border::zero; }

/// "256x3,128" is 256, 256, 256, 128.
std::vector<std::int64_t> layer_sizes(const std::string& text) {
  constexpr std::int64_t kMostGates = 1 << 20, kMostLayers = 1000;
  std::vector<std::int64_t> sizes;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    std::int64_t size = 0, times = 1;
    auto read = std::from_chars(at, end, size);
    bool good = read.ec == std::errc{} && size >= 1 && size <= kMostGates;
    if (good && read.ptr < end && *read.ptr == 'x') {
      read = std::from_chars(read.ptr + 1, end, times);
      good = read.ec == std::errc{} && times >= 1 && times <= kMostLayers;
    }
    good = good && (read.ptr == end || (*read.ptr == ',' && read.ptr + 1 < end)) &&
           std::ssize(sizes) + times <= kMostLayers;
    if (!good) break;
    sizes.insert(sizes.end(), static_cast<std::size_t>(times), size);
    at = read.ptr == end ? end : read.ptr + 1;
  }
  if (at < end || sizes.empty())
    throw Error(fmt::format("'{}' are no layers of gates; expected such as 256x10,128,8", text));
  return sizes;
}

namespace {

/// Grid, model and rollout of a task as published.
AutomatonSettings published(const std::string& task) {
  AutomatonSettings s;
  set(s, "task", task);
  s.update_gates = "256x10,128,64,32,16,8,8";
  s.updates = 500;
  s.pass = 10;
  s.noise = 0;
  s.weight_decay = 0.01;
  s.sharpen = s.harden = 0;
  s.restore = s.polish = 0;
  if (task == "life") {
    s.height = s.width = 3;
    s.border = "wrap";
    s.channels = 1;
    s.kernel_gates = "8,4,2,1";
    s.update_gates = "128x17,64,32,16,8,4,2,1";
    s.steps = 1;
    s.batch = 20;
    s.updates = 3000;
  } else if (task == "checkerboard-async") {
    s.height = s.width = 14;
    s.update_gates = "256x14,128,64,32,16,8,8";
    s.steps = 50;
    s.batch = 1;
    s.fire = 0.6;
    s.updates = 800;
  } else if (task == "pattern") {
    s.height = s.width = 20;
    s.border = "wrap";
    s.channels = 128;
    s.kernels = 4;
    s.kernel_gates = "8,4,2,1";
    s.update_gates = "512x8,256,128";
    s.steps = 12;
    s.batch = 1;
    s.updates = 3500;
    s.lr = 0.06;
  } else if (task == "colour") {
    s.channels = 64;
    s.kernels = 4;
    s.update_gates = "512x8,256,128,64";
    s.steps = 15;
    s.batch = 1;
    s.updates = 3000;
    s.lr = 0.06;
  }
  return s;
}

}  // namespace

AutomatonSettings automaton_recipe(const std::string& task, Recipe recipe) {
  AutomatonSettings s = published(task);
  if (recipe == Recipe::published) return s;
  const AutomatonSettings ours;
  s.pass = ours.pass;
  s.noise = ours.noise;
  s.weight_decay = 0;
  s.harden = ours.harden;
  s.restore = ours.restore;
  s.polish = ours.polish;
  if (task == "checkerboard-async") s.updates = 3000;
  if (task == "checkerboard") {
    s.updates = 6000;
    s.attempt = 450;
    s.lr = 0.1;
  }
  if (grows_picture(task)) {  // all gates nearly hard from the first to the last update
    s.pass = 14;
    s.lr = 0.09;
    s.epsilon = 1e-15;
    s.harden = 0;
    s.restore = 0;
    s.polish = 50;
    s.solved = 0.08;
    s.attempt = 1000;
    s.updates = 12'000;
    s.finish = 6;
    s.tries = 5000;
    s.look = task == "colour" ? "even" : "odd";  // of colour the start is empty
  }
  if (task == "life") {
    s.pass = 8;
    s.noise = 0.5;
    s.batch = 64;
    s.lr = 0.02;
    s.solved = 0.003;
    s.sharpen = 0.002;
    s.harden = 0;
    s.restore = 0;
    s.attempt = 2400;
    s.updates = 12'000;
  }
  return s;
}

Texts to_texts(const AutomatonSettings& settings) { return texts_of(settings, automaton_fields()); }

void set(AutomatonSettings& settings, const std::string& name, const std::string& text) {
  field_named(automaton_fields(), name).set(settings, text);
}

AutomatonSettings automaton_settings_of(const SafetensorsHeader& header, const std::string& path) {
  expect_app(header.metadata, path, "automaton", "an automaton (windrow train checkerboard and so on)");
  const AutomatonSettings s = fields_from<AutomatonSettings>(header.metadata, path, automaton_fields());
  // Before anything of that size is made: the logits of all these gates must be there.
  constexpr std::int64_t kLogits = 16;
  std::int64_t held = 0, gates = 0;
  for (const auto& [name, spec] : header.tensors)
    if (name.starts_with("model.")) held += spec.shape.count();
  for (const std::int64_t n : layer_sizes(s.kernel_gates)) gates += s.kernels * n;
  for (const std::int64_t n : layer_sizes(s.update_gates)) gates += n;
  if (gates * kLogits != held)
    throw Error(fmt::format("{}: metadata: kernels, kernel-gates and update-gates make {} gates, but the file has {}",
                            path, gates, held / kLogits));
  if (layer_sizes(s.update_gates).back() != s.channels)
    throw Error(fmt::format("{}: metadata: channels is {}, but the last of update-gates is {}", path, s.channels,
                            layer_sizes(s.update_gates).back()));
  return s;
}

}  // namespace wr::apps
