// The curves of a training run.
#pragma once

#include <string>
#include <vector>

namespace wr::apps {

struct Curve {
  std::string name;
  std::vector<double> values;  // at 1, 2, ...
};
/// Up to two curves over the same axis, with their last values; curves without values are left out.
std::string chart(const std::vector<Curve>& curves, const std::string& axis = "epoch");

struct Bar {
  std::string name;
  double value = 0;
  std::string text;  // what is written over it
};
std::string bars(const std::vector<Bar>& list, const std::string& axis);

}  // namespace wr::apps
