// Files of constants and tuples: names, TSV and CSV as text. Read as if an enemy wrote them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "rules/check.h"

namespace wr::rules {

/// A path named in a program, seen from the program's folder.
std::string path_from(const std::string& folder, const std::string& path);
std::string read_text_file(const std::string& path);
/// One name a line; empty lines are left out.
std::vector<std::string> read_names(const std::string& path);
/// A tuple a line. A file of .csv has commas and may have fields in quotes, any other has tabs. If the relation's arity
/// is known (not -1), one more column is the weight.
Table read_table(const std::string& path, int arity);
Table parse_table(std::string_view text, const std::string& path, char separator, int arity);

}  // namespace wr::rules
