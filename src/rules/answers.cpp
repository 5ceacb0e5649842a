// Answers as text: tables for people, TSV, JSON.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json.h"
#include "windrow/rules.h"
#include "windrow/text.h"

namespace wr::rules {
namespace {

/// The width of UTF-8 text in characters.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

std::string field(const std::string& text) {  // of TSV: no tab or line end may stand in it
  std::string out;
  for (char c : text) out += c == '\t' ? "\\t" : c == '\n' ? "\\n" : std::string(1, c);
  return out;
}

}  // namespace

std::string to_table(const Answers& a) {
  if (a.columns.empty()) {
    if (a.values.empty()) return a.rows.empty() ? "no\n" : "yes\n";
    return fmt::format("{:.6g}\n", text::shown(a.values[0]));
  }
  std::vector<std::size_t> widths;
  for (std::size_t c = 0; c < a.columns.size(); ++c) {
    widths.push_back(width_of(a.columns[c]));
    for (const auto& row : a.rows) widths.back() = std::max(widths.back(), width_of(row[c]));
  }
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells, const std::string& value) {
    std::string out;
    for (std::size_t c = 0; c < cells.size(); ++c)
      out += cells[c] + std::string(widths[c] - width_of(cells[c]) + 2, ' ');
    out += value;
    while (out.ends_with(' ')) out.pop_back();
    text += out + "\n";
  };
  line(a.columns, a.values.empty() ? "" : "value");
  for (std::size_t r = 0; r < a.rows.size(); ++r)
    line(a.rows[r], a.values.empty() ? "" : fmt::format("{:.6g}", text::shown(a.values[r])));
  return text + fmt::format("{} answer{}\n", a.rows.size(), a.rows.size() == 1 ? "" : "s");
}

std::string to_tsv(const Answers& a) {
  if (a.columns.empty() && a.values.empty()) return to_table(a);  // a line of no fields would be an empty one
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells, const std::string& value) {
    for (std::size_t c = 0; c < cells.size(); ++c) text += (c ? "\t" : "") + field(cells[c]);
    if (!value.empty()) text += (cells.empty() ? "" : "\t") + value;
    text += '\n';
  };
  line(a.columns, a.values.empty() ? "" : "value");
  for (std::size_t r = 0; r < a.rows.size(); ++r)
    line(a.rows[r], a.values.empty() ? "" : fmt::format("{}", text::shown(a.values[r])));
  return text;
}

std::string to_json(const Answers& a) {
  Json rows = Json::list();
  for (const auto& row : a.rows) rows.push_back(Json::list_of(row));
  Json tree{{"query", a.query}, {"columns", Json::list_of(a.columns)}, {"rows", std::move(rows)}};
  if (!a.values.empty()) tree["values"] = Json::list_of(a.values);
  return tree.dump() + "\n";
}

}  // namespace wr::rules
