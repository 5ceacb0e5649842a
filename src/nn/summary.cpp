// summary(): each layer compiled on its own for its input, so that shapes and FLOPs are those of the plan.
#include <algorithm>

#include <fmt/format.h>

#include "windrow/nn.h"
#include "windrow/step.h"

namespace wr::nn {
namespace {

std::size_t bytes_of(const Spec& spec) { return static_cast<std::size_t>(spec.shape.count()) * size_of(spec.dtype); }

Summary::Row row_of(const Module& layer, const Spec& input, const Where& where) {
  Summary::Row row{layer.path(), layer.kind(), {}, 0, 0, 0, 0};
  CompileOptions options;
  options.threads = 1;
  options.lanes = 1;
  const Step step = compile(
      options,
      [&](const Tensor& x) {
        Tensor y = layer(x, Mode::eval, where);
        row.output = y.spec();
        return y;
      },
      input);
  row.flops = step.facts().flops;
  row.output_bytes = bytes_of(row.output);
  for (const State& s : layer.parameters()) row.parameters += s.shape().count();
  for (const State& s : layer.states()) row.parameter_bytes += bytes_of(s.spec());
  return row;
}

/// Adds the rows of a module and returns its output's type.
Spec add_rows(const Module& module, const Spec& input, std::vector<Summary::Row>& rows, const Where& where) {
  if (dynamic_cast<const Sequential*>(&module)) {
    Spec spec = input;
    for (const auto& part : module.children()) spec = add_rows(*part, spec, rows, where);
    return spec;
  }
  rows.push_back(row_of(module, input, where));
  return rows.back().output;
}

std::string with_unit(double value, const char* unit) {
  const char* prefixes[] = {"", "k", "M", "G", "T"};
  int p = 0;
  while (value >= 1000 && p < 4) value /= 1000, ++p;
  return fmt::format("{:.{}f} {}{}", value, p == 0 ? 0 : 2, prefixes[p], unit);
}

}  // namespace

Summary summary(const Module& net, const Spec& input, Where where) {
  Summary s;
  const Spec output = add_rows(net, input, s.rows, where);
  s.total = {"", "total", output, 0, 0, 0, 0};
  for (const State& p : net.parameters()) s.total.parameters += p.shape().count();
  for (const State& p : net.states()) s.total.parameter_bytes += bytes_of(p.spec());
  for (const Summary::Row& r : s.rows) {
    s.total.flops += r.flops;
    s.total.output_bytes += r.output_bytes;
  }
  return s;
}

std::string to_string(const Summary& summary) {
  std::vector<std::array<std::string, 7>> cells{
      {"path", "layer", "output", "parameters", "FLOPs", "state bytes", "output bytes"}};
  const auto add = [&](const Summary::Row& r) {
    cells.push_back({r.path, r.kind, to_string(r.output), std::to_string(r.parameters), with_unit(r.flops, "FLOP"),
                     with_unit(static_cast<double>(r.parameter_bytes), "B"),
                     with_unit(static_cast<double>(r.output_bytes), "B")});
  };
  for (const Summary::Row& r : summary.rows) add(r);
  add(summary.total);
  std::array<std::size_t, 7> widths{};
  for (const auto& line : cells)
    for (std::size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c)
      line += c < 3 ? fmt::format("{:<{}}  ", cells[i][c], widths[c]) : fmt::format("{:>{}}  ", cells[i][c], widths[c]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
    if (i == 0 || i + 2 == cells.size()) {
      std::size_t total = 0;
      for (std::size_t w : widths) total += w + 2;
      text += std::string(total - 2, '-') + "\n";
    }
  }
  return text;
}

}  // namespace wr::nn
