// Fuzzes the readers of logs: CSV and JSON lines, or TensorBoard's event files. What is written from what was read must
// be read back. The first byte chooses.
#include "report/event_file.h"
#include "report/text_log.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const bool events = data[0] & 1, whole = data[0] & 2;
  const std::string text(reinterpret_cast<const char*>(data + 1), size - 1);
  try {
    wr::report::History history;
    double begin = -1;
    if (!events)
      wr::report::read_text_log(text, "input", history);
    else if (whole)
      wr::report::read_events("input", text, begin, history.points);
    else  // no fuzzer guesses a checksum: the input is the event inside a record that is right
      wr::report::read_events("input", wr::report::framed(text), begin, history.points);
    for (const wr::report::Point& p : history.points) {
      std::vector<wr::report::Point> again;
      wr::report::read_events("again", wr::report::event_record(0, p.step, p.values), begin, again);
      if (again.size() != 1 || again[0].step != p.step) __builtin_trap();
    }
  } catch (const wr::Error&) {
  }
  return 0;
}
