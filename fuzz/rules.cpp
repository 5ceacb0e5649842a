// Fuzzes the language of rules: what parses is printed and parsed again, which must give the same text, and checked;
// the same text as a query.
#include <string>

#include "rules/check.h"
#include "target.h"
#include "windrow/rules.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  if (text.find("= \"") != std::string::npos || text.find("@load") != std::string::npos) return 0;  // reads no files
  try {
    wr::rules::parse_query(text);
  } catch (const wr::Error&) {
  }
  try {
    const std::string once = wr::rules::format_text(text, "input");
    if (wr::rules::format_text(once, "once") != once) __builtin_trap();
    wr::rules::check(wr::rules::parse_text(text, "input"), {}, "");
  } catch (const wr::Error&) {
  }
  return 0;
}
