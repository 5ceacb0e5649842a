// IDX: two zero bytes, a type, the number of axes, their sizes (big-endian), the elements (big-endian).
#include "data/readers.h"
#include "windrow/error.h"

namespace wr::data {

namespace {

Stored stored_as(Reader& reader, std::uint8_t type) {
  using Kind = Stored::Kind;
  switch (type) {
    case 0x08:
      return {Kind::unsigned_integer, 1, true};
    case 0x09:
      return {Kind::signed_integer, 1, true};
    case 0x0b:
      return {Kind::signed_integer, 2, true};
    case 0x0c:
      return {Kind::signed_integer, 4, true};
    case 0x0d:
      return {Kind::floating, 4, true};
    case 0x0e:
      return {Kind::floating, 8, true};
    default:
      reader.refuse(2, "type " + std::to_string(type) + " is none of IDX (8, 9, 11, 12, 13, 14)");
  }
}

}  // namespace

Array read_idx(const Source& source, const ReadLimits& limits) {
  const auto stream = open_stream(source);
  Reader reader(*stream, source.name(), limits);
  std::uint8_t magic[4];
  reader.read(magic, "the magic number");
  if (magic[0] != 0 || magic[1] != 0) reader.refuse(0, "is no IDX file: it does not begin with two zero bytes");
  const Stored stored = stored_as(reader, magic[2]);
  if (magic[3] > kMaxRank) {
    reader.refuse(3, "says " + std::to_string(magic[3]) + " axes; arrays have at most " + std::to_string(kMaxRank));
  }
  Shape shape;
  for (int axis = 0; axis < magic[3]; ++axis) {
    std::uint8_t size[4];
    reader.read(size, "the size of axis " + std::to_string(axis));
    shape.push_back(std::int64_t{size[0]} << 24 | size[1] << 16 | size[2] << 8 | size[3]);
  }
  Array array = read_elements(reader, shape, stored, 4);
  reader.expect_end();
  return array;
}

Array read_idx(const std::string& path, const ReadLimits& limits) { return read_idx(Source::open(path), limits); }

}  // namespace wr::data
