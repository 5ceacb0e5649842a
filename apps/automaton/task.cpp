// What the automata learn: starts and targets, drawn from a seed and a number.
#include <fmt/format.h>

#include <array>
#include <string_view>

#include "apps/automaton/automaton.h"
#include "apps/common/pictures.h"
#include "windrow/random.h"

namespace wr::apps {
namespace {

/// The n-th batch depends on the seed and n alone, so a resumed run sees the same ones.
Rng draws_of(std::uint64_t seed, std::uint64_t number) { return Rng(Rng::mix(Rng::mix(seed + 0x51ed) ^ number)); }

/// A small lizard, 20 x 20.
constexpr std::array<std::string_view, 20> kPattern = {
    "....................", ".........###........", "........#####.......", "........#####.......",
    "....##...###...##...", ".....##..###..##....", "......#########.....", ".......#######......",
    "........#####.......", "........#####.......", "........#####.......", "........#####.......",
    ".......#######......", "......##.###.##.....", ".....##..###..##....", "....##....##...##...",
    "..........##........", ".........##.........", ".......###..........", ".....###............"};

/// A face in eight colours, 16 x 16: bits of r, g and b as digits.
constexpr std::array<std::string_view, 16> kColour = {
    "0000066666600000", "0006666666666000", "0066666666666600", "0666666666666660",
    "0666116666116660", "6666116666116666", "6666666666666666", "6666666666666666",
    "6666666666666666", "6644666666664466", "6664466666644666", "0666444444446660",
    "0666644444466660", "0066666666666600", "0006666666666000", "0000066666600000"};

/// A built-in drawing at the wanted size: the nearest pixel of it.
template <class Rows>
int drawn(const Rows& rows, std::int64_t y, std::int64_t x, std::int64_t height, std::int64_t width) {
  const auto side = std::ssize(rows);
  return rows[y * side / height][x * side / width];
}

std::vector<float> pattern_target(const AutomatonSettings& s) {
  std::vector<float> target;
  if (!s.picture.empty()) {
    const Picture p = resized(read_picture(s.picture), s.width, s.height);
    for (auto grey : p.grey) target.push_back(grey >= 128 ? 1.0f : 0.0f);
    return target;
  }
  for (std::int64_t y = 0; y < s.height; ++y)
    for (std::int64_t x = 0; x < s.width; ++x)
      target.push_back(drawn(kPattern, y, x, s.height, s.width) == '#' ? 1.0f : 0.0f);
  return target;
}

std::vector<float> colour_target(const AutomatonSettings& s) {
  std::vector<float> target;
  const Plane planes[] = {Plane::red, Plane::green, Plane::blue};
  for (int channel = 0; channel < 3; ++channel) {
    Picture p;
    if (!s.picture.empty()) p = resized(read_picture(s.picture, planes[channel]), s.width, s.height);
    for (std::int64_t i = 0; i < s.height * s.width; ++i) {
      const bool on = s.picture.empty()
                          ? (drawn(kColour, i / s.width, i % s.width, s.height, s.width) - '0') >> (2 - channel) & 1
                          : p.grey[i] >= 128;
      target.push_back(on ? 1.0f : 0.0f);
    }
  }
  return target;
}

bool life_rule(std::uint64_t board, int y, int x) {
  int alive = 0;
  for (int dy = -1; dy <= 1; ++dy)
    for (int dx = -1; dx <= 1; ++dx)
      if (dy != 0 || dx != 0) alive += static_cast<int>(board >> ((y + dy + 3) % 3 * 3 + (x + dx + 3) % 3) & 1);
  return alive == 3 || (alive == 2 && (board >> (y * 3 + x) & 1) != 0);
}

}  // namespace

AutomatonTask::AutomatonTask(const AutomatonSettings& settings) : settings_(settings) {
  if (settings.task == "life" && (settings.height != 3 || settings.width != 3 || settings.steps != 1))
    throw Error("life is learned on boards of 3 x 3 cells in one step");
  if (settings.task == "colour") {
    target_channels_ = 3;
    picture_ = colour_target(settings);
  }
  if (settings.task == "pattern") picture_ = pattern_target(settings);
  if (settings.channels < target_channels_)
    throw Error(fmt::format("{} channels are too few for a picture of {}", settings.channels, target_channels_));
}

std::int64_t AutomatonTask::all_grids() const {
  if (settings_.task == "life") return 512;
  return picture_.empty() ? 0 : 1;
}

void AutomatonTask::add_grid(std::vector<float>& start, std::vector<float>& target, std::uint64_t bits, std::int64_t at,
                             std::int64_t cells) const {
  const auto size = settings_.height * settings_.width;
  Rng draw = draws_of(settings_.seed, bits);
  for (std::int64_t c = 0; c < settings_.channels; ++c)
    for (std::int64_t i = 0; i < size; ++i) {
      const auto y = i / settings_.width, x = i % settings_.width;
      const bool centre = y == settings_.height / 2 && x == settings_.width / 2;
      bool on = false;
      if (settings_.task == "life")
        on = (bits >> i & 1) != 0;
      else if (settings_.task == "pattern")
        on = centre;
      else if (picture_.empty())
        on = (draw.bits() >> 40 & 1) != 0;
      start[c * cells + at + i] = on ? 1.0f : 0.0f;
      if (c >= target_channels_) continue;
      float wanted = 0;
      if (!picture_.empty())
        wanted = picture_[c * size + i];
      else if (settings_.task == "life")
        wanted = life_rule(bits, static_cast<int>(y), static_cast<int>(x)) ? 1.0f : 0.0f;
      else
        wanted = static_cast<float>((x / 2 + y / 2) % 2);
      target[c * cells + at + i] = wanted;
    }
}

AutomatonTask::Batch AutomatonTask::batch(std::uint64_t number, std::int64_t grids) const {
  const auto size = settings_.height * settings_.width, cells = grids * size;
  std::vector<float> start(static_cast<std::size_t>(settings_.channels * cells)),
      target(static_cast<std::size_t>(target_channels_ * cells));
  Rng draw = draws_of(settings_.seed, number);
  for (std::int64_t g = 0; g < grids; ++g) {
    const std::uint64_t bits = draw.bits();
    add_grid(start, target, settings_.task == "life" ? bits >> 55 : bits, g * size, cells);
  }
  const DType dtype = settings_.dtype == "f64" ? DType::f64 : DType::f32;
  return {Array::from(start, {settings_.channels, cells}).astype(dtype),
          Array::from(target, {target_channels_, cells}).astype(dtype)};
}

AutomatonTask::Batch AutomatonTask::all() const {
  const auto size = settings_.height * settings_.width, grids = all_grids(), cells = grids * size;
  std::vector<float> start(static_cast<std::size_t>(settings_.channels * cells)),
      target(static_cast<std::size_t>(target_channels_ * cells));
  for (std::int64_t g = 0; g < grids; ++g) add_grid(start, target, static_cast<std::uint64_t>(g), g * size, cells);
  const DType dtype = settings_.dtype == "f64" ? DType::f64 : DType::f32;
  return {Array::from(start, {settings_.channels, cells}).astype(dtype),
          Array::from(target, {target_channels_, cells}).astype(dtype)};
}

}  // namespace wr::apps
