// Checkpoints of a training run: what is written besides the states, and nets read back from them.
#include <fmt/format.h>

#include <sstream>

#include "apps/common/metadata.h"
#include "apps/fashion/fashion.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::apps {
namespace {

// Pixels are at most 255, and mean and deviation are those of images.
constexpr double kMostScale = 1e6;

/// Numbers separated by blanks, lists of them by semicolons: read back exactly.
std::string print(const std::vector<Epoch>& history) {
  std::string text;
  for (const Epoch& e : history) {
    text += fmt::format("{}{} {} {} {} {} {} {}", text.empty() ? "" : ";", e.number, e.loss, e.accuracy,
                        e.validation_loss.value_or(-1), e.validation_accuracy.value_or(-1), e.seconds, e.rate);
  }
  return text;
}

std::vector<std::string> cut(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<Epoch> history_of(const MetadataReader& file) {
  std::vector<Epoch> all;
  for (const auto& v : file.rows("history", 7)) {
    Epoch e{static_cast<std::int64_t>(v[0]), v[1], v[2], {}, {}, v[5], v[6]};
    if (v[3] >= 0) e.validation_loss = v[3];
    if (v[4] >= 0) e.validation_accuracy = v[4];
    all.push_back(e);
  }
  return all;
}

}  // namespace

report::Point point_of(const Epoch& e) {
  report::Point p{e.number, e.seconds, {{"loss", e.loss}, {"accuracy", e.accuracy}}};
  if (e.validation_loss) p.values.emplace_back("validation loss", *e.validation_loss);
  if (e.validation_accuracy) p.values.emplace_back("validation accuracy", *e.validation_accuracy);
  return p;
}

report::History history_of(const std::vector<Epoch>& epochs) {
  report::History history;
  for (const Epoch& e : epochs) history.points.push_back(point_of(e));
  return history;
}

report::History fashion_history(const std::string& path) {
  const Metadata metadata = read_safetensors_header(path).metadata;
  return history_of(history_of(MetadataReader(metadata, path)));
}

Metadata TrainingRun::metadata() const {
  Metadata m;
  for (const auto& [name, text] : to_texts(settings_)) m[name] = text;
  m["windrow.app"] = "fashion";
  m["loader"] = to_string(loader_->state());
  write_plan(m, *step_);
  m["step"] = std::to_string(done_);
  m["so_far"] = fmt::format("{} {} {} {}", loss_sum_, right_, epoch_seconds_, seconds_);
  m["history"] = print(history_);
  m["scale"] = fmt::format("{}", images_.scale);
  m["offset"] = fmt::format("{}", images_.offset);
  m["data_name"] = images_.train.name;
  m["classes"] = fmt::format("{}", fmt::join(images_.train.classes, "|"));
  return m;
}

void TrainingRun::save(const std::string& path) const { save_checkpoint(path, states(), metadata()); }

void TrainingRun::load(const std::string& path, std::optional<double> lr) {
  const SafetensorsHeader header = read_safetensors_header(path);
  const MetadataReader file(header.metadata, path);
  const std::string& trained_on = file.text("data_name");
  if (trained_on != images_.train.name)
    throw Error(fmt::format("{}: was trained on {}, the data here are {}", path, text::printable(trained_on),
                            images_.train.name));
  // Everything is read before anything changes.
  const std::int64_t done = file.whole("step", 0, settings_.epochs * steps_per_epoch_);
  const auto so_far = file.numbers("so_far", 4);
  std::vector<Epoch> history = history_of(file);
  const data::LoaderState place = [&] {
    try {
      return data::parse_loader_state(file.text("loader"));
    } catch (const Error&) {
      file.refuse("loader", file.text("loader"), "where a loader stands");
    }
  }();
  const auto at = static_cast<std::int64_t>(place.epoch);
  if (at < 0 || at > settings_.epochs || place.next < 0 || place.next >= steps_per_epoch_ ||
      at * steps_per_epoch_ + place.next != done)
    throw Error(fmt::format("{}: metadata: step is {}, but the loader is at {}", path, done, to_string(place)));
  load_checkpoint(path, states());
  expect_finite(path, states());
  loader_->restore(place);
  done_ = done;
  loss_sum_ = so_far[0];
  right_ = so_far[1];
  epoch_seconds_ = so_far[2];
  seconds_ = so_far[3];
  history_ = std::move(history);
  if (lr) optimiser_->set_lr(*lr);
}

Trained load_trained(const std::string& path, int threads) {
  const Safetensors file = read_safetensors(path);
  const Settings settings = settings_of(file.metadata, path);
  const nn::Sequential net = make_net(settings.net);
  CheckpointStates states;
  states.add_group("model", net.states());
  for (const auto& [name, state] : states.all()) {
    const auto found = file.tensors.find(name);
    if (found == file.tensors.end())
      throw Error(
          fmt::format("{}: has no {} {}, which the net {} needs", path, name, to_string(state.spec()), settings.net));
    const Spec spec{found->second.dtype(), found->second.shape()};
    if (spec != state.spec())
      throw Error(fmt::format("{}: {} is {}, the net {} needs {}", path, name, to_string(spec), settings.net,
                              to_string(state.spec())));
    expect_finite(path, name, found->second);
    State(state).set(found->second);
  }
  const MetadataReader metadata(file.metadata, path);
  std::vector<std::string> classes = cut(metadata.text("classes"), '|');
  for (std::string& name : classes) name = text::printable(name);
  return {settings, std::move(classes), text::printable(metadata.text("data_name")),
          Classifier(net, static_cast<float>(metadata.number("scale", -kMostScale, kMostScale)),
                     static_cast<float>(metadata.number("offset", -kMostScale, kMostScale)),
                     CompileOptions{"eval " + settings.net, threads, 0})};
}

std::string class_name(const std::vector<std::string>& classes, std::size_t label) {
  return label < classes.size() ? classes[label] : std::to_string(label);
}

}  // namespace wr::apps
