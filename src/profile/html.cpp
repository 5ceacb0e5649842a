// A page that needs nothing else: the profiles as JSON, and a script that draws them.
#include <fmt/format.h>

#include <string_view>

#include "profile/page.h"
#include "windrow/profile.h"

namespace wr {
namespace {

/// JSON inside a <script>: "</" must not end it.
std::string embedded(std::string json) {
  for (std::size_t at = 0; (at = json.find("</", at)) != std::string::npos; at += 3) json.replace(at, 2, "<\\/");
  return json;
}

}  // namespace

std::string to_html(std::span<const Profile> profiles) {
  std::string lines = "{";
  for (const Profile& p : profiles)
    for (const auto& g : p.lines())
      if (!g.text.empty()) {
        std::string text;
        for (char c : g.text) {
          if (c == '"' || c == '\\') text += '\\';
          if (static_cast<unsigned char>(c) >= 0x20) text += c;
        }
        lines += fmt::format("{}\"{}\":\"{}\"", lines.size() > 1 ? "," : "", g.name, text);
      }
  lines += "}";
  std::string page(kPageBegin);
  page += "<script type=\"application/json\" id=\"profile\">" + embedded(to_json(profiles)) + "</script>\n";
  page += "<script type=\"application/json\" id=\"lines\">" + embedded(lines) + "</script>\n";
  return page + std::string(kPageEnd);
}

}  // namespace wr
