#include "apps/automaton/show.h"

#include <fmt/format.h>

#include <algorithm>

#include "windrow/chart.h"

namespace wr::apps {
namespace {

std::int64_t visible_channels(const AutomatonSettings& s) { return s.task == "colour" ? 3 : 1; }

}  // namespace

logic::Circuit visible_circuit(const TrainedAutomaton& t) {
  return logic::without_unseen_channels(logic::circuit_of(t.automaton), visible_channels(t.settings));
}

std::vector<std::string> input_names(std::int64_t channels) {
  static constexpr const char* kWhere[] = {"NW", "N", "NE", "W", "own", "E", "SW", "S", "SE"};
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < channels * 9; ++i) names.push_back("c" + std::to_string(i / 9) + " " + kWhere[i % 9]);
  return names;
}

std::string loss_curve(const std::vector<LossPoint>& history) {
  chart::Lines lines;
  lines.title = "loss, soft gates and hard ones";
  lines.x_label = "update";
  lines.whole_x = true;
  lines.series = {{"soft", {}, {}}, {"hard", {}, {}}};
  for (const LossPoint& p : history)
    for (const bool hard : {false, true}) {
      lines.series[hard].x.push_back(static_cast<double>(p.update));
      lines.series[hard].y.push_back(hard ? p.hard : p.soft);
    }
  return chart::lines(lines);
}

AutomatonShow::AutomatonShow(const TrainedAutomaton& trained, std::int64_t height, std::int64_t width,
                             std::uint64_t seed)
    : settings_(trained.settings),
      circuit_(visible_circuit(trained)),
      automaton_(circuit_),
      now_(settings_.channels, height, width),
      next_(now_),
      random_(seed * 0x9e3779b97f4a7c15 + 1) {
  begin();
}

/// A word whose bits are 1 with the probability that a cell takes its new state.
std::uint64_t AutomatonShow::firing() {
  constexpr int kBits = 16;
  const auto share = static_cast<std::uint32_t>(settings_.fire * (1 << kBits));
  std::uint64_t word = 0;
  for (int i = 0; i < kBits; ++i) word = (share >> i & 1) != 0 ? random_.bits() | word : random_.bits() & word;
  return word;
}

void AutomatonShow::begin() {
  const bool random = settings_.task != "pattern" && settings_.task != "colour";
  for (std::int64_t c = 0; c < now_.channels(); ++c)
    for (std::int64_t y = 0; y < now_.height(); ++y)
      for (std::int64_t x = 0; x < now_.width(); ++x) {
        const bool centre = settings_.task == "pattern" && y == now_.height() / 2 && x == now_.width() / 2;
        now_.set(c, y, x, random ? (random_.bits() >> 40 & 1) != 0 : centre);
      }
  if (settings_.task == "life")
    for (std::int64_t i = 0; i < now_.height() * now_.width(); ++i)
      life_.push_back(now_.get(0, i / now_.width(), i % now_.width()));
}

void AutomatonShow::step_life() {
  const auto height = now_.height(), width = now_.width();
  std::vector<std::uint8_t> next(life_.size());
  for (std::int64_t y = 0; y < height; ++y)
    for (std::int64_t x = 0; x < width; ++x) {
      int alive = 0;
      for (std::int64_t dy = -1; dy <= 1; ++dy)
        for (std::int64_t dx = -1; dx <= 1; ++dx)
          if (dy != 0 || dx != 0) alive += life_[(y + dy + height) % height * width + (x + dx + width) % width];
      const auto at = static_cast<std::size_t>(y * width + x);
      next[at] = alive == 3 || (alive == 2 && life_[at] != 0);
    }
  life_ = std::move(next);
}

void AutomatonShow::step() {
  automaton_.step(now_, next_, border_of(settings_));
  if (settings_.fire < 1)
    for (std::int64_t y = 0; y < now_.height(); ++y)
      for (std::int64_t i = 0; i < now_.words(); ++i) {
        const std::uint64_t mask = firing();
        for (std::int64_t c = 0; c < now_.channels(); ++c) {
          std::uint64_t& word = next_.row(c, y)[i];
          word = (word & mask) | (now_.row(c, y)[i] & ~mask);
        }
      }
  std::swap(now_, next_);
  if (!life_.empty()) step_life();
}

void AutomatonShow::damage() {
  const auto height = now_.height(), width = now_.width();
  for (std::int64_t y = height * 3 / 8; y < height * 5 / 8; ++y)
    for (std::int64_t x = width * 3 / 8; x < width * 5 / 8; ++x) {
      for (std::int64_t c = 0; c < now_.channels(); ++c) now_.set(c, y, x, (random_.bits() >> 40 & 1) != 0);
      if (!life_.empty()) life_[y * width + x] = now_.get(0, y, x);
    }
}

std::optional<double> AutomatonShow::right() const {
  const auto height = now_.height(), width = now_.width();
  std::int64_t right = 0;
  const bool picture = grows_picture(settings_.task);
  if (picture && (height != settings_.height || width != settings_.width)) return std::nullopt;
  const auto channels = visible_channels(settings_);
  std::vector<float> target;
  if (picture) target = AutomatonTask(settings_).all().target.astype(DType::f32).to_vector<float>();
  for (std::int64_t c = 0; c < channels; ++c)
    for (std::int64_t y = 0; y < height; ++y)
      for (std::int64_t x = 0; x < width; ++x) {
        const auto at = static_cast<std::size_t>(y * width + x);
        const bool wanted = picture          ? target[static_cast<std::size_t>(c * height * width) + at] > 0.5f
                            : !life_.empty() ? life_[at] != 0
                                             : (x / 2 + y / 2) % 2 != 0;
        right += now_.get(c, y, x) == wanted;
      }
  return static_cast<double>(right) / static_cast<double>(channels * height * width);
}

std::vector<std::uint8_t> AutomatonShow::colours() const {
  std::vector<std::uint8_t> out;
  out.reserve(static_cast<std::size_t>(now_.height() * now_.width()));
  for (std::int64_t y = 0; y < now_.height(); ++y)
    for (std::int64_t x = 0; x < now_.width(); ++x) {
      int colour = now_.get(0, y, x) ? 7 : 0;
      if (settings_.task == "colour")
        colour = now_.get(0, y, x) * 4 + now_.get(1, y, x) * 2 + static_cast<int>(now_.get(2, y, x));
      out.push_back(static_cast<std::uint8_t>(colour));
    }
  return out;
}

}  // namespace wr::apps
