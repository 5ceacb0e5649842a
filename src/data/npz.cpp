// NPZ: a zip archive of NPY files. The central directory says what there is; every offset and size in it is checked
// against the file, the local headers and the other members before it is used. Names are only keys: nothing is unpacked
// to disk.
#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "data/readers.h"
#include "windrow/error.h"

namespace wr::data {

namespace {

constexpr std::uint32_t kLocalSignature = 0x04034b50, kCentralSignature = 0x02014b50, kEndSignature = 0x06054b50;
constexpr std::uint64_t kLocalBytes = 30, kCentralBytes = 46, kEndBytes = 22, kMostComment = 65535;
constexpr std::uint64_t kMost32 = 0xffffffff;
constexpr std::uint32_t kStored = 0, kDeflated = 8;

std::uint32_t u16(const std::uint8_t* p) { return p[0] | std::uint32_t{p[1]} << 8; }
std::uint32_t u32(const std::uint8_t* p) { return u16(p) | u16(p + 2) << 16; }

struct Member {
  std::string name;
  std::uint32_t method = 0, crc = 0;
  std::uint64_t compressed = 0, size = 0;
  std::uint64_t header_at = 0, data_at = 0;  // in the file
  std::uint64_t listed_at = 0;               // its entry in the directory
};

struct Directory {
  std::uint64_t begin = 0, end = 0;
  std::uint32_t members = 0;
};

/// Finds the record that ends the archive: the one whose comment reaches exactly to the end of the file.
Directory find_directory(const Source& source) {
  if (source.size() < kEndBytes) source.refuse(0, "is too short for a zip archive");
  const auto tail_size = static_cast<std::size_t>(std::min(source.size(), kEndBytes + kMostComment));
  const std::uint64_t tail_at = source.size() - tail_size;
  std::vector<std::uint8_t> tail(tail_size);
  source.read(tail_at, tail);
  for (std::size_t at = tail_size - kEndBytes + 1; at-- > 0;) {
    const std::uint8_t* p = tail.data() + at;
    if (u32(p) != kEndSignature || at + kEndBytes + u16(p + 20) != tail_size) continue;
    const std::uint64_t record = tail_at + at;
    if (u16(p + 4) != 0 || u16(p + 6) != 0 || u16(p + 8) != u16(p + 10)) {
      source.refuse(record + 4, "archives in several parts are not read");
    }
    const Directory found{u32(p + 16), std::uint64_t{u32(p + 16)} + u32(p + 12), u16(p + 10)};
    if (u32(p + 16) == kMost32 || u32(p + 12) == kMost32 || found.members == 0xffff) {
      source.refuse(record + 8, "zip64 archives (over 4 GB or 65534 members) are not read");
    }
    if (found.end != record) {
      source.refuse(record + 12, "says a directory from byte " + std::to_string(found.begin) + " to " +
                                     std::to_string(found.end) + ", which does not end here");
    }
    return found;
  }
  source.refuse(source.size() - kEndBytes, "is no zip archive: it has no end record");
}

/// One entry of the directory; moves `at` past it.
Member read_entry(const Source& source, const Directory& directory, std::uint64_t& at) {
  std::uint8_t p[kCentralBytes];
  if (directory.end - at < kCentralBytes) source.refuse(at, "the directory is cut off");
  source.read(at, p);
  if (u32(p) != kCentralSignature) source.refuse(at, "the directory should have an entry here");
  if (u16(p + 8) & 1) source.refuse(at + 8, "encrypted members are not read");
  Member m{{}, u16(p + 10), u32(p + 16), u32(p + 20), u32(p + 24), u32(p + 42), 0, at};
  const std::uint64_t name_size = u16(p + 28), rest = name_size + u16(p + 30) + u16(p + 32);
  if (rest > directory.end - at - kCentralBytes)
    source.refuse(at + 28, "the directory entry is longer than the directory");
  if (m.method != kStored && m.method != kDeflated) {
    source.refuse(at + 10, "compression method " + std::to_string(m.method) + " is not read, only 0 and 8");
  }
  if (m.compressed == kMost32 || m.size == kMost32 || m.header_at == kMost32) {
    source.refuse(at + 20, "zip64 members (over 4 GB) are not read");
  }
  if (m.method == kStored && m.compressed != m.size) source.refuse(at + 20, "a stored member has two different sizes");
  m.name.resize(name_size);
  source.read(at + kCentralBytes, std::span(reinterpret_cast<std::uint8_t*>(m.name.data()), m.name.size()));
  at += kCentralBytes + rest;
  return m;
}

/// Finds the member's data and checks that its local header tells the same.
void locate(const Source& source, const Directory& directory, Member& m) {
  const auto refuse = [&](const std::string& reason) {
    source.refuse(m.header_at, "member '" + m.name + "': " + reason);
  };
  if (m.header_at > directory.begin || directory.begin - m.header_at < kLocalBytes) {
    source.refuse(m.listed_at + 42, "member '" + m.name + "' says it begins at byte " + std::to_string(m.header_at) +
                                        ", where the members have ended");
  }
  std::uint8_t p[kLocalBytes];
  source.read(m.header_at, p);
  if (u32(p) != kLocalSignature) refuse("there is no local header here");
  if (u16(p + 8) != m.method || (u16(p + 6) & 1)) refuse("the local header and the directory differ");
  const std::uint64_t room = directory.begin - m.header_at - kLocalBytes;
  const std::uint64_t head = std::uint64_t{u16(p + 26)} + u16(p + 28);
  if (head > room || m.compressed > room - head) {
    refuse("says " + std::to_string(m.compressed) + " bytes, which reach into the directory");
  }
  std::string name(u16(p + 26), '\0');
  source.read(m.header_at + kLocalBytes, std::span(reinterpret_cast<std::uint8_t*>(name.data()), name.size()));
  if (name != m.name) refuse("the local header calls it '" + name + "'");
  m.data_at = m.header_at + kLocalBytes + head;
}

std::vector<Member> read_directory(const Source& source) {
  const Directory directory = find_directory(source);
  std::vector<Member> members;
  std::uint64_t at = directory.begin;
  for (std::uint32_t i = 0; i < directory.members; ++i) {
    members.push_back(read_entry(source, directory, at));
    locate(source, directory, members.back());
  }
  if (at != directory.end) source.refuse(at, "the directory goes on after its last entry");
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) { return a.header_at < b.header_at; });
  for (std::size_t i = 1; i < members.size(); ++i) {
    if (members[i - 1].data_at + members[i - 1].compressed > members[i].header_at) {
      source.refuse(members[i].header_at, "member '" + members[i].name + "' overlaps '" + members[i - 1].name + "'");
    }
  }
  return members;
}

/// A member's bytes, which must be as many as the directory says and have its checksum.
class MemberStream final : public Stream {
 public:
  MemberStream(const Source& source, const Member& member)
      : source_(source),
        member_(member),
        inner_(member.method == kStored ? plain_stream(source, member.data_at, member.compressed)
                                        : inflate_stream(source, member.data_at, member.compressed, Deflate::raw)) {}

  std::size_t read(std::span<std::uint8_t> into) override {
    const std::size_t got = inner_->read(into.first(std::min(into.size(), std::size_t{1} << 30)));
    if (got > member_.size - done_) refuse("holds more than the " + std::to_string(member_.size) + " bytes it should");
    done_ += got;
    crc_ = static_cast<std::uint32_t>(crc32(crc_, into.data(), static_cast<uInt>(got)));
    if (got == 0 && !into.empty()) check();
    return got;
  }
  std::uint64_t most_left() const override { return std::min(inner_->most_left(), member_.size - done_); }
  bool compressed() const override { return inner_->compressed(); }

 private:
  void check() const {
    if (done_ != member_.size) {
      refuse("holds " + std::to_string(done_) + " bytes and should hold " + std::to_string(member_.size));
    }
    if (crc_ != member_.crc) refuse("the checksum is wrong");
  }
  [[noreturn]] void refuse(const std::string& reason) const {
    source_.refuse(member_.header_at, "member '" + member_.name + "': " + reason);
  }

  const Source& source_;
  const Member& member_;
  std::unique_ptr<Stream> inner_;
  std::uint64_t done_ = 0;
  std::uint32_t crc_ = 0;
};

}  // namespace

std::map<std::string, Array> read_npz(const Source& source, const ReadLimits& limits) {
  std::map<std::string, Array> arrays;
  ReadLimits left = limits;
  for (const Member& member : read_directory(source)) {
    if (!member.name.ends_with(".npy")) {
      source.refuse(member.header_at, "member '" + member.name + "' is no array: its name does not end in .npy");
    }
    const std::string name = member.name.substr(0, member.name.size() - 4);
    if (arrays.contains(name)) source.refuse(member.header_at, "there are two members called '" + member.name + "'");
    MemberStream stream(source, member);
    Reader reader(stream, source.name() + ": " + member.name, left);
    const Array& array = arrays[name] = read_npy(reader);
    left.bytes -= array.bytes();
  }
  return arrays;
}

std::map<std::string, Array> read_npz(const std::string& path, const ReadLimits& limits) {
  return read_npz(Source::open(path), limits);
}

// ---- writing ----

namespace {

void put16(std::string& out, std::uint64_t value) {
  out += {static_cast<char>(value & 0xff), static_cast<char>(value >> 8)};
}
void put32(std::string& out, std::uint64_t value) {
  put16(out, value & 0xffff);
  put16(out, value >> 16);
}

std::string deflated(const std::string& content, const std::string& path) {
  z_stream state{};
  if (deflateInit2(&state, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw Error(path + ": no memory to compress");
  }
  std::string out(deflateBound(&state, content.size()), '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  state.avail_in = static_cast<uInt>(content.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&state, Z_FINISH);
  out.resize(out.size() - state.avail_out);
  deflateEnd(&state);
  if (result != Z_STREAM_END) throw Error(path + ": compression failed");
  return out;
}

/// What local header and directory entry have in common.
std::string member_facts(const Member& m) {
  constexpr std::uint32_t first_of_january_1980 = 0x21;  // archives of the same arrays are the same bytes
  std::string out;
  put16(out, 20);  // version 2.0 is enough to read it
  put16(out, 0);
  put16(out, m.method);
  put16(out, 0);
  put16(out, first_of_january_1980);
  put32(out, m.crc);
  put32(out, m.compressed);
  put32(out, m.size);
  put16(out, m.name.size());
  put16(out, 0);  // no extra field
  return out;
}

}  // namespace

void write_npz(const std::string& path, const std::map<std::string, Array>& arrays, Compress compress) {
  constexpr std::uint64_t most = kMost32 - (1 << 24);  // room for what compression and headers may add
  if (arrays.size() >= 0xffff) throw Error(path + ": a zip archive has at most 65534 members");
  FileWriter file(path);
  std::string directory;
  std::uint64_t position = 0;
  for (const auto& [name, array] : arrays) {
    const Array dense = array.contiguous();
    if (dense.bytes() > most || position > most - dense.bytes()) {
      throw Error(path + ": archives over 4 GB are not written");
    }
    if (name.size() > 0xff00) throw Error(path + ": the name of an array is too long");
    std::string content = npy_header(dense);
    if (dense.bytes() > 0) content.append(static_cast<const char*>(detail::ArrayAccess::read(dense)), dense.bytes());
    Member m;
    m.name = name + ".npy";
    m.size = content.size();
    m.crc = static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
    m.header_at = position;
    m.method = compress == Compress::yes ? kDeflated : kStored;
    if (compress == Compress::yes) content = deflated(content, path);
    m.compressed = content.size();
    std::string local;
    put32(local, kLocalSignature);
    local += member_facts(m) + m.name;
    file.write(local);
    file.write(content);
    position += local.size() + content.size();
    put32(directory, kCentralSignature);
    put16(directory, 20);
    directory += member_facts(m);
    put16(directory, 0);  // no comment
    put16(directory, 0);  // disk 0
    put16(directory, 0);
    put32(directory, 0);
    put32(directory, m.header_at);
    directory += m.name;
  }
  if (position + directory.size() > most) throw Error(path + ": archives over 4 GB are not written");
  std::string end;
  put32(end, kEndSignature);
  put32(end, 0);  // disk 0
  put16(end, arrays.size());
  put16(end, arrays.size());
  put32(end, directory.size());
  put32(end, position);
  put16(end, 0);  // no comment
  file.write(directory);
  file.write(end);
  file.commit();
}

}  // namespace wr::data
