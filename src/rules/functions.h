// The functions and semantics that the language knows by name, in one table each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "windrow/rules.h"

namespace wr::rules {

struct Function {
  std::string_view name;
  std::string_view signature;
  int fewest, most;  // arguments of a call; most 0: an aggregate alone
  bool aggregate;    // sum(i: ...)
};

/// nullptr if there is none.
const Function* find_function(std::string_view name);
std::vector<std::string_view> function_names();
/// "boolean, product, ..."
std::string semantics_names();
/// The implications that a constraint can choose.
bool is_implication(std::string_view name);
std::string implication_names();

}  // namespace wr::rules
