// windrow rules run, query, explain, train, check, fmt and repl.
#include "cli/rules.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>

#include "cli/session.h"
#include "windrow/data.h"
#include "windrow/error.h"
#include "windrow/files.h"
#include "windrow/rules.h"

namespace wr::cli {
namespace {

struct Options {
  std::string file, text, semantics, format = "table", save, restore;
  std::vector<std::string> data, write;
  int iterations = 0;
  double tolerance = -1;
  std::int64_t memory_mb = 4096;
  int steps = 0;
  double lr = 0;
  bool profile = false, in_place = false;
};

std::pair<std::string, std::string> name_and_file(const std::string& option, const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0 || sign + 1 == text.size())
    throw Error(fmt::format("{} '{}': expected NAME=FILE, such as Parent=parents.tsv", option, text));
  return {text.substr(0, sign), text.substr(sign + 1)};
}

rules::Program opened(const Options& o) {
  rules::Program program = rules::Program::parse_file(o.file);
  for (const std::string& each : o.data) {
    const auto [name, path] = name_and_file("--data", each);
    program.load(name, path);
  }
  if (!o.restore.empty()) program.restore(o.restore);
  return program;
}

rules::SolveOptions solve_options(const Options& o) {
  rules::SolveOptions options;
  if (!o.semantics.empty()) {
    options.semantics = rules::semantics_called(o.semantics);
    if (!options.semantics)
      throw Error(
          fmt::format("--semantics '{}': expected boolean, product, godel, lukasiewicz, sum, maxprod, minplus or ltn",
                      o.semantics));
  }
  options.most_iterations = o.iterations;
  options.tolerance = o.tolerance;
  options.memory = static_cast<std::size_t>(o.memory_mb) << 20;
  return options;
}

std::string text_of(const rules::Answers& answers, const std::string& format) {
  if (format == "tsv") return rules::to_tsv(answers);
  if (format == "json") return rules::to_json(answers);
  return rules::to_table(answers);
}

/// Where notes beside the answers go: not in between them where a program reads them.
std::FILE* notes(const Options& o) { return o.format == "table" ? stdout : stderr; }

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

int run(const Options& o) {
  std::vector<Output> outputs;
  for (const std::string& each : o.write) outputs.push_back({"--write", name_and_file("--write", each).second});
  try_outputs(outputs);
  const rules::Program program = opened(o);
  const rules::SolveOptions options = solve_options(o);
  rules::SolveFacts facts;
  const std::vector<rules::Answers> all = program.run(options, o.profile ? &facts : nullptr);
  for (const rules::Answers& answers : all) {
    if (o.format == "table") fmt::print("?- {}.\n", answers.query);
    fmt::print("{}", text_of(answers, o.format));
  }
  for (const std::string& each : o.write) {
    const auto [name, path] = name_and_file("--write", each);
    if (path.ends_with(".npy"))
      data::write_npy(path, program.array(name, options));
    else
      write_file(path, text_of(program.relation(name, options, o.profile ? &facts : nullptr),
                               path.ends_with(".json") ? "json" : "tsv"));
    fmt::print(notes(o), "wrote {}\n", path);
  }
  if (all.empty() && o.write.empty())
    fmt::print(notes(o), "{}: no queries; ask with windrow rules query, or add `?- ... .`\n", o.file);
  if (o.profile) print_profile(notes(o), facts);
  return 0;
}

int query(const Options& o) {
  fmt::print("{}", text_of(opened(o).query(o.text, solve_options(o)), o.format));
  return 0;
}

int explain(const Options& o) {
  fmt::print("{}", opened(o).explain(o.text, solve_options(o)));
  return 0;
}

int train(const Options& o) {
  check_outputs({{"--save", o.save}}, {{"the program", o.file}});
  rules::Program program = opened(o);
  rules::TrainOptions options;
  options.semantics = solve_options(o).semantics;
  options.steps = o.steps;
  options.lr = o.lr;
  const Interruptible guard;
  options.progress = [](int step, double loss) {
    fmt::print("step {:>6}  loss {:.6g}\n", step, loss);
    std::fflush(stdout);
    return !interrupted();
  };
  const rules::TrainReport report = program.train(options);
  fmt::print("{} steps in {:.3f} s, of which {:.3f} s to compile\n", report.losses.size(), report.seconds,
             report.compile_seconds);
  fmt::print("{}", program.learned());
  if (!o.save.empty()) {
    program.save(o.save);
    fmt::print("wrote {}\n", o.save);
  }
  for (const rules::Answers& answers : program.run(solve_options(o)))
    fmt::print("?- {}.\n{}", answers.query, text_of(answers, o.format));
  return interrupted() ? kInterrupted : 0;
}

int check(const Options& o) {
  const rules::Program program = opened(o);
  fmt::print("{}: {} relations and tensors, {} semantics: no mistakes found\n", o.file, program.names().size(),
             rules::to_string(program.semantics()));
  return 0;
}

constexpr std::uint64_t kMostText = std::uint64_t{1} << 30;

int format(const Options& o) {
  const std::string before = read_file(o.file, kMostText), after = rules::format_text(before, o.file);
  if (!o.in_place)
    fmt::print("{}", after);
  else if (before != after)
    write_file(o.file, after);  // the file that was read, and by now wholly
  return 0;
}

constexpr const char* kReplHelp =
    "Statements end in a dot and may go over several lines.\n"
    "  Parent(Ann, Bob).           a fact\n"
    "  A(x, y) :- Parent(x, y).    a rule\n"
    "  ?- A(Ann, y).               a query\n"
    "  :explain A(Ann, Bob)        why it holds\n"
    "  :list   :help   :quit\n";

/// The statements so far, and one more text: kept if the whole still has a meaning.
void enter(std::string& program_text, const std::string& text, const rules::SolveOptions& options) {
  const rules::Program program = rules::Program::parse(program_text + text, "input");
  const bool is_query = text.find("?-") == 0 || text.ends_with('?') || text.ends_with("?.");
  if (!is_query) {
    program_text += text + "\n";
    return;
  }
  for (const rules::Answers& answers : program.run(options)) fmt::print("{}", rules::to_table(answers));
}

int repl(const Options& o) {
  std::string text = o.file.empty() ? "" : rules::format_text(read_file(o.file, kMostText), o.file);
  const rules::SolveOptions options = solve_options(o);
  const bool person = isatty(STDIN_FILENO) != 0;
  if (person) fmt::print("windrow rules; :help for help\n");
  std::string pending, line;
  while ((person ? (fmt::print("{}", pending.empty() ? "> " : "  "), std::fflush(stdout), true) : true) &&
         std::getline(std::cin, line)) {
    while (line.ends_with(' ') || line.ends_with('\r')) line.pop_back();
    if (pending.empty() && line.empty()) continue;
    try {
      if (pending.empty() && line.starts_with(":quit")) break;
      if (pending.empty() && line.starts_with(":list")) {
        fmt::print("{}", text);
      } else if (pending.empty() && line.starts_with(":explain ")) {
        fmt::print("{}", rules::Program::parse(text, "input").explain(line.substr(9), options));
      } else if (pending.empty() && line.starts_with(':')) {
        fmt::print("{}", kReplHelp);
      } else {
        pending += (pending.empty() ? "" : "\n") + line;
        if (!line.ends_with('.') && !line.ends_with('?')) continue;
        const std::string whole = std::move(pending);
        pending.clear();
        enter(text, whole, options);
      }
    } catch (const Error& e) {
      fmt::print("{}\n", e.what());
    }
  }
  return 0;
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
  c.option("--tolerance", o->tolerance, "The change at which a fixpoint is reached").type("X");
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
    c.option("--format", o->format, "table, tsv or json").one_of({"table", "tsv", "json"}).show_default();
  };
  auto c = command(rules, "run", "Answer the queries that stand in a program", o, true);
  formats(c);
  c.option("--write", o->write, "Write a relation to .tsv, .json or .npy").type("NAME=FILE");
  c.flag("--profile", o->profile, "Show where the time went, by rule and line");
  c.does([o] { return run(*o); });
  c = command(rules, "query", "Ask a program; only what the answer needs is derived", o, true);
  c.option("query", o->text, "Such as 'Ancestor(Ann, y), not Rich(y)'").required();
  formats(c);
  c.does([o] { return query(*o); });
  c = command(rules, "explain", "Show why something holds: a tree of rules and facts", o, true);
  c.option("atom", o->text, "Such as 'Ancestor(Ann, Bob)'").required();
  c.does([o] { return explain(*o); });
  c = command(rules, "train", "Minimise what @minimize names; prints the rules that were learned", o, true);
  c.option("--steps", o->steps, "In place of the program's own").range(1, 1000000000).type("N");
  c.option("--lr", o->lr, "In place of the program's own").range(1e-30, 1e30).type("X");
  c.option("--save", o->save, "Write what was learned").type("FILE");
  c.does([o] { return train(*o); });
  c = command(rules, "check", "Find mistakes without running", o, true);
  c.does([o] { return check(*o); });
  c = command(rules, "fmt", "Print a program in the standard layout", o, false);
  c.flag("--write", o->in_place, "Change the file instead");
  c.does([o] { return format(*o); });
  c = command(rules, "repl", "Enter statements and queries one after the other", o, true);
  c.does([o] { return repl(*o); });
}

}  // namespace wr::cli
