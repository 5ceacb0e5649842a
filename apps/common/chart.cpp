#include "apps/common/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "apps/common/text.h"

namespace wr::chart {
namespace {

constexpr double kLeft = 56, kTop = 30, kBottom = 40, kLabels = 118;
constexpr std::array<const char*, 8> kColours = {"var(--a,#2f6fde)", "var(--b,#d9822b)", "#2a9d6f", "#b2508f",
                                                 "#8a6d3b",          "#5b6b7a",          "#c0392b", "#16a2b8"};

std::string number(double value) {
  const double size = std::abs(value);
  if (size >= 1e6) return fmt::format("{:.3g}M", value / 1e6);
  if (size >= 1e4) return fmt::format("{:.3g}k", value / 1e3);
  return fmt::format("{:.4g}", value);
}

/// An axis from data to picture, with round numbers to write at it.
class Axis {
 public:
  Axis(std::vector<double> values, bool logarithmic, double from, double to, bool whole = false)
      : log_(logarithmic), from_(from), to_(to) {
    std::erase_if(values, [&](double v) { return !std::isfinite(v) || (log_ && v <= 0); });
    if (values.empty()) values = {1};
    low_ = *std::min_element(values.begin(), values.end());
    high_ = *std::max_element(values.begin(), values.end());
    log_ ? powers() : rounds(whole);
  }
  double at(double v) const {
    const double part =
        log_ ? (std::log(v) - std::log(low_)) / (std::log(high_) - std::log(low_)) : (v - low_) / (high_ - low_);
    return from_ + part * (to_ - from_);
  }
  bool shows(double v) const { return std::isfinite(v) && (!log_ || v > 0); }
  const std::vector<double>& marks() const { return marks_; }
  void keep_range(double low, double high) {  // of the data instead of the marks: no room at the ends
    low_ = low;
    high_ = high > low ? high : low + 1;
    std::erase_if(marks_, [&](double m) { return m < low_ || m > high_; });
  }

 private:
  void rounds(bool whole) {
    if (!(high_ > low_)) {
      low_ -= 0.5;
      high_ += 0.5;
    }
    const double power = std::pow(10, std::floor(std::log10((high_ - low_) / 4)));
    const double ratio = (high_ - low_) / 4 / power;
    double step = power * (ratio > 5 ? 10 : ratio > 2 ? 5 : ratio > 1 ? 2 : 1);
    if (whole) step = std::max(1.0, std::round(step));
    low_ = std::floor(low_ / step) * step;
    high_ = std::ceil(high_ / step) * step;
    for (int i = 0; i <= std::lround((high_ - low_) / step); ++i) marks_.push_back(low_ + i * step);
  }
  void powers() {
    if (!(high_ > low_)) high_ = low_ * 2;
    const double decades = std::log10(high_ / low_);
    for (double p = std::pow(10, std::floor(std::log10(low_))); p <= high_ * 1.0001; p *= 10)
      for (double f : {1.0, 2.0, 5.0})
        if (p * f >= low_ * 0.9999 && p * f <= high_ * 1.0001 && (f == 1 || decades < 2.2)) marks_.push_back(p * f);
  }

  bool log_;
  double from_, to_, low_ = 0, high_ = 1;
  std::vector<double> marks_;
};

std::string open(double width, double height, const std::string& title) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" role=\"img\" font-family=\"system-ui, "
      "sans-serif\" "
      "font-size=\"11\" fill=\"var(--ink,#333)\">\n{}",
      width, height,
      title.empty() ? ""
                    : fmt::format("<text x=\"{}\" y=\"16\" font-size=\"13\" font-weight=\"600\">{}</text>\n", kLeft,
                                  apps::escape(title)));
}

std::string rows(const Axis& y, double x0, double x1, const std::string& label) {
  std::string out;
  for (double v : y.marks())
    out += fmt::format(
        "<line x1=\"{:.1f}\" x2=\"{:.1f}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"var(--line,#ccc)\"/>"
        "<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        x0, x1, y.at(v), y.at(v), x0 - 6, y.at(v) + 4, number(v));
  if (!label.empty())
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"end\" fill=\"var(--dim,#777)\">{}</text>\n", x1,
                       kTop - 8, apps::escape(label));
  return out;
}

std::string key(const std::vector<std::string>& names, double x, double y) {
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out += fmt::format(
        "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.1f}\" "
        "y=\"{:.1f}\">{}</text>\n",
        x, y + 16.0 * static_cast<double>(i), kColours[i % kColours.size()], x + 15,
        y + 9 + 16.0 * static_cast<double>(i), apps::escape(names[i]));
  return out;
}

/// Labels at the right end of lines, moved apart where they would overlap.
std::vector<double> apart(std::vector<double> wanted) {
  std::vector<std::size_t> order(wanted.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return wanted[a] < wanted[b]; });
  for (int round = 0; round < 20; ++round)
    for (std::size_t i = 1; i < order.size(); ++i) {
      double &above = wanted[order[i - 1]], &below = wanted[order[i]];
      if (below - above >= 14) continue;
      const double push = (14 - (below - above)) / 2;
      above -= push;
      below += push;
    }
  return wanted;
}

std::string curve(const Series& s, const Axis& x, const Axis& y, const char* colour, const std::string& x_label) {
  std::string points, dots;
  for (std::size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i) {
    if (!x.shows(s.x[i]) || !y.shows(s.y[i])) continue;
    points += fmt::format("{:.1f},{:.1f} ", x.at(s.x[i]), y.at(s.y[i]));
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"><title>{} {}: {:.4g}</title></circle>",
                    x.at(s.x[i]), y.at(s.y[i]), colour, apps::escape(x_label), number(s.x[i]), s.y[i]);
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>{}\n", points, colour,
                     dots);
}

}  // namespace

std::string lines(const Lines& chart) {
  std::vector<Series> drawn;
  for (const Series& s : chart.series)
    if (!s.x.empty() && !s.y.empty()) drawn.push_back(s);
  if (drawn.empty()) return "";
  std::vector<double> xs, ys;
  for (const Series& s : drawn) {
    xs.insert(xs.end(), s.x.begin(), s.x.end());
    ys.insert(ys.end(), s.y.begin(), s.y.end());
  }
  const double right = chart.width - kLabels, bottom = chart.height - kBottom;
  Axis x(xs, chart.log_x, kLeft, right, chart.whole_x);
  const Axis y(ys, chart.log_y, bottom, kTop);
  const auto [low, high] = std::minmax_element(xs.begin(), xs.end());
  x.keep_range(*low, *high);
  std::string out = open(chart.width, chart.height, chart.title) + rows(y, kLeft, right, chart.y_label);
  for (double v : x.marks())
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>\n", x.at(v), bottom + 16,
                       number(v));
  out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"var(--dim,#777)\">{}</text>\n", right + 8, bottom + 16,
                     apps::escape(chart.x_label));
  std::vector<double> labels;
  for (const Series& s : drawn) labels.push_back(y.shows(s.y.back()) ? y.at(s.y.back()) + 4 : kTop);
  labels = apart(labels);
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const char* colour = kColours[i % kColours.size()];
    out += curve(drawn[i], x, y, colour, chart.x_label);
    out += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" style=\"fill:{}\">{} {:.4g}</text>\n", right + 8, labels[i],
                       colour, apps::escape(drawn[i].name), drawn[i].y.back());
  }
  return out + "</svg>";
}

std::string bars(const Bars& chart) {
  std::vector<double> all;
  for (const auto& group : chart.values) all.insert(all.end(), group.begin(), group.end());
  std::erase_if(all, [](double v) { return !(v > 0) || !std::isfinite(v); });
  if (all.empty() || chart.groups.empty() || chart.kinds.empty()) return "";
  const double lowest = *std::min_element(all.begin(), all.end());
  all.push_back(chart.log_y ? lowest * 0.7 : 0);
  const double right = chart.width - kLabels, bottom = chart.height - kBottom - 46;
  const Axis y(all, chart.log_y, bottom, kTop);
  std::string out = open(chart.width, chart.height, chart.title) + rows(y, kLeft, right, chart.y_label);
  const double room = (right - kLeft) / static_cast<double>(chart.groups.size());
  const double width = 0.8 * room / static_cast<double>(chart.kinds.size());
  for (std::size_t g = 0; g < chart.groups.size(); ++g) {
    const double x0 = kLeft + room * static_cast<double>(g) + 0.1 * room;
    for (std::size_t k = 0; k < chart.values[g].size(); ++k) {
      const double v = chart.values[g][k];
      if (!(v > 0) || !std::isfinite(v)) continue;
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"{}\"><title>{} {}: "
          "{:.4g}</title></rect>\n",
          x0 + width * static_cast<double>(k), y.at(v), width * 0.95, std::max(0.0, bottom - y.at(v)),
          kColours[k % kColours.size()], apps::escape(chart.groups[g]), apps::escape(chart.kinds[k]), v);
    }
    const double x = x0 + 0.4 * room, at = bottom + 12;
    out += fmt::format(
        "<text x=\"{0:.1f}\" y=\"{1:.1f}\" text-anchor=\"end\" transform=\"rotate(-35 {0:.1f} {1:.1f})\">{2}</text>\n",
        x, at, apps::escape(chart.groups[g]));
  }
  return out + key(chart.kinds, right + 14, kTop) + "</svg>";
}

}  // namespace wr::chart
