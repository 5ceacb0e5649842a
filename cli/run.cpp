// windrow run: what a trained automaton does, in the terminal, as GIF or as a page.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <thread>
#include <tuple>

#include "apps/automaton/play_page.h"
#include "apps/automaton/show.h"
#include "apps/common/gif.h"
#include "apps/common/pictures.h"
#include "base/json.h"
#include "cli/session.h"
#include "cli/train.h"
#include "windrow/error.h"
#include "windrow/files.h"
#include "windrow/text.h"

namespace wr::cli {
namespace {

using namespace wr::apps;

struct RunOptions {
  std::string file, grid, gif, html;
  std::optional<std::int64_t> steps;
  std::int64_t every = 1, scale = 0;
  std::uint64_t seed = 1;
  double frames = 20;  // a second, in the terminal
  bool damage = false, still = false, json = false;
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

/// How long a run is. What settles is run until all is right, and after damage until all is right again: a signal goes
/// one cell a step, so a grid takes a few times as many steps as its sides have cells. Else the number is given.
struct Length {
  std::int64_t steps = 0, damage_at = 0;  // where it settles: the most steps before, and after, damage
  bool settles = false;
};

Length length_of(const RunOptions& o, const AutomatonSettings& s, std::int64_t height, std::int64_t width) {
  constexpr std::int64_t kSteps = 100, kTimesAcross = 2;
  if (!o.steps && s.task.starts_with("checkerboard")) {
    const auto slower = static_cast<std::int64_t>(std::ceil(1 / s.fire));
    const std::int64_t most = slower * (kSteps + kTimesAcross * (height + width));
    return {o.damage ? 2 * most : most, most, true};
  }
  const std::int64_t steps = o.steps.value_or(grows_picture(s.task) ? s.steps : kSteps);
  return {steps, steps / 2, false};
}

class Playback {
 public:
  Playback(const RunOptions& o, const TrainedAutomaton& trained, std::int64_t height, std::int64_t width)
      : o_(o),
        length_(length_of(o, trained.settings, height, width)),
        width_(width),
        height_(height),
        scale_(o.scale > 0 ? o.scale : std::max<std::int64_t>(1, kPixels / std::max(height, width))),
        show_(trained, height, width, o.seed),
        animate_(!o.still && !o.json && isatty(STDOUT_FILENO) != 0) {
    if (!o.gif.empty()) gif_.emplace(width * scale_, height * scale_, 8);
  }

  void run() {
    if (animate_) fmt::print("\x1b[2J");
    for (; !interrupted(); ++done_) {
      const bool settled = length_.settles && is_right();
      if (o_.damage && !damaged_ && (settled || done_ == length_.damage_at)) damage();
      const bool last = done_ == length_.steps || (settled && (damaged_at_ != done_) && (damaged_ || !o_.damage));
      if (done_ % o_.every == 0 || last) show_frame();
      if (last) break;
      const auto start = std::chrono::steady_clock::now();
      show_.step();
      seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    constexpr int kPause = 12;  // frames of the last step, before a GIF begins again
    for (int i = 0; gif_ && i < kPause; ++i) gif_->add(enlarged(show_.colours(), width_, scale_));
  }

  void tell() const {
    const double rate = seconds_ > 0 ? static_cast<double>(height_ * width_ * done_) / seconds_ : 0;
    if (o_.json) {
      Json line{{"steps", done_}, {"gates", show_.circuit().gates.size()}, {"cells_per_second", rate}};
      const auto right = show_.right();
      line["right"] = right ? Json(*right) : Json();
      if (damaged_) line["damaged_at"] = damaged_at_;
      fmt::print("{}\n", line.dump());
      return;
    }
    fmt::print("{}step {}: {}\n", animate_ ? "\r\x1b[K" : "", done_, right_text(show_));
    if (done_ > 0) fmt::print("{} gates, 64 cells a word: {:.3g} cells a second\n", show_.circuit().gates.size(), rate);
  }

  std::string gif() const { return gif_->finish(); }

 private:
  static constexpr std::int64_t kPixels = 256;

  bool is_right() const {
    const auto right = show_.right();
    return right && *right == 1;
  }
  void damage() {
    if (!o_.json)
      fmt::print("{}step {}: {}; now a square in the middle is damaged\n", animate_ ? "\x1b[H\x1b[J" : "", done_,
                 right_text(show_));
    show_.damage();
    damaged_ = true;
    damaged_at_ = done_;
  }
  void show_frame() {
    if (gif_) gif_->add(enlarged(show_.colours(), width_, scale_));
    if (!animate_) return;
    fmt::print("\x1b[H");
    for (const std::string& line : screen(show_)) fmt::print("{}\n", line);
    fmt::print("\x1b[Kstep {}: {}", done_, right_text(show_));
    std::fflush(stdout);
    std::this_thread::sleep_for(std::chrono::duration<double>(1 / o_.frames));
  }

  const RunOptions& o_;
  Length length_;
  std::int64_t width_, height_, scale_;
  AutomatonShow show_;
  bool animate_, damaged_ = false;
  std::optional<Gif> gif_;
  std::int64_t done_ = 0, damaged_at_ = -1;
  double seconds_ = 0;
};

int run(const RunOptions& o) {
  constexpr std::int64_t kSide = 64;
  check_outputs({{"--gif", o.gif}, {"--html", o.html}}, {{"the checkpoint", o.file}});
  const auto asked = o.grid.empty() ? std::optional<std::pair<std::int64_t, std::int64_t>>() : grid_size(o.grid);
  const TrainedAutomaton trained = load_automaton(o.file);
  const AutomatonSettings& s = trained.settings;
  auto [height, width] = grows_picture(s.task) ? std::pair(s.height, s.width) : std::pair(kSide, kSide);
  if (asked) std::tie(height, width) = *asked;
  Playback playback(o, trained, height, width);
  const Interruptible guard;
  playback.run();
  playback.tell();
  if (!o.gif.empty()) write_file(o.gif, playback.gif());
  if (!o.html.empty()) write_file(o.html, play_page(trained, s.task, height, width));
  for (const std::string& file : {o.gif, o.html})
    if (!file.empty() && !o.json) fmt::print("wrote {}\n", text::printable(file));
  return interrupted() ? kInterrupted : 0;
}

}  // namespace

void add_run(Command program) {
  auto c = program.add("run", "Run a trained automaton's circuit on bits: in the terminal, as GIF, as a page");
  auto o = std::make_shared<RunOptions>();
  c.option("file", o->file, "A checkpoint of windrow train checkerboard and so on").type("FILE").required();
  c.option("--grid", o->grid, "Height and width; without it 64x64, or a picture's own").type("HxW");
  c.option("--steps", o->steps, "Steps; without it as many as a checkerboard or a picture takes, else 100")
      .range(0, 1000000000)
      .type("N");
  c.option("--seed", o->seed, "Of the start and of damage").show_default();
  c.flag("--damage", o->damage, "When all is right, or half-way, put random states into a square in the middle");
  c.option("--every", o->every, "Steps between frames").range(1, 1000000).show_default();
  c.option("--fps", o->frames, "Frames a second in the terminal").range(0.1, 1000.0).show_default();
  c.flag("--still", o->still, "No animation in the terminal");
  c.option("--gif", o->gif, "Write the frames as a GIF").type("FILE");
  c.option("--scale", o->scale, "Pixels of a cell in them; without it, so that small grids can be seen")
      .range(1, 64)
      .type("N");
  c.option("--html", o->html, "Write a page that runs it: click to wound it").type("FILE");
  c.flag("--json", o->json, "One JSON object at the end, and nothing else");
  c.does([o] { return run(*o); });
}

}  // namespace wr::cli
