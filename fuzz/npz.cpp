// Fuzzes the reader of NPZ archives.
#include "data/readers.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return refuse_or_read(data, size, [](const wr::Source& source) {
    for (const auto& [name, array] : wr::data::read_npz(source, wr::data::ReadLimits{1 << 20})) touch(array);
  });
}
