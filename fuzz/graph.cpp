// Fuzzes the reader of graphs. What it accepts is printed and read again, which must give the same text.
#include <string>

#include "ir/graph.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const std::string once = wr::ir::print(*wr::ir::parse({reinterpret_cast<const char*>(data), size}));
    if (wr::ir::print(*wr::ir::parse(once)) != once) __builtin_trap();
  } catch (const wr::Error&) {
  }
  return 0;
}
