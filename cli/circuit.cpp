// windrow circuit: what a trained automaton has become.
#include <fmt/format.h>

#include "apps/automaton/export.h"
#include "apps/automaton/show.h"
#include "base/json.h"
#include "cli/session.h"
#include "cli/train.h"
#include "windrow/error.h"
#include "windrow/files.h"
#include "windrow/text.h"

namespace wr::cli {
namespace {

using namespace wr::apps;

struct CircuitOptions {
  std::string file, svg, curve, c, c_program, verilog;
  bool json = false;
};

std::string kinds_text(const logic::Circuit& circuit) {
  std::string text;
  for (const auto& [kind, count] : logic::count_by_kind(circuit))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  return text.empty() ? "none" : text;
}

int circuit(const CircuitOptions& o) {
  check_outputs(
      {{"--svg", o.svg}, {"--curve", o.curve}, {"--c", o.c}, {"--c-program", o.c_program}, {"--verilog", o.verilog}},
      {{"the checkpoint", o.file}});
  const TrainedAutomaton trained = load_automaton(o.file);
  const logic::Circuit all = logic::circuit_of(trained.automaton), small = logic::simplified(all),
                       seen = visible_circuit(trained);
  std::int64_t not_pass = 0;
  for (const logic::Gate& g : all.gates) not_pass += g.function != 3 && g.function != 5;
  if (o.json) {
    Json kinds = Json::object();
    for (const auto& [kind, count] : logic::count_by_kind(seen)) kinds[kind] = count;
    fmt::print("{}\n", Json{{"task", trained.settings.task},
                            {"channels", all.outputs.size()},
                            {"trained", all.gates.size()},
                            {"not_pass_through", not_pass},
                            {"simplified", small.gates.size()},
                            {"visible", seen.gates.size()},
                            {"visible_by_kind", kinds}}
                           .dump());
  } else {
    fmt::print("{}: {}\n", text::printable(o.file), trained.settings.task);
    fmt::print("trained:    {} gates on {} channels ({} that are not pass-throughs)\n", all.gates.size(),
               all.outputs.size(), not_pass);
    fmt::print("simplified: {} gates: {}\n", small.gates.size(), kinds_text(small));
    fmt::print("visible:    {} gates: {}   (without channels that the visible ones never depend on)\n",
               seen.gates.size(), kinds_text(seen));
  }
  const auto names = input_names(trained.settings.channels);
  if (!o.svg.empty())
    write_file(o.svg, to_svg(seen, names, fmt::format("{}: {} gates", trained.settings.task, seen.gates.size())));
  if (!o.curve.empty()) write_file(o.curve, loss_curve(trained.history));
  if (!o.c.empty()) write_file(o.c, to_c(seen, "rule"));
  if (!o.c_program.empty()) write_file(o.c_program, to_c_program(seen));
  if (!o.verilog.empty()) write_file(o.verilog, to_verilog(seen, "rule"));
  for (const std::string& file : {o.svg, o.curve, o.c, o.c_program, o.verilog})
    if (!file.empty() && !o.json) fmt::print("wrote {}\n", text::printable(file));
  return 0;
}

}  // namespace

void add_circuit(Command program) {
  auto c = program.add("circuit", "Simplify, count, draw and export the circuit of a trained automaton");
  auto o = std::make_shared<CircuitOptions>();
  c.option("file", o->file, "A checkpoint of windrow train checkerboard and so on").type("FILE").required();
  c.option("--svg", o->svg, "Draw it").type("FILE");
  c.option("--curve", o->curve, "Draw the losses of its training").type("FILE");
  c.option("--c", o->c, "As a C function on 64 cells a word").type("FILE");
  c.option("--c-program", o->c_program, "As a whole C program that runs grids").type("FILE");
  c.option("--verilog", o->verilog, "As a Verilog module").type("FILE");
  c.flag("--json", o->json, "One JSON object");
  c.does([o] { return circuit(*o); });
}

}  // namespace wr::cli
