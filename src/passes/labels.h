// The spec of an einsum node, taken apart: "bi,io->bo".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace wr::passes {

struct Labels {
  std::vector<std::string> operands;
  std::string result;

  static Labels of(std::string_view spec) {
    Labels labels{{""}, {}};
    const auto arrow = spec.find("->");
    for (char c : spec.substr(0, arrow)) {
      if (c == ',')
        labels.operands.emplace_back();
      else
        labels.operands.back() += c;
    }
    labels.result = spec.substr(arrow + 2);
    return labels;
  }

  std::string text() const {
    std::string out;
    for (const std::string& operand : operands) (out += out.empty() && &operand == &operands[0] ? "" : ",") += operand;
    return out + "->" + result;
  }

  /// How many operands have the label.
  int holders(char label) const {
    int n = 0;
    for (const std::string& operand : operands) n += operand.find(label) != std::string::npos;
    return n;
  }
};

}  // namespace wr::passes
