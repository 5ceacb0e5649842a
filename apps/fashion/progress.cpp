#include "apps/fashion/progress.h"

#include <fmt/format.h>

#include "windrow/text.h"

namespace wr::apps {
namespace {

std::string json_of(const Epoch& e, std::int64_t epochs) {
  const auto or_null = [](const std::optional<double>& v) { return v ? text::json_number(*v) : "null"; };
  return fmt::format(
      R"({{"epoch":{},"epochs":{},"loss":{},"accuracy":{},"validation_loss":{},"validation_accuracy":{},)"
      R"("images_per_second":{:.1f},"seconds":{:.3f}}})",
      e.number, epochs, text::json_number(e.loss), text::json_number(e.accuracy), or_null(e.validation_loss),
      or_null(e.validation_accuracy), e.rate, e.seconds);
}

std::string text_of(const Epoch& e, std::int64_t epochs) {
  const std::string validation = e.validation_accuracy ? fmt::format("validation loss {:.4f} accuracy {:.2f} %",
                                                                     *e.validation_loss, 100 * *e.validation_accuracy)
                                                       : "no validation";
  return fmt::format("epoch {:>{}}/{}  loss {:.4f} accuracy {:.2f} %  {}  {:.0f} images/s  {}", e.number,
                     fmt::formatted_size("{}", epochs), epochs, e.loss, 100 * e.accuracy, validation, e.rate,
                     text::clock(e.seconds));
}

}  // namespace

void ProgressPrinter::step(const Progress& p) {
  if (progress_.form() != report::Form::line) return;  // an epoch's own line is enough
  progress_.show({.done = p.step,
                  .total = p.steps,
                  .unit = fmt::format("epoch {}/{}", p.epoch, p.epochs),
                  .rate = p.rate,
                  .rate_unit = "images",
                  .note = fmt::format("loss {:.4f}  accuracy {:.2f} %", p.loss, 100 * p.accuracy),
                  .seconds_left = p.seconds_left});
}

void ProgressPrinter::epoch(const Epoch& e) {
  progress_.say(progress_.form() == report::Form::json ? json_of(e, epochs_) : text_of(e, epochs_));
}

}  // namespace wr::apps
