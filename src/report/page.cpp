// HTML pages: one file, nothing loaded from elsewhere.
#include <fmt/format.h>

#include "windrow/files.h"
#include "windrow/report.h"
#include "windrow/text.h"

namespace wr::report {
namespace {

const char* const kStyle = R"(
:root{--ink:#1c2733;--soft:#5d6b79;--dim:#5d6b79;--line:#dfe5ea;--back:#fff;--card:#f7f9fa;--a:#1f6feb;--b:#d9480f}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa7b4;--dim:#9aa7b4;--line:#303a45;--back:#0f151b;
--card:#171f27;--a:#6cb0ff;--b:#ff9a5c}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:70rem;
margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.6rem;margin:0;overflow-wrap:anywhere}h2{font-size:1.1rem;margin:2.2rem 0 .6rem}
.sub,figcaption,.note{color:var(--soft)}
.facts{display:flex;flex-wrap:wrap;gap:.8rem;margin:1.2rem 0}
.facts div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem 1rem;min-width:8.5rem}
.facts b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(26rem,1fr));gap:1.2rem}figure{margin:0}
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.88rem}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600}
th:first-child,td:first-child,.left td,.left th{text-align:left}
td{white-space:nowrap}.left td{white-space:normal;overflow-wrap:anywhere}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem;overflow:auto;font-size:.75rem}
summary{cursor:pointer;color:var(--soft)}.wide{overflow-x:auto}
)";

}  // namespace

Page::Page(const std::string& title, const std::string& subtitle)
    : body_(fmt::format("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                        "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                        "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n"
                        "<div class=\"sub\">{2}</div>\n",
                        text::escape(title), kStyle, text::escape(subtitle))) {}

Page& Page::html(std::string_view html) {
  body_ += html;
  return *this;
}

Page& Page::heading(const std::string& text) { return html(fmt::format("<h2>{}</h2>\n", text::escape(text))); }

Page& Page::note(const std::string& text) {
  return html(fmt::format("<p class=\"note\">{}</p>\n", text::escape(text)));
}

Page& Page::facts(const Texts& facts) {
  html("<div class=\"facts\">\n");
  for (const auto& [name, value] : facts)
    html(fmt::format("<div><b>{}</b>{}</div>\n", text::escape(value), text::escape(name)));
  return html("</div>\n");
}

Page& Page::table(const Texts& rows) {
  html("<table class=\"left\"><tbody>\n");
  for (const auto& [name, value] : rows)
    html(fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", text::escape(name), text::escape(value)));
  return html("</tbody></table>\n");
}

Page& Page::table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows) {
  html("<div class=\"wide\"><table>\n<thead><tr>");
  for (const std::string& name : head) html(fmt::format("<th>{}</th>", text::escape(name)));
  html("</tr></thead>\n<tbody>\n");
  for (const auto& row : rows) {
    html("<tr>");
    for (const std::string& cell : row) html(fmt::format("<td>{}</td>", text::escape(cell)));
    html("</tr>\n");
  }
  return html("</tbody></table></div>\n");
}

Page& Page::figures(const std::vector<std::pair<std::string, std::string>>& svg_and_caption) {
  html("<div class=\"two\">\n");
  bool any = false;
  for (const auto& [svg, caption] : svg_and_caption) {
    if (svg.empty()) continue;
    html(fmt::format("<figure>{}<figcaption>{}</figcaption></figure>\n", svg, text::escape(caption)));
    any = true;
  }
  if (!any) note("nothing was recorded");
  return html("</div>\n");
}

Page& Page::folded(const std::string& summary, const std::string& text) {
  return html(fmt::format("<details><summary>{}</summary>\n<pre>{}</pre></details>\n", text::escape(summary),
                          text::escape(text)));
}

std::string Page::text() const { return body_ + "</body>\n</html>\n"; }

void Page::write(const std::string& path) const { write_file(path, text()); }

}  // namespace wr::report
