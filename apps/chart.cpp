#include "apps/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace wr::apps {
namespace {

constexpr double kWidth = 520, kHeight = 260, kLeft = 48, kRight = 124, kTop = 12, kBottom = 28;

struct Scale {
  double low, high, step;
  double y(double value) const { return kTop + (high - value) / (high - low) * (kHeight - kTop - kBottom); }
};

/// Round numbers about a fifth of the range apart.
Scale scale_of(const std::vector<Curve>& curves) {
  double low = INFINITY, high = -INFINITY;
  for (const Curve& c : curves) {
    for (const double v : c.values) {
      low = std::min(low, v);
      high = std::max(high, v);
    }
  }
  if (!(high > low)) {
    low = std::isfinite(low) ? low - 0.5 : 0;
    high = low + 1;
  }
  const double power = std::pow(10, std::floor(std::log10((high - low) / 4)));
  const double ratio = (high - low) / 4 / power;
  const double step = power * (ratio > 5 ? 10 : ratio > 2 ? 5 : ratio > 1 ? 2 : 1);
  return {std::floor(low / step) * step, std::ceil(high / step) * step, step};
}

double x_of(std::size_t i, std::size_t count) {
  return kLeft +
         (count < 2 ? 0.5 : static_cast<double>(i) / static_cast<double>(count - 1)) * (kWidth - kLeft - kRight);
}

std::string grid(const Scale& scale, std::size_t count, const std::string& axis) {
  std::string out;
  const int lines = static_cast<int>(std::lround((scale.high - scale.low) / scale.step));
  const int digits = std::max(0, static_cast<int>(std::ceil(-std::log10(scale.step) - 1e-9)));
  for (int i = 0; i <= lines; ++i) {
    const double value = scale.low + i * scale.step, y = scale.y(value);
    out += fmt::format(
        "<line x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"var(--line)\"/>"
        "<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{:.{}f}</text>\n",
        kLeft, kWidth - kRight, y, y, kLeft - 6, y + 4, value, digits);
  }
  const std::size_t every = std::max<std::size_t>(1, (count + 9) / 10);
  for (std::size_t i = 0; i < count; ++i) {
    if (i + 1 != 1 && (i + 1) % every != 0) continue;
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x_of(i, count), kHeight - 8,
                       i + 1);
  }
  return out + fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n", kWidth - kRight + 14, kHeight - 8, axis);
}

std::string line(const Curve& curve, const Scale& scale, const char* colour, double label_y, const std::string& axis) {
  std::string points, dots;
  for (std::size_t i = 0; i < curve.values.size(); ++i) {
    const double x = x_of(i, curve.values.size()), y = scale.y(curve.values[i]);
    points += fmt::format("{:.1f},{:.1f} ", x, y);
    dots +=
        fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"><title>{} {}: {:.4g}</title></circle>",
                    x, y, colour, axis, i + 1, curve.values[i]);
  }
  return fmt::format(
      "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>{}\n"
      "<text x=\"{}\" y=\"{:.1f}\" style=\"fill:{}\">{} {:#.4g}</text>\n",
      points, colour, dots, kWidth - kRight + 8, label_y, colour, curve.name, curve.values.back());
}

}  // namespace

std::string chart(const std::vector<Curve>& curves, const std::string& axis) {
  std::vector<Curve> drawn;
  for (const Curve& c : curves)
    if (!c.values.empty()) drawn.push_back(c);
  if (drawn.empty()) return "<p class=\"note\">nothing was recorded</p>";
  const Scale scale = scale_of(drawn);
  std::string out = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\">\n", kWidth, kHeight);
  out += grid(scale, drawn[0].values.size(), axis);
  std::vector<double> labels;
  for (const Curve& c : drawn) labels.push_back(scale.y(c.values.back()) + 4);
  if (labels.size() == 2 && std::abs(labels[0] - labels[1]) < 14) {
    const double middle = (labels[0] + labels[1]) / 2, side = labels[0] <= labels[1] ? -7 : 7;
    labels = {middle + side, middle - side};
  }
  for (std::size_t i = 0; i < drawn.size(); ++i)
    out += line(drawn[i], scale, i == 0 ? "var(--a)" : "var(--b)", labels[i], axis);
  return out + "</svg>";
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
        x + 1, bottom - height, each - 2, height, x + each / 2, bottom - height - 4, list[i].text, x + each / 2,
        kHeight - 8, list[i].name);
  }
  return out + fmt::format("<text x=\"{}\" y=\"{}\">{}</text>\n</svg>", kWidth - 52, kHeight - 8, axis);
}

}  // namespace wr::apps
