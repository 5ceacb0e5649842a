// windrow train, eval, predict and solve.
#pragma once

namespace CLI {
class App;
}

namespace wr::cli {

void add_train(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_predict(CLI::App& app, int& exit_code);
/// train cube, eval cube and solve; after train and eval.
void add_cube(CLI::App& app, int& exit_code);

}  // namespace wr::cli
