// The one file that sees CLI11.
#include "cli/options.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>

namespace wr::cli {
namespace {

CLI::App& app(void* inside) { return *static_cast<CLI::App*>(inside); }
CLI::Option& option_of(void* inside) { return *static_cast<CLI::Option*>(inside); }

}  // namespace

Option Option::type(const std::string& name) {
  option_of(inside_).type_name(name);
  return *this;
}

Option Option::range(double from, double to) {
  if (whole_)
    option_of(inside_).check(CLI::Range(static_cast<std::int64_t>(from), static_cast<std::int64_t>(to)));
  else
    option_of(inside_).check(CLI::Range(from, to));
  return *this;
}

Option Option::one_of(const std::vector<std::string>& values) {
  option_of(inside_).check(CLI::IsMember(values));
  return *this;
}

Option Option::required() {
  option_of(inside_).required();
  return *this;
}

Option Option::show_default() {
  option_of(inside_).capture_default_str();
  return *this;
}

Option Option::comma_separated() {
  option_of(inside_).delimiter(',');
  return *this;
}

Option Option::one_value_each() {
  option_of(inside_).allow_extra_args(false);
  return *this;
}

Command Command::add(const std::string& name, const std::string& help) {
  return {app(inside_).add_subcommand(name, help), code_};
}

Command Command::find(const std::string& name) const { return {app(inside_).get_subcommand(name), code_}; }

template <class T>
Option Command::add_option(const std::string& name, T& target, const std::string& help) {
  constexpr bool whole = std::is_integral_v<T> || std::is_same_v<T, std::optional<std::int64_t>>;
  return Option(app(inside_).add_option(name, target, help), whole);
}

Option Command::option(const std::string& name, std::string& target, const std::string& help) {
  return add_option(name, target, help);
}
Option Command::option(const std::string& name, std::vector<std::string>& target, const std::string& help) {
  return add_option(name, target, help);
}
Option Command::option(const std::string& name, int& target, const std::string& help) {
  return add_option(name, target, help);
}
Option Command::option(const std::string& name, std::int64_t& target, const std::string& help) {
  return add_option(name, target, help);
}
Option Command::option(const std::string& name, std::optional<std::int64_t>& target, const std::string& help) {
  return add_option(name, target, help);
}
Option Command::option(const std::string& name, std::uint64_t& target, const std::string& help) {
  return add_option(name, target, help);
}
Option Command::option(const std::string& name, double& target, const std::string& help) {
  return add_option(name, target, help);
}
Option Command::option(const std::string& name, std::function<void(const std::string&)> given,
                       const std::string& help) {
  return Option(app(inside_).add_option_function<std::string>(name, std::move(given), help), false);
}

Option Command::flag(const std::string& name, bool& target, const std::string& help) {
  return Option(app(inside_).add_flag(name, target, help), false);
}

Command Command::footer(const std::string& text) {
  app(inside_).footer(text);
  return *this;
}

Command Command::hidden() {
  app(inside_).group("");
  return *this;
}

Command Command::one_of_its_commands() {
  app(inside_).require_subcommand(1);
  return *this;
}

Command Command::takes_a_command_line() {
  app(inside_).prefix_command();
  return *this;
}

std::vector<std::string> Command::rest() const { return app(inside_).remaining(); }

Command Command::does(std::function<int()> action) {
  auto& self = app(inside_);
  self.callback([&self, code = code_, action = std::move(action)] {
    if (self.get_subcommands().empty()) *code = action();
  });
  return *this;
}

struct Program::Inside {
  CLI::App app;
  int code = 0;
};

Program::Program(const std::string& name, const std::string& help, const std::string& version)
    : inside_(new Inside{CLI::App(help), 0}) {
  auto& app = inside_->app;
  app.name(name);
  app.set_version_flag("--version", version);
  app.require_subcommand(0, 1);
  app.get_formatter()->column_width(34);
}

Program::~Program() = default;

Command Program::root() { return {&inside_->app, &inside_->code}; }

int Program::run(std::vector<std::string> arguments) {
  auto& app = inside_->app;
  try {
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
    if (app.get_subcommands().empty()) fmt::print("{}", app.help());
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;
  } catch (const UsageError& e) {
    app.exit(CLI::ValidationError(e.what()));
    return 2;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), e.what());
    return 1;
  }
  return inside_->code;
}

}  // namespace wr::cli
