// The line that is written over while something runs.
#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "windrow/clock.h"
#include "windrow/report.h"
#include "windrow/text.h"

namespace wr::report {
namespace {

constexpr double kSecondsBetweenLines = 0.1, kSecondsBetweenPlainLines = 30;
constexpr int kLongestBar = 24, kShortestBar = 6;

int terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(double share, int width) {
  const int full = std::clamp(static_cast<int>(share * width), 0, width);
  std::string text;
  for (int i = 0; i < width; ++i) text += i < full ? "━" : "╌";
  return text;
}

std::string rate_text(const Moment& m) {
  const std::string unit = m.rate_unit.empty() ? m.unit + "s" : m.rate_unit;
  return m.rate >= 100 ? fmt::format("  {:.0f} {}/s", m.rate, unit) : fmt::format("  {:.3g} {}/s", m.rate, unit);
}

/// At most so many characters, not cut in the middle of one.
std::string cut(const std::string& text, int columns) {
  int count = 0;
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80 && ++count > columns) return text.substr(0, i);
  return text;
}

}  // namespace

Form resolve(Form form) {
  if (form != Form::automatic) return form;
  return isatty(STDOUT_FILENO) != 0 ? Form::line : Form::plain;
}

std::string progress_line(const Moment& m, int columns) {
  std::string left = text::printable(m.unit) + " ", right = std::to_string(m.done);
  if (m.total > 0) right += fmt::format("/{}", m.total);
  if (m.rate > 0) right += rate_text(m);
  for (const auto& [name, value] : m.values) right += fmt::format("  {} {:.4g}", text::printable(name), value);
  if (!m.note.empty()) right += "  " + text::printable(m.note);
  if (m.seconds_left >= 0)
    right += fmt::format("  {}{} left", m.at_most ? "at most " : "", text::clock(m.seconds_left));
  const auto taken = static_cast<int>(left.size() + right.size()) + 2;
  if (columns == 0) return left + right;
  const int room = std::min(kLongestBar, columns - taken);
  if (m.total > 0 && room >= kShortestBar)
    return left + bar(static_cast<double>(m.done) / static_cast<double>(m.total), room) + " " + right;
  return cut(left + right, std::max(1, columns - 1));
}

Progress::Progress(Form form) : form_(resolve(form)) {
  if (form_ == Form::plain) next_ = seconds_now() + kSecondsBetweenPlainLines;
}

void Progress::show(const Moment& moment) {
  if (form_ != Form::line && form_ != Form::plain) return;
  const double time = seconds_now();
  if (time < next_) return;
  next_ = time + (form_ == Form::line ? kSecondsBetweenLines : kSecondsBetweenPlainLines);
  if (form_ == Form::line)
    fmt::print("\r\x1b[K{}", progress_line(moment, terminal_columns()));
  else
    fmt::print("{}\n", progress_line(moment, 0));
  std::fflush(stdout);
  shown_ = form_ == Form::line;
}

void Progress::say(std::string_view line) {
  if (form_ == Form::none) return;
  clear();
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void Progress::clear() {
  if (shown_) {
    fmt::print("\r\x1b[K");
    std::fflush(stdout);
  }
  shown_ = false;
  if (form_ == Form::line) next_ = 0;
}

}  // namespace wr::report
