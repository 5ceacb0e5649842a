// windrow profile and tune.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace wr::cli {

/// `run` executes a command line of this program, without its name.
void add_profile(CLI::App& app, int& exit_code, const std::function<int(const std::vector<std::string>&)>& run);
void add_tune(CLI::App& app, int& exit_code);

}  // namespace wr::cli
