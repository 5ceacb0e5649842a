// safetensors: eight bytes with the size of a JSON header, the header, then the tensors' bytes without holes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "windrow/checkpoint.h"

namespace wr::data {

inline constexpr std::uint64_t kMostSafetensorsHeader = 100'000'000;

/// One tensor as the header describes it; nothing about it has been checked yet but that it is complete.
struct TensorEntry {
  std::string name, dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // after the header
};

struct ParsedHeader {
  std::vector<TensorEntry> tensors;
  Metadata metadata;
};

/// The header's JSON. Throws Error (without the file's name) on bad JSON, wrong types, missing fields and duplicate
/// keys.
ParsedHeader parse_safetensors_header(std::string_view json);
/// The other way; entries in the order given, padded with spaces to a multiple of eight bytes.
std::string print_safetensors_header(const ParsedHeader& header);

Safetensors read_safetensors(const Source& source);
SafetensorsHeader read_safetensors_header(const Source& source);

}  // namespace wr::data
