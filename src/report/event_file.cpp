#include "report/event_file.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>

#include "windrow/error.h"

namespace wr::report {
namespace {

// Event: wall_time = 1 (double), step = 2 (int64), file_version = 3 (string), summary = 5.
// Summary: value = 1. Value: tag = 1 (string), simple_value = 2 (float), tensor = 8. TensorProto: dtype = 1,
// tensor_content = 4, float_val = 5, double_val = 6.
constexpr int kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;
constexpr std::size_t kHead = 12, kTail = 4;

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t c = i;
    for (int k = 0; k < 8; ++k) c = c & 1 ? c >> 1 ^ 0x82f63b78u : c >> 1;
    table[i] = c;
  }
  return table;
}

// ---- writing ----

template <class T>
void put(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void put_tag(std::string& out, int field, int wire) { put_varint(out, static_cast<std::uint64_t>(field << 3 | wire)); }

void put_bytes(std::string& out, int field, std::string_view bytes) {
  put_tag(out, field, kBytes);
  put_varint(out, bytes.size());
  out += bytes;
}

std::string event_at(double wall_time) {
  std::string event;
  put_tag(event, 1, kFixed64);
  put(event, wall_time);
  return event;
}

// ---- reading ----

template <class T>
T take(std::string_view bytes) {
  T value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

/// A field of a message: its number, and its bytes or its value.
struct Field {
  int number, wire;
  std::uint64_t value = 0;   // of a varint
  std::string_view content;  // of everything else
};

std::optional<std::uint64_t> next_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[0]);
    bytes.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

/// Takes a field off the front; nothing where the message ends or is broken (`bytes` is then not empty).
std::optional<Field> next_field(std::string_view& bytes) {
  std::string_view rest = bytes;
  const auto tag = next_varint(rest);
  if (!tag) return std::nullopt;
  Field f{static_cast<int>(*tag >> 3 & 0x1fffffff), static_cast<int>(*tag & 7), 0, {}};
  std::uint64_t size = f.wire == kFixed64 ? 8 : f.wire == kFixed32 ? 4 : 0;
  if (f.wire == kVarint || f.wire == kBytes) {
    const auto value = next_varint(rest);
    if (!value) return std::nullopt;
    (f.wire == kVarint ? f.value : size) = *value;
  } else if (size == 0) {
    return std::nullopt;
  }
  if (size > rest.size()) return std::nullopt;
  f.content = rest.substr(0, size);
  rest.remove_prefix(size);
  bytes = rest;
  return f;
}

/// One number of a TensorProto, as newer writers store scalars.
std::optional<double> scalar_of(std::string_view tensor) {
  constexpr std::uint64_t kFloat = 1, kDouble = 2;
  std::uint64_t type = 0;
  std::string_view content;
  std::optional<double> found;
  while (const auto f = next_field(tensor)) {
    if (f->number == 1 && f->wire == kVarint) type = f->value;
    if (f->number == 4 && f->wire == kBytes) content = f->content;
    if (f->number == 5 && f->content.size() == sizeof(float)) found = take<float>(f->content);
    if (f->number == 6 && f->content.size() == sizeof(double)) found = take<double>(f->content);
  }
  if (type == kFloat && content.size() == sizeof(float)) return take<float>(content);
  if (type == kDouble && content.size() == sizeof(double)) return take<double>(content);
  return found;
}

void read_value(std::string_view value, Values& values) {
  std::string tag;
  std::optional<double> number;
  while (const auto f = next_field(value)) {
    if (f->number == 1 && f->wire == kBytes) tag = f->content;
    if (f->number == 2 && f->wire == kFixed32) number = take<float>(f->content);
    if (f->number == 8 && f->wire == kBytes) number = scalar_of(f->content);
  }
  if (number && !tag.empty()) values.emplace_back(tag, *number);
}

bool read_event(std::string_view event, double& wall_time, Point& point) {
  while (const auto f = next_field(event)) {
    if (f->number == 1 && f->wire == kFixed64) wall_time = take<double>(f->content);
    if (f->number == 2 && f->wire == kVarint) point.step = static_cast<std::int64_t>(f->value);
    if (f->number != 5 || f->wire != kBytes) continue;
    for (std::string_view summary = f->content; const auto v = next_field(summary);)
      if (v->number == 1 && v->wire == kBytes) read_value(v->content, point.values);
  }
  return event.empty();
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t c = ~0u;
  for (const char byte : bytes) c = kTable[(c ^ static_cast<unsigned char>(byte)) & 0xff] ^ c >> 8;
  return std::rotr(~c, 15) + 0xa282ead8u;
}

std::string framed(const std::string& event) {
  std::string out;
  put(out, static_cast<std::uint64_t>(event.size()));
  put(out, masked_crc32c(out));
  out += event;
  put(out, masked_crc32c(event));
  return out;
}

std::string event_file_head(double wall_time) {
  std::string event = event_at(wall_time);
  put_bytes(event, 3, "brain.Event:2");
  return framed(event);
}

std::string event_record(double wall_time, std::int64_t step, const Values& values) {
  std::string event = event_at(wall_time), summary;
  put_tag(event, 2, kVarint);
  put_varint(event, static_cast<std::uint64_t>(step));
  for (const auto& [name, number] : values) {
    std::string value;
    put_bytes(value, 1, name);
    put_tag(value, 2, kFixed32);
    put(value, static_cast<float>(number));
    put_bytes(summary, 1, value);
  }
  put_bytes(event, 5, summary);
  return framed(event);
}

void read_events(const std::string& path, std::string_view bytes, double& begin, std::vector<Point>& points) {
  const std::size_t size = bytes.size();
  const auto refuse = [&](const char* why) {
    throw Error(fmt::format("{}: byte {}: {}", path, size - bytes.size(), why));
  };
  while (bytes.size() >= kHead) {
    const auto length = take<std::uint64_t>(bytes);
    if (take<std::uint32_t>(bytes.substr(8)) != masked_crc32c(bytes.substr(0, 8)))
      refuse("is no record of TensorBoard's: the checksum of its length is wrong");
    if (length > bytes.size() - kHead || bytes.size() - kHead - length < kTail) return;  // still being written
    const std::string_view event = bytes.substr(kHead, length);
    if (take<std::uint32_t>(bytes.substr(kHead + length)) != masked_crc32c(event))
      refuse("a record's checksum is wrong");
    double wall_time = 0;
    Point point;
    if (!read_event(event, wall_time, point)) refuse("a record is no event");
    if (begin < 0 && std::isfinite(wall_time)) begin = wall_time;
    point.seconds = std::isfinite(wall_time) ? wall_time - begin : 0;
    if (!point.values.empty()) points.push_back(std::move(point));
    bytes.remove_prefix(kHead + length + kTail);
  }
}

}  // namespace wr::report
