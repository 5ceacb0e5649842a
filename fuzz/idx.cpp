// Fuzzes the reader of IDX files.
#include "data/readers.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return refuse_or_read(
      data, size, [](const wr::Source& source) { touch(wr::data::read_idx(source, wr::data::ReadLimits{1 << 20})); });
}
