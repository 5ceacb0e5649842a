// Circuits as SVG: inputs on the left, gates in columns by depth, near what they read.
#include "apps/automaton/export.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

namespace wr::apps {

using namespace logic;

namespace {

constexpr double kColumn = 130, kRow = 46, kBox = 74, kHigh = 26, kMargin = 24;

struct Place {
  std::int64_t column = 0;
  double y = 0;
};

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", v);
  return text;
}

const char* sign_of(int function) {
  static constexpr const char* kSigns[] = {"0",   "AND",  "a·¬b", "=a",   "¬a·b", "=b",   "XOR",  "OR",
                                           "NOR", "XNOR", "¬b",   "a+¬b", "NOT",  "¬a+b", "NAND", "1"};
  return kSigns[function];
}

class Drawing {
 public:
  Drawing(const Circuit& c, const std::vector<std::string>& names)
      : c_(c),
        names_(names),
        place_(static_cast<std::size_t>(c.inputs) + c.gates.size()),
        read_(place_.size(), false) {}

  std::string run() {
    settle();
    std::string lines, boxes;
    for (std::size_t i = 0; i < c_.gates.size(); ++i) {
      const auto wire = static_cast<std::size_t>(c_.inputs) + i;
      const Gate& g = c_.gates[i];
      const bool one = g.a == g.b;
      lines += line(g.a, left(place_[wire]), place_[wire].y - (one ? 0 : 6));
      if (!one) lines += line(g.b, left(place_[wire]), place_[wire].y + 6);
      boxes += box(left(place_[wire]), place_[wire].y, sign_of(g.function), "gate");
    }
    for (std::size_t i = 0; i < static_cast<std::size_t>(c_.inputs); ++i)
      if (read_[i]) boxes += box(left(place_[i]), place_[i].y, i < names_.size() ? names_[i] : std::to_string(i), "in");
    double y = kMargin + kHigh;
    for (std::size_t k = 0; k < c_.outputs.size(); ++k) {
      if (c_.outputs[k] == kZero) continue;
      const std::string name = "out " + std::to_string(k) + (c_.outputs[k] == kOne ? " = 1" : "");
      if (c_.outputs[k] >= 0) {
        y = std::max(y, place_[static_cast<std::size_t>(c_.outputs[k])].y);
        lines += line(c_.outputs[k], outputs_at(), y);
      }
      boxes += box(outputs_at(), y, name, "out");
      y += kRow;
    }
    const double width = outputs_at() + kBox + kMargin, height = std::max(y, lowest_) + kMargin;
    return "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " + number(height) +
           "\" font-family=\"sans-serif\" font-size=\"12\">\n<style>rect{stroke:#456;fill:#eef3f8;rx:5}"
           ".in{fill:#e6f5e6}.out{fill:#fdeedd}path{fill:none;stroke:#789;stroke-width:1.2}"
           "text{text-anchor:middle;dominant-baseline:central;fill:#123}</style>\n"
           "<rect x=\"0\" y=\"0\" width=\"100%\" height=\"100%\" style=\"fill:#fff;stroke:none\"/>\n" +
           lines + boxes + "</svg>\n";
  }

 private:
  static double left(const Place& p) { return kMargin + static_cast<double>(p.column) * kColumn; }
  double outputs_at() const { return kMargin + static_cast<double>(columns_) * kColumn; }

  /// Depth gives the column; within it, the mean height of what a gate reads gives the order.
  void settle() {
    for (const Gate& g : c_.gates)
      for (auto wire : {g.a, g.b})
        if (wire >= 0) read_[static_cast<std::size_t>(wire)] = true;
    for (auto o : c_.outputs)
      if (o >= 0) read_[static_cast<std::size_t>(o)] = true;
    std::vector<std::vector<std::size_t>> columns(1);
    for (std::size_t i = 0; i < static_cast<std::size_t>(c_.inputs); ++i)
      if (read_[i]) columns[0].push_back(i);
    for (std::size_t i = 0; i < c_.gates.size(); ++i) {
      const auto wire = static_cast<std::size_t>(c_.inputs) + i;
      std::int64_t depth = 0;
      for (auto in : {c_.gates[i].a, c_.gates[i].b})
        if (in >= 0) depth = std::max(depth, place_[static_cast<std::size_t>(in)].column);
      place_[wire].column = depth + 1;
      columns.resize(std::max(columns.size(), static_cast<std::size_t>(depth) + 2));
      columns[static_cast<std::size_t>(depth) + 1].push_back(wire);
    }
    columns_ = std::ssize(columns);
    std::size_t most = 1;
    for (const auto& column : columns) most = std::max(most, column.size());
    lowest_ = kMargin + static_cast<double>(most) * kRow;
    for (auto& column : columns) {
      std::stable_sort(column.begin(), column.end(), [&](std::size_t a, std::size_t b) { return want(a) < want(b); });
      const double gap = (lowest_ - kMargin) / static_cast<double>(std::max<std::size_t>(column.size(), 1));
      for (std::size_t i = 0; i < column.size(); ++i)
        place_[column[i]].y = kMargin + gap * (static_cast<double>(i) + 0.5);
    }
  }

  double want(std::size_t wire) const {
    if (wire < static_cast<std::size_t>(c_.inputs)) return static_cast<double>(wire);
    const Gate& g = c_.gates[wire - static_cast<std::size_t>(c_.inputs)];
    double sum = 0;
    for (auto in : {g.a, g.b})
      if (in >= 0) sum += place_[static_cast<std::size_t>(in)].y;
    return sum;
  }

  std::string line(std::int32_t from, double x, double y) const {
    if (from < 0) return "";
    const Place& p = place_[static_cast<std::size_t>(from)];
    const double x0 = left(p) + kBox, bend = std::max(24.0, (x - x0) / 2);
    return "<path d=\"M" + number(x0) + " " + number(p.y) + "C" + number(x0 + bend) + " " + number(p.y) + " " +
           number(x - bend) + " " + number(y) + " " + number(x) + " " + number(y) + "\"/>\n";
  }

  static std::string box(double x, double y, const std::string& text, const char* kind) {
    return "<rect class=\"" + std::string(kind) + "\" x=\"" + number(x) + "\" y=\"" + number(y - kHigh / 2) +
           "\" width=\"" + number(kBox) + "\" height=\"" + number(kHigh) + "\"/><text x=\"" + number(x + kBox / 2) +
           "\" y=\"" + number(y) + "\">" + text + "</text>\n";
  }

  const Circuit& c_;
  const std::vector<std::string>& names_;
  std::vector<Place> place_;
  std::vector<bool> read_;
  std::int64_t columns_ = 1;
  double lowest_ = 0;
};

}  // namespace

std::string to_svg(const Circuit& circuit, const std::vector<std::string>& input_names) {
  return Drawing(circuit, input_names).run();
}

}  // namespace wr::apps
