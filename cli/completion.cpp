// Scripts by which shells complete a command line. Each finds out at which command the line is, then offers what may
// follow: commands, options, the values of an option, files.
#include "cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>

namespace wr::cli {
namespace {

/// In single quotes; a quote in the text ends them, stands for itself, and begins new ones.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

/// Calls f with each command and the words that lead to it: "windrow train fashion".
void each_command(const CommandInfo& command, const std::string& before,
                  const std::function<void(const CommandInfo&, const std::string&)>& f) {
  const std::string path = before.empty() ? command.name : before + " " + command.name;
  f(command, path);
  for (const CommandInfo& c : command.commands) each_command(c, path, f);
}

bool takes_files(const CommandInfo& command) {
  for (const OptionInfo& o : command.options)
    if (o.is_position() && o.is_file()) return true;
  return false;
}

/// Words that may stand where a position is: those of a list that it is one of.
std::vector<std::string> words_of(const CommandInfo& command) {
  std::vector<std::string> words;
  for (const OptionInfo& o : command.options)
    if (o.is_position()) words.insert(words.end(), o.values.begin(), o.values.end());
  return words;
}

/// Alternatives of a `case`: the lines that lead to some command. After `help` stands what could stand without it.
std::string paths_pattern(const CommandInfo& program) {
  std::vector<std::string> paths;
  each_command(program, "", [&](const CommandInfo&, const std::string& path) {
    if (path != program.name && path != program.name + " help") paths.push_back(quoted(path));
  });
  return fmt::format("{}", fmt::join(paths, "|"));
}

/// Where a whole command line follows a command (`windrow profile bench`): the lines that begin at the program again.
std::string again_pattern(const CommandInfo& program) {
  std::vector<std::string> paths;
  each_command(program, "", [&](const CommandInfo& c, const std::string& path) {
    if (!c.takes_a_command_line) return;
    for (const CommandInfo& sub : program.commands) paths.push_back(quoted(path + " " + sub.name));
  });
  return fmt::format("{}", fmt::join(paths, "|"));
}

/// The part that bash and zsh have in common: the command at which the line is, word by word.
std::string position_cases(const CommandInfo& program, const std::string& word) {
  const auto add = [&](const std::string& pattern, const std::string& at) {
    return pattern.empty() ? "" : fmt::format("    {}) at=\"{} {}\" ;;\n", pattern, at, word);
  };
  return add(paths_pattern(program), "$at") + add(again_pattern(program), program.name);
}

/// The part that bash and zsh have in common: values of options, by `case "$at $before"`.
std::string values_cases(const CommandInfo& program, const std::string& words, const std::string& files,
                         const std::string& folders) {
  std::string out;
  each_command(program, "", [&](const CommandInfo& c, const std::string& path) {
    for (const OptionInfo& o : c.options) {
      if (o.is_position() || o.type.empty()) continue;
      const std::string what = !o.values.empty() ? fmt::format(fmt::runtime(words), fmt::join(o.values, " "))
                               : o.is_file()     ? files
                               : o.type == "DIR" ? folders
                                                 : "";  // a number or a name: nothing to offer
      out += fmt::format("    {}) {}{}return ;;\n", quoted(path + " " + o.name), what, what.empty() ? "" : "; ");
    }
  });
  return out;
}

}  // namespace

std::string bash_completion(const CommandInfo& program) {
  std::string out = fmt::format(
      "# bash completion of {0}, made by `{0} completion bash`\n"
      "_{0}() {{\n"
      "  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}} at={0} i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"$at ${{COMP_WORDS[i]}}\" in\n"
      "{1}"
      "    esac\n"
      "  done\n"
      "  COMPREPLY=()\n"
      "  case \"$at $before\" in\n",
      program.name, position_cases(program, "${COMP_WORDS[i]}"));
  // Files are left to bash itself, which knows quotes, spaces and ~: it completes them where nothing else was offered.
  out +=
      values_cases(program, "COMPREPLY=($(compgen -W '{}' -- \"$word\"))", "compopt -o default", "compopt -o dirnames");
  out += "  esac\n  local options= commands= files=\n  case \"$at\" in\n";
  each_command(program, "", [&](const CommandInfo& c, const std::string& path) {
    std::vector<std::string> options{"--help"}, commands;
    for (const OptionInfo& o : c.options)
      if (!o.is_position()) options.push_back(o.name);
    for (const CommandInfo& sub : c.commands) commands.push_back(sub.name);
    for (const std::string& word : words_of(c)) commands.push_back(word);
    if (c.takes_a_command_line)
      for (const CommandInfo& sub : program.commands) commands.push_back(sub.name);
    out += fmt::format("    {}) options='{}' commands='{}' files={} ;;\n", quoted(path), fmt::join(options, " "),
                       fmt::join(commands, " "), takes_files(c) ? "yes" : "");
  });
  return out + fmt::format(
                   "  esac\n"
                   "  case \"$word\" in\n"
                   "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                   "    *) COMPREPLY=($(compgen -W \"$commands\" -- \"$word\"))\n"
                   "      [ -n \"$files\" ] && compopt -o default ;;\n"
                   "  esac\n"
                   "}}\n"
                   "complete -F _{0} {0}\n",
                   program.name);
}

std::string zsh_completion(const CommandInfo& program) {
  std::string out = fmt::format(
      "#compdef {0}\n"
      "# zsh completion of {0}, made by `{0} completion zsh`\n"
      "_{0}() {{\n"
      "  local word=${{words[CURRENT]}} before=${{words[CURRENT-1]}} at={0} i\n"
      "  for ((i = 2; i < CURRENT; i++)); do\n"
      "    case \"$at ${{words[i]}}\" in\n"
      "{1}"
      "    esac\n"
      "  done\n"
      "  case \"$at $before\" in\n",
      program.name, position_cases(program, "${words[i]}"));
  out += values_cases(program, "compadd -- {}", "_files", "_files -/");
  out += "  esac\n  local -a options commands\n  local files=\n  case \"$at\" in\n";
  // In the lists of _describe a colon separates a name from what it is for.
  const auto entry = [](const std::string& name, const std::string& help) { return quoted(name + ":" + help); };
  each_command(program, "", [&](const CommandInfo& c, const std::string& path) {
    std::vector<std::string> options{entry("--help", "Print help and exit")}, commands;
    for (const OptionInfo& o : c.options)
      if (!o.is_position()) options.push_back(entry(o.name, o.help));
    for (const CommandInfo& sub : c.takes_a_command_line ? program.commands : c.commands)
      commands.push_back(entry(sub.name, sub.help));
    for (const std::string& word : words_of(c)) commands.push_back(entry(word, ""));
    out += fmt::format("    {})\n      options=({})\n      commands=({})\n      files={} ;;\n", quoted(path),
                       fmt::join(options, " "), fmt::join(commands, " "), takes_files(c) ? "yes" : "");
  });
  return out + fmt::format(
                   "  esac\n"
                   "  if [[ $word == -* ]]; then\n"
                   "    _describe option options\n"
                   "  else\n"
                   "    (( $#commands )) && _describe command commands\n"
                   "    [[ -n $files ]] && _files\n"
                   "  fi\n"
                   "}}\n"
                   // Loaded from fpath, this file is the function's first call; sourced, it is not.
                   "if [[ $funcstack[1] == _{0} ]]; then _{0} \"$@\"; else compdef _{0} {0}; fi\n",
                   program.name);
}

std::string fish_completion(const CommandInfo& program) {
  const auto spaced = [](std::string pattern) {  // fish's `case` takes words where others take alternatives
    std::replace(pattern.begin(), pattern.end(), '|', ' ');
    return pattern;
  };
  std::string out = fmt::format(
      "# fish completion of {0}, made by `{0} completion fish`\n"
      "function __{0}_at --description 'Whether the command line is at this command'\n"
      "    set -l at {0}\n"
      "    for word in (commandline -opc)[2..-1]\n"
      "        switch \"$at $word\"\n"
      "            case {1}\n"
      "                set at \"$at $word\"\n"
      "{2}"
      "        end\n"
      "    end\n"
      "    test \"$at\" = \"$argv[1]\"\n"
      "end\n"
      "complete -c {0} -f\n",
      program.name, spaced(paths_pattern(program)),
      again_pattern(program).empty() ? ""
                                     : fmt::format("            case {}\n                set at \"{} $word\"\n",
                                                   spaced(again_pattern(program)), program.name));
  each_command(program, "", [&](const CommandInfo& c, const std::string& path) {
    const std::string here =
        fmt::format("complete -c {} -n {}", program.name, quoted(fmt::format("__{}_at '{}'", program.name, path)));
    for (const CommandInfo& sub : c.takes_a_command_line ? program.commands : c.commands)
      out += fmt::format("{} -a {} -d {}\n", here, sub.name, quoted(sub.help));
    out += here + " -l help -d 'Print help and exit'\n";
    for (const OptionInfo& o : c.options) {
      if (o.is_position()) continue;
      const std::string value = !o.values.empty()
                                    ? fmt::format(" -x -a {}", quoted(fmt::format("{}", fmt::join(o.values, " "))))
                                : o.is_file()     ? " -r -F"
                                : o.type == "DIR" ? " -x -a '(__fish_complete_directories)'"
                                : o.type.empty()  ? ""
                                                  : " -x";
      out += fmt::format("{} -l {}{} -d {}\n", here, o.name.substr(2), value, quoted(o.help));
    }
    if (takes_files(c)) out += here + " -F\n";
    for (const std::string& word : words_of(c)) out += fmt::format("{} -a {}\n", here, word);
  });
  return out;
}

void add_completion(Command root, const std::string& version) {
  auto shell = std::make_shared<std::string>();
  auto c = root.add("completion", "Print what makes a shell complete command lines of this program");
  c.option("shell", *shell, "Which shell").required().one_of({"bash", "zsh", "fish"});
  c.footer(
      "Installed packages have it already. For one user:\n"
      "  windrow completion bash > ~/.local/share/bash-completion/completions/windrow\n"
      "  windrow completion zsh > ~/.zfunc/_windrow      (a folder that is in fpath)\n"
      "  windrow completion fish > ~/.config/fish/completions/windrow.fish\n");
  c.does([root, shell] {
    const CommandInfo program = root.info();
    fmt::print("{}", *shell == "bash"  ? bash_completion(program)
                     : *shell == "zsh" ? zsh_completion(program)
                                       : fish_completion(program));
    return 0;
  });
  root.add("manual", "Print the manual page").hidden().does([root, version] {
    fmt::print("{}", manual_page(root.info(), version));
    return 0;
  });
}

}  // namespace wr::cli
