// IDX files: every element type, gzip, and files that lie.
#include <zlib.h>

#include "data/readers.h"
#include "temporary_files.h"
#include "windrow/data.h"

namespace wr::data {
namespace {

using namespace std::string_literals;

std::string gzipped(const std::string& content) {
  z_stream state{};
  deflateInit2(&state, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&state, content.size()) + 32, '\0');
  std::string in = content;
  state.next_in = reinterpret_cast<Bytef*>(in.data());
  state.avail_in = static_cast<uInt>(in.size());
  state.next_out = reinterpret_cast<Bytef*>(out.data());
  state.avail_out = static_cast<uInt>(out.size());
  deflate(&state, Z_FINISH);
  out.resize(out.size() - state.avail_out);
  deflateEnd(&state);
  return out;
}

Array parse(const std::string& bytes, const ReadLimits& limits = {}) { return read_idx(source_of(bytes), limits); }

const std::string kTwoByThree = "\0\0\x08\x02\0\0\0\x02\0\0\0\x03\x01\x02\x03\x04\x05\xff"s;

TEST(Idx, ReadsEveryElementType) {
  EXPECT_TRUE(identical(parse(kTwoByThree), Array::from<std::uint8_t>({{1, 2, 3}, {4, 5, 255}})));
  EXPECT_TRUE(identical(parse("\0\0\x09\x01\0\0\0\x02\x7f\x80"s), Array::from({127, -128})));
  EXPECT_TRUE(identical(parse("\0\0\x0b\x01\0\0\0\x02\x01\x02\xff\xfe"s), Array::from({258, -2})));
  EXPECT_TRUE(identical(parse("\0\0\x0c\x01\0\0\0\x02\x01\x02\x03\x04\xff\xff\xff\xfe"s), Array::from({16909060, -2})));
  EXPECT_TRUE(identical(parse("\0\0\x0d\x01\0\0\0\x01\xc0\x20\0\0"s), Array::from({-2.5f})));
  EXPECT_TRUE(identical(parse("\0\0\x0e\x01\0\0\0\x01\xc0\x04\0\0\0\0\0\0"s), Array::from({-2.5})));
  EXPECT_TRUE(identical(parse("\0\0\x08\0\x07"s), Array::scalar(std::uint8_t{7})));
  EXPECT_EQ(parse("\0\0\x08\x02\0\0\0\0\0\0\0\x03"s).shape(), Shape({0, 3}));
}

TEST(Idx, ReadsGzipWhateverTheName) {
  const TemporaryFolder folder;
  write_text(folder / "plain-name", gzipped(kTwoByThree));
  write_text(folder / "plain.gz", kTwoByThree);
  EXPECT_TRUE(identical(read_idx(folder / "plain-name"), parse(kTwoByThree)));
  EXPECT_TRUE(identical(read_idx(folder / "plain.gz"), parse(kTwoByThree)));
}

TEST(Idx, NamesTheByteAndTheReason) {
  EXPECT_ERROR(parse(""), "file: byte 0: the magic number should have 4 bytes here, but there are only 0");
  EXPECT_ERROR(parse("PK\x03\x04"s), "file: byte 0: is no IDX file");
  EXPECT_ERROR(parse("\0\0\x0a\x01"s), "file: byte 2: type 10");
  EXPECT_ERROR(parse("\0\0\x08\x09"s), "file: byte 3: says 9 axes; arrays have at most 8");
  EXPECT_ERROR(parse("\0\0\x08\x02\0\0\0\x02\0\0"s), "file: byte 8: the size of axis 1 should have 4 bytes");
  EXPECT_ERROR(parse("\0\0\x08\x03\0\0\xea\x60\0\0\0\x1c\0\0\0\x1c"s + std::string(1200, 'x')),
               "file: byte 4: says [60000,28,28] elements (47040000 bytes) but the file has 1200 left");
  EXPECT_ERROR(parse(kTwoByThree + "x"), "file: byte 18: more bytes follow");
  EXPECT_ERROR(parse(kTwoByThree, {5}), "need 6 bytes of memory; the limit is 5");
  // 2^96 elements, and 2^64 times 0.
  EXPECT_ERROR(parse("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s), "more than there can be");
  EXPECT_ERROR(parse("\0\0\x08\x04\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"s),
               "more than there can be");
  EXPECT_ERROR(read_idx("/nowhere/at/all"), "/nowhere/at/all: open: No such file or directory");
  EXPECT_ERROR(read_idx("/dev/null"), "/dev/null: is not a regular file");
  EXPECT_ERROR(read_idx("/tmp"), "/tmp: is not a regular file");
}

TEST(Idx, RefusesEveryTruncation) {
  const std::string packed = gzipped(kTwoByThree);
  for (std::size_t size = 0; size < kTwoByThree.size(); ++size)
    EXPECT_ERROR(parse(kTwoByThree.substr(0, size)), "byte");
  for (std::size_t size = 0; size < packed.size(); ++size) EXPECT_ERROR(parse(packed.substr(0, size)), "byte");
}

TEST(Idx, RefusesGzipThatLies) {
  const std::string packed = gzipped(kTwoByThree);
  EXPECT_ERROR(parse(packed + "x"), "1 bytes follow the compressed data");
  std::string wrong_sum = packed;
  wrong_sum[wrong_sum.size() - 5] ^= 1;
  EXPECT_ERROR(parse(wrong_sum), "corrupt: incorrect data check");
  EXPECT_ERROR(parse(gzipped(kTwoByThree + "x")), "byte 18: more bytes follow");
  EXPECT_ERROR(parse(gzipped(kTwoByThree.substr(0, 17))), "should have 6 bytes here, but there are only 5");
  // A few bytes cannot inflate to 2 GB: refused before memory is taken.
  EXPECT_ERROR(parse(gzipped("\0\0\x08\x01\x7f\xff\xff\xff"s)), "(2147483647 bytes) but the file has at most");
  // A real bomb: a megabyte of zeros in a kilobyte.
  EXPECT_ERROR(parse(gzipped("\0\0\x08\x01\0\x10\0\0"s + std::string(1 << 20, '\0')), {1000}), "the limit is 1000");
}

TEST(Idx, EveryFlippedByteIsRefusedOrGivesAnArray) {
  const std::string packed = gzipped(kTwoByThree);
  for (const std::string& good : {kTwoByThree, packed}) {
    for (std::size_t at = 0; at < good.size(); ++at) {
      for (int bit = 0; bit < 8; ++bit) {
        std::string bad = good;
        bad[at] = static_cast<char>(bad[at] ^ 1 << bit);
        try {
          EXPECT_LE(parse(bad).count(), 6);
        } catch (const Error&) {
        }
      }
    }
  }
}

TEST(Idx, ShortReadsAndFailedReads) {
  const TemporaryFolder folder;
  write_text(folder / "file", kTwoByThree);
  {
    const FileFaultScope slow([](FileOperation, const std::string&, std::size_t& bytes) {
      bytes = std::min<std::size_t>(bytes, 1);
      return 0;
    });
    EXPECT_TRUE(identical(read_idx(folder / "file"), parse(kTwoByThree)));
  }
  for (int fails = 0; fails < 5; ++fails) {
    int reads = 0;
    const FileFaultScope broken([&](FileOperation operation, const std::string&, std::size_t&) {
      return operation == FileOperation::read && reads++ == fails ? EIO : 0;
    });
    EXPECT_ERROR(read_idx(folder / "file"), "read: Input/output error");
  }
  const FileFaultScope closed([](FileOperation operation, const std::string&, std::size_t&) {
    return operation == FileOperation::open ? EACCES : 0;
  });
  EXPECT_ERROR(read_idx(folder / "file"), "open: Permission denied");
}

TEST(Mnist, ReadsAFolderUnderEitherSpelling) {
  const TemporaryFolder folder;
  const std::string images = "\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\x01\x02\x03\x04"s;
  const std::string labels = "\0\0\x08\x01\0\0\0\x02\x07\x09"s;
  write_text(folder / "train-images-idx3-ubyte", images);
  write_text(folder / "train-labels-idx1-ubyte.gz", gzipped(labels));
  EXPECT_ERROR(read_mnist(folder / "."), "has no t10k-images-idx3-ubyte (or .gz)");
  write_text(folder / "t10k-images.idx3-ubyte", images);
  EXPECT_ERROR(read_mnist(folder / "."), "has no t10k-labels-idx1-ubyte (or .gz)");
  write_text(folder / "t10k-labels.idx1-ubyte", labels);
  const Split sets = load_images(folder / ".");
  EXPECT_EQ(sets.train.x.shape(), Shape({2, 1, 2}));
  EXPECT_TRUE(identical(sets.test.y, Array::from({7, 9})));
  write_text(folder / "t10k-labels.idx1-ubyte", "\0\0\x08\x01\0\0\0\x01\x07"s);
  EXPECT_ERROR(read_mnist(folder / "."), "has 1 labels for the 2 images");
  write_text(folder / "t10k-labels.idx1-ubyte", images);
  EXPECT_ERROR(read_mnist(folder / "."), "holds u8[2,1,2], not labels u8[n]");
}

TEST(Mnist, FashionOfTheDebianPackage) {
  if (find_fashion_mnist().empty()) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const Split sets = load_images();
  EXPECT_EQ(sets.train.name, "Fashion-MNIST");
  EXPECT_EQ(sets.train.x.shape(), Shape({60000, 28, 28}));
  EXPECT_EQ(sets.test.x.shape(), Shape({10000, 28, 28}));
  std::vector<int> count(10);
  for (const int label : sets.train.y.to_vector<std::int32_t>()) ++count.at(static_cast<std::size_t>(label));
  EXPECT_EQ(count, std::vector<int>(10, 6000));
  EXPECT_EQ(sets.train.y.at<std::int32_t>({0}), 9);  // the first image is a boot
}

TEST(Split, TakesEachExampleOnceAndDependsOnTheSeed) {
  const Dataset all{Array::arange(100, DType::i32).reshape({100, 1}), Array::arange(100, DType::i32)};
  const Split a = split(all, 0.2, 7), b = split(all, 0.2, 7), c = split(all, 0.2, 8);
  EXPECT_EQ(a.train.count(), 80);
  EXPECT_EQ(a.test.count(), 20);
  EXPECT_TRUE(identical(a.train.y, b.train.y));
  EXPECT_FALSE(identical(a.test.y, c.test.y));
  EXPECT_TRUE(identical(a.train.x.flatten(), a.train.y));
  std::vector<int> seen(100);
  for (const Array& y : {a.train.y, a.test.y})
    for (const int i : y.to_vector<std::int32_t>()) ++seen[i];
  EXPECT_EQ(seen, std::vector<int>(100, 1));
  EXPECT_EQ(split(all, 1).train.count(), 0);
  EXPECT_ERROR(split(all, 1.5), "the share must be from 0 to 1");
  EXPECT_TRUE(identical(all.range(3, 5).y, Array::from({3, 4})));
}

}  // namespace
}  // namespace wr::data
