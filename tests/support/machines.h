// The machines that come with the library, for tests of plans: what a plan must not do holds on each of them.
#pragma once

#include <string>
#include <vector>

#include "base/machine.h"

namespace wr::test {

inline std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  for (const Machine& m : built_in_machines()) names.push_back(m.name);
  return names;
}

}  // namespace wr::test
