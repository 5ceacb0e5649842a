// The plan as text: what runs, in which strips, with which kernels, and what it costs.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ir/attributes.h"
#include "passes/passes.h"
#include "step/inside.h"

namespace wr {
namespace {

using plan::Home;
using plan::Region;

std::string size_text(double bytes) {
  if (bytes < 1024) return fmt::format("{:.0f} B", bytes);
  if (bytes < 1024 * 1024) return fmt::format("{:.3g} KB", bytes / 1024);
  return fmt::format("{:.3g} MB", bytes / 1024 / 1024);
}

std::string count_text(double n, const char* unit) {
  if (n < 1e3) return fmt::format("{:.0f} {}", n, unit);
  if (n < 1e6) return fmt::format("{:.3g} k{}", n / 1e3, unit);
  return n < 1e9 ? fmt::format("{:.3g} M{}", n / 1e6, unit) : fmt::format("{:.3g} G{}", n / 1e9, unit);
}

/// What a value is called: the state or argument it is, or its number.
std::string name_of(const ir::Graph& g, int id) {
  const ir::Node& n = g[id];
  if (n.op == ir::Op::input) return fmt::format("arg{}", n.attrs.ints[0]);
  if (n.op == ir::Op::state && !n.variable->name.empty()) return n.variable->name;
  if (n.op == ir::Op::constant && n.spec.shape.count() == 1)
    return fmt::format("{:.6g}", n.value->astype(DType::f64).item<double>());
  if (ir::is_view(n.op)) return name_of(g, n.inputs[0]);
  return fmt::format("%{}", id);
}

std::string operands_text(const ir::Graph& g, const ir::Node& n) {
  std::string s;
  for (int in : n.inputs) s += (s.empty() ? "" : ", ") + name_of(g, in);
  return s;
}

std::string place_text(const Step::Inside& step, int id) {
  const auto& p = step.schedule.place[id];
  const ir::Graph& g = *step.schedule.graph;
  if (p.cut.is_total()) return " + over strips";
  if (p.home == Home::state) {
    const auto& name = g[step.schedule.states[p.index]].variable->name;
    return " -> state" + (name.empty() ? "" : " " + name);
  }
  if (p.home == Home::output) return fmt::format(" -> result {}", p.index);
  return p.home == Home::arena ? " -> arena" : "";
}

std::string node_text(const Step::Inside& step, int id, const std::string& remark) {
  const ir::Graph& g = *step.schedule.graph;
  const ir::Node& n = g[id];
  const std::string op(ir::definition(n.op).name);
  const std::string spec = n.op == ir::Op::einsum ? " " + n.attrs.text : "";
  std::string line = fmt::format("    {:<14} {} = {}{}({}){}{}", op, fmt::format("%{}{}", id, to_string(n.spec.shape)),
                                 op, spec, operands_text(g, n), place_text(step, id), remark);
  return fmt::format("{:<100} {}{}{}\n", line, n.gradient ? "(gradient of " : "", to_string(n.where),
                     n.gradient ? ")" : "");
}

/// What a value in the body of a scan is called: what is carried, one moment of a sequence, what is the same in all.
std::string name_inside(const ir::Graph& g, const ir::Node& scan, int id) {
  const ir::Graph& body = *scan.attrs.body;
  if (ir::is_view(body[id].op)) return name_inside(g, scan, body[id].inputs[0]);
  if (body[id].op != ir::Op::input) return name_of(body, id);
  const auto k = body[id].attrs.ints[0];
  const ir::ScanForm form = ir::ScanForm::of(scan.attrs);
  if (k < form.carries) return fmt::format("carry{}", k);
  return name_of(g, scan.inputs[k]) + (k < form.carries + form.sequences ? "[t]" : "");
}

/// A call in the body of a scan.
std::string inside_text(const Step::Inside& step, const lower::Call& i) {
  const ir::Node& scan = (*step.schedule.graph)[i.node];
  const ir::Node& n = (*scan.attrs.body)[i.inside];
  const std::string op(ir::definition(n.op).name);
  std::string operands;
  for (int in : n.inputs) operands += (operands.empty() ? "" : ", ") + name_inside(*step.schedule.graph, scan, in);
  const std::string line = fmt::format("      {:<12} %{}{} = {}({}){}", op, i.inside, to_string(n.spec.shape), op,
                                       operands, op == i.name ? "" : std::string("  [") + i.name + "]");
  return fmt::format("{:<100} {}{}{}\n", line, n.gradient ? "(gradient of " : "", to_string(n.where),
                     n.gradient ? ")" : "");
}

std::string call_text(const Step::Inside& step, const lower::Call& i) {
  if (i.inside >= 0) return inside_text(step, i);
  const auto& op = ir::definition((*step.schedule.graph)[i.node].op).name;
  std::string text = node_text(step, i.node, op == i.name ? "" : std::string("  [") + i.name + "]");
  if (!ir::definition((*step.schedule.graph)[i.node].op).further || std::string_view(i.name) == "copy") return text;
  for (int id = i.node + 1; id < step.schedule.graph->size(); ++id) {
    const ir::Node& n = (*step.schedule.graph)[id];
    if (n.op == ir::Op::result && n.inputs[0] == i.node) text += node_text(step, id, "  [by the same call]");
  }
  return text;
}

std::string strips_text(const Region& r) {
  const std::int64_t rows = r.row_begin.back() - r.row_begin.front();
  std::int64_t strips = 0;
  for (int l = 0; l < r.lanes(); ++l) {
    const auto n = r.row_begin[static_cast<std::size_t>(l) + 1] - r.row_begin[l];
    strips += (n + r.strip - 1) / r.strip;
  }
  if (r.extent == 1) return fmt::format("once, on lane {}", r.first_lane);
  return fmt::format("{} {} in {} strip{} of {} on {}", rows, r.flat ? "elements" : "rows", strips,
                     strips == 1 ? "" : "s", r.strip,
                     r.lanes() == 1 ? fmt::format("lane {}", r.first_lane) : fmt::format("{} lanes", r.lanes()));
}

double region_flops(const ir::Graph& g, const Region& r) {
  double sum = 0;
  for (const auto& m : r.members) sum += plan::flops(g, m.node);
  return sum;
}

struct ShownCode {
  const lower::Code* code;
  std::int64_t turns;  // of the loop it is in
};

/// The codes that make up a region's first strip, each once and none that differs only in its number of rows.
std::vector<ShownCode> codes_of(const lower::Program& program, std::size_t phase, int region) {
  std::vector<ShownCode> found;
  std::set<std::pair<int, int>> nodes;
  for (const auto& lane : program.pieces[phase])
    for (std::size_t i = 0; i < lane.size(); i += static_cast<std::size_t>(lane[i].span))
      for (std::size_t k = i; k < i + static_cast<std::size_t>(lane[i].span); ++k) {
        const auto& code = program.codes[lane[k].code];
        if (code.region != region || code.calls.empty()) continue;
        if (nodes.emplace(code.calls[0].node, code.calls[0].inside).second) found.push_back({&code, lane[i].turns});
      }
  return found;
}

std::string calls_text(const Step::Inside& step, const lower::Code& code) {
  std::string text;
  for (const auto& i : code.calls) text += call_text(step, i);
  return text;
}

std::string region_text(const Step::Inside& step, const std::vector<ShownCode>& codes) {
  std::string text;
  for (const auto& [code, turns] : codes) {
    const std::string times = turns > 1 ? fmt::format(", {} times over", turns) : "";
    if (codes.size() > 1) text += fmt::format("   {} at a time{}\n", code->rows, times);
    text += calls_text(step, *code);
  }
  return text;
}

/// Which ops are one loop in the place of several, and where a rule found all but one thing.
std::string fused_text(const ir::Graph& g) {
  const passes::Fused fused = passes::what_was_fused(g);
  std::string made;
  for (const auto& [op, count] : fused.made) made += fmt::format("{}{} {}", made.empty() ? "" : ", ", count, op);
  std::string text = fmt::format("one loop for several ops: {}\n", made.empty() ? "none" : made);
  std::map<std::pair<std::string_view, std::string_view>, std::vector<Location>> missed;
  for (const auto& m : fused.missed) missed[{m.rule, m.why}].push_back(m.where);
  for (const auto& [rule, where] : missed)
    text += fmt::format("no {} at {}{}: {}\n", rule.first, to_string(where[0]),
                        where.size() == 1 ? "" : fmt::format(" and {} more", where.size() - 1), rule.second);
  return text;
}

}  // namespace

std::string describe(const Step::Inside& step) {
  const auto& s = step.schedule;
  const auto& program = step.executor->program();
  const ir::Graph& g = *s.graph;
  const StepFacts& f = step.facts;
  std::string text = fmt::format(
      "{}  {} region{} in {} phase{}, {} lane{}, {} barrier{}, {}, memory {} (lower bound {}), lane sums {}, state {}, "
      "{}; compiled in {:.1f} ms\n",
      step.options.name.empty() ? "step" : step.options.name, f.regions, f.regions == 1 ? "" : "s", f.phases,
      f.phases == 1 ? "" : "s", f.lanes, f.lanes == 1 ? "" : "s", f.lanes > 1 ? f.phases : 0,
      f.lanes > 1 && f.phases == 1 ? "" : "s", count_text(f.flops, "FLOP"),
      size_text(static_cast<double>(f.scratch_bytes) * f.lanes + static_cast<double>(f.arena_bytes)),
      size_text(static_cast<double>(f.lower_bound_bytes)), size_text(static_cast<double>(f.partial_bytes) * f.lanes),
      size_text(static_cast<double>(f.state_bytes)), step.executor->target(), f.compile_ms);
  if (!step.fallback.empty()) text += fmt::format("on the CPU: {}\n", step.fallback);
  text += fmt::format("planned for {}: {}, estimated {:.3g} us\n", s.machine, s.form, s.estimate_ns / 1e3);
  text += fused_text(g);
  for (std::size_t p = 0; p < s.phases.size(); ++p) {
    text += fmt::format("phase {}\n", p);
    for (const auto& shown : codes_of(program, p, -1))
      text += "  each lane for itself\n" + calls_text(step, *shown.code);
    for (std::size_t r = 0; r < s.phases[p].regions.size(); ++r) {
      const Region& region = s.phases[p].regions[r];
      text += fmt::format("  region {}  {}; {}\n", r, strips_text(region), count_text(region_flops(g, region), "FLOP"));
      text += region_text(step, codes_of(program, p, static_cast<int>(r)));
    }
  }
  if (!program.commits.calls.empty()) {
    text += "then, by the caller\n";
    for (const auto& i : program.commits.calls) text += call_text(step, i);
  }
  return text;
}

}  // namespace wr
