// NPY and NPZ: NumPy's own bytes, every type and order, and archives that lie.
#include "data/readers.h"
#include "temporary_files.h"
#include "windrow/data.h"

namespace wr::data {
namespace {

using namespace std::string_literals;

/// An NPY file of version 1 or more.
std::string npy(const std::string& dict, const std::string& elements, char version = 1) {
  std::string out = "\x93NUMPY"s + version + '\0' + static_cast<char>(dict.size()) + '\0';
  if (version > 1) out += "\0\0"s;
  return out + dict + elements;
}
std::string simple(const std::string& descr, const std::string& shape, const std::string& elements,
                   bool fortran = false) {
  return npy(
      "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape + ", }\n",
      elements);
}
Array parse(const std::string& bytes, const ReadLimits& limits = {}) { return read_npy(source_of(bytes), limits); }

TEST(Npy, ReadsEveryTypeAndByteOrder) {
  EXPECT_TRUE(identical(parse(simple("<f4", "(1,)", "\0\0\x20\xc0"s)), Array::from({-2.5f})));
  EXPECT_TRUE(identical(parse(simple(">f4", "(1,)", "\xc0\x20\0\0"s)), Array::from({-2.5f})));
  EXPECT_TRUE(identical(parse(simple("<f8", "()", "\0\0\0\0\0\0\x04\xc0"s)), Array::scalar(-2.5)));
  EXPECT_TRUE(identical(parse(simple(">f8", "()", "\xc0\x04\0\0\0\0\0\0"s)), Array::scalar(-2.5)));
  EXPECT_TRUE(identical(parse(simple("<i4", "(1,)", "\xfe\xff\xff\xff"s)), Array::from({-2})));
  EXPECT_TRUE(identical(parse(simple(">i4", "(1,)", "\xff\xff\xff\xfe"s)), Array::from({-2})));
  EXPECT_TRUE(identical(parse(simple("<i8", "(1,)", "\xfe\xff\xff\xff\xff\xff\xff\xff"s)), Array::from({-2})));
  EXPECT_TRUE(identical(parse(simple(">i8", "(1,)", "\0\0\0\0\x7f\xff\xff\xff"s)), Array::from({2147483647})));
  EXPECT_TRUE(identical(parse(simple("|i1", "(1,)", "\xfe")), Array::from({-2})));
  EXPECT_TRUE(identical(parse(simple("<u2", "(1,)", "\xfe\xff")), Array::from({65534})));
  EXPECT_TRUE(identical(parse(simple("|u1", "(2,)", "\x01\xff")), Array::from<std::uint8_t>({1, 255})));
  EXPECT_TRUE(identical(parse(simple("|b1", "(2,)", "\x01\0"s)), Array::from({true, false})));
  EXPECT_EQ(parse(simple("<f4", "(0, 7)", "")).shape(), Shape({0, 7}));
}

TEST(Npy, ReadsBothOrdersAndAllVersions) {
  const Array rows = Array::from<std::uint8_t>({{1, 2, 3}, {4, 5, 6}});
  EXPECT_TRUE(identical(parse(simple("|u1", "(2, 3)", "\1\2\3\4\5\6")), rows));
  EXPECT_TRUE(identical(parse(simple("|u1", "(2, 3)", "\1\4\2\5\3\6", true)), rows));
  const std::string other = "{\"shape\":(2L,3L),'fortran_order':False,'descr':'|u1'}";
  for (const char version : {'\1', '\2', '\3'})
    EXPECT_TRUE(identical(parse(npy(other, "\1\2\3\4\5\6", version)), rows));
}

TEST(Npy, RefusesWhatDoesNotFit) {
  EXPECT_ERROR(parse(""), "byte 0: the magic string and version should have 8 bytes");
  EXPECT_ERROR(parse("\x93NUMPX\1\0"s), "byte 0: is no NPY file");
  EXPECT_ERROR(parse("\x93NUMPY\4\0\0\0"s), "byte 6: version 4.0");
  EXPECT_ERROR(parse("\x93NUMPY\2\0\0\0\0\x10"s), "byte 8: says a header of 268435456 bytes");
  EXPECT_ERROR(parse("\x93NUMPY\1\0\xff\0{}"s), "byte 10: the header should have 255 bytes");
  EXPECT_ERROR(parse(simple("<f4", "(3,)", "12345678")),
               "byte 60: says [3] elements (12 bytes) but the file has 8 left");
  EXPECT_ERROR(parse(simple("<f4", "(1,)", "12345")), "more bytes follow");
  EXPECT_ERROR(parse(simple("<f4", "(4294967296, 4294967296, 16)", "")), "more than there can be");
  EXPECT_ERROR(parse(simple("<f4", "(99999999999999999999,)", "")), "the shape should have a size here");
  EXPECT_ERROR(parse(simple("<f4", "(-1,)", "")), "the shape should have a size here");
  EXPECT_ERROR(parse(simple("<f4", "(1,1,1,1,1,1,1,1,1)", "1234")), "more axes than the 8");
  EXPECT_ERROR(parse(simple("|O", "(1,)", "x")), "pickled Python");
  EXPECT_ERROR(parse(simple("<f2", "(1,)", "12")), "'<f2' are not read");
  EXPECT_ERROR(parse(simple("<U4", "(1,)", "12")), "'<U4' are not read");
  EXPECT_ERROR(parse(simple("|f4", "(1,)", "1234")), "'|f4' are not read");
  EXPECT_ERROR(parse(simple("|b1", "(2,)", "\1\2")), "a bool is 0 or 1, this is 2");
  EXPECT_ERROR(parse(simple("<i8", "(2,)", "\0\0\0\0\0\0\0\0\0\0\0\x80\0\0\0\0"s)),
               "byte 76: the integer 2147483648 does not fit in i32");
  EXPECT_ERROR(parse(simple("<i8", "(1,)", "\xff\xff\xff\x7f\xff\xff\xff\xff"s)), "-2147483649 does not fit");
  EXPECT_ERROR(parse(simple("<u4", "(1,)", "\xff\xff\xff\xff"s)), "4294967295 does not fit");
  EXPECT_ERROR(parse(simple("<f4", "(3,)", "123456781234"), {11}), "the limit is 11");
}

TEST(Npy, RefusesBadDicts) {
  EXPECT_ERROR(parse(npy("{'descr': '<f4', 'shape': (), }", "1234")), "has no 'fortran_order'");
  EXPECT_ERROR(parse(npy("{'descr': '<f4', 'descr': '<f4'}", "1234")), "has 'descr' twice");
  EXPECT_ERROR(parse(npy("{'descr': [('a', '<f4')]}", "1234")), "structured");
  EXPECT_ERROR(parse(npy("{'more': 1}", "1234")), "unknown key 'more'");
  EXPECT_ERROR(parse(npy("{'descr': '<f4'", "")), "should have '}'");
  EXPECT_ERROR(parse(npy("{'descr': '<f4", "")), "a string we do not read");
  EXPECT_ERROR(parse(npy("{'fortran_order': 1}", "")), "should be True or False");
  EXPECT_ERROR(parse(npy("{'descr': '<f4', 'fortran_order': False, 'shape': ()} + x", "1234")),
               "goes on after its dict");
  EXPECT_ERROR(parse(npy("__import__('os')", "")), "should have '{'");
}

TEST(Npy, WritesNumPysBytes) {
  const TemporaryFolder folder;
  write_npy(folder / "a.npy", Array::from<float>({{1, 2, 3}, {4, 5, 6}}).transpose());
  const std::string bytes = read_text(folder / "a.npy");
  const std::string head = "\x93NUMPY\1\0\x76\0{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }"s;
  EXPECT_EQ(bytes.substr(0, head.size()), head);
  EXPECT_EQ(bytes.size(), 128u + 24u);
  EXPECT_TRUE(identical(read_npy(folder / "a.npy"), Array::from<float>({{1, 4}, {2, 5}, {3, 6}})));
  for (const Array& a : {Array::scalar(2.5), Array::zeros({0, 3}), Array::from({true, false}), Array::from({1, -2})}) {
    write_npy(folder / "a.npy", a);
    EXPECT_TRUE(identical(read_npy(folder / "a.npy"), a));
  }
}

class Npz : public testing::Test {
 protected:
  std::string written(Compress compress) {
    write_npz(folder_ / "a.npz", arrays_, compress);
    return read_text(folder_ / "a.npz");
  }
  static std::map<std::string, Array> parse(const std::string& bytes) { return read_npz(source_of(bytes), {}); }
  static std::string changed(std::string bytes, std::size_t at, char to) {
    bytes.at(at) = to;
    return bytes;
  }
  TemporaryFolder folder_;
  const std::map<std::string, Array> arrays_{{"x", Array::arange(1000)}, {"labels/y", Array::from({1, 2, 3})}};
};

TEST_F(Npz, RoundTrip) {
  for (const Compress compress : {Compress::no, Compress::yes}) {
    const std::string bytes = written(compress);
    const auto back = parse(bytes);
    ASSERT_EQ(back.size(), 2u);
    for (const auto& [name, array] : arrays_) EXPECT_TRUE(identical(back.at(name), array)) << name;
    for (const auto& [name, array] : read_npz(folder_ / "a.npz")) EXPECT_TRUE(identical(arrays_.at(name), array));
  }
  EXPECT_LT(written(Compress::yes).size(), written(Compress::no).size() / 2);
  EXPECT_ERROR(read_npz(folder_ / "a.npz", {4005}), "x.npy: byte 60: says [1000] elements");
}

TEST_F(Npz, RefusesEveryTruncation) {
  const std::string bytes = written(Compress::yes);
  for (std::size_t size = 0; size < bytes.size(); ++size) EXPECT_ERROR(parse(bytes.substr(0, size)), "byte");
}

TEST_F(Npz, RefusesArchivesThatLie) {
  const std::string bytes = written(Compress::no);
  const std::size_t end = bytes.size() - 22, entry = bytes.find("PK\1\2");
  EXPECT_ERROR(parse("no zip file, but long enough for one"), "it has no end record");
  EXPECT_ERROR(parse(changed(bytes, end + 4, 1)), "in several parts");
  EXPECT_ERROR(parse(changed(bytes, end + 12, 1)), "which does not end here");
  EXPECT_ERROR(parse(changed(changed(bytes, end + 8, 3), end + 10, 3)), "the directory is cut off");
  EXPECT_ERROR(parse(changed(changed(bytes, end + 8, 1), end + 10, 1)), "the directory goes on");
  EXPECT_ERROR(parse(changed(bytes, entry, 'X')), "should have an entry here");
  EXPECT_ERROR(parse(changed(bytes, entry + 8, 1)), "encrypted");
  EXPECT_ERROR(parse(changed(bytes, entry + 10, 9)), "compression method 9");
  EXPECT_ERROR(parse(changed(bytes, entry + 20, 1)), "two different sizes");
  EXPECT_ERROR(parse(changed(bytes, entry + 16, '\x77')), "the checksum is wrong");
  EXPECT_ERROR(parse(changed(bytes, entry + 29, 1)), "longer than the directory");
  EXPECT_ERROR(parse(changed(bytes, entry + 46, 'X')), "the local header calls it 'labels/y.npy'");
  EXPECT_ERROR(parse(changed(bytes, entry + 44, 1)), "where the members have ended");
  EXPECT_ERROR(parse(changed(bytes, entry + 42, 2)), "there is no local header here");
  EXPECT_ERROR(parse(changed(bytes, 8, 8)), "the local header and the directory differ");
  EXPECT_ERROR(parse(changed(bytes, 27, 120)), "reach into the directory");
}

TEST_F(Npz, RefusesOverlapsAndOtherFiles) {
  // Two entries of the same length, both pointing at the first member.
  write_npz(folder_ / "b.npz", {{"a", Array::from({1})}, {"b", Array::from({2})}});
  std::string bytes = read_text(folder_ / "b.npz");
  const std::size_t entry = bytes.find("PK\1\2"), second = bytes.find("PK\1\2", entry + 1);
  bytes.replace(second, second - entry, bytes.substr(entry, second - entry));
  EXPECT_ERROR(parse(bytes), "member 'a.npy' overlaps 'a.npy'");
  // The same name twice, in places of their own.
  bytes = read_text(folder_ / "b.npz");
  for (std::size_t at = 0; (at = bytes.find("b.npy", at)) != std::string::npos;) bytes[at] = 'a';
  EXPECT_ERROR(parse(bytes), "two members called 'a.npy'");
  for (std::size_t at = 0; (at = bytes.find(".npy", at)) != std::string::npos;) bytes[at] = '_';
  EXPECT_ERROR(parse(bytes), "is no array");
}

TEST_F(Npz, EveryFlippedByteIsRefusedOrHarmless) {
  write_npz(folder_ / "b.npz", {{"a", Array::from({1, 2, 3})}}, Compress::yes);
  const std::string good = read_text(folder_ / "b.npz");
  int accepted = 0;
  for (std::size_t at = 0; at < good.size(); ++at) {
    try {
      for (const auto& [name, array] : parse(changed(good, at, static_cast<char>(good[at] ^ 0x11)))) {
        EXPECT_TRUE(identical(array, Array::from({1, 2, 3}))) << at;
        ++accepted;
      }
    } catch (const Error&) {
    }
  }
  EXPECT_GT(accepted, 0);  // dates and the like do not matter
}

}  // namespace
}  // namespace wr::data
