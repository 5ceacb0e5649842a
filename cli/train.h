// windrow train, eval, predict, solve, circuit, run and report.
#pragma once

#include "cli/options.h"

namespace wr::cli {

void add_train(Command program);
/// windrow train life, checkerboard, ...
void add_automaton_tasks(Command train);
void add_circuit(Command program);
void add_run(Command program);
void add_eval(Command program);
void add_predict(Command program);
void add_report(Command program);
/// train cube, and solve; after train.
void add_cube(Command program);

}  // namespace wr::cli
