// The manual page, from the table of commands and options.
#include <fmt/format.h>

#include "cli/completion.h"

namespace wr::cli {
namespace {

/// Text as roff takes it for text: no escapes, no requests, dashes that can be copied.
std::string roff(const std::string& text) {
  std::string out;
  bool begins_line = true;
  for (const char c : text) {
    if (begins_line && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begins_line = c == '\n';
  }
  return out;
}

/// An example keeps its lines and its columns.
std::string block(const std::string& text) { return fmt::format(".nf\n{}\n.fi\n", roff(text)); }

std::string synopsis(const CommandInfo& command, const std::string& path) {
  std::string out = fmt::format(".B {}\n", roff(path));
  bool options = false;
  for (const OptionInfo& o : command.options) options |= !o.is_position();
  if (options) out += "[OPTIONS]\n";
  for (const OptionInfo& o : command.options)
    if (o.is_position()) out += fmt::format(fmt::runtime(o.required ? "\\fI{}\\fR\n" : "[\\fI{}\\fR]\n"), roff(o.name));
  if (command.takes_a_command_line || !command.commands.empty()) out += "\\fICOMMAND\\fR ...\n";
  return out;
}

void describe(const CommandInfo& command, const std::string& before, std::string& out) {
  const std::string path = before + " " + command.name;
  out += fmt::format(".SS {}\n{}.PP\n{}\n", roff(path), synopsis(command, path), roff(command.help));
  for (const OptionInfo& o : command.options)
    out += fmt::format(".TP\n{}{}\n{}\n", fmt::format("\\f{}{}\\fR", o.is_position() ? 'I' : 'B', roff(o.name)),
                       o.type.empty() || o.is_position() ? "" : fmt::format(" \\fI{}\\fR", roff(o.type)), roff(o.help));
  if (!command.footer.empty()) out += ".PP\n" + block(command.footer);
  for (const CommandInfo& c : command.commands) describe(c, path, out);
}

}  // namespace

std::string manual_page(const CommandInfo& program, const std::string& version) {
  std::string out = fmt::format(
      ".TH {} 1 \"\" \"{}\" \"User Commands\"\n.SH NAME\n{} \\- train small neural networks fast, on CPU cores\n"
      ".SH SYNOPSIS\n.B {}\n\\fICOMMAND\\fR [OPTIONS]\n.SH DESCRIPTION\n"
      "Trains, tests and examines networks, automata and programs of rules. Each command prints its options with\n"
      ".BR \\-\\-help .\n.SH COMMANDS\n",
      "WINDROW", roff(version), roff(program.name), roff(program.name));
  for (const CommandInfo& c : program.commands) describe(c, program.name, out);
  out += ".SH EXAMPLES AND ENVIRONMENT\n" + block(program.footer);
  out +=
      ".SH EXIT STATUS\n0: done. 1: it failed, or a training did not reach its goal; the reason is on standard error. "
      "2: the command line was wrong. 130: interrupted; what there was has been saved.\n";
  return out;
}

}  // namespace wr::cli
