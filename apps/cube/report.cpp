#include "apps/cube/report.h"

#include <fmt/format.h>

#include <cmath>

#include "windrow/chart.h"
#include "windrow/files.h"
#include "windrow/report.h"
#include "windrow/text.h"

namespace wr::apps {
namespace {

constexpr std::string_view kFaceLetters = "URFDLB";
/// White on top, green in front, red to the right: as cubes are sold.
constexpr const char* kColours[6] = {"255;255;255", "200;30;40", "0;155;72", "255;213;0", "255;110;20", "0;70;173"};

std::string sticker(std::uint8_t face, bool colour) {
  if (!colour) return std::string(1, kFaceLetters[face]) + " ";
  return fmt::format("\x1b[48;2;{}m\x1b[38;2;0;0;0m{} \x1b[0m", kColours[face], kFaceLetters[face]);
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(whole) : 0;
}

report::Texts facts(const CubeReport& r) {
  const Census& all = r.greedy.all;
  const CubeLearner& learner = r.run.learner();
  report::Texts facts{
      {"of all states solved greedily", fmt::format("{:.3f} %", percent(all.solved, all.states))},
      {"with the fewest moves", fmt::format("{:.3f} %", percent(all.optimal, all.states))},
      {"training time", text::duration(r.run.seconds())},
      {"training steps", std::to_string(learner.updates())},
  };
  if (r.run.settings().method == "dqn") {
    facts.emplace_back("episodes", std::to_string(learner.done()));
    facts.emplace_back("moves made", std::to_string(learner.moves()));
    facts.emplace_back("episodes a minute",
                       fmt::format("{:.0f}", 60.0 * static_cast<double>(learner.done()) / r.run.seconds()));
  }
  return facts;
}

void add_by_distance(report::Page& page, const CubeReport& r) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name, const Census& c) {
    rows.push_back({name, std::to_string(c.states), std::to_string(c.solved),
                    fmt::format("{:.3f} %", percent(c.solved, c.states)),
                    fmt::format("{:.3f} %", percent(c.optimal, c.states)),
                    fmt::format("{:.4f}", c.solved ? static_cast<double>(c.excess) / static_cast<double>(c.solved) : 0),
                    std::to_string(c.worst)});
  };
  for (std::size_t d = 0; d < kDistances; ++d) add(std::to_string(d), r.greedy.by_distance[d]);
  add("all", r.greedy.all);
  page.heading("All states, by distance")
      .table({"distance", "states", "solved", "share", "with the fewest moves", "mean excess", "worst"}, rows);
}

void add_histograms(report::Page& page, const CubeReport& r) {
  chart::Bars success{.x_label = "distance", .kinds = {"% solved"}, .width = 520, .height = 280};
  chart::Bars moves{.x_label = "moves", .kinds = {"states"}, .width = 520, .height = 280};
  for (std::size_t d = 1; d < kDistances; ++d) {
    const Census& c = r.greedy.by_distance[d];
    const double share = percent(c.solved, c.states);
    success.groups.push_back(std::to_string(d));
    success.values.push_back({share});
    success.texts.push_back(fmt::format("{:.3g}", share));
  }
  for (std::size_t m = 0; m < r.greedy.moves.size(); ++m) {
    const auto count = static_cast<double>(r.greedy.moves[m]);
    moves.groups.push_back(std::to_string(m));
    moves.values.push_back({count});
    moves.texts.push_back(count > 0 ? fmt::format("{:.1f}%", 100 * count / PocketCube::kStates) : "");
  }
  page.heading("Greedy solutions")
      .figures({{chart::bars(success), "share of the states at a distance that are solved, %"},
                {chart::bars(moves), "states by moves of their solution"}});
}

/// A chart for each of what is recorded: they have different scales.
void add_curves(report::Page& page, const CubeReport& r) {
  chart::Lines loss, success, depth;
  loss.series = {{"loss", {}, {}}};
  loss.log_y = true;
  depth.series = {{"depth", {}, {}}};
  for (const std::size_t d : {4, 8, 11}) success.series.push_back({fmt::format("distance {}", d), {}, {}});
  const auto add = [](chart::Series& s, std::int64_t x, double y) {
    s.x.push_back(static_cast<double>(x));
    s.y.push_back(y);
  };
  for (const CubePoint& p : r.run.history()) {
    add(loss.series[0], p.done, std::max(p.loss, 1e-12));
    std::size_t i = 0;
    for (const std::size_t d : {4, 8, 11}) {
      if (p.success[d] >= 0) add(success.series[i], p.done, 100 * p.success[d]);
      ++i;
    }
    if (r.run.settings().method == "dqn") add(depth.series[0], p.done, p.depth);
  }
  for (chart::Lines* lines : {&loss, &success, &depth}) {
    lines->x_label = r.run.learner().unit();
    lines->whole_x = true;
    lines->width = 520;
    lines->height = 280;
  }
  page.heading("Learning")
      .figures({{chart::lines(loss), "loss"},
                {chart::lines(success), "greedy success on states that are watched, %"},
                {chart::lines(depth), "moves of the scramble"}});
}

void add_details(report::Page& page, const CubeReport& r) {
  report::Texts settings;
  for (const auto& [name, text] : to_texts(r.run.settings())) settings.emplace_back(name, text);
  page.html("<div class=\"two\">\n<div>").heading("Settings").table(settings);
  page.html("</div>\n<div>").heading("Machine").table(r.machine).html("</div>\n</div>\n");
  page.heading("Plan").folded("what a training step does, region by region", r.run.learner().train_step().describe());
}

}  // namespace

std::vector<std::string> cube_lines(const StickerCube<2>& cube, bool colour) {
  constexpr std::size_t U = 0, R = 1, F = 2, D = 3, L = 4, B = 5;
  const auto row = [&](std::size_t face, std::size_t r) {
    return sticker(cube.colours[4 * face + 2 * r], colour) + sticker(cube.colours[4 * face + 2 * r + 1], colour);
  };
  std::vector<std::string> lines;
  for (std::size_t r = 0; r < 2; ++r) lines.push_back("    " + row(U, r));
  for (std::size_t r = 0; r < 2; ++r) lines.push_back(row(L, r) + row(F, r) + row(R, r) + row(B, r));
  for (std::size_t r = 0; r < 2; ++r) lines.push_back("    " + row(D, r));
  return lines;
}

std::string report_html(const CubeReport& r) {
  report::Page page("The 2x2x2 cube, " + r.run.settings().method);
  page.facts(facts(r));
  add_histograms(page, r);
  add_curves(page, r);
  add_by_distance(page, r);
  add_details(page, r);
  return page.text();
}

void write_report(const std::string& path, const CubeReport& report) { write_file(path, report_html(report)); }

}  // namespace wr::apps
