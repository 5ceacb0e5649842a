// windrow profile and tune.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/options.h"

namespace wr::cli {

/// `run` executes a command line of this program, without its name.
void add_profile(Command program, const std::function<int(const std::vector<std::string>&)>& run);
void add_tune(Command program);

}  // namespace wr::cli
