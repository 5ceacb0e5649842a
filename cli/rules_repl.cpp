#include "cli/rules_repl.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "cli/line_editor.h"
#include "windrow/data.h"
#include "windrow/error.h"
#include "windrow/files.h"

namespace wr::cli {

std::pair<std::string, std::string> name_and_file(const std::string& option, const std::string& text) {
  const std::size_t sign = text.find('=');
  if (sign == std::string::npos || sign == 0 || sign + 1 == text.size())
    throw Error(fmt::format("{} '{}': expected NAME=FILE, such as Parent=parents.tsv", option, text));
  return {text.substr(0, sign), text.substr(sign + 1)};
}

rules::Semantics semantics_called(const std::string& option, const std::string& name) {
  const auto found = rules::semantics_called(name);
  if (!found)
    throw Error(fmt::format("{} '{}': expected boolean, product, godel, lukasiewicz, sum, maxprod, minplus or ltn",
                            option, name));
  return *found;
}

std::string text_of(const rules::Answers& answers, const std::string& format) {
  if (format == "tsv") return rules::to_tsv(answers);
  if (format == "json") return rules::to_json(answers);
  return rules::to_table(answers);
}

void check_write(const rules::Program& program, const std::string& option, const std::string& name,
                 const std::string& path) {
  const std::vector<std::string> names = program.names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw Error(fmt::format("{}: no relation or tensor is called '{}'; there are {}", option, name,
                            names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  if (!path.ends_with(".tsv") && !path.ends_with(".json") && !path.ends_with(".npy"))
    throw Error(fmt::format("{} '{}': expected a file that ends in .tsv, .json or .npy", option, path));
}

void write_relation(const rules::Program& program, const std::string& name, const std::string& path,
                    const rules::SolveOptions& options, rules::SolveFacts* facts) {
  if (path.ends_with(".npy"))
    data::write_npy(path, program.array(name, options));
  else
    write_file(path, text_of(program.relation(name, options, facts), path.ends_with(".json") ? "json" : "tsv"));
}

namespace {

constexpr const char* kHelp =
    "Statements end in a dot and may go over several lines.\n"
    "  Parent(Ann, Bob).           a fact\n"
    "  A(x, y) :- Parent(x, y).    a rule\n"
    "  ?- A(Ann, y).               a query; Y[i]? asks for a tensor\n"
    "  :explain A(Ann, Bob)        why it holds\n"
    "  :list                       all statements so far\n"
    "  :names                      all relations and tensors\n"
    "  :load Parent=parents.tsv    facts, or a whole tensor, from .tsv, .csv or .npy\n"
    "  :write A=a.npy              a relation or tensor to .tsv, .json or .npy\n"
    "  :semantics product          in place of the program's own\n"
    "  :format tsv                 answers as table, tsv or json\n"
    "  :train                      minimise what @minimize names\n"
    "  :save FILE                  the statements so far; what was learned if it ends in .safetensors\n"
    "  :help   :quit\n"
    "Tab completes names, arrows recall what was typed.\n";

constexpr const char* kWords[] = {
    ":explain", ":list", ":names",     ":load", ":write",     ":semantics", ":format",   ":train", ":save",
    ":help",    ":quit", "domain",     "rel",   "tensor",     "input",      "learn",     "not",    "exists",
    "forall",   "count", "constraint", "@load", "@semantics", "@fixpoint",  "@minimize", "@seed"};

std::string trimmed(std::string text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back()))) text.pop_back();
  std::size_t from = 0;
  while (from < text.size() && std::isspace(static_cast<unsigned char>(text[from]))) ++from;
  return text.substr(from);
}

/// A line without its comment and the blanks at its end.
std::string code_of(std::string_view line) {
  bool quoted = false;
  std::size_t end = 0;
  for (; end < line.size() && (quoted || line[end] != '#'); ++end) {
    if (line[end] == '"') quoted = !quoted;
    if (quoted && line[end] == '\\') ++end;
  }
  while (end > 0 && (end > line.size() || std::isspace(static_cast<unsigned char>(line[end - 1])))) --end;
  return std::string(line.substr(0, end));
}

class Repl {
 public:
  explicit Repl(const ReplOptions& options) : options_(options) {
    if (!options_.file.empty()) {
      text_ = rules::format_text(read_file(options_.file, kMostProgram), options_.file);
      folder_ = std::filesystem::path(options_.file).parent_path().string();
    }
    program_ = made(text_);
  }

  int run() {
    LineEditor lines(state_file("rules_history"), [this](std::string_view) { return words(); });
    if (lines.on_terminal()) fmt::print("windrow rules; :help for help\n");
    std::string pending, line;
    for (;;) {
      std::fflush(stdout);
      const LineEditor::Got got = lines.read(pending.empty() ? "> " : "  ", line);
      if (got == LineEditor::Got::end) break;
      if (got == LineEditor::Got::interrupt) {
        pending.clear();
        continue;
      }
      while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
      if (pending.empty()) line = trimmed(line);
      if (pending.empty() && line.empty()) continue;
      try {
        if (pending.empty() && line.starts_with(':')) {
          if (!command(line)) break;
          continue;
        }
        pending += (pending.empty() ? "" : "\n") + line;
        const std::string code = code_of(line);
        if (!code.ends_with('.') && !code.ends_with('?')) continue;
        const std::string whole = std::move(pending);
        pending.clear();
        enter(whole);
      } catch (const Error& e) {
        fmt::print("{}\n", e.what());
      }
    }
    return 0;
  }

 private:
  rules::Program made(const std::string& text) const {
    rules::Program program = rules::Program::parse_in_folder(text, folder_, "input");
    for (const std::string& each : options_.data) {
      const auto [name, path] = name_and_file("--data", each);
      program.load(name, path);
    }
    if (!options_.restore.empty()) program.restore(options_.restore);
    return program;
  }

  /// The program goes on as another, with what it has learned.
  void become(rules::Program next) {
    if (trained_)
      for (const std::string& name : next.adopt_learned(program_))
        fmt::print("{}: what was learned no longer fits; :train learns it anew\n", name);
    program_ = std::move(next);
  }

  /// Queries are answered; other statements are kept if the whole still has a meaning. What is typed or pasted may be
  /// several of both: in the standard layout each begins a line.
  void enter(const std::string& text) {
    if (text.find("?-") == std::string::npos && !code_of(text).ends_with('?') && !code_of(text).ends_with("?.")) {
      keep(text);
      return;
    }
    std::string rest = rules::format_text(text, "input");
    while (!rest.empty()) {
      std::size_t end = rest.find('\n') + 1;
      while (end < rest.size() && rest[end] == ' ') end = rest.find('\n', end) + 1;  // it goes on in the next line
      const std::string statement = rest.substr(0, end - 1);
      rest.erase(0, end);
      if (statement.starts_with("?-"))
        fmt::print("{}", text_of(program_.query(statement, options_.solve), options_.format));
      else if (!statement.empty())
        keep(statement);
    }
  }
  void keep(const std::string& text) {
    become(made(text_ + text + "\n"));
    text_ += text + "\n";
  }

  /// False to end.
  bool command(const std::string& line) {
    const std::size_t blank = std::min(line.find(' '), line.size());
    const std::string name = line.substr(0, blank), rest = trimmed(line.substr(blank));
    if (name == ":quit" || name == ":q") return false;
    if (name == ":list") {
      fmt::print("{}", text_);
    } else if (name == ":names") {
      for (const std::string& each : program_.names()) fmt::print("{}\n", each);
    } else if (name == ":explain") {
      fmt::print("{}", program_.explain(rest, options_.solve));
    } else if (name == ":load") {
      name_and_file(":load", rest);
      options_.data.push_back(rest);
      try {
        become(made(text_));
      } catch (const Error&) {
        options_.data.pop_back();
        throw;
      }
    } else if (name == ":write") {
      const auto [relation, path] = name_and_file(":write", rest);
      check_write(program_, ":write", relation, path);
      write_relation(program_, relation, path, options_.solve);
      fmt::print("wrote {}\n", path);
    } else if (name == ":semantics") {
      options_.solve.semantics = semantics_called(":semantics", rest);
    } else if (name == ":format") {
      if (rest != "table" && rest != "tsv" && rest != "json")
        throw Error(fmt::format(":format '{}': expected table, tsv or json", rest));
      options_.format = rest;
    } else if (name == ":train") {
      const rules::TrainReport report = program_.train({.semantics = options_.solve.semantics});
      trained_ = true;
      fmt::print("{} steps in {:.3f} s, loss {:.6g}\n{}", report.losses.size(), report.seconds, report.losses.back(),
                 program_.learned());
    } else if (name == ":save") {
      if (rest.empty()) throw Error(":save: expected a file");
      if (rest.ends_with(".safetensors"))
        program_.save(rest);
      else
        write_file(rest, text_);
      fmt::print("wrote {}\n", rest);
    } else if (name == ":help") {
      fmt::print("{}", kHelp);
    } else {
      throw Error(fmt::format("{}: there is no such command; :help lists them", name));
    }
    return true;
  }

  /// Everything that has a name: the language's words, relations, and every name in the statements.
  std::vector<std::string> words() const {
    std::vector<std::string> all(std::begin(kWords), std::end(kWords));
    for (std::string& name : program_.names()) all.push_back(std::move(name));
    std::string word;
    for (const char c : text_ + " ") {
      if (is_word(c)) {
        word += c;
        continue;
      }
      if (word.size() > 1 && !std::isdigit(static_cast<unsigned char>(word[0]))) all.push_back(word);
      word.clear();
    }
    return all;
  }

  ReplOptions options_;
  std::string text_, folder_;
  rules::Program program_ = rules::Program::parse("", "input");
  bool trained_ = false;
};

}  // namespace

int rules_repl(const ReplOptions& options) { return Repl(options).run(); }

}  // namespace wr::cli
