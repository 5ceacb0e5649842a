// Text to tokens, each with its line and column.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rules/syntax.h"

namespace wr::rules {

struct Token {
  enum class Kind { end, name, number, string, mark };
  Kind kind = Kind::end;
  std::string text;  // of a string: without quotes and escapes
  bool space_before = false;
  Place place;
};

/// All tokens, the last of kind `end`, and the comments between them. Throws Error at characters the language does not
/// have.
std::vector<Token> tokenise(std::string_view text, const std::string& file, std::vector<Comment>& comments,
                            bool in_query = false);

}  // namespace wr::rules
