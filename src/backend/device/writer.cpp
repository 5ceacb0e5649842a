#include "backend/device/writer.h"

namespace wr::device {

void Writer::loop(const std::string& index, std::int64_t size, const Body& body) {
  open("for (int ", index, " = 0; ", index, " < ", size, "; ++", index, ")");
  body();
  close();
}

void Writer::each(const std::vector<Axis>& axes, const Body& body, bool light) {
  if (form_.vectors()) {
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (light && i + 1 == axes.size()) line("WR_VECTORISE");
      open("for (int ", axes[i].name, " = 0; ", axes[i].name, " < ", axes[i].size, "; ++", axes[i].name, ")");
    }
    if (axes.empty()) open("");
    body();
    for (std::size_t i = 0; i < std::max<std::size_t>(axes.size(), 1); ++i) close();
    return;
  }
  std::int64_t count = 1;
  for (const Axis& axis : axes) count *= axis.size;
  const std::string at = cat("at", stages_++);
  line("WR_EACH_ITEM");
  if (!light) line("WR_ROLLED");
  open("for (int ", at, " = item; ", at, " < ", count, "; ", at, " += ", form_.items, ")");
  std::int64_t inner = count;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const bool first = i == 0, last = i + 1 == axes.size();
    inner /= std::max<std::int64_t>(axes[i].size, 1);
    const std::string quotient = last ? at : cat(at, " / ", inner);
    line("const int ", axes[i].name, " = ", first ? quotient : cat(quotient, " % ", axes[i].size), ';');
  }
  body();
  close();
  line("WR_BARRIER");
}

std::string place(const std::vector<std::string>& index, const Strides& strides) {
  std::string text;
  for (std::size_t i = 0; i < index.size(); ++i) {
    const auto stride = strides[static_cast<int>(i)];
    if (stride == 0 || index[i] == "0") continue;
    text += text.empty() ? "" : " + ";
    text += stride == 1 ? index[i] : cat(index[i], " * ", stride);
  }
  return text.empty() ? "0" : text;
}

std::string place(const lower::View& view, const std::vector<std::string>& index) {
  Strides strides = view.strides;
  for (int i = 0; i < view.shape.rank(); ++i)
    if (view.shape[i] == 1) strides[i] = 0;
  return place(index, strides);
}

Walk walk(const Shape& shape, const std::vector<lower::View>& operands) {
  std::vector<std::int64_t> sizes;
  std::vector<std::vector<std::int64_t>> strides;  // [axis][operand]
  for (int axis = 0; axis < shape.rank(); ++axis) {
    if (shape[axis] == 1) continue;
    std::vector<std::int64_t> now;
    for (const lower::View& v : operands)
      now.push_back(v.shape.rank() == shape.rank() && v.shape[axis] == shape[axis] ? v.strides[axis] : 0);
    bool joins = !sizes.empty();
    for (std::size_t k = 0; joins && k < now.size(); ++k) joins = strides.back()[k] == now[k] * shape[axis];
    if (joins)
      sizes.back() *= shape[axis], strides.back() = now;
    else
      sizes.push_back(shape[axis]), strides.push_back(now);
  }
  Walk m;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    m.axes.push_back({cat('i', i), sizes[i]}), m.index.push_back(m.axes.back().name);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    Strides s(static_cast<int>(sizes.size()), 0);
    for (std::size_t i = 0; i < sizes.size(); ++i) s[static_cast<int>(i)] = strides[i][k];
    m.strides.push_back(s);
  }
  return m;
}

std::vector<Run> runs(std::int64_t size, int widest) {
  std::vector<Run> list;
  std::int64_t at = 0;
  for (int width = widest; width > 0; width /= 2)
    if (const std::int64_t count = (size - at) / width; count > 0) {
      list.push_back({at, count, width});
      at += count * width;
    }
  return list;
}

}  // namespace wr::device
