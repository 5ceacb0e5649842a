#include "windrow/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "report/axis.h"
#include "windrow/text.h"

namespace wr::chart {
namespace {

constexpr double kTop = 30, kLine = 15, kGap = 8;
constexpr std::size_t kMostDots = 60, kMostHovers = 200, kMostPoints = 2000;
constexpr std::array<const char*, 8> kColours = {"var(--a,#2f6fde)", "var(--b,#d9822b)", "#2a9d6f", "#b2508f",
                                                 "#8a6d3b",          "#5b6b7a",          "#c0392b", "#16a2b8"};
const char* colour_of(std::size_t i) { return kColours[i % kColours.size()]; }

/// What is hidden until the mouse is over its band; without scripts, so that a picture by itself can do it too.
constexpr const char* kStyle =
    "<style>.at .tip{visibility:hidden;pointer-events:none}.at:hover .tip{visibility:visible}"
    ".at .band{fill:none;pointer-events:all}</style>\n";

/// Where the curves or bars stand in the picture.
struct Frame {
  double left, right, bottom;
};

std::string open(double width, double height, const std::string& title, double left) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" font-family=\"system-ui, "
      "sans-serif\" font-size=\"11\" fill=\"var(--ink,#333)\">\n{}{}",
      width, height, kStyle,
      title.empty() ? ""
                    : fmt::format("<text x=\"{:.1f}\" y=\"14\" font-size=\"13\" font-weight=\"600\">{}</text>\n", left,
                                  text::escape(title)));
}

std::string rows(const Axis& y, const Frame& f, const std::string& label) {
  std::string out;
  for (const Mark& m : y.marks())
    out += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"var(--line,#ccc)\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        f.left, f.right, y.at(m.value), y.at(m.value), f.left - 6, y.at(m.value) + 4, m.text);
  if (!label.empty())
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"var(--dim,#777)\">{}</text>\n",
                       f.right, kTop - 10, text::escape(label));
  return out;
}

std::string x_label(const std::string& label, const Frame& f, double y) {
  if (label.empty()) return "";
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"var(--dim,#777)\">{}</text>\n",
                     (f.left + f.right) / 2, y, text::escape(label));
}

// ---- the names of curves or of kinds of bars ----

/// Names in rows under the picture, as many in a row as fit.
struct Legend {
  std::string svg;
  double height = 0;
};
Legend legend(const std::vector<std::string>& names, double left, double right, double top) {
  Legend made;
  double x = left, y = top;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double width = 15 + text_width(names[i]) + 14;
    if (x > left && x + width > right) {
      x = left;
      y += kLine;
    }
    made.svg += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.1f}\" "
        "y=\"{:.1f}\">{}</text>\n",
        x, y, colour_of(i), x + 15, y + 9, text::escape(names[i]));
    x += width;
  }
  made.height = names.empty() ? 0 : y + kLine - top;
  return made;
}

/// Labels at the right end of lines, moved apart where they would overlap, within the picture.
std::vector<double> apart(std::vector<double> wanted, double lowest) {
  std::vector<std::size_t> order(wanted.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return wanted[a] < wanted[b]; });
  double least = kTop - 6;
  for (const std::size_t i : order) least = (wanted[i] = std::max(wanted[i], least)) + kLine;
  double most = lowest;
  for (std::size_t i = order.size(); i-- > 0;) most = (wanted[order[i]] = std::min(wanted[order[i]], most)) - kLine;
  return wanted;
}

// ---- curves ----

struct Point {
  double x, y;
};

std::vector<Point> shown_points(const Series& s, const Axis& x, const Axis& y) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i)
    if (x.shows(s.x[i]) && y.shows(s.y[i])) points.push_back({x.at(s.x[i]), y.at(s.y[i])});
  return points;
}

/// The least and the greatest of as many as fall together, so that no peak is lost.
std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= kMostPoints) return points;
  const std::size_t each = (2 * points.size() + kMostPoints - 1) / kMostPoints;
  std::vector<Point> kept;
  for (std::size_t first = 0; first < points.size(); first += each) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(first);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(std::min(points.size(), first + each));
    auto [low, high] = std::minmax_element(begin, end, [](const Point& a, const Point& b) { return a.y < b.y; });
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (high != low) kept.push_back(*high);
  }
  return kept;
}

std::string curve(const std::vector<Point>& points, const char* colour) {
  std::string path, dots;
  for (const Point& p : thinned(points)) path += fmt::format("{:.1f},{:.1f} ", p.x, p.y);
  if (points.size() <= kMostDots)
    for (const Point& p : points)
      dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"/>", p.x, p.y, colour);
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>{}\n", path, colour,
                     dots);
}

/// A box with a line of text for each, beside `x` and inside the frame.
std::string tip(double x, const Frame& f, const std::vector<std::pair<std::string, const char*>>& texts) {
  double width = 0;
  for (const auto& [words, colour] : texts) width = std::max(width, text_width(words));
  width += 12;
  const double height = kLine * static_cast<double>(texts.size()) + 6;
  const double left = x + 8 + width <= f.right ? x + 8 : std::max(0.0, x - 8 - width);
  std::string out = fmt::format(
      "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" rx=\"4\" fill=\"var(--back,#fff)\" "
      "stroke=\"var(--line,#ccc)\"/>",
      left, kTop + 2, width, height);
  double y = kTop + 2 + kLine;
  for (const auto& [words, colour] : texts) {
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" style=\"fill:{}\">{}</text>", left + 6, y, colour,
                       text::escape(words));
    y += kLine;
  }
  return out;
}

/// Bands over the width of the picture; the mouse in one shows all values there.
std::string hovers(const std::vector<Series>& series, const Axis& x, const Axis& y, const Frame& f,
                   const std::string& label) {
  std::set<double> all;
  for (const Series& s : series)
    for (const double v : s.x)
      if (x.shows(v)) all.insert(v);
  std::vector<double> places;
  const std::size_t each = (all.size() + kMostHovers - 1) / kMostHovers;
  std::size_t i = 0;
  for (const double v : all)
    if (i++ % each == 0) places.push_back(v);
  std::string out;
  for (std::size_t p = 0; p < places.size(); ++p) {
    const double here = x.at(places[p]);
    const double begin = p > 0 ? (x.at(places[p - 1]) + here) / 2 : f.left;
    const double end = p + 1 < places.size() ? (x.at(places[p + 1]) + here) / 2 : f.right;
    std::vector<std::pair<std::string, const char*>> texts{
        {fmt::format("{} {}", label, value_text(places[p])), "var(--ink,#333)"}};
    std::string dots;
    for (std::size_t s = 0; s < series.size(); ++s)
      for (std::size_t k = 0; k < std::min(series[s].x.size(), series[s].y.size()); ++k) {
        if (series[s].x[k] != places[p] || !y.shows(series[s].y[k])) continue;
        texts.emplace_back(fmt::format("{} {}", series[s].name, value_text(series[s].y[k])), colour_of(s));
        dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"4\" fill=\"{}\"/>", here, y.at(series[s].y[k]),
                            colour_of(s));
        break;
      }
    out += fmt::format(
        "<g class=\"at\"><rect class=\"band\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/><g "
        "class=\"tip\"><line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" "
        "stroke=\"var(--dim,#777)\"/>{}{}</g></g>\n",
        begin, kTop, std::max(1.0, end - begin), f.bottom - kTop, here, here, kTop, f.bottom, dots,
        tip(here, f, texts));
  }
  return out;
}

}  // namespace

std::string lines(const Lines& chart) {
  std::vector<Series> drawn;
  std::vector<double> xs, ys;
  for (const Series& s : chart.series)
    if (!s.x.empty() && !s.y.empty()) {
      drawn.push_back(s);
      xs.insert(xs.end(), s.x.begin(), s.x.end());
      ys.insert(ys.end(), s.y.begin(), s.y.end());
    }
  if (drawn.empty()) return "";
  std::vector<std::string> names;
  double widest = 0;
  for (const Series& s : drawn) {
    names.push_back(fmt::format("{} {}", s.name, value_text(s.y.back())));
    widest = std::max(widest, text_width(names.back()));
  }
  // Names stand at the ends of their curves where they leave these enough room, else below.
  const bool below = widest > 0.3 * chart.width || std::ssize(drawn) > std::lround((chart.height - 80) / kLine);
  const double widest_mark = Axis(ys, {.logarithmic = chart.log_y}, 0, 1).widest();
  Frame f{widest_mark + 14, chart.width - (below ? 16 : widest + 2 * kGap), chart.height - 40};
  const Legend list = below ? legend(names, f.left, f.right, 0) : Legend{};
  f.bottom -= list.height;
  Axis x(xs, {.logarithmic = chart.log_x, .whole = chart.whole_x, .ends = Axis::Ends::at_data}, f.left, f.right);
  x.thin_out();
  const Axis y(ys, {.logarithmic = chart.log_y}, f.bottom, kTop);
  std::string out = open(chart.width, chart.height, chart.title, f.left) + rows(y, f, chart.y_label);
  for (const Mark& m : x.marks())
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x.at(m.value),
                       f.bottom + 16, m.text);
  out += x_label(chart.x_label, f, f.bottom + 32);
  std::vector<double> labels;
  for (const Series& s : drawn) labels.push_back(y.shows(s.y.back()) ? y.at(s.y.back()) + 4 : kTop);
  labels = apart(labels, f.bottom + 4);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    out += curve(shown_points(drawn[i], x, y), colour_of(i));
    if (!below)
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" style=\"fill:{}\">{}</text>\n", f.right + kGap, labels[i],
                         colour_of(i), text::escape(names[i]));
  }
  if (below) out += legend(names, f.left, f.right, f.bottom + 38).svg;
  return out + hovers(drawn, x, y, f, chart.x_label) + "</svg>";
}

namespace {

/// Names under groups of bars: level where all have room, else slanted.
struct GroupNames {
  bool level = true;
  double height = 0;
};
GroupNames room_for(const std::vector<std::string>& groups, double room) {
  double widest = 0;
  for (const std::string& g : groups) widest = std::max(widest, text_width(g));
  if (widest + 4 <= room) return {true, 16};
  constexpr double kSlant = 0.574;  // the sine of 35 degrees
  return {false, 16 + kSlant * widest};
}

std::string group_name(const std::string& name, double middle, double bottom, bool level) {
  if (level)
    return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", middle, bottom + 16,
                       text::escape(name));
  return fmt::format(
      "<text x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"end\" transform=\"rotate(-35 {0:.1f} {1:.1f})\">{2}</text>\n",
      middle + 4, bottom + 14, text::escape(name));
}

bool is_drawn(double value) { return value > 0 && std::isfinite(value); }

std::string group_of_bars(const Bars& chart, std::size_t g, const Axis& y, const Frame& f, double x0, double room) {
  const auto& values = chart.values[g];
  const double width = 0.8 * room / static_cast<double>(chart.kinds.size());
  std::string out;
  for (std::size_t k = 0; k < std::min(values.size(), chart.kinds.size()); ++k) {
    if (!is_drawn(values[k])) continue;
    const double top = y.at(values[k]);
    out += fmt::format("<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"/>\n",
                       x0 + 0.1 * room + width * static_cast<double>(k), top, width * 0.95,
                       std::max(0.0, f.bottom - top), colour_of(k));
    if (g < chart.texts.size() && chart.kinds.size() == 1 && text_width(chart.texts[g]) <= room)
      out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x0 + room / 2, top - 4,
                         text::escape(chart.texts[g]));
  }
  return out;
}

std::string hover_of_bars(const Bars& chart, std::size_t g, const Frame& f, double x0, double room) {
  std::vector<std::pair<std::string, const char*>> texts{{chart.groups[g], "var(--ink,#333)"}};
  for (std::size_t k = 0; k < std::min(chart.values[g].size(), chart.kinds.size()); ++k)
    if (is_drawn(chart.values[g][k]))
      texts.emplace_back(fmt::format("{} {}", chart.kinds[k], value_text(chart.values[g][k])), colour_of(k));
  return fmt::format(
      "<g class=\"at\"><rect class=\"band\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/><g "
      "class=\"tip\">{}</g></g>\n",
      x0, kTop, room, f.bottom - kTop, tip(x0 + room / 2, f, texts));
}

}  // namespace

std::string bars(const Bars& chart) {
  std::vector<double> all;
  for (const auto& group : chart.values) all.insert(all.end(), group.begin(), group.end());
  std::erase_if(all, [](double v) { return !(v > 0) || !std::isfinite(v); });
  if (all.empty() || chart.groups.empty() || chart.kinds.empty()) return "";
  all.push_back(chart.log_y ? *std::min_element(all.begin(), all.end()) * 0.7 : 0);
  const Axis::Form form{.logarithmic = chart.log_y};
  Frame f{Axis(all, form, 0, 1).widest() + 14, chart.width - 10, chart.height - 10};
  const double room = (f.right - f.left) / static_cast<double>(chart.groups.size());
  const GroupNames names = room_for(chart.groups, room);
  const Legend list = chart.kinds.size() > 1 ? legend(chart.kinds, f.left, f.right, 0) : Legend{};
  f.bottom -= names.height + (chart.x_label.empty() ? 0 : kLine) + list.height;
  const Axis y(all, form, f.bottom, kTop);
  std::string groups, hovers, names_text;
  for (std::size_t g = 0; g < std::min(chart.groups.size(), chart.values.size()); ++g) {
    const double x0 = f.left + room * static_cast<double>(g);
    groups += group_of_bars(chart, g, y, f, x0, room);
    hovers += hover_of_bars(chart, g, f, x0, room);  // over all bars
    names_text += group_name(chart.groups[g], x0 + room / 2, f.bottom, names.level);
  }
  std::string out = open(chart.width, chart.height, chart.title, f.left) + rows(y, f, chart.y_label) + names_text;
  double below = f.bottom + names.height;
  if (!chart.x_label.empty()) out += x_label(chart.x_label, f, below += kLine);
  if (list.height > 0) out += legend(chart.kinds, f.left, f.right, below + 6).svg;
  return out + groups + hovers + "</svg>";
}

}  // namespace wr::chart
