// The commands and their options in other forms than --help: completion for shells, a manual page.
#pragma once

#include <string>

#include "cli/options.h"

namespace wr::cli {

std::string bash_completion(const CommandInfo& program);
std::string zsh_completion(const CommandInfo& program);
std::string fish_completion(const CommandInfo& program);
/// For man: roff with the macros of man(7).
std::string manual_page(const CommandInfo& program, const std::string& version);

/// windrow completion and windrow manual. `root` is the program with all its commands.
void add_completion(Command root, const std::string& version);

}  // namespace wr::cli
