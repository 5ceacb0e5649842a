// safetensors: what the format's own library refuses we refuse, what it writes we read, and the other way round.
#include <cstdlib>

#include "data/safetensors.h"
#include "temporary_files.h"
#include "windrow/checkpoint.h"

namespace wr {
namespace {

using namespace std::string_literals;

std::string file_of(const std::string& header, const std::string& data = "") {
  std::string size;
  for (int i = 0; i < 8; ++i) size += static_cast<char>(header.size() >> (8 * i));
  return size + header + data;
}
Safetensors parse(const std::string& bytes) { return data::read_safetensors(source_of(bytes)); }
std::string tensor(const std::string& name, const std::string& dtype, const std::string& shape,
                   const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

TEST(Safetensors, ReadsTheLibrarysOwnExamples) {
  // From the tests of the format's library.
  EXPECT_TRUE(parse("\x08\0\0\0\0\0\0\0{}      "s).tensors.empty());
  EXPECT_EQ(parse("\x28\0\0\0\0\0\0\0{\"__metadata__\":{\"framework\":\"pt\"}}     "s).metadata,
            (Metadata{{"framework", "pt"}}));
  const auto one = parse("<\0\0\0\0\0\0\0{\"test\":{\"dtype\":\"I32\",\"shape\":[2,2],\"data_offsets\":[0,16]}}"s +
                         std::string(16, '\0'));
  EXPECT_TRUE(identical(one.tensors.at("test"), Array::zeros({2, 2}, DType::i32)));
}

TEST(Safetensors, ReadsAnyOrderEmptyTensorsAndUnknownFields) {
  const auto file =
      parse(file_of("{" + tensor("b", "U8", "[2]", "[4,6]") + "," + tensor("empty", "F32", "[0,5]", "[4,4]") + "," +
                        tensor("scalar", "F32", "[]", "[0,4]") +
                        R"(,"c":{"more":{"deep":[1,{"x":[null,true,-1.5,"s"]}]},"dtype":"BOOL","shape":[1],)"
                        R"("data_offsets":[6,7],"x":[]},"__metadata__":null})",
                    "\0\0\x80\x3f\x07\x08\x01"s));
  EXPECT_TRUE(identical(file.tensors.at("scalar"), Array::scalar(1.f)));
  EXPECT_TRUE(identical(file.tensors.at("b"), Array::from<std::uint8_t>({7, 8})));
  EXPECT_TRUE(identical(file.tensors.at("c"), Array::from({true})));
  EXPECT_EQ(file.tensors.at("empty").shape(), Shape({0, 5}));
  EXPECT_EQ(parse(file_of("{" + tensor(R"(\u00e9\n)", "U8", "[1]", "[0,1]") + "}", "x")).tensors.begin()->first,
            "\xc3\xa9\n");
}

TEST(Safetensors, RefusesBadHeaders) {
  EXPECT_ERROR(parse(""), "file: byte 0: has only 0 of the 8 bytes");
  EXPECT_ERROR(parse("\x08\0\0\0\0\0\0"s), "has only 7 of the 8 bytes");
  EXPECT_ERROR(parse("\x09\0\0\0\0\0\0\0{}      "s), "says a header of 9 bytes, but the file has 8 left");
  EXPECT_ERROR(parse("\x01\xe1\xf5\x05\0\0\0\0{}"s), "says a header of 100000001 bytes; the format allows 100000000");
  EXPECT_ERROR(parse("\xff\xff\xff\xff\xff\xff\xff\xff{}"s), "the format allows");
  EXPECT_ERROR(parse(file_of("")), "does not begin with '{'");
  EXPECT_ERROR(parse(file_of(" {}")), "does not begin with '{'");
  EXPECT_ERROR(parse(file_of("[]")), "does not begin with '{'");
  EXPECT_ERROR(parse(file_of("{")), "file: byte 8: the header is no JSON at its byte");
  EXPECT_ERROR(parse(file_of("{}x")), "no JSON");
  EXPECT_ERROR(parse(file_of("{}{}")), "no JSON");
  EXPECT_ERROR(parse(file_of("{}\0{"s)), "a zero byte");
  EXPECT_ERROR(parse(file_of("{} // comment")), "no JSON");
  EXPECT_ERROR(parse(file_of("{\"__metadata__\":{\"a\":\"\xff\"}}")), "no JSON");
  EXPECT_ERROR(parse(file_of("{\"__metadata__\":{\"a\":\"\\ud800\"}}")), "no JSON");
  EXPECT_ERROR(parse(file_of("{\"a\":" + std::string(200000, '['))), "has an array where it does not belong");
  EXPECT_ERROR(parse(file_of("{\"a\":{\"x\":" + std::string(200000, '['))), "nested too deeply");
  EXPECT_ERROR(parse(file_of("{\"a\":{\"x\":" + std::string(200, '[') + std::string(200, ']') + "}}")),
               "nested too deeply");
}

TEST(Safetensors, RefusesWrongTypesAndDuplicates) {
  EXPECT_ERROR(parse(file_of("{\"a\":1}")), "tensor 'a': has a number where");
  EXPECT_ERROR(parse(file_of("{\"a\":null}")), "has null where");
  EXPECT_ERROR(parse(file_of("{\"__metadata__\":1}")), "__metadata__ has a number");
  EXPECT_ERROR(parse(file_of("{\"__metadata__\":{\"a\":1}}")), "__metadata__ has a number");
  EXPECT_ERROR(parse(file_of("{\"__metadata__\":{\"a\":{}}}")), "__metadata__ has an object");
  EXPECT_ERROR(parse(file_of("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}")), "__metadata__ has 'a' twice");
  EXPECT_ERROR(parse(file_of("{\"__metadata__\":{},\"__metadata__\":{}}")), "'__metadata__' twice");
  const std::string a = tensor("a", "U8", "[1]", "[0,1]");
  EXPECT_ERROR(parse(file_of("{" + a + "," + a + "}", "x")), "the header has 'a' twice");
  EXPECT_ERROR(parse(file_of(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x")),
               "'dtype' twice");
  EXPECT_ERROR(parse(file_of(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", "x")), "has no dtype");
  EXPECT_ERROR(parse(file_of(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", "x")), "has no shape");
  EXPECT_ERROR(parse(file_of(R"({"a":{"dtype":"U8","shape":[1]}})", "x")), "has no data_offsets");
  EXPECT_ERROR(parse(file_of(R"({"a":{"dtype":8,"shape":[1],"data_offsets":[0,1]}})", "x")), "has a number where");
  for (const char* shape :
       {"[1.0]", "[-1]", "[-0]", "[1e0]", "[\"1\"]", "[[1]]", "[null]", "1", "{}", "[18446744073709551616]"}) {
    EXPECT_ERROR(parse(file_of("{" + tensor("a", "U8", shape, "[0,1]") + "}", "x")), "where it does not belong");
  }
  EXPECT_ERROR(parse(file_of("{" + tensor("a", "U8", "[1]", "[0]") + "}", "x")), "fewer than two");
  EXPECT_ERROR(parse(file_of("{" + tensor("a", "U8", "[1]", "[0,1,1]") + "}", "x")), "more than two");
  EXPECT_ERROR(parse(file_of("{" + tensor("a", "u8", "[1]", "[0,1]") + "}", "x")), "unknown dtype 'u8'");
  EXPECT_ERROR(parse(file_of("{" + tensor("a", "BF16", "[1]", "[0,2]") + "}", "xx")), "BF16 are not supported");
}

TEST(Safetensors, RefusesHolesOverlapsOverflowAndWrongSizes) {
  const auto two = [](const std::string& a, const std::string& b, const std::string& data) {
    parse(file_of("{" + tensor("a", "U8", "[2]", a) + "," + tensor("b", "U8", "[2]", b) + "}", data));
  };
  two("[0,2]", "[2,4]", "1234");
  two("[2,4]", "[0,2]", "1234");
  EXPECT_ERROR(two("[0,2]", "[3,5]", "12345"), "tensor 'b' begins at 3, which leaves a hole");
  EXPECT_ERROR(two("[1,3]", "[3,5]", "12345"), "tensor 'a' begins at 1, which leaves a hole");
  EXPECT_ERROR(two("[0,2]", "[1,3]", "123"), "tensor 'b' begins at 1, which overlaps");
  EXPECT_ERROR(two("[0,2]", "[0,2]", "12"), "begins at 0, which overlaps");
  EXPECT_ERROR(two("[0,2]", "[2,4]", "12345"), "1 bytes follow the last tensor");
  EXPECT_ERROR(two("[0,2]", "[2,4]", "123"), "ends at 4, but the file has only 3 bytes");
  EXPECT_ERROR(two("[0,2]", "[2,1]", "12"), "says bytes 2 to 1");
  EXPECT_ERROR(two("[0,2]", "[2,5]", "12345"), "says bytes 2 to 5, but u8[2] takes 2");
  EXPECT_ERROR(parse(file_of("{}", "x")), "1 bytes follow the last tensor");
  const auto shaped = [](const std::string& shape, const std::string& offsets) {
    parse(file_of("{" + tensor("a", "F32", shape, offsets) + "}"));
  };
  EXPECT_ERROR(shaped("[4294967296,4294967296]", "[0,0]"), "overflows");
  EXPECT_ERROR(shaped("[4611686018427387904]", "[0,0]"), "overflows");  // times 4 is 2^64
  EXPECT_ERROR(shaped("[0,18446744073709551615,18446744073709551615]", "[0,0]"), "overflows");
  EXPECT_ERROR(shaped("[1152921504606846]", "[0,4611686018427384]"), "but the file has only 0 bytes");
  EXPECT_ERROR(shaped("[1,1,1,1,1,1,1,1,1]", "[0,4]"), "has 9 axes");
  EXPECT_ERROR(parse(file_of("{" + tensor("a", "BOOL", "[2]", "[0,2]") + "}", "\1\2")), "a bool is 0 or 1, this is 2");
}

TEST(Safetensors, RoundTripIsAlignedAndExact) {
  const TemporaryFolder folder;
  const std::map<std::string, Array> tensors{{"bytes", Array::from<std::uint8_t>({1, 2, 3})},
                                             {"name with \"quotes\" and \xc3\xa9", Array::from({1.5, -0.0})},
                                             {"view", Array::arange(6).reshape({2, 3}).transpose()},
                                             {"flags", Array::from({true, false})},
                                             {"integers", Array::from({{1}, {-2}})},
                                             {"none", Array::zeros({3, 0})},
                                             {"scalar", Array::scalar(2.f)}};
  const Metadata metadata{{"step", "12"}, {"text", "line\nline \"x\" \x01"}};
  write_safetensors(folder / "f", tensors, metadata);
  const Safetensors back = read_safetensors(folder / "f");
  EXPECT_EQ(back.metadata, metadata);
  ASSERT_EQ(back.tensors.size(), tensors.size());
  for (const auto& [name, array] : tensors) EXPECT_TRUE(identical(back.tensors.at(name), array)) << name;
  const SafetensorsHeader header = read_safetensors_header(folder / "f");
  EXPECT_EQ(header.tensors.at("view"), f32(3, 2));
  EXPECT_EQ(header.metadata, metadata);
  EXPECT_EQ(static_cast<unsigned char>(read_text(folder / "f")[0]) % 8, 0);
  write_safetensors(folder / "empty", {});
  EXPECT_TRUE(read_safetensors(folder / "empty").tensors.empty());
  EXPECT_ERROR(write_safetensors(folder / "g", {{"\xff", Array()}}), "is not UTF-8");
  EXPECT_ERROR(write_safetensors(folder / "g", {{"__metadata__", Array()}}), "no tensor can be called");
  EXPECT_EQ(folder.files().size(), 2u);
}

TEST(Safetensors, EveryTruncationIsRefusedAndNoFlippedByteDoesHarm) {
  const std::string good =
      file_of("{" + tensor("a", "F32", "[2]", "[0,8]") + "," + tensor("b", "U8", "[3]", "[8,11]") + "}", "12345678abc");
  ASSERT_EQ(parse(good).tensors.size(), 2u);
  for (std::size_t size = 0; size < good.size(); ++size) EXPECT_ERROR(parse(good.substr(0, size)), "byte");
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bad = good;
      bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
      try {
        std::size_t bytes = 0;
        for (const auto& [name, array] : parse(bad).tensors) bytes += array.bytes();
        EXPECT_EQ(bytes, 11u);
      } catch (const Error&) {
      }
    }
  }
}

TEST(Safetensors, PythonReadsOursAndWeReadPythons) {
  const char* given = std::getenv("WINDROW_PYTHON");  // one that has the packages, if the system's has not
  const std::string python = given ? given : "python3";
  const std::string script =
      (std::filesystem::path(WINDROW_TEST_DATA).parent_path() / "python/safetensors_interop.py").string();
  if (std::system((python + " -c 'import numpy, safetensors' 2>/dev/null").c_str()) != 0) {
    GTEST_SKIP() << python << " has no safetensors";
  }
  const TemporaryFolder folder;
  const std::map<std::string, Array> tensors{{"f32", Array::from<float>({{1, 2, 3}, {4, 5, 6.5f}})},
                                             {"f64", Array::from({1e300, -0.0})},
                                             {"i32", Array::from({-2147483647, 7})},
                                             {"u8", Array::from<std::uint8_t>({0, 255})},
                                             {"flags", Array::from({true, false, true})},
                                             {"scalar", Array::scalar(2.5f)},
                                             {"none", Array::zeros({0, 3})}};
  write_safetensors(folder / "ours", tensors, {{"step", "12"}, {"\xc3\xa9", "\"\n"}});
  const auto run = [&](const std::string& arguments) {
    return std::system((python + " " + script + " " + arguments + " > /dev/null").c_str());
  };
  ASSERT_EQ(run("check " + folder / "ours"), 0);
  ASSERT_EQ(run("write " + folder / "theirs"), 0);
  const Safetensors theirs = read_safetensors(folder / "theirs");
  EXPECT_EQ(theirs.metadata, (Metadata{{"step", "12"}, {"\xc3\xa9", "\"\n"}}));
  ASSERT_EQ(theirs.tensors.size(), tensors.size());
  for (const auto& [name, array] : tensors) EXPECT_TRUE(identical(theirs.tensors.at(name), array)) << name;
  // Damaged files: whatever the library refuses, we refuse.
  std::filesystem::create_directory(folder / "damaged");
  ASSERT_EQ(run("damage " + folder / "ours" + " " + folder / "damaged"), 0);
  int refused = 0, accepted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "damaged")) {
    const bool they_refuse = entry.path().extension() == ".bad";
    const bool we_refuse = error_of([&] { read_safetensors(entry.path().string()); }) != "no error";
    EXPECT_TRUE(we_refuse || !they_refuse) << read_text(entry.path().string());
    ++(they_refuse ? refused : accepted);
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 50);
}

}  // namespace
}  // namespace wr
