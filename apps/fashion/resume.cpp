// Checkpoints of a training run: what is written besides the states, and nets read back from them.
#include <fmt/format.h>

#include <charconv>
#include <sstream>

#include "apps/fashion/fashion.h"
#include "windrow/error.h"

namespace wr::apps {
namespace {

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

/// The metadata of a file, with errors that name it.
class Reader {
 public:
  Reader(const Metadata& metadata, std::string path) : metadata_(metadata), path_(std::move(path)) {}

  std::string text(const std::string& name) const {
    const auto found = metadata_.find(name);
    if (found == metadata_.end()) throw Error(fmt::format("{}: its metadata has no '{}'", path_, name));
    return found->second;
  }
  double number(const std::string& name) const { return parsed(name, text(name)); }
  std::vector<double> numbers(const std::string& name, const std::string& text, std::size_t count) const {
    std::vector<double> values;
    for (const std::string& part : cut(text, ' ')) values.push_back(parsed(name, part));
    if (values.size() != count)
      throw Error(fmt::format("{}: metadata: {} has {} numbers, expected {}", path_, name, values.size(), count));
    return values;
  }
  std::vector<Epoch> history() const {
    std::vector<Epoch> all;
    for (const std::string& part : cut(text("history"), ';')) {
      const auto v = numbers("history", part, 7);
      Epoch e{static_cast<std::int64_t>(v[0]), v[1], v[2], {}, {}, v[5], v[6]};
      if (v[3] >= 0) e.validation_loss = v[3];
      if (v[4] >= 0) e.validation_accuracy = v[4];
      all.push_back(e);
    }
    return all;
  }

 private:
  double parsed(const std::string& name, const std::string& text) const {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size())
      throw Error(fmt::format("{}: metadata: {} has '{}', expected a number", path_, name, text));
    return value;
  }
  const Metadata& metadata_;
  std::string path_;
};

}  // namespace

Metadata TrainingRun::metadata() const {
  Metadata m;
  for (const auto& [name, text] : to_texts(settings_)) m[name] = text;
  m["windrow.app"] = "fashion";
  m["loader"] = to_string(loader_->state());
  m["lanes"] = std::to_string(step_->facts().lanes);
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
  const Reader file(header.metadata, path);
  const std::string trained_on = file.text("data_name");
  if (trained_on != images_.train.name)
    throw Error(fmt::format("{}: was trained on {}, the data here are {}", path, trained_on, images_.train.name));
  // Everything is read before anything changes.
  const auto done = static_cast<std::int64_t>(file.number("step"));
  const auto so_far = file.numbers("so_far", file.text("so_far"), 4);
  std::vector<Epoch> history = file.history();
  const data::LoaderState place = data::parse_loader_state(file.text("loader"));
  if (done < 0 || static_cast<std::int64_t>(place.epoch) * steps_per_epoch_ + place.next != done)
    throw Error(fmt::format("{}: metadata: step is {}, but the loader is at {}", path, done, to_string(place)));
  load_checkpoint(path, states());
  loader_->restore(place);
  done_ = done;
  loss_sum_ = so_far[0];
  right_ = so_far[1];
  epoch_seconds_ = so_far[2];
  seconds_ = so_far[3];
  history_ = std::move(history);
  if (lr) optimiser_->set_lr(*lr);
}

int lanes_of(const Metadata& metadata) {
  const double lanes = Reader(metadata, "checkpoint").number("lanes");
  if (!(lanes >= 1 && lanes <= 1024))
    throw Error(fmt::format("checkpoint: metadata: lanes is {}, expected 1 to 1024", lanes));
  return static_cast<int>(lanes);
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
    State(state).set(found->second);
  }
  const Reader metadata(file.metadata, path);
  return {settings, cut(metadata.text("classes"), '|'), metadata.text("data_name"),
          Classifier(net, static_cast<float>(metadata.number("scale")), static_cast<float>(metadata.number("offset")),
                     CompileOptions{"eval " + settings.net, threads, 0})};
}

std::string class_name(const std::vector<std::string>& classes, std::size_t label) {
  return label < classes.size() ? classes[label] : std::to_string(label);
}

}  // namespace wr::apps
