// windrow eval: asks a checkpoint what it is of, and has it tested.
#include "cli/eval.h"

#include <fmt/format.h>

#include "cli/train.h"
#include "windrow/checkpoint.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::cli {
namespace {

/// Options that are for another kind of net would be silently ignored.
void refuse_others(const EvalOptions& o, const std::string& app) {
  const auto refuse = [&](bool given, const char* option, const char* for_whom) {
    if (given && app != for_whom)
      throw UsageError(option, fmt::format("{} is a checkpoint of {}; this is for one of {}", o.file, app, for_whom));
  };
  refuse(!o.data.empty(), "--data", "fashion");
  refuse(o.all, "--all", "cube");
  refuse(o.beam.has_value(), "--beam", "cube");
  refuse(o.limit.has_value(), "--limit", "cube");
  refuse(o.sample.has_value(), "--sample", "cube");
  refuse(o.grids.has_value(), "--grids", "automaton");
}

int evaluate(const EvalOptions& o) {
  const Metadata metadata = read_safetensors_header(o.file).metadata;
  const auto app = metadata.find("windrow.app");
  if (app == metadata.end())
    throw Error(fmt::format("{}: is no checkpoint of windrow train: its metadata has no windrow.app", o.file));
  refuse_others(o, app->second);
  if (app->second == "fashion") return evaluate_fashion(o);
  if (app->second == "cube") return evaluate_cube(o);
  if (app->second == "automaton") return evaluate_automaton(o);
  throw Error(fmt::format("{}: windrow.app is '{}'; expected fashion, cube or automaton", o.file,
                          text::printable(app->second)));
}

void add_options(Command c, const std::shared_ptr<EvalOptions>& o) {
  c.option("file", o->file, "Checkpoint").type("FILE").required();
  c.option("--data", o->data, "fashion: folder with MNIST's four files (default: what the net was trained on)")
      .type("DIR");
  c.flag("--all", o->all, "cube: all 3,674,160 states, not a sample");
  c.option("--beam", o->beam, "cube: with --all, try what fails greedily with a beam of this width").range(1, 100'000);
  c.option("--limit", o->limit, "cube: moves that count as solved (20)").range(1, 1000);
  c.option("--sample", o->sample, "cube: states of each distance without --all (1000)").range(1, 1'000'000);
  c.option("--grids", o->grids, "automata: grids to begin with (16)").range(1, 100'000);
  c.option("--threads", o->threads, "Threads").range(1, 1024);
  c.flag("--json", o->json, "One JSON object");
  c.does([o] { return evaluate(*o); });
}

}  // namespace

void add_eval(Command program) {
  auto c =
      program.add("eval", "Test what was trained: a classifier's accuracy by class, a cube's solutions, an automaton");
  add_options(c, std::make_shared<EvalOptions>());
}

}  // namespace wr::cli
