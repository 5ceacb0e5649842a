#include "apps/common/page.h"

#include <fmt/format.h>

#include "windrow/error.h"

namespace wr::apps {
namespace {

const char* const kStyle = R"(
:root{--ink:#1c2733;--soft:#5d6b79;--line:#dfe5ea;--back:#fff;--card:#f7f9fa;--a:#1f6feb;--b:#d9480f}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa7b4;--line:#303a45;--back:#0f151b;--card:#171f27;
--a:#6cb0ff;--b:#ff9a5c}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--back);max-width:70rem;
margin:2rem auto;padding:0 1.2rem}
h1{font-size:1.6rem;margin:0}h2{font-size:1.1rem;margin:2.2rem 0 .6rem}
.sub,figcaption,.note{color:var(--soft)}
.facts{display:flex;flex-wrap:wrap;gap:.8rem;margin:1.2rem 0}
.facts div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.6rem 1rem;min-width:8.5rem}
.facts b{display:block;font-size:1.35rem;font-variant-numeric:tabular-nums}
.two{display:grid;grid-template-columns:repeat(auto-fit,minmax(20rem,1fr));gap:1.2rem}
svg{width:100%;height:auto;display:block}svg text{font:11px system-ui,sans-serif;fill:var(--soft)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.88rem}
th,td{padding:.25rem .6rem;text-align:right;border-bottom:1px solid var(--line)}
th{color:var(--soft);font-weight:600}
th:first-child,td:first-child,.left td,.left th,.layers :nth-child(2){text-align:left}
td{white-space:nowrap}.matrix td{width:3.8rem;text-align:center;border:1px solid var(--back)}.matrix th{border:0}
.matrix thead th{text-align:center}
.matrix .zero{color:transparent}
.mistakes{display:grid;grid-template-columns:repeat(auto-fill,minmax(7.2rem,1fr));gap:.8rem}
.mistakes figure{margin:0;background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.5rem;
font-size:.8rem}
.mistakes img{width:100%;image-rendering:pixelated;border-radius:4px;display:block;margin-bottom:.3rem}
.mistakes b{color:var(--b)}
pre{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.8rem;overflow:auto;font-size:.75rem}
summary{cursor:pointer;color:var(--soft)}.wide{overflow-x:auto}
)";

}  // namespace

std::string fact(const std::string& value, const std::string& name) {
  return fmt::format("<div><b>{}</b>{}</div>\n", escape(value), escape(name));
}

std::string table(const std::vector<std::pair<std::string, std::string>>& rows) {
  std::string out = "<table class=\"left\"><tbody>\n";
  for (const auto& [name, value] : rows)
    out += fmt::format("<tr><th>{}</th><td>{}</td></tr>\n", escape(name), escape(value));
  return out + "</tbody></table>\n";
}

std::string page_head(const std::string& title) {
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
      "<title>{0}</title>\n<style>{1}</style>\n</head>\n<body>\n<h1>{0}</h1>\n<div class=\"sub\">trained by "
      "windrow</div>\n",
      escape(title), kStyle);
}

}  // namespace wr::apps
