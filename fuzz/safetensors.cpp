// Fuzzes the reader of safetensors files. In what it accepts, the tensors must fill the file exactly.
#include "data/safetensors.h"

#include <cstring>

#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return refuse_or_read(data, size, [&](const wr::Source& source) {
    const wr::Safetensors file = wr::data::read_safetensors(source);
    std::uint64_t bytes = 8, header = 0;
    std::memcpy(&header, data, 8);
    for (const auto& [name, array] : file.tensors) {
      touch(array);
      bytes += array.bytes();
    }
    if (bytes + header != size) __builtin_trap();
  });
}
