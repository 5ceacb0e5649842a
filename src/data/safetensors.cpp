// safetensors files: the checks of the format's own library, in its order, then the tensors read straight into arrays.
#include "data/safetensors.h"

#include <algorithm>
#include <optional>

#include "windrow/error.h"

namespace wr::data {

namespace {

/// A tensor that fits the file, checked.
struct Placed {
  std::string name;
  Spec spec;
  std::uint64_t at = 0;  // in the file
};

struct Contents {
  std::vector<Placed> tensors;
  Metadata metadata;
};

struct TypeName {
  std::string_view name;
  std::uint64_t bits;
  std::optional<DType> dtype;  // nothing: part of the format, but not of ours
};
constexpr TypeName kTypes[] = {
    {"F32", 32, DType::f32},
    {"F64", 64, DType::f64},
    {"I32", 32, DType::i32},
    {"U8", 8, DType::u8},
    {"BOOL", 8, DType::boolean},
    {"I8", 8, {}},
    {"I16", 16, {}},
    {"U16", 16, {}},
    {"F16", 16, {}},
    {"BF16", 16, {}},
    {"U32", 32, {}},
    {"I64", 64, {}},
    {"U64", 64, {}},
    {"F8_E5M2", 8, {}},
    {"F8_E4M3", 8, {}},
};

std::string_view type_name(DType dtype) {
  return std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& t) { return t.dtype == dtype; })->name;
}

/// Throws Error, without the file's name.
Spec checked_spec(const TensorEntry& t) {
  const std::string who = "tensor '" + t.name.substr(0, 100) + "': ";
  const auto type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeName& known) { return known.name == t.dtype; });
  if (type == std::end(kTypes)) throw Error(who + "unknown dtype '" + t.dtype.substr(0, 20) + "'");
  if (!type->dtype)
    throw Error(who + "elements of type " + t.dtype + " are not supported; F32, F64, I32, U8 and BOOL are");
  if (t.shape.size() > kMaxRank) {
    throw Error(who + "has " + std::to_string(t.shape.size()) + " axes; arrays have at most " +
                std::to_string(kMaxRank));
  }
  Spec spec{*type->dtype, {}};
  constexpr std::uint64_t most = std::uint64_t{1} << 58;  // also for the sizes beside a 0: strides must not overflow
  std::uint64_t count = 1;
  bool none = false;
  for (const std::uint64_t size : t.shape) {
    none = none || size == 0;
    const std::uint64_t factor = std::max<std::uint64_t>(size, 1);
    if (factor > most || count > most / factor) throw Error(who + "the product of its sizes overflows");
    count *= factor;
    spec.shape.push_back(static_cast<std::int64_t>(size));
  }
  const std::uint64_t bytes = none ? 0 : count * type->bits / 8;
  if (t.end < t.begin || t.end - t.begin != bytes) {
    throw Error(who + "says bytes " + std::to_string(t.begin) + " to " + std::to_string(t.end) + ", but " +
                to_string(spec) + " takes " + std::to_string(bytes));
  }
  return spec;
}

std::string read_header_text(const Source& source) {
  if (source.size() < 8)
    source.refuse(0, "has only " + std::to_string(source.size()) + " of the 8 bytes of the header's size");
  std::uint8_t bytes[8];
  source.read(0, bytes);
  std::uint64_t size = 0;
  for (int i = 7; i >= 0; --i) size = size << 8 | bytes[i];
  if (size > kMostSafetensorsHeader) {
    source.refuse(0, "no safetensors file: says a header of " + std::to_string(size) + " bytes; the format allows " +
                         std::to_string(kMostSafetensorsHeader));
  }
  if (size > source.size() - 8) {
    source.refuse(0, "says a header of " + std::to_string(size) + " bytes, but the file has " +
                         std::to_string(source.size() - 8) + " left");
  }
  std::string text(size, '\0');
  source.read(8, std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()));
  return text;
}

Contents read_contents(const Source& source) {
  const std::string text = read_header_text(source);
  const std::uint64_t data = 8 + text.size();
  Contents contents;
  std::uint64_t end = 0;
  try {
    ParsedHeader header = parse_safetensors_header(text);
    std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
      return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
    });
    for (const TensorEntry& t : header.tensors) {
      if (t.begin != end) {
        throw Error("tensor '" + t.name.substr(0, 100) + "' begins at " + std::to_string(t.begin) +
                    (t.begin > end ? ", which leaves a hole: " : ", which overlaps: ") +
                    "the tensors before it end at " + std::to_string(end));
      }
      contents.tensors.push_back({t.name, checked_spec(t), data + t.begin});
      end = t.end;
      if (end > source.size() - data) {
        throw Error("tensor '" + t.name.substr(0, 100) + "' ends at " + std::to_string(end) +
                    ", but the file has only " + std::to_string(source.size() - data) + " bytes of data");
      }
    }
    contents.metadata = std::move(header.metadata);
  } catch (const Error& error) {
    source.refuse(8, error.what());
  }
  if (source.size() - data != end) {
    source.refuse(data + end, std::to_string(source.size() - data - end) + " bytes follow the last tensor");
  }
  return contents;
}

Array read_tensor(const Source& source, const Placed& tensor) {
  Array array = Array::empty(tensor.spec.shape, tensor.spec.dtype);
  if (array.count() == 0) return array;
  void* first = detail::ArrayAccess::write(array, "read", Location::current());
  const std::span bytes(static_cast<std::uint8_t*>(first), array.bytes());
  source.read(tensor.at, bytes);
  if (tensor.spec.dtype == DType::boolean) {
    const auto wrong = std::find_if(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b > 1; });
    if (wrong != bytes.end()) {
      source.refuse(tensor.at + static_cast<std::uint64_t>(wrong - bytes.begin()),
                    "tensor '" + tensor.name + "': a bool is 0 or 1, this is " + std::to_string(*wrong));
    }
  }
  return array;
}

}  // namespace

Safetensors read_safetensors(const Source& source) {
  Contents contents = read_contents(source);
  Safetensors file{{}, std::move(contents.metadata)};
  for (const Placed& tensor : contents.tensors) file.tensors.emplace(tensor.name, read_tensor(source, tensor));
  return file;
}

SafetensorsHeader read_safetensors_header(const Source& source) {
  Contents contents = read_contents(source);
  SafetensorsHeader header{{}, std::move(contents.metadata)};
  for (Placed& tensor : contents.tensors) header.tensors.emplace(std::move(tensor.name), tensor.spec);
  return header;
}

}  // namespace wr::data

namespace wr {

Safetensors read_safetensors(const std::string& path) { return data::read_safetensors(Source::open(path)); }
SafetensorsHeader read_safetensors_header(const std::string& path) {
  return data::read_safetensors_header(Source::open(path));
}

void write_safetensors(const std::string& path, const std::map<std::string, Array>& tensors, const Metadata& metadata) {
  // Wide elements first, so that all are aligned; the format's own library orders them so too.
  std::vector<std::pair<std::string, Array>> ordered;
  for (const auto& [name, array] : tensors) {
    if (name == "__metadata__") throw Error(path + ": no tensor can be called __metadata__");
    ordered.emplace_back(name, array.contiguous());
  }
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto& a, const auto& b) { return size_of(a.second.dtype()) > size_of(b.second.dtype()); });
  data::ParsedHeader header{{}, metadata};
  std::uint64_t at = 0;
  for (const auto& [name, array] : ordered) {
    const std::vector<std::uint64_t> shape(array.shape().begin(), array.shape().end());
    header.tensors.push_back({name, std::string(data::type_name(array.dtype())), shape, at, at + array.bytes()});
    at += array.bytes();
  }
  std::string text;
  try {
    text = data::print_safetensors_header(header);
  } catch (const Error& error) {
    throw Error(path + ": " + error.what());
  }
  if (text.size() > data::kMostSafetensorsHeader) throw Error(path + ": the header would be over the format's 100 MB");
  std::uint8_t size[8];
  for (int i = 0; i < 8; ++i) size[i] = static_cast<std::uint8_t>(text.size() >> (8 * i));
  FileWriter file(path);
  file.write(size);
  file.write(text);
  for (const auto& [name, array] : ordered) {
    if (array.bytes() == 0) continue;
    file.write(std::span(static_cast<const std::uint8_t*>(detail::ArrayAccess::read(array)), array.bytes()));
  }
  file.commit();
}

}  // namespace wr
