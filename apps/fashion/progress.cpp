#include "apps/fashion/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "apps/common/text.h"
#include "apps/common/times.h"

namespace wr::apps {
namespace {

constexpr double kSecondsBetweenLines = 0.1;

int columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

std::string bar(double share, int width) {
  const int full = std::clamp(static_cast<int>(share * width), 0, width);
  std::string text;
  for (int i = 0; i < width; ++i) text += i < full ? "━" : "╌";
  return text;
}

std::string line_of(const Progress& p) {
  const std::string left = fmt::format("epoch {}/{} ", p.epoch, p.epochs);
  const std::string right = fmt::format(" {}/{}  {:.0f} images/s  loss {:.4f}  accuracy {:.2f} %  {} left", p.step,
                                        p.steps, p.rate, p.loss, 100 * p.accuracy, clock_text(p.seconds_left));
  const int room = std::min(24, columns() - static_cast<int>(left.size() + right.size()) - 1);
  if (room >= 6) return left + bar(static_cast<double>(p.step) / static_cast<double>(p.steps), room) + right;
  return (left + right).substr(0, static_cast<std::size_t>(std::max(1, columns() - 1)));
}

std::string json_of(const Epoch& e, std::int64_t epochs) {
  const auto or_null = [](const std::optional<double>& v) { return v ? json_number(*v) : "null"; };
  return fmt::format(
      R"({{"epoch":{},"epochs":{},"loss":{},"accuracy":{},"validation_loss":{},"validation_accuracy":{},)"
      R"("images_per_second":{:.1f},"seconds":{:.3f}}})",
      e.number, epochs, json_number(e.loss), json_number(e.accuracy), or_null(e.validation_loss),
      or_null(e.validation_accuracy), e.rate, e.seconds);
}

}  // namespace

void ProgressPrinter::step(const Progress& progress) {
  if (output_ != Form::line) return;
  const double now = std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  if (now < next_) return;
  next_ = now + kSecondsBetweenLines;
  fmt::print("\r\x1b[K{}", line_of(progress));
  std::fflush(stdout);
  shown_ = true;
}

void ProgressPrinter::clear() {
  if (shown_) fmt::print("\r\x1b[K");
  shown_ = false;
  next_ = 0;
}

void ProgressPrinter::epoch(const Epoch& e) {
  clear();
  if (output_ == Form::json) {
    fmt::print("{}\n", json_of(e, epochs_));
  } else {
    const std::string validation = e.validation_accuracy ? fmt::format("validation loss {:.4f} accuracy {:.2f} %",
                                                                       *e.validation_loss, 100 * *e.validation_accuracy)
                                                         : "no validation";
    const auto width = fmt::formatted_size("{}", epochs_);
    fmt::print("epoch {:>{}}/{}  loss {:.4f} accuracy {:.2f} %  {}  {:.0f} images/s  {}\n", e.number, width, epochs_,
               e.loss, 100 * e.accuracy, validation, e.rate, clock_text(e.seconds));
  }
  std::fflush(stdout);
}

}  // namespace wr::apps
