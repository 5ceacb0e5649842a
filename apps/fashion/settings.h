// What a training run of image nets is: all that decides its result, as numbers and as the text a checkpoint keeps.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "apps/common/fields.h"
#include "windrow/checkpoint.h"

namespace wr::apps {

struct Settings {
  std::string net = "cnn";
  std::int64_t epochs = 1, batch = 64;
  std::string optim = "adam";
  double lr = 1e-3;
  std::string schedule = "cosine";
  double weight_decay = 0;
  double smoothing = 0;  // of the labels
  std::uint64_t seed = 1;
  std::int64_t shift = 0;  // augmentation: pixels each way
  bool flip = false;
  double noise = 0;
  double validation = 0.05;  // share of the training images put aside
  std::string data;          // folder; empty: Fashion-MNIST of the system, else drawn digits
};

std::vector<std::string> net_names();
std::vector<std::string> optimiser_names();
std::vector<std::string> schedule_names();
/// The recipe a net is trained with when nothing else is said.
Settings recipe(const std::string& net);

/// Those without a help text are not options of their own.
const std::vector<NamedField<Settings>>& fashion_fields();
Texts to_texts(const Settings& settings);
/// Throws an Error that names the setting, the text and what was expected.
void set(Settings& settings, const std::string& name, const std::string& text);
/// The settings of a checkpoint of this program. An Error says what the file is instead.
Settings settings_of(const Metadata& metadata, const std::string& path);
/// The settings of a file with those of the command line. What cannot change in the middle of a run is an Error that
/// names both values.
Settings merge(const Settings& file, const Texts& given, const std::string& path);

}  // namespace wr::apps
