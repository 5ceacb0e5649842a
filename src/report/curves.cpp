// Learning curves of one run and of several.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "windrow/chart.h"
#include "windrow/report.h"
#include "windrow/text.h"

namespace wr::report {
namespace {

constexpr double kWidth = 520, kHeight = 280;

/// Names in the order in which they first occur.
std::vector<std::string> names_of(const std::vector<History>& runs) {
  std::vector<std::string> names;
  for (const History& run : runs)
    for (const Point& p : run.points)
      for (const auto& [name, value] : p.values)
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  return names;
}

/// What is measured: "loss" of "validation loss", "val_loss" and "train/loss".
std::string quantity(const std::string& name) {
  const auto cut = name.find_last_of(" /_");
  return cut == std::string::npos ? name : name.substr(cut + 1);
}

chart::Series series_of(const History& run, const std::string& name, const std::string& shown) {
  chart::Series s{shown, {}, {}};
  for (const Point& p : run.points)
    for (const auto& [own, value] : p.values)
      if (own == name && std::isfinite(value)) {
        s.x.push_back(static_cast<double>(p.step));
        s.y.push_back(value);
      }
  return s;
}

std::string drawn(std::vector<chart::Series> series, const std::string& unit) {
  chart::Lines lines;
  lines.series = std::move(series);
  lines.x_label = unit;
  lines.whole_x = true;
  lines.width = kWidth;
  lines.height = kHeight;
  return chart::lines(lines);
}

/// Whether less is better, by what such figures are called.
bool is_to_fall(const std::string& name) {
  static const std::set<std::string> falling{"loss", "error", "perplexity", "mse", "mae", "soft", "hard"};
  return falling.contains(quantity(name));
}

std::vector<std::string> row_of(const History& run, const std::vector<std::string>& names, bool best) {
  std::vector<std::string> row{run.name};
  for (const std::string& name : names) {
    const chart::Series s = series_of(run, name, "");
    if (s.y.empty()) {
      row.emplace_back("-");
      continue;
    }
    const auto at = !best              ? s.y.end() - 1
                    : is_to_fall(name) ? std::min_element(s.y.begin(), s.y.end())
                                       : std::max_element(s.y.begin(), s.y.end());
    const double step = s.x[at - s.y.begin()];
    row.push_back(best ? fmt::format("{:.4g} at {:.0f}", *at, step) : fmt::format("{:.4g}", *at));
  }
  if (!best) {
    row.push_back(fmt::format("{}", run.points.empty() ? 0 : run.points.back().step));
    row.push_back(run.points.empty() ? "-" : text::duration(run.points.back().seconds));
  }
  return row;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> curves(const History& history, const std::string& unit) {
  std::vector<std::pair<std::string, std::vector<chart::Series>>> charts;
  for (const std::string& name : names_of({history})) {
    auto found = std::find_if(charts.begin(), charts.end(), [&](const auto& c) { return c.first == quantity(name); });
    if (found == charts.end()) found = charts.insert(charts.end(), {quantity(name), {}});
    found->second.push_back(series_of(history, name, name));
  }
  std::vector<std::pair<std::string, std::string>> out;
  for (auto& [name, series] : charts) out.emplace_back(drawn(std::move(series), unit), name);
  return out;
}

Page compare(const std::vector<History>& runs, const std::string& title) {
  const std::vector<std::string> names = names_of(runs);
  Page page(title, fmt::format("{} run{}", runs.size(), runs.size() == 1 ? "" : "s"));
  std::vector<std::pair<std::string, std::string>> figures;
  for (const std::string& name : names) {
    std::vector<chart::Series> series;
    for (const History& run : runs) series.push_back(series_of(run, name, run.name));
    figures.emplace_back(drawn(std::move(series), "step"), name);
  }
  page.heading("Learning").figures(figures);
  std::vector<std::vector<std::string>> last, best;
  for (const History& run : runs) {
    last.push_back(row_of(run, names, false));
    best.push_back(row_of(run, names, true));
  }
  std::vector<std::string> head{"run"};
  head.insert(head.end(), names.begin(), names.end());
  page.heading("Best").note("The greatest value, or the least of a loss or an error, and the step it was reached at.");
  page.table(head, best);
  head.insert(head.end(), {"steps", "time"});
  return page.heading("Last").table(head, last);
}

}  // namespace wr::report
