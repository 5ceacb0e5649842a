// The curves of a training run.
#pragma once

#include <string>
#include <vector>

namespace wr::apps {

struct Curve {
  std::string name;
  std::vector<double> values;  // at 1, 2, ...
};
/// Curves over the epochs, with their last values; curves without values are left out.
std::string chart(const std::vector<Curve>& curves);

}  // namespace wr::apps
