// windrow train, eval, predict, solve, circuit and run.
#pragma once

namespace CLI {
class App;
}

namespace wr::cli {

void add_train(CLI::App& app, int& exit_code);
/// windrow train life, checkerboard, ...
void add_automaton_tasks(CLI::App& train, int& exit_code);
void add_circuit(CLI::App& app, int& exit_code);
void add_run(CLI::App& app, int& exit_code);
void add_eval(CLI::App& app, int& exit_code);
void add_predict(CLI::App& app, int& exit_code);
/// train cube, eval cube and solve; after train and eval.
void add_cube(CLI::App& app, int& exit_code);

}  // namespace wr::cli
