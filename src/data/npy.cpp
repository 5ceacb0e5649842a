// NPY: a magic string, a version, a Python dict as text with element type, order and shape, then the elements. The dict
// is parsed by hand and may hold nothing but those three.
#include <charconv>

#include "data/readers.h"
#include "windrow/error.h"
#include "windrow/npy_rows.h"

namespace wr::data {

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::uint64_t kMostHeader = 65536;  // NumPy itself refuses headers over 10,000 characters

struct Header {
  std::string descr;
  bool fortran = false;
  Shape shape;
  std::uint64_t descr_at = 0, shape_at = 0;  // bytes of the file
};

/// Reads the dict from left to right.
class Literal {
 public:
  Literal(Reader& reader, std::string_view text, std::uint64_t start) : reader_(reader), text_(text), start_(start) {}

  Header parse() {
    Header header;
    bool seen[3] = {};
    expect('{');
    while (!take('}')) {
      const std::uint64_t at = position();
      const std::string key = string();
      const int which = key == "descr" ? 0 : key == "fortran_order" ? 1 : key == "shape" ? 2 : -1;
      if (which < 0) reader_.refuse(at, "the header has an unknown key '" + key + "'");
      if (seen[which]) reader_.refuse(at, "the header has '" + key + "' twice");
      seen[which] = true;
      expect(':');
      if (which == 0) descr(header);
      if (which == 1) header.fortran = boolean();
      if (which == 2) shape(header);
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (at_ < text_.size()) reader_.refuse(position(), "the header goes on after its dict");
    for (const int which : {0, 1, 2}) {
      constexpr const char* names[] = {"descr", "fortran_order", "shape"};
      if (!seen[which]) reader_.refuse(start_, std::string("the header has no '") + names[which] + "'");
    }
    return header;
  }

 private:
  std::uint64_t position() const { return start_ + at_; }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) reader_.refuse(position(), std::string("the header should have '") + c + "' here");
  }
  bool take_word(std::string_view word) {
    skip_space();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  std::string string() {
    skip_space();
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    if (quote != '\'' && quote != '"') reader_.refuse(position(), "the header should have a string here");
    const std::size_t end = text_.find(quote, at_ + 1);
    const std::string_view value = end == std::string_view::npos ? "\\" : text_.substr(at_ + 1, end - at_ - 1);
    if (value.find('\\') != std::string_view::npos)
      reader_.refuse(position(), "the header has a string we do not read");
    at_ = end + 1;
    return std::string(value);
  }
  bool boolean() {
    if (take_word("True")) return true;
    if (!take_word("False")) reader_.refuse(position(), "fortran_order should be True or False");
    return false;
  }
  void descr(Header& header) {
    skip_space();
    header.descr_at = position();
    if (at_ < text_.size() && text_[at_] == '[') reader_.refuse(position(), "structured elements are not read");
    header.descr = string();
  }
  void shape(Header& header) {
    skip_space();
    header.shape_at = position();
    expect('(');
    while (!take(')')) {
      if (header.shape.rank() == kMaxRank) {
        reader_.refuse(position(), "says more axes than the " + std::to_string(kMaxRank) + " an array can have");
      }
      header.shape.push_back(size());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
  }
  std::int64_t size() {
    skip_space();
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) reader_.refuse(position(), "the shape should have a size here");
    at_ = static_cast<std::size_t>(end - text_.data());
    take_word("L");  // Python 2 wrote long integers so
    return value;
  }

  Reader& reader_;
  std::string_view text_;
  std::uint64_t start_;
  std::size_t at_ = 0;
};

Stored stored_as(Reader& reader, const Header& header) {
  using Kind = Stored::Kind;
  const std::string& d = header.descr;
  const auto unknown = [&] { reader.refuse(header.descr_at, "elements of type '" + d + "' are not read"); };
  if (d.find('O') != std::string::npos) {
    reader.refuse(header.descr_at, "object arrays hold pickled Python programs and are not read");
  }
  if (d.size() != 3) unknown();
  const char order = d[0], kind = d[1];
  const int bytes = d[2] - '0';
  if (order != '<' && order != '>' && !(order == '|' && bytes == 1)) unknown();
  const bool big_endian = order == '>';
  if (kind == 'b' && bytes == 1) return {Kind::boolean, 1, false};
  if (kind == 'f' && (bytes == 4 || bytes == 8)) return {Kind::floating, bytes, big_endian};
  if ((kind != 'i' && kind != 'u') || (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8)) unknown();
  return {kind == 'u' ? Kind::unsigned_integer : Kind::signed_integer, bytes, big_endian};
}

Header read_header(Reader& reader) {
  std::uint8_t begin[8];
  reader.read(begin, "the magic string and version");
  if (std::string_view(reinterpret_cast<const char*>(begin), 6) != kMagic) {
    reader.refuse(0, "is no NPY file: it does not begin with \\x93NUMPY");
  }
  if (begin[6] < 1 || begin[6] > 3 || begin[7] != 0) {
    reader.refuse(6,
                  "version " + std::to_string(begin[6]) + "." + std::to_string(begin[7]) + " is not 1.0, 2.0 or 3.0");
  }
  std::uint8_t length[4] = {};
  reader.read(std::span(length, begin[6] == 1 ? 2 : 4), "the length of the header");
  const std::uint64_t size =
      std::uint64_t{length[3]} << 24 | std::uint64_t{length[2]} << 16 | std::uint64_t{length[1]} << 8 | length[0];
  if (size > kMostHeader) reader.refuse(8, "says a header of " + std::to_string(size) + " bytes; none is that long");
  std::string text(size, '\0');
  const std::uint64_t start = reader.position();
  reader.read(std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()), "the header");
  return Literal(reader, text, start).parse();
}

std::string_view descr_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "<f4";
    case DType::f64:
      return "<f8";
    case DType::i32:
      return "<i4";
    case DType::u8:
      return "|u1";
    case DType::boolean:
      break;
  }
  return "|b1";
}

}  // namespace

Array read_npy(Reader& reader) {
  const Header header = read_header(reader);
  const Stored stored = stored_as(reader, header);
  if (!header.fortran) {
    Array array = read_elements(reader, header.shape, stored, header.shape_at);
    reader.expect_end();
    return array;
  }
  Shape reversed;
  for (int axis = header.shape.rank() - 1; axis >= 0; --axis) reversed.push_back(header.shape[axis]);
  const Array array = read_elements(reader, reversed, stored, header.shape_at);
  reader.expect_end();
  return array.transpose().contiguous();
}

Array read_npy(const Source& source, const ReadLimits& limits) {
  const auto stream = plain_stream(source, 0, source.size());
  Reader reader(*stream, source.name(), limits);
  return read_npy(reader);
}

struct NpyRows::Inside {
  Source source;
  Stored stored;
  Spec spec;
  std::uint64_t begin = 0;  // of the elements
};

NpyRows::NpyRows(const std::string& path) {
  Source source = Source::open(path);
  const auto stream = plain_stream(source, 0, source.size());
  Reader reader(*stream, source.name(), {.bytes = source.size() * 8 + 64});
  const Header header = read_header(reader);
  const Stored stored = stored_as(reader, header);
  if (header.fortran || header.shape.rank() == 0)
    reader.refuse(header.shape_at, "rows are read of arrays in C order with at least one axis only");
  const std::uint64_t bytes =
      reader.checked_bytes(header.shape, static_cast<std::uint64_t>(stored.bytes), stored.dtype(), header.shape_at);
  if (reader.position() + bytes != source.size())
    reader.refuse(header.shape_at, "the elements end before the file does");
  const std::uint64_t begin = reader.position();
  inside_ = std::make_unique<Inside>(Inside{std::move(source), stored, {stored.dtype(), header.shape}, begin});
}
NpyRows::NpyRows(NpyRows&&) noexcept = default;
NpyRows::~NpyRows() = default;

const Spec& NpyRows::spec() const { return inside_->spec; }

Array NpyRows::read(std::int64_t first, std::int64_t count) const {
  Shape shape = inside_->spec.shape;
  if (first < 0 || count < 0 || first > shape[0] - count)
    throw Error(inside_->source.name() + ": rows " + std::to_string(first) + " to " + std::to_string(first + count) +
                " of " + std::to_string(shape[0]));
  const std::uint64_t row = shape[0] == 0 ? 0
                                          : static_cast<std::uint64_t>(shape.count() / shape[0]) *
                                                static_cast<std::uint64_t>(inside_->stored.bytes);
  shape[0] = count;
  const std::uint64_t size = row * static_cast<std::uint64_t>(count);
  const auto stream = plain_stream(inside_->source, inside_->begin + row * static_cast<std::uint64_t>(first), size);
  Reader reader(*stream, inside_->source.name(), {.bytes = size * 8 + 64});
  return read_elements(reader, shape, inside_->stored, 0);
}

Array read_npy(const std::string& path, const ReadLimits& limits) { return read_npy(Source::open(path), limits); }

std::string npy_header(const Array& array) {
  std::string shape;
  for (const std::int64_t size : array.shape()) shape += std::to_string(size) + (array.rank() == 1 ? "," : ", ");
  if (array.rank() > 1) shape.resize(shape.size() - 2);
  std::string dict =
      "{'descr': '" + std::string(descr_of(array.dtype())) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  const std::size_t before = kMagic.size() + 4;
  dict.append(63 - (before + dict.size()) % 64, ' ');  // NumPy aligns the elements to 64 bytes
  dict += '\n';
  std::string header(kMagic);
  header += {'\1', '\0', static_cast<char>(dict.size() & 0xff), static_cast<char>(dict.size() >> 8)};
  return header + dict;
}

void write_npy(const std::string& path, const Array& array) {
  const Array dense = array.contiguous();
  FileWriter file(path);
  file.write(npy_header(dense));
  file.write(std::span(static_cast<const std::uint8_t*>(detail::ArrayAccess::read(dense)), dense.bytes()));
  file.commit();
}

}  // namespace wr::data
