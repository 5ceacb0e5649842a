// windrow rules: programs of rules run, asked, explained, checked and formatted.
#pragma once

namespace CLI {
class App;
}

namespace wr::cli {

void add_rules(CLI::App& app, int& exit_code);

}  // namespace wr::cli
