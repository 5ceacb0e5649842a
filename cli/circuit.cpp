// windrow circuit and windrow run: what a trained automaton has become, and what it does.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <thread>
#include <tuple>

#include "apps/automaton/export.h"
#include "apps/automaton/show.h"
#include "apps/common/gif.h"
#include "apps/common/pictures.h"
#include "cli/session.h"
#include "cli/train.h"
#include "windrow/error.h"
#include "windrow/files.h"

namespace wr::cli {
namespace {

using namespace wr::apps;

struct CircuitOptions {
  std::string file, svg, curve, c, c_program, verilog;
};

std::string kinds_text(const logic::Circuit& circuit) {
  std::string text;
  for (const auto& [kind, count] : logic::count_by_kind(circuit))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  return text.empty() ? "none" : text;
}

int circuit(const CircuitOptions& o) {
  const TrainedAutomaton trained = load_automaton(o.file);
  const logic::Circuit all = logic::circuit_of(trained.automaton), small = logic::simplified(all),
                       seen = visible_circuit(trained);
  std::int64_t not_pass = 0;
  for (const logic::Gate& g : all.gates) not_pass += g.function != 3 && g.function != 5;
  fmt::print("{}: {}\n", o.file, trained.settings.task);
  fmt::print("trained:    {} gates on {} channels ({} that are not pass-throughs)\n", all.gates.size(),
             all.outputs.size(), not_pass);
  fmt::print("simplified: {} gates: {}\n", small.gates.size(), kinds_text(small));
  fmt::print("visible:    {} gates: {}   (without channels that the visible ones never depend on)\n", seen.gates.size(),
             kinds_text(seen));
  const auto names = input_names(trained.settings.channels);
  if (!o.svg.empty()) write_file(o.svg, to_svg(seen, names));
  if (!o.curve.empty()) write_file(o.curve, loss_curve(trained.history));
  if (!o.c.empty()) write_file(o.c, to_c(seen, "rule"));
  if (!o.c_program.empty()) write_file(o.c_program, to_c_program(seen));
  if (!o.verilog.empty()) write_file(o.verilog, to_verilog(seen, "rule"));
  for (const std::string& file : {o.svg, o.curve, o.c, o.c_program, o.verilog})
    if (!file.empty()) fmt::print("wrote {}\n", file);
  return 0;
}

struct RunOptions {
  std::string file, grid, gif, html;
  std::optional<std::int64_t> steps;
  std::int64_t every = 1, scale = 0;
  std::uint64_t seed = 1;
  double frames = 20;  // a second, in the terminal
  bool damage = false, still = false;
};

std::pair<std::int64_t, std::int64_t> grid_size(const std::string& text) {
  long long height = 0, width = 0;
  char rest = 0;
  if (std::sscanf(text.c_str(), "%lldx%lld%c", &height, &width, &rest) != 2 || height < 1 || width < 1 ||
      height > 65536 || width > 65536)
    throw UsageError("--grid", "'" + text + "' is no size; expected such as 256x256, at most 65536x65536");
  return {height, width};
}

/// The grid as lines for the terminal, small enough for it.
std::vector<std::string> screen(const AutomatonShow& show) {
  winsize size{};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  const std::int64_t columns = known ? size.ws_col : 80, rows = 2 * (known ? std::max(4, size.ws_row - 2) : 24);
  Picture p{show.grid().width(), show.grid().height(), {}};
  for (auto colour : show.colours()) p.grey.push_back(static_cast<std::uint8_t>(colour * 255 / 7));
  const double shrink = std::max({1.0, static_cast<double>(p.width) / static_cast<double>(columns),
                                  static_cast<double>(p.height) / static_cast<double>(rows)});
  const auto smaller = [&](std::int64_t n) { return std::max<std::int64_t>(1, std::int64_t(double(n) / shrink)); };
  return terminal_lines(resized(p, smaller(p.width), smaller(p.height)), Shades::colour);
}

std::string right_text(const AutomatonShow& show) {
  const auto right = show.right();
  return right ? fmt::format("{:.3f} % of the cells are right", 100 * *right)
               : "nothing is known to be right at this size";
}

/// Each pixel as a square of so many.
std::vector<std::uint8_t> enlarged(const std::vector<std::uint8_t>& pixels, std::int64_t width, std::int64_t scale) {
  std::vector<std::uint8_t> large;
  large.reserve(pixels.size() * static_cast<std::size_t>(scale * scale));
  for (auto row = pixels.begin(); row != pixels.end(); row += width)
    for (std::int64_t y = 0; y < scale; ++y)
      for (std::int64_t x = 0; x < width; ++x) large.insert(large.end(), static_cast<std::size_t>(scale), row[x]);
  return large;
}

int run(const RunOptions& o) {
  constexpr std::int64_t kSide = 64, kSteps = 100, kPixels = 256;
  constexpr int kPause = 12;  // frames of the last step, before a GIF begins again
  const TrainedAutomaton trained = load_automaton(o.file);
  const AutomatonSettings& s = trained.settings;
  const bool picture = grows_picture(s.task);
  auto [height, width] = picture ? std::pair(s.height, s.width) : std::pair(kSide, kSide);
  if (!o.grid.empty()) std::tie(height, width) = grid_size(o.grid);
  const std::int64_t steps = o.steps.value_or(picture ? s.steps : kSteps);
  const std::int64_t scale = o.scale > 0 ? o.scale : std::max<std::int64_t>(1, kPixels / std::max(height, width));
  AutomatonShow show(trained, height, width, o.seed);
  const bool animate = !o.still && isatty(STDOUT_FILENO) != 0;
  std::optional<Gif> gif;
  if (!o.gif.empty() || !o.html.empty()) gif.emplace(width * scale, height * scale, 8);
  const Interruptible guard;
  const auto frame_time = std::chrono::duration<double>(1 / o.frames);
  double seconds = 0;
  std::int64_t done = 0;
  if (animate) fmt::print("\x1b[2J");
  for (; done <= steps && !interrupted(); ++done) {
    if (o.damage && done == steps / 2) {
      fmt::print("{}step {}: {}; now a square in the middle is damaged\n", animate ? "\x1b[H\x1b[J" : "", done,
                 right_text(show));
      show.damage();
    }
    if (done % o.every == 0) {
      if (gif) gif->add(enlarged(show.colours(), width, scale));
      if (animate) {
        fmt::print("\x1b[H");
        for (const std::string& line : screen(show)) fmt::print("{}\n", line);
        fmt::print("\x1b[Kstep {}: {}", done, right_text(show));
        std::fflush(stdout);
        std::this_thread::sleep_for(frame_time);
      }
    }
    if (done == steps) break;
    const auto start = std::chrono::steady_clock::now();
    show.step();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  for (int i = 0; gif && i < kPause; ++i) gif->add(enlarged(show.colours(), width, scale));
  fmt::print("{}step {}: {}\n", animate ? "\r\x1b[K" : "", done, right_text(show));
  if (done > 0)
    fmt::print("{} gates, 64 cells a word: {:.3g} cells a second\n", show.circuit().gates.size(),
               static_cast<double>(height * width * done) / seconds);
  if (!o.gif.empty()) write_file(o.gif, gif->finish());
  if (!o.html.empty())
    write_file(o.html,
               fmt::format("<!doctype html><meta charset=\"utf-8\"><title>{0}</title><body style=\"background:"
                           "#222;color:#ddd;font-family:sans-serif;text-align:center\"><h1>{0}</h1><img style="
                           "\"image-rendering:pixelated;width:min(90vw,90vh)\" src=\"data:image/gif;base64,{1}\">"
                           "<p>{2} x {3} cells, {4} steps, {5} gates</p>\n",
                           o.file, base64(gif->finish()), height, width, done, show.circuit().gates.size()));
  for (const std::string& file : {o.gif, o.html})
    if (!file.empty()) fmt::print("wrote {}\n", file);
  return interrupted() ? kInterrupted : 0;
}

}  // namespace

void add_circuit(Command program) {
  auto c = program.add("circuit", "Simplify, count, draw and export the circuit of a trained automaton");
  auto o = std::make_shared<CircuitOptions>();
  c.option("file", o->file, "A checkpoint of windrow train checkerboard and so on").required();
  c.option("--svg", o->svg, "Draw it").type("FILE");
  c.option("--curve", o->curve, "Draw the losses of its training").type("FILE");
  c.option("--c", o->c, "As a C function on 64 cells a word").type("FILE");
  c.option("--c-program", o->c_program, "As a whole C program that runs grids").type("FILE");
  c.option("--verilog", o->verilog, "As a Verilog module").type("FILE");
  c.does([o] { return circuit(*o); });
}

void add_run(Command program) {
  auto c = program.add("run", "Run a trained automaton's circuit on bits: in the terminal, as GIF or HTML");
  auto o = std::make_shared<RunOptions>();
  c.option("file", o->file, "A checkpoint of windrow train checkerboard and so on").required();
  c.option("--grid", o->grid, "Height and width; without it 64x64, or a picture's own").type("HxW");
  c.option("--steps", o->steps, "Steps; without it 100, or as many as a picture takes to grow")
      .range(0, 1000000000)
      .type("N");
  c.option("--seed", o->seed, "Of the start and of damage").show_default();
  c.flag("--damage", o->damage, "Half-way, put random states into a square in the middle");
  c.option("--every", o->every, "Steps between frames").range(1, 1000000).show_default();
  c.option("--fps", o->frames, "Frames a second in the terminal").range(0.1, 1000.0).show_default();
  c.flag("--still", o->still, "No animation in the terminal");
  c.option("--gif", o->gif, "Write the frames as a GIF").type("FILE");
  c.option("--scale", o->scale, "Pixels of a cell in them; without it, so that small grids can be seen")
      .range(1, 64)
      .type("N");
  c.option("--html", o->html, "Write the frames as a page").type("FILE");
  c.does([o] { return run(*o); });
}

}  // namespace wr::cli
