#include "apps/cube/report.h"

#include <fmt/format.h>

#include <cmath>

#include "apps/common/curves.h"
#include "apps/common/page.h"
#include "apps/common/times.h"
#include "windrow/files.h"

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

std::string head(const CubeReport& r) {
  const CubeSettings& s = r.run.settings();
  const Census& all = r.greedy.all;
  std::string out = page_head("The 2x2x2 cube, " + s.method) + "<div class=\"facts\">\n";
  out += fact(fmt::format("{:.3f} %", percent(all.solved, all.states)), "of all states solved greedily");
  out += fact(fmt::format("{:.3f} %", percent(all.optimal, all.states)), "with the fewest moves");
  out += fact(duration_text(r.run.seconds()), "training time");
  out += fact(std::to_string(r.run.learner().updates()), "training steps");
  if (s.method == "dqn") {
    out += fact(std::to_string(r.run.learner().done()), "episodes");
    out += fact(std::to_string(r.run.learner().moves()), "moves made");
    out += fact(fmt::format("{:.0f}", 60.0 * static_cast<double>(r.run.learner().done()) / r.run.seconds()),
                "episodes a minute");
  }
  return out + "</div>\n";
}

std::string by_distance(const CubeReport& r) {
  std::string out =
      "<h2>All states, by distance</h2>\n<div class=\"wide\"><table>\n<thead><tr><th>distance</th><th>states</th>"
      "<th>solved</th><th>share</th><th>with the fewest moves</th><th>mean excess</th><th>worst</th></tr></thead>\n"
      "<tbody>\n";
  const auto row = [&](const std::string& name, const Census& c) {
    out += fmt::format(
        "<tr><td>{}</td><td>{}</td><td>{}</td><td>{:.3f} %</td><td>{:.3f} %</td><td>{:.4f}</td><td>{}</td></tr>\n",
        name, c.states, c.solved, percent(c.solved, c.states), percent(c.optimal, c.states),
        c.solved ? static_cast<double>(c.excess) / static_cast<double>(c.solved) : 0.0, c.worst);
  };
  for (std::size_t d = 0; d < kDistances; ++d) row(std::to_string(d), r.greedy.by_distance[d]);
  row("all", r.greedy.all);
  return out + "</tbody></table></div>\n";
}

std::string histograms(const CubeReport& r) {
  std::vector<Bar> success, moves;
  for (std::size_t d = 1; d < kDistances; ++d) {
    const Census& c = r.greedy.by_distance[d];
    const double share = percent(c.solved, c.states);
    success.push_back({std::to_string(d), share, fmt::format("{:.4g}", share)});
  }
  for (std::size_t m = 0; m < r.greedy.moves.size(); ++m) {
    const auto count = static_cast<double>(r.greedy.moves[m]);
    const double share = 100 * count / PocketCube::kStates;
    moves.push_back({std::to_string(m), count, share >= 0.05 ? fmt::format("{:.1f} %", share) : ""});
  }
  return fmt::format(
      "<h2>Greedy solutions</h2>\n<div class=\"two\">\n<figure style=\"margin:0\">{}<figcaption>share of the states at "
      "a distance that are solved, %</figcaption></figure>\n<figure style=\"margin:0\">{}<figcaption>states by moves "
      "of "
      "their solution</figcaption></figure>\n</div>\n",
      bars(success, "distance"), bars(moves, "moves"));
}

std::string curves(const CubeReport& r) {
  Curve loss{"log10 loss", {}}, near{"distance 4", {}}, far{"distance 11", {}}, depth{"depth", {}};
  for (const CubePoint& p : r.run.history()) {
    loss.values.push_back(std::log10(std::max(p.loss, 1e-12)));
    if (p.success[4] >= 0) near.values.push_back(100 * p.success[4]);
    if (p.success[11] >= 0) far.values.push_back(100 * p.success[11]);
    if (r.run.settings().method == "dqn") depth.values.push_back(p.depth);
  }
  std::string out = fmt::format(
      "<h2>Learning</h2>\n<div class=\"two\">\n<figure style=\"margin:0\">{}<figcaption>loss</figcaption></figure>\n"
      "<figure style=\"margin:0\">{}<figcaption>greedy success on states that are watched, %</figcaption></figure>\n",
      chart({loss}, "part"), chart({near, far}, "part"));
  if (!depth.values.empty()) {
    out += fmt::format("<figure style=\"margin:0\">{}<figcaption>moves of the scramble</figcaption></figure>\n",
                       chart({depth}, "part"));
  }
  return out + "</div>\n";
}

std::string details(const CubeReport& r) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const auto& [name, text] : to_texts(r.run.settings())) settings.emplace_back(name, text);
  return fmt::format(
      "<div class=\"two\">\n<div><h2>Settings</h2>\n{}</div>\n<div><h2>Machine</h2>\n{}</div>\n</div>\n"
      "<h2>Plan</h2>\n<details><summary>what a training step does, region by "
      "region</summary>\n<pre>{}</pre></details>\n",
      table(settings), table(r.machine), escape(r.run.learner().train_step().describe()));
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

std::string report_html(const CubeReport& report) {
  return head(report) + histograms(report) + curves(report) + by_distance(report) + details(report) +
         "</body>\n</html>\n";
}

void write_report(const std::string& path, const CubeReport& report) { write_file(path, report_html(report)); }

}  // namespace wr::apps
