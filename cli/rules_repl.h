// windrow rules repl, and what it shares with the other commands: answers as text, relations as files.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "windrow/rules.h"

namespace wr::cli {

inline constexpr std::uint64_t kMostProgram = std::uint64_t{1} << 30;  // bytes of a program's text

/// "Parent=parents.tsv", taken apart; throws Error in the name of the option.
std::pair<std::string, std::string> name_and_file(const std::string& option, const std::string& text);
/// The semantics of that name; throws Error in the name of the option.
rules::Semantics semantics_called(const std::string& option, const std::string& name);
/// As "table", "tsv" or "json".
std::string text_of(const rules::Answers& answers, const std::string& format);
/// Throws Error, in the name of the option, where write_relation() would find no such relation or kind of file.
void check_write(const rules::Program& program, const std::string& option, const std::string& name,
                 const std::string& path);
/// To .npy, .json, else as tab-separated values.
void write_relation(const rules::Program& program, const std::string& name, const std::string& path,
                    const rules::SolveOptions& options, rules::SolveFacts* facts = nullptr);

struct ReplOptions {
  std::string file, format = "table", restore;
  std::vector<std::string> data;
  rules::SolveOptions solve;
};
int rules_repl(const ReplOptions& options);

}  // namespace wr::cli
