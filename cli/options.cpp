// The one file that sees CLI11.
#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <limits>
#include <new>
#include <sstream>

#include "base/nearest.h"
#include "windrow/text.h"

namespace wr::cli {
namespace {

constexpr double kLargest = std::numeric_limits<double>::max();

CLI::App& app(void* inside) { return *static_cast<CLI::App*>(inside); }
CLI::Option& option_of(void* inside) { return *static_cast<CLI::Option*>(inside); }

/// Refuses what is no number from `from` to `to`; NaN is none.
template <class T>
CLI::Validator between(T from, T to) {
  return CLI::Validator(
      [from, to](const std::string& text) {
        T value{};
        const char* const end = text.data() + text.size();
        const auto [stop, problem] = std::from_chars(text.data(), end, value);
        if (problem == std::errc() && stop == end && value >= from && value <= to) return std::string();
        return fmt::format("'{}' is not {} from {} to {}", text, std::is_integral_v<T> ? "a whole number" : "a number",
                           from, to);
      },
      "");
}

bool is_known(const CLI::App& command, const std::string& option) {
  for (const CLI::App* a = &command; a != nullptr; a = a->get_parent())
    if (a->get_option_no_throw(option) != nullptr) return true;
  return false;
}

/// "train fashion"; of the program itself, whose name begins every message, nothing.
std::string path_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr) return "";
  const std::string before = path_of(*parent);
  return before.empty() ? command.get_name() : before + " " + command.get_name();
}

/// Whose word it is, before what is to be said of it.
std::string of(const CLI::App& command) {
  const std::string path = path_of(command);
  return path.empty() ? "" : path + ": ";
}

/// The innermost command that was found in a command line.
const CLI::App& reached(const CLI::App& command) {
  const auto inner = command.get_subcommands();
  return inner.empty() ? command : reached(*inner.back());
}

/// A command line that the library could not make sense of.
std::string misunderstood(const CLI::App& root, const CLI::ParseError& e) {
  const CLI::App& command = reached(root);
  const auto extras = root.remaining(true);
  if (dynamic_cast<const CLI::ExtrasError*>(&e) != nullptr && !extras.empty())
    return fmt::format("{}'{}' is more than it takes", of(command), extras[0]);
  std::vector<std::string> inner;
  for (const CLI::App* c : command.get_subcommands([](const CLI::App* c) { return !c->get_group().empty(); }))
    inner.push_back(c->get_name());
  if (dynamic_cast<const CLI::RequiredError*>(&e) != nullptr && command.get_require_subcommand_min() > 0)
    return fmt::format("{}which one? {}", of(command), fmt::join(inner, ", "));
  return of(command) + e.what();
}

const CLI::App* command_named(const CLI::App& parent, const std::string& name) {
  for (const CLI::App* c : parent.get_subcommands([](const CLI::App*) { return true; }))
    if (c->get_name() == name) return c;
  return nullptr;
}

/// What is wrong with a word that no command knows, and what may have been meant; empty: nothing is.
std::string unknown_word(const CLI::App& root, const std::vector<std::string>& arguments) {
  const CLI::App* at = &root;
  for (const std::string& word : arguments) {
    if (word == "--" || (at->get_prefix_command() && command_named(*at, word) == nullptr)) return "";
    const bool is_option = word.size() > 2 && word.starts_with("--");
    std::vector<std::string> names;
    if (is_option) {
      const std::string name = word.substr(0, word.find('='));
      if (is_known(*at, name)) continue;
      for (const CLI::Option* o : at->get_options())
        for (const std::string& each : o->get_lnames()) names.push_back("--" + each);
      const std::string meant = nearest(name, names);
      return fmt::format("{}there is no option {}{}", of(*at), name,
                         meant.empty() ? "" : "; did you mean " + meant + "?");
    }
    const auto commands = at->get_subcommands([](const CLI::App*) { return true; });
    if (commands.empty() || word.starts_with("-")) continue;
    const CLI::App* next = command_named(*at, word);
    bool has_positions = false;
    for (const CLI::Option* o : at->get_options()) has_positions |= o->get_positional();
    if (next == nullptr && has_positions) return "";
    if (next == nullptr) {
      for (const CLI::App* c : commands)
        if (!c->get_group().empty()) names.push_back(c->get_name());
      const std::string meant = nearest(word, names);
      return fmt::format("{}there is no command '{}'{}", of(*at), word,
                         meant.empty() ? fmt::format("; expected one of {}", fmt::join(names, ", "))
                                       : "; did you mean " + meant + "?");
    }
    at = next;
  }
  return "";
}

std::vector<OptionInfo> options_of(const CLI::App& command) {
  std::vector<OptionInfo> all;
  for (const CLI::Option* o : command.get_options()) {
    OptionInfo info;
    info.name = o->get_positional() ? o->get_name(true) : o->get_name(false, true);
    if (info.name.find("--help") != std::string::npos) continue;
    info.help = o->get_description();
    info.type = o->get_expected_max() == 0 ? "" : o->get_type_name();
    info.required = o->get_required();
    if (info.type.find('|') != std::string::npos) {
      std::istringstream in(info.type);
      for (std::string value; std::getline(in, value, '|');) info.values.push_back(value);
    }
    all.push_back(std::move(info));
  }
  return all;
}

CommandInfo info_of(const CLI::App& command) {
  CommandInfo info{
      command.get_name(),          command.get_description(), command.get_footer(), options_of(command), {},
      command.get_prefix_command()};
  for (const CLI::App* c : command.get_subcommands([](const CLI::App*) { return true; }))
    if (!c->get_group().empty()) info.commands.push_back(info_of(*c));
  return info;
}

}  // namespace

Option Option::type(const std::string& name) {
  option_of(inside_).type_name(name);
  return *this;
}

Option Option::range(double from, double to) {
  if (whole_)
    option_of(inside_).check(between(static_cast<std::int64_t>(from), static_cast<std::int64_t>(to)));
  else
    option_of(inside_).check(between(from, to));
  return *this;
}

Option Option::one_of(const std::vector<std::string>& values) {
  option_of(inside_).check(CLI::Validator(
      [values](const std::string& text) {
        if (std::find(values.begin(), values.end(), text) != values.end()) return std::string();
        const std::string meant = nearest(text, values);
        return fmt::format("'{}' is none of {}{}", text, fmt::join(values, ", "),
                           meant.empty() ? "" : "; did you mean " + meant + "?");
      },
      ""));
  option_of(inside_).type_name(fmt::format("{}", fmt::join(values, "|")));
  return *this;
}

Option Option::required() {
  option_of(inside_).required();
  return *this;
}

Option Option::show_default() {
  CLI::Option& o = option_of(inside_);
  o.capture_default_str();
  o.description(fmt::format("{} ({})", o.get_description(), o.get_default_str()));
  o.default_str("");
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
  CLI::App* added = app(inside_).add_subcommand(name, help);
  // The library hands these down.
  added->footer("");
  added->prefix_command(false);
  added->allow_extras(false);
  return {added, code_};
}

Command Command::find(const std::string& name) const { return {app(inside_).get_subcommand(name), code_}; }

template <class T>
Option Command::add_option(const std::string& name, T& target, const std::string& help) {
  constexpr bool whole = std::is_integral_v<T> || std::is_same_v<T, std::optional<std::int64_t>>;
  CLI::Option* added = app(inside_).add_option(name, target, help);
  if (whole || std::is_floating_point_v<T>) added->type_name(whole ? "N" : "X");
  if (std::is_floating_point_v<T>) added->check(between(-kLargest, kLargest));
  if (std::is_unsigned_v<T>) added->check(between(std::uint64_t{0}, std::numeric_limits<std::uint64_t>::max()));
  return Option(added, whole);
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

CommandInfo Command::info() const { return info_of(app(inside_)); }

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
  const auto tell = [&](const std::string& what) {
    fmt::print(stderr, "{}: {}\n", app.get_name(), text::printable_lines(what));
  };
  try {
    if (!arguments.empty() && arguments[0] == "help") {
      arguments.erase(arguments.begin());
      arguments.push_back("--help");
    }
    if (const std::string wrong = unknown_word(app, arguments); !wrong.empty()) {
      tell(wrong);
      return 2;
    }
    std::reverse(arguments.begin(), arguments.end());  // as CLI11 wants them
    app.parse(std::move(arguments));
    if (app.get_subcommands().empty()) fmt::print("{}", app.help());
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    tell(fmt::format("{} (--help says more)", misunderstood(app, e)));
    return 2;
  } catch (const UsageError& e) {
    tell(fmt::format("{} (--help says more)", e.what()));
    return 2;
  } catch (const std::bad_alloc&) {
    tell("there is not enough memory");
    return 1;
  } catch (const std::exception& e) {
    tell(e.what());
    return 1;
  }
  return inside_->code;
}

}  // namespace wr::cli
