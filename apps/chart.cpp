#include "apps/chart.h"

#include "windrow/chart.h"

namespace wr::apps {

std::string chart(const std::vector<Curve>& curves) {
  chart::Lines lines;
  lines.x_label = "epoch";
  lines.whole_x = true;
  lines.width = 520;
  lines.height = 260;
  for (const Curve& c : curves) {
    chart::Series s{c.name, {}, c.values};
    for (std::size_t i = 0; i < c.values.size(); ++i) s.x.push_back(static_cast<double>(i + 1));
    lines.series.push_back(std::move(s));
  }
  const std::string svg = chart::lines(lines);
  return svg.empty() ? "<p class=\"note\">nothing was recorded</p>" : svg;
}

}  // namespace wr::apps
