// Circuits as SVG: inputs on the left, gates in layers by depth, near what they read, in colours by kind. The mouse
// over a gate shows its wires.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "apps/automaton/export.h"
#include "windrow/text.h"

namespace wr::apps {

using namespace logic;

namespace {

constexpr double kBox = 74, kHigh = 24, kRow = 34, kMargin = 24, kHead = 84;
constexpr int kSweeps = 8;

const char* sign_of(int function) {
  static constexpr const char* kSigns[] = {"0",   "AND",  "a·¬b", "=a",   "¬a·b", "=b",   "XOR",  "OR",
                                           "NOR", "XNOR", "¬b",   "a+¬b", "NOT",  "¬a+b", "NAND", "1"};
  return kSigns[function];
}

/// Functions that are drawn in one colour.
struct Family {
  const char *name, *kind, *colour, *light;
};
constexpr std::array<Family, 6> kFamilies{{{"AND", "and", "#2f6fde", "#e3ecfb"},
                                           {"OR", "or", "#1f9d61", "#e0f3ea"},
                                           {"XOR, XNOR", "xor", "#d9730d", "#fbecdd"},
                                           {"NAND, NOR", "nand", "#8a4fbf", "#efe7f7"},
                                           {"NOT", "not", "#c0392b", "#f7e4e2"},
                                           {"constant, wire", "wire", "#7b8794", "#eceff1"}}};
std::size_t family_of(int function) {
  static constexpr std::array<std::size_t, 16> kOf = {5, 0, 0, 5, 0, 5, 2, 1, 3, 2, 4, 1, 4, 1, 3, 5};
  return kOf[function];
}

/// Where everything stands: a column by depth; within it, in the order that crosses the fewest wires, nearly.
class Layout {
 public:
  explicit Layout(const Circuit& c)
      : c_(c), inputs_(static_cast<std::size_t>(c.inputs)), column_(inputs_ + c.gates.size()), y_(column_.size()) {
    find_neighbours();
    find_columns();
    for (int sweep = 0; sweep < kSweeps; ++sweep) order(sweep % 2 == 0);
    order(true);
    most_ = 1;
    for (const auto& column : columns_) most_ = std::max(most_, column.size());
    for (const auto& column : columns_) {
      const double gap = height() / static_cast<double>(std::max<std::size_t>(column.size(), 1));
      for (std::size_t i = 0; i < column.size(); ++i) y_[column[i]] = kHead + gap * (static_cast<double>(i) + 0.5);
    }
  }
  bool is_read(std::size_t wire) const { return is_output_[wire] || !readers_[wire].empty(); }
  std::size_t columns() const { return columns_.size(); }
  std::size_t gates_in(std::size_t column) const { return columns_[column].size(); }
  double x(std::size_t wire) const { return x_of(static_cast<std::size_t>(column_[wire])); }
  double x_of(std::size_t column) const {
    // More gates, more wires between columns: they need room.
    const double apart = kBox + std::clamp(3.0 * static_cast<double>(most_), 50.0, 160.0);
    return kMargin + static_cast<double>(column) * apart;
  }
  double y(std::size_t wire) const { return y_[wire]; }
  double height() const { return static_cast<double>(most_) * kRow; }

 private:
  void find_neighbours() {
    reads_.resize(column_.size());
    readers_.resize(column_.size());
    is_output_.resize(column_.size());
    for (std::size_t i = 0; i < c_.gates.size(); ++i)
      for (const auto in : {c_.gates[i].a, c_.gates[i].b})
        if (in >= 0) {
          reads_[inputs_ + i].push_back(static_cast<std::size_t>(in));
          readers_[in].push_back(inputs_ + i);
        }
    for (const auto o : c_.outputs)
      if (o >= 0) is_output_[o] = true;
  }
  void find_columns() {
    columns_.resize(1);
    for (std::size_t wire = 0; wire < column_.size(); ++wire) {
      for (const std::size_t in : reads_[wire]) column_[wire] = std::max(column_[wire], column_[in] + 1);
      if (wire >= inputs_) column_[wire] = std::max<std::int64_t>(column_[wire], 1);
      const auto at = static_cast<std::size_t>(column_[wire]);
      columns_.resize(std::max(columns_.size(), at + 1));
      if (wire >= inputs_ || is_read(wire)) columns_[at].push_back(wire);
    }
    place();
  }
  /// A height from 0 to 1 for each, by its place in its column.
  void place() {
    for (const auto& column : columns_)
      for (std::size_t i = 0; i < column.size(); ++i)
        y_[column[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(column.size());
  }
  /// Each column by the mean height of what its gates read, or of what reads them.
  void order(bool by_what_is_read) {
    const auto& near = by_what_is_read ? reads_ : readers_;
    const auto wanted = [&](std::size_t wire) {
      if (near[wire].empty()) return y_[wire];
      double sum = 0;
      for (const std::size_t other : near[wire]) sum += y_[other];
      return sum / static_cast<double>(near[wire].size());
    };
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      auto& column = columns_[by_what_is_read ? k : columns_.size() - 1 - k];
      std::vector<double> want(y_.size());
      for (const std::size_t wire : column) want[wire] = wanted(wire);
      std::stable_sort(column.begin(), column.end(), [&](auto a, auto b) { return want[a] < want[b]; });
      for (std::size_t i = 0; i < column.size(); ++i)
        y_[column[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(column.size());
    }
  }

  const Circuit& c_;
  std::size_t inputs_;
  std::vector<std::int64_t> column_;
  std::vector<double> y_;
  std::vector<std::vector<std::size_t>> columns_, reads_, readers_;
  std::vector<bool> is_output_;
  std::size_t most_ = 1;
};

class Drawing {
 public:
  Drawing(const Circuit& c, const std::vector<std::string>& names, const std::string& title)
      : c_(c), names_(names), title_(title), inputs_(static_cast<std::size_t>(c.inputs)), at_(c) {}

  std::string run() {
    // From the last layer to the first, so that a wire goes behind the gates that it passes.
    std::vector<std::size_t> order(c_.gates.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return at_.x(inputs_ + a) > at_.x(inputs_ + b); });
    auto [body, lowest] = draw_outputs();
    for (const std::size_t i : order) body += gate(i);
    body += inputs();
    const double width = std::max(at_.x_of(at_.columns()) + kBox + kMargin, 560.0);
    const double height = std::max(kHead + at_.height(), lowest) + kMargin;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" width=\"{:.0f}\" "
               "height=\"{:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n{}"
               "<rect x=\"0\" y=\"0\" width=\"100%\" height=\"100%\" style=\"fill:#fff;stroke:none\"/>\n",
               width, height, width, height, style()) +
           head() + body + "</svg>\n";
  }

 private:
  static std::string style() {
    std::string css =
        "<style>rect{fill:#f4f6f8;stroke:#7b8794;rx:5}path{fill:none;stroke-width:1.1;stroke-opacity:.45}"
        "text{text-anchor:middle;dominant-baseline:central;fill:#1c2733}.soft{fill:#5d6b79;font-size:11px}"
        "g:hover>path{stroke-width:2.6;stroke-opacity:1}g:hover>rect{stroke-width:2.4}"
        ".in{fill:#fff}.out{fill:#fff4d6;stroke:#b58900}.from-in{stroke:#7b8794}";
    for (const Family& f : kFamilies)
      css += fmt::format(".{0}{{fill:{2};stroke:{1}}}.from-{0}{{stroke:{1}}}", f.kind, f.colour, f.light);
    return css + "</style>\n";
  }
  /// Title, what the colours mean with the number of gates of each, and the columns' names.
  std::string head() const {
    std::string out =
        fmt::format("<text x=\"{}\" y=\"22\" style=\"text-anchor:start;font-size:16px;font-weight:600\">{}</text>\n",
                    kMargin, text::escape(title_));
    std::array<std::size_t, kFamilies.size()> counts{};
    for (const Gate& g : c_.gates) ++counts[family_of(g.function)];
    double x = kMargin;
    for (std::size_t f = 0; f < kFamilies.size(); ++f) {
      if (counts[f] == 0) continue;
      const std::string words = fmt::format("{} {}", counts[f], kFamilies[f].name);
      out += fmt::format(
          "<rect class=\"{}\" x=\"{:.0f}\" y=\"38\" width=\"14\" height=\"12\"/><text x=\"{:.0f}\" y=\"44\" "
          "style=\"text-anchor:start\">{}</text>\n",
          kFamilies[f].kind, x, x + 19, words);
      x += 19 + 7.5 * static_cast<double>(words.size()) + 14;
    }
    for (std::size_t k = 0; k <= at_.columns(); ++k) {
      const std::string name = k == 0 ? "inputs" : k == at_.columns() ? "outputs" : fmt::format("layer {}", k);
      out += fmt::format("<text class=\"soft\" x=\"{:.1f}\" y=\"68\">{}</text>\n", at_.x_of(k) + kBox / 2, name);
    }
    return out;
  }
  std::string inputs() const {
    std::string out;
    for (std::size_t i = 0; i < inputs_; ++i)
      if (at_.is_read(i))
        out += "<g>" + box(at_.x(i), at_.y(i), i < names_.size() ? names_[i] : std::to_string(i), "in") + "</g>\n";
    return out;
  }
  std::string gate(std::size_t i) const {
    const Gate& g = c_.gates[i];
    const std::size_t wire = inputs_ + i;
    const bool one = g.a == g.b;
    std::string out = fmt::format("<g><title>gate {}: {} of {}{}</title>", i, sign_of(g.function), name_of(g.a),
                                  one ? "" : " and " + name_of(g.b));
    out += line(g.a, at_.x(wire), at_.y(wire) - (one ? 0 : 6));
    if (!one) out += line(g.b, at_.x(wire), at_.y(wire) + 6);
    return out + box(at_.x(wire), at_.y(wire), sign_of(g.function), kFamilies[family_of(g.function)].kind) + "</g>\n";
  }
  /// Near what they show, from top to bottom; and where the last one ends.
  std::pair<std::string, double> draw_outputs() const {
    std::vector<std::size_t> order;
    for (std::size_t k = 0; k < c_.outputs.size(); ++k)
      if (c_.outputs[k] != kZero) order.push_back(k);
    const auto height_of = [&](std::size_t k) {
      return c_.outputs[k] >= 0 ? at_.y(static_cast<std::size_t>(c_.outputs[k])) : 0;
    };
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return height_of(a) < height_of(b); });
    std::string out;
    const double x = at_.x_of(at_.columns());
    double y = kHead + kRow / 2;
    for (const std::size_t k : order) {
      y = std::max(y, height_of(k));
      out += "<g>" + line(c_.outputs[k], x, y) +
             box(x, y, fmt::format("out {}{}", k, c_.outputs[k] == kOne ? " = 1" : ""), "out") + "</g>\n";
      y += kRow;
    }
    return {out, y};
  }

  std::string name_of(std::int32_t wire) const {
    if (wire < 0) return wire == kOne ? "1" : "0";
    const auto i = static_cast<std::size_t>(wire);
    return i >= inputs_ ? fmt::format("gate {}", i - inputs_) : i < names_.size() ? names_[i] : std::to_string(i);
  }
  const char* kind_of(std::size_t wire) const {
    return wire < inputs_ ? "in" : kFamilies[family_of(c_.gates[wire - inputs_].function)].kind;
  }
  std::string line(std::int32_t from, double x, double y) const {
    if (from < 0) return "";
    const auto wire = static_cast<std::size_t>(from);
    const double x0 = at_.x(wire) + kBox, bend = std::max(24.0, (x - x0) / 2);
    return fmt::format("<path class=\"from-{}\" d=\"M{:.1f} {:.1f}C{:.1f} {:.1f} {:.1f} {:.1f} {:.1f} {:.1f}\"/>",
                       kind_of(wire), x0, at_.y(wire), x0 + bend, at_.y(wire), x - bend, y, x, y);
  }
  static std::string box(double x, double y, const std::string& words, const char* kind) {
    return fmt::format(
        "<rect class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\"/><text x=\"{:.1f}\" "
        "y=\"{:.1f}\">{}</text>",
        kind, x, y - kHigh / 2, kBox, kHigh, x + kBox / 2, y, text::escape(words));
  }

  const Circuit& c_;
  const std::vector<std::string>& names_;
  const std::string& title_;
  std::size_t inputs_;
  Layout at_;
};

}  // namespace

std::string to_svg(const Circuit& circuit, const std::vector<std::string>& input_names, const std::string& title) {
  return Drawing(circuit, input_names, title).run();
}

}  // namespace wr::apps
