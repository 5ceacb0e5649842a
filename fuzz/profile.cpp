// Fuzzes the reader of profiles. What it accepts is written and read again, which must give the same text.
#include <string>

#include "target.h"
#include "windrow/profile.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const auto profiles = wr::profiles_from_json({reinterpret_cast<const char*>(data), size}, "input");
    for (const wr::Profile& p : profiles) {
      const std::string once = p.to_json();
      const auto again = wr::profiles_from_json(once, "once");
      if (again.size() != 1 || again[0].to_json() != once) __builtin_trap();
    }
  } catch (const wr::Error&) {
  }
  return 0;
}
