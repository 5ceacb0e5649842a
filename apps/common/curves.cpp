#include "apps/common/curves.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/common/chart.h"
#include "apps/common/text.h"

namespace wr::apps {
namespace {

constexpr double kWidth = 520, kHeight = 260, kTop = 12, kBottom = 28;

}  // namespace

std::string chart(const std::vector<Curve>& curves, const std::string& axis) {
  chart::Lines lines;
  lines.x_label = axis;
  lines.whole_x = true;
  lines.width = kWidth;
  lines.height = kHeight;
  for (const Curve& c : curves) {
    chart::Series s{c.name, {}, c.values};
    for (std::size_t i = 0; i < c.values.size(); ++i) s.x.push_back(static_cast<double>(i + 1));
    lines.series.push_back(std::move(s));
  }
  const std::string svg = chart::lines(lines);
  return svg.empty() ? "<p class=\"note\">nothing was recorded</p>" : svg;
}

std::string bars(const std::vector<Bar>& list, const std::string& axis) {
  if (list.empty()) return "<p class=\"note\">nothing was recorded</p>";
  double high = 0;
  for (const Bar& b : list) high = std::max(high, b.value);
  const double bottom = kHeight - kBottom, each = (kWidth - 60) / static_cast<double>(list.size());
  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">\n", kWidth, kHeight);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const double x = each * static_cast<double>(i), top = kTop + 14;
    const double height = high > 0 ? list[i].value / high * (bottom - top) : 0;
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"var(--a)\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>"
        "<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
        x + 1, bottom - height, each - 2, height, x + each / 2, bottom - height - 4, escape(list[i].text), x + each / 2,
        kHeight - 8, escape(list[i].name));
  }
  return out + fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n</svg>", kWidth - 52, kHeight - 8, escape(axis));
}

}  // namespace wr::apps
