// Commands and their options. Nothing of the library that reads command lines is seen here: options.cpp alone pays for
// it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace wr::cli {

/// What the user asked for makes no sense; `what` names the option or the command. Ends the program with code 2.
class UsageError : public std::runtime_error {
 public:
  UsageError(const std::string& what, const std::string& why) : std::runtime_error(what + ": " + why) {}
};

/// What a command and its options are called and are for: help in other forms (manual page, completion) is made of it.
struct OptionInfo {
  std::string name;  // "--save"; without dashes: a position
  std::string help;
  std::string type;                 // what stands for its value: FILE, N; empty: it takes none
  std::vector<std::string> values;  // all that it can be, where that is a list
  bool required = false;

  bool is_position() const { return !name.starts_with('-'); }
  bool is_file() const { return type == "FILE" || name == "file"; }
};
struct CommandInfo {
  std::string name, help, footer;
  std::vector<OptionInfo> options;
  std::vector<CommandInfo> commands;
  bool takes_a_command_line = false;
};

/// An option of a command, just added; says more about it.
class Option {
 public:
  Option type(const std::string& name);  // what stands for its value in the help: FILE, N, cnn|mlp
  Option range(double from, double to);  // both included; whole numbers where the target is one
  Option one_of(const std::vector<std::string>& values);
  Option required();
  Option show_default();
  Option comma_separated();
  Option one_value_each();  // of a list: given again for every value, so that what follows is not taken for more

 private:
  friend class Command;
  explicit Option(void* inside, bool whole) : inside_(inside), whole_(whole) {}
  void* inside_;
  bool whole_;
};

/// A command of the program, or the program itself. A handle: copies mean the same command.
class Command {
 public:
  Command add(const std::string& name, const std::string& help);
  Command find(const std::string& name) const;

  /// Names that begin with "--" are options, others are positions. The targets must live as long as the program.
  Option option(const std::string& name, std::string& target, const std::string& help);
  Option option(const std::string& name, std::vector<std::string>& target, const std::string& help);
  Option option(const std::string& name, int& target, const std::string& help);
  Option option(const std::string& name, std::int64_t& target, const std::string& help);
  Option option(const std::string& name, std::optional<std::int64_t>& target, const std::string& help);
  Option option(const std::string& name, std::uint64_t& target, const std::string& help);
  Option option(const std::string& name, double& target, const std::string& help);
  Option option(const std::string& name, std::function<void(const std::string&)> given, const std::string& help);
  Option flag(const std::string& name, bool& target, const std::string& help);

  Command footer(const std::string& text);
  Command hidden();                // not in the help
  Command one_of_its_commands();   // must be followed by exactly one
  Command takes_a_command_line();  // what follows its options is left alone: rest()
  std::vector<std::string> rest() const;
  CommandInfo info() const;  // what is not hidden

  /// What it does; the result is the program's exit code. Not called where one of its own commands was given.
  Command does(std::function<int()> action);

 private:
  friend class Program;
  Command(void* inside, int* code) : inside_(inside), code_(code) {}
  template <class T>
  Option add_option(const std::string& name, T& target, const std::string& help);
  void* inside_;
  int* code_;
};

class Program {
 public:
  Program(const std::string& name, const std::string& help, const std::string& version);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  Command root();
  /// Executes a command line, given without the program's name. 2: it was wrong and the user was told. `help COMMAND`
  /// is understood as `COMMAND --help`.
  int run(std::vector<std::string> arguments);

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace wr::cli
