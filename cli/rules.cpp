// windrow rules run, query, explain, train, check, fmt and repl.
#include "cli/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/json.h"
#include "cli/rules_repl.h"
#include "cli/session.h"
#include "windrow/data.h"
#include "windrow/error.h"
#include "windrow/files.h"
#include "windrow/npy_rows.h"
#include "windrow/profile.h"
#include "windrow/rules.h"
#include "windrow/rules_batches.h"

namespace wr::cli {
namespace {

struct Options {
  std::string file, text, semantics, named_format = "table", save, restore;
  std::vector<std::string> data, write;
  std::string domain, profile_out;
  std::int64_t batch = 256;
  int iterations = 0;
  double tolerance = -1;
  std::int64_t memory_mb = 4096;
  int steps = 0;
  double lr = 0;
  bool json = false;
  std::string format() const { return json ? "json" : named_format; }
  bool profile = false, in_place = false;
};

/// `streamed`: whose data are not read at once.
rules::Program opened(const Options& o, const std::vector<std::string>& streamed = {}) {
  rules::Program program = rules::Program::parse_file(o.file);
  for (const std::string& each : o.data) {
    const auto [name, path] = name_and_file("--data", each);
    if (std::find(streamed.begin(), streamed.end(), name) == streamed.end()) program.load(name, path);
  }
  if (!o.restore.empty()) program.restore(o.restore);
  return program;
}

/// The program with its data, to be run; what looks like a mistake is said.
rules::Program opened_to_run(const Options& o) {
  rules::Program program = opened(o);
  for (const std::string& note : program.notes()) fmt::print(stderr, "note: {}\n", note);
  return program;
}

rules::SolveOptions solve_options(const Options& o) {
  rules::SolveOptions options;
  if (!o.semantics.empty()) options.semantics = semantics_called("--semantics", o.semantics);
  options.most_iterations = o.iterations;
  options.tolerance = o.tolerance;
  options.memory = static_cast<std::size_t>(o.memory_mb) << 20;
  return options;
}

/// Where notes beside the answers go: not in between them where a program reads them.
std::FILE* notes(const Options& o) { return o.format() == "table" ? stdout : stderr; }

void print_profile(std::FILE* out, const rules::SolveFacts& facts) {
  fmt::print(out, "{} iterations, {:.3f} ms\n", facts.iterations, facts.seconds * 1e3);
  std::vector<rules::SolveFacts::Line> lines = facts.rules;
  std::sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  fmt::print(out, "{:>10} {:>6} {:>12} {:>5}  rule\n", "ms", "share", "found", "line");
  for (const auto& line : lines)
    fmt::print(out, "{:>10.3f} {:>5.1f}% {:>12} {:>5}  {}\n", line.seconds * 1e3,
               100 * line.seconds / std::max(facts.seconds, 1e-12), line.found,
               line.line > 0 ? std::to_string(line.line) : "", line.rule);
}

/// Where the time of compiled steps went, by lines of the program.
void finish_profile(const Options& o, std::FILE* out) {
  const std::vector<Profile> all = collected_profiles();
  if (o.profile && !all.empty()) {
    const auto longest = std::max_element(all.begin(), all.end(), [](const Profile& a, const Profile& b) {
      return a.run_us * static_cast<double>(a.runs) < b.run_us * static_cast<double>(b.runs);
    });
    fmt::print(out, "{}{}", longest->to_table(12), longest->bottleneck_report());
  }
  if (o.profile_out.empty()) return;
  write_profiles(o.profile_out, all);
  fmt::print(out, "wrote {}\n", o.profile_out);
}

/// In batches of a domain's constants: .npy files are read some rows at a time, the next ones while these are computed.
int run_batches(const Options& o) {
  std::vector<std::string> inputs, results;
  std::vector<data::NpyRows> files;
  std::vector<Output> outputs;
  std::int64_t rows = -1;
  for (const std::string& each : o.write) {
    const auto [name, path] = name_and_file("--write", each);
    if (!path.ends_with(".npy")) throw Error(fmt::format("--write '{}': with --batches results go to .npy", each));
    results.push_back(name);
    outputs.push_back({"--write", path});
  }
  if (results.empty()) throw Error("--batches: say what to write: --write NAME=FILE.npy");
  try_outputs(outputs);
  const std::vector<std::string> streamed = rules::in_domain(rules::Program::parse_file(o.file), o.domain);
  for (const std::string& each : o.data) {
    const auto [name, path] = name_and_file("--data", each);
    if (std::find(streamed.begin(), streamed.end(), name) == streamed.end()) continue;
    inputs.push_back(name);
    files.emplace_back(path);
    const std::int64_t here = files.back().spec().shape[0];
    if (rows >= 0 && here != rows) throw Error(fmt::format("{}: {} rows, {} in the files before", path, here, rows));
    rows = here;
  }
  if (files.empty()) throw Error(fmt::format("--batches {}: no --data has a row for each of its constants", o.domain));
  rules::Batches batches(
      opened(o, inputs), o.domain, inputs, results,
      {.batch = std::min(o.batch, std::max<std::int64_t>(rows, 1)), .semantics = solve_options(o).semantics});
  std::vector<Array> whole(results.size());
  const auto start = std::chrono::steady_clock::now();
  batches.run(
      rows,
      [&](std::int64_t first, std::int64_t count) {
        std::vector<Array> part;
        for (const data::NpyRows& file : files) part.push_back(file.read(first, count));
        return part;
      },
      [&](std::int64_t first, const std::vector<Array>& found) {
        for (std::size_t i = 0; i < found.size(); ++i) {
          Shape shape = found[i].shape();
          const std::int64_t row = shape.count() / shape[0];
          shape[0] = rows;
          if (first == 0) whole[i] = Array::zeros(shape);
          std::copy_n(found[i].data<float>(), found[i].count(), whole[i].mutable_data<float>() + first * row);
        }
      });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  for (std::size_t i = 0; i < results.size(); ++i) {
    data::write_npy(outputs[i].path, whole[i]);
    fmt::print(notes(o), "wrote {}\n", outputs[i].path);
  }
  fmt::print(notes(o), "{} rows in batches of {}: {:.3f} s, of which {:.3f} s to compile\n", rows, batches.batch(),
             seconds, batches.step().facts().compile_ms / 1e3);
  finish_profile(o, notes(o));
  return 0;
}

void print_answers(const std::vector<rules::Answers>& all, const std::string& format) {
  for (const rules::Answers& answers : all) {
    if (format == "table") fmt::print("?- {}.\n", answers.query);
    fmt::print("{}", text_of(answers, format));
  }
}

int run(const Options& o) {
  if (o.profile || !o.profile_out.empty()) profile_all_steps(true);
  if (!o.domain.empty()) return run_batches(o);
  std::vector<Output> outputs;
  for (const std::string& each : o.write) outputs.push_back({"--write", name_and_file("--write", each).second});
  try_outputs(outputs);
  const rules::Program program = opened_to_run(o);
  for (const std::string& each : o.write) {
    const auto [name, path] = name_and_file("--write", each);
    check_write(program, "--write", name, path);
  }
  const rules::SolveOptions options = solve_options(o);
  rules::SolveFacts facts;
  const std::vector<rules::Answers> all = program.run(options, o.profile ? &facts : nullptr);
  print_answers(all, o.format());
  for (const std::string& each : o.write) {
    const auto [name, path] = name_and_file("--write", each);
    write_relation(program, name, path, options, o.profile ? &facts : nullptr);
    fmt::print(notes(o), "wrote {}\n", path);
  }
  if (all.empty() && o.write.empty())
    fmt::print(notes(o), "{}: no queries; ask with windrow rules query, or add `?- ... .`\n", o.file);
  if (o.profile) print_profile(notes(o), facts);
  finish_profile(o, notes(o));
  return 0;
}

int query(const Options& o) {
  fmt::print("{}", text_of(opened_to_run(o).query(o.text, solve_options(o)), o.format()));
  return 0;
}

int explain(const Options& o) {
  const std::string why = opened_to_run(o).explain(o.text, solve_options(o));
  fmt::print("{}", o.json ? Json{{"atom", o.text}, {"explanation", why}}.dump() + "\n" : why);
  return 0;
}

int train(const Options& o) {
  check_outputs({{"--save", o.save}, {"--out", o.profile_out}}, {{"the program", o.file}});
  if (o.profile || !o.profile_out.empty()) profile_all_steps(true);
  rules::Program program = opened_to_run(o);
  rules::TrainOptions options;
  options.semantics = solve_options(o).semantics;
  options.steps = o.steps;
  options.lr = o.lr;
  const Interruptible guard;
  const bool json = o.format() == "json";
  options.stop = [] { return interrupted(); };
  options.progress = [json](int step, double loss) {
    if (json)
      fmt::print("{}\n", Json{{"step", step}, {"loss", loss}}.dump());
    else
      fmt::print("step {:>6}  loss {:.6g}\n", step, loss);
    std::fflush(stdout);
    return true;
  };
  const rules::TrainReport report = program.train(options);
  if (json)
    fmt::print("{}\n", Json{{"steps", report.losses.size()},
                            {"seconds", report.seconds},
                            {"compile_seconds", report.compile_seconds},
                            {"learned", program.learned()}}
                           .dump());
  else
    fmt::print("{} steps in {:.3f} s, of which {:.3f} s to compile\n{}", report.losses.size(), report.seconds,
               report.compile_seconds, program.learned());
  if (!o.save.empty()) {
    program.save(o.save);
    fmt::print(notes(o), "wrote {}\n", o.save);
  }
  print_answers(program.run(solve_options(o)), o.format());
  finish_profile(o, notes(o));
  return interrupted() ? kInterrupted : 0;
}

int check(const Options& o) {
  const rules::Program program = opened_to_run(o);
  if (o.json)
    fmt::print("{}\n", Json{{"file", o.file},
                            {"names", Json::list_of(program.names())},
                            {"semantics", rules::to_string(program.semantics())}}
                           .dump());
  else
    fmt::print("{}: {} relations and tensors, {} semantics: no mistakes found\n", o.file, program.names().size(),
               rules::to_string(program.semantics()));
  return 0;
}

int format(const Options& o) {
  const std::string before = read_file(o.file, kMostProgram), after = rules::format_text(before, o.file);
  if (!o.in_place)
    fmt::print("{}", after);
  else if (before != after)
    write_file(o.file, after);  // the file that was read, and by now wholly
  return 0;
}

int repl(const Options& o) {
  ReplOptions options;
  options.file = o.file;
  options.format = o.format();
  options.restore = o.restore;
  options.data = o.data;
  options.solve = solve_options(o);
  return rules_repl(options);
}

Command command(Command rules, const std::string& name, const std::string& what, const std::shared_ptr<Options>& o,
                bool solves) {
  auto c = rules.add(name, what);
  auto file = c.option("file", o->file, "A program of rules");
  if (name != "repl") file.required();
  if (!solves) return c;
  c.option("--data", o->data, "Facts of a relation, or a whole tensor, from .tsv, .csv or .npy").type("NAME=FILE");
  c.option("--semantics", o->semantics,
           "In place of the program's own: boolean, product, godel, lukasiewicz, sum, maxprod, minplus, ltn")
      .type("NAME");
  c.option("--iterations", o->iterations, "The most iterations of a fixpoint").range(1, 1000000000).type("N");
  c.option("--tolerance", o->tolerance, "The change at which a fixpoint is reached").range(0, 1e300).type("X");
  c.option("--restore", o->restore, "Begin with what was learned before").type("FILE");
  c.option("--memory", o->memory_mb, "A program that needs more is refused")
      .range(1, 1 << 20)
      .type("MB")
      .show_default();
  return c;
}

}  // namespace

void add_rules(Command program) {
  auto rules = program.add("rules", "Programs of facts, rules and tensor equations: run, ask, explain");
  rules.one_of_its_commands();
  auto o = std::make_shared<Options>();
  const auto formats = [&](Command c) {
    c.option("--format", o->named_format, "table, tsv or json").one_of({"table", "tsv", "json"}).show_default();
    c.flag("--json", o->json, "The same as --format json");
  };
  const auto profiles = [&](Command c) {
    c.flag("--profile", o->profile, "Show where the time went, by rule and line, and what bounds it");
    c.option("--out", o->profile_out, "Write the profile: .html (flame graph), .trace.json, .json, .txt").type("FILE");
  };
  auto c = command(rules, "run", "Answer the queries that stand in a program", o, true);
  formats(c);
  c.option("--write", o->write, "Write a relation to .tsv, .json or .npy").type("NAME=FILE");
  c.option("--batches", o->domain,
           "Run on some constants of this domain at a time; .npy files of --data are read as needed")
      .type("DOMAIN");
  c.option("--batch", o->batch, "So many of them; windrow tune rules finds a good number")
      .range(1, 1 << 24)
      .show_default();
  profiles(c);
  c.does([o] { return run(*o); });
  c = command(rules, "query", "Ask a program; only what the answer needs is derived", o, true);
  c.option("query", o->text, "Such as 'Ancestor(Ann, y), not Rich(y)'").required();
  formats(c);
  c.does([o] { return query(*o); });
  c = command(rules, "explain", "Show why something holds: a tree of rules and facts", o, true);
  c.option("atom", o->text, "Such as 'Ancestor(Ann, Bob)'").required();
  c.flag("--json", o->json, "A JSON object with the tree as text");
  c.does([o] { return explain(*o); });
  c = command(rules, "train", "Minimise what @minimize names; prints the rules that were learned", o, true);
  c.option("--steps", o->steps, "In place of the program's own").range(1, 1000000000).type("N");
  c.option("--lr", o->lr, "In place of the program's own").range(1e-30, 1e30).type("X");
  c.option("--save", o->save, "Write what was learned").type("FILE");
  formats(c);
  profiles(c);
  c.does([o] { return train(*o); });
  c = command(rules, "check", "Find mistakes without running", o, true);
  c.flag("--json", o->json, "A JSON object: what it names, its semantics");
  c.does([o] { return check(*o); });
  c = command(rules, "fmt", "Print a program in the standard layout", o, false);
  c.flag("--write", o->in_place, "Change the file instead");
  c.does([o] { return format(*o); });
  c = command(rules, "repl", "Enter statements and queries one after the other", o, true);
  formats(c);
  c.does([o] { return repl(*o); });
}

}  // namespace wr::cli
