// windrow rules: programs of rules run, asked, explained, checked and formatted.
#pragma once

#include "cli/options.h"

namespace wr::cli {

void add_rules(Command program);

}  // namespace wr::cli
