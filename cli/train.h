// windrow train, eval and predict.
#pragma once

namespace CLI {
class App;
}

namespace wr::cli {

void add_train(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_predict(CLI::App& app, int& exit_code);

}  // namespace wr::cli
