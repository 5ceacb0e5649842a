// Attributes, written and read.
#include "ir/attributes.h"

namespace wr::ir {
namespace {

/// Part `index` of a list of several lists of `rank` numbers.
Dims part_of(const Attrs& attrs, int index, int rank) {
  return Dims(std::span(attrs.ints).subspan(static_cast<std::size_t>(index * rank), static_cast<std::size_t>(rank)));
}

std::vector<std::int64_t> joined(std::initializer_list<Dims> parts) {
  std::vector<std::int64_t> ints;
  for (const Dims& part : parts) ints.insert(ints.end(), part.begin(), part.end());
  return ints;
}

}  // namespace

Attrs attrs_of(const Dims& list) { return {joined({list}), {}, {}}; }

Slice Slice::of(const Attrs& attrs, int rank) {
  if (attrs.ints.size() != static_cast<std::size_t>(3 * rank))
    throw Error("expected " + std::to_string(3 * rank) + " integer attributes, got " +
                std::to_string(attrs.ints.size()));
  return {part_of(attrs, 0, rank), part_of(attrs, 1, rank), part_of(attrs, 2, rank)};
}

Attrs Slice::attrs() const { return {joined({starts, counts, steps}), {}, {}}; }

Pad Pad::of(const Attrs& attrs, int rank) {
  if (attrs.ints.size() != static_cast<std::size_t>(2 * rank) || attrs.reals.size() != 1)
    throw Error("needs " + std::to_string(rank) + " sizes before and after, got " + std::to_string(attrs.ints.size()) +
                " numbers");
  return {part_of(attrs, 0, rank), part_of(attrs, 1, rank), attrs.reals[0]};
}

Attrs Pad::attrs() const { return {joined({before, after}), {value}, {}}; }

Window window_of(const Attrs& attrs) {
  const auto& i = attrs.ints;
  return {i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8], i[9]};
}

Attrs attrs_of(const Window& w) {
  return {{w.height, w.width, w.stride_h, w.stride_w, w.dilation_h, w.dilation_w, w.pad_top, w.pad_bottom, w.pad_left,
           w.pad_right},
          {},
          {}};
}

Attrs attrs_of(const Window& window, std::int64_t image_height, std::int64_t image_width) {
  std::vector<std::int64_t> ints = attrs_of(window).ints;
  ints.push_back(image_height);
  ints.push_back(image_width);
  return {std::move(ints), {}, {}};
}

ImageSize image_of(const Attrs& fold) { return {fold.ints[kWindowNumbers], fold.ints[kWindowNumbers + 1]}; }

Convolution Convolution::of(const Attrs& attrs) {
  if (attrs.ints.size() != kWindowNumbers + 3)
    throw Error("expected " + std::to_string(kWindowNumbers + 3) + " integer attributes, got " +
                std::to_string(attrs.ints.size()));
  return {window_of(attrs), image_of(attrs), attrs.ints[kWindowNumbers + 2]};
}

Attrs Convolution::attrs() const {
  std::vector<std::int64_t> ints = attrs_of(window, image.height, image.width).ints;
  ints.push_back(groups);
  return {std::move(ints), {}, {}};
}

ScanForm ScanForm::of(const Attrs& attrs) {
  constexpr std::size_t kNumbers = 6;
  constexpr std::int64_t kMost = 1 << 16;  // of each kind of value
  const auto& n = attrs.ints;
  if (n.size() < kNumbers) throw Error("expected steps, direction and four counts");
  for (std::size_t i = 1; i < n.size(); ++i)
    if (n[i] < 0 || n[i] > kMost) throw Error("attribute " + std::to_string(n[i]) + " is out of range");
  ScanForm form{
      n[0], n[1] != 0, static_cast<int>(n[2]), static_cast<int>(n[3]), static_cast<int>(n[4]), static_cast<int>(n[5])};
  if (form.steps < 1) throw Error("there are no steps");
  if (form.results() < 1) throw Error("there are no results");
  if (n.size() != kNumbers + static_cast<std::size_t>(form.carries))
    throw Error("expected a number for each of " + std::to_string(form.carries) + " carried values");
  for (std::size_t i = kNumbers; i < n.size(); ++i) form.kept.push_back(n[i] != 0);
  return form;
}

Attrs ScanForm::attrs(std::shared_ptr<const Graph> body) const {
  std::vector<std::int64_t> ints{steps, reverse, carries, sequences, stacked, sums};
  for (const bool is_kept : kept) ints.push_back(is_kept);
  return {std::move(ints), {}, {}, std::move(body)};
}

Semiring semiring_of(const Attrs& attrs) {
  const auto found = semiring_called(attrs.text);
  if (!found) throw Error("there is no semiring '" + attrs.text + "'");
  return *found;
}

Attrs attrs_of(Semiring semiring) { return {{}, {}, std::string(to_string(semiring))}; }

Labels Labels::of(std::string_view spec) {
  Labels labels{{""}, {}};
  const auto arrow = spec.find("->");
  for (char c : spec.substr(0, arrow)) {
    if (c == ',')
      labels.operands.emplace_back();
    else
      labels.operands.back() += c;
  }
  if (arrow != std::string_view::npos) labels.result = spec.substr(arrow + 2);
  return labels;
}

std::string Labels::text() const {
  std::string out;
  for (const std::string& operand : operands) (out += &operand == &operands[0] ? "" : ",") += operand;
  return out + "->" + result;
}

int Labels::holders(char label) const {
  int n = 0;
  for (const std::string& operand : operands) n += operand.find(label) != std::string::npos;
  return n;
}

std::string Labels::all() const {
  std::string all;
  for (const std::string& operand : operands)
    for (char c : operand)
      if (all.find(c) == std::string::npos) all += c;
  return all;
}

}  // namespace wr::ir
