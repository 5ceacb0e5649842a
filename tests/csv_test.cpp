// CSV: quoting, headers, missing values, types, and errors that name line and column.
#include <cmath>

#include "data/readers.h"
#include "temporary_files.h"
#include "windrow/data.h"

namespace wr::data {
namespace {

using Names = std::vector<std::string>;
using Floats = std::vector<float>;

Table parse(const std::string& text, const CsvOptions& options = {}) { return read_csv(source_of(text), options); }

TEST(Csv, ReadsNumbersWithAndWithoutHeader) {
  const Table plain = parse("1,2.5\n-3e2, +4 \n");
  EXPECT_TRUE(plain.columns.empty());
  EXPECT_TRUE(identical(plain.values, Array::from<float>({{1, 2.5f}, {-300, 4}})));
  const Table named = parse("\xef\xbb\xbfx, y\r\n1,2\r\n\r\n3,4");
  EXPECT_EQ(named.columns, Names({"x", "y"}));
  EXPECT_TRUE(identical(named.values, Array::from<float>({{1, 2}, {3, 4}})));
  EXPECT_EQ(named.column("y").to_vector<float>(), Floats({2, 4}));
  EXPECT_ERROR(named.column("z"), "no column 'z'");
  EXPECT_EQ(parse("1,2\n3,4\n", {.header = CsvOptions::Header::yes}).columns, Names({"1", "2"}));
  EXPECT_ERROR(parse("a,2\n", {.header = CsvOptions::Header::no}), "file: line 1, column 1: 'a' is not a number");
  EXPECT_EQ(parse("a,b\n").values.shape(), Shape({0, 2}));
  EXPECT_EQ(parse("1;2\n", {.delimiter = ';'}).values.shape(), Shape({1, 2}));
  EXPECT_EQ(parse("1\t2\n", {.delimiter = '\t'}).values.shape(), Shape({1, 2}));
}

TEST(Csv, ReadsQuotedFields) {
  const Table table = parse("\"a, \"\"b\"\"\",\"two\nlines\"\n\"1\",\"2\"\n3,4\n");
  EXPECT_EQ(table.columns, Names({"a, \"b\"", "two\nlines"}));
  EXPECT_TRUE(identical(table.values, Array::from<float>({{1, 2}, {3, 4}})));
  EXPECT_ERROR(parse("a\n1\n\"2"), "line 3: a quoted field is not closed");
  EXPECT_ERROR(parse("\"1\"x\n"), "line 1: text follows a quoted field");
  EXPECT_ERROR(parse("\"a\nb\",c\n1,x\n"), "line 3, column 2 ('c'): 'x' is not a number");
}

TEST(Csv, ErrorsNameLineAndColumn) {
  EXPECT_ERROR(parse(""), "file: line 1: the file has no lines");
  EXPECT_ERROR(parse("x,y\n1,2\n3,4x\n"), "file: line 3, column 2 ('y'): '4x' is not a number");
  EXPECT_ERROR(parse("1,2\n\n3\n"), "file: line 3: has 1 fields, the first line has 2");
  EXPECT_ERROR(parse("1,2\n3,4,5\n"), "file: line 2: has 3 fields");
  EXPECT_ERROR(parse("1\n1e999\n"), "file: line 2, column 1: '1e999' is too large");
  EXPECT_ERROR(parse("1\n1e99\n"), "'1e99' does not fit in f32");
  EXPECT_EQ(parse("1\n1e-999\n").values.to_vector<float>(), Floats({1, 0}));
  EXPECT_ERROR(parse("1\n+-2\n"), "not a number");
  EXPECT_ERROR(parse("1\r2\n"), "ends in \\r but not in \\r\\n");
  EXPECT_ERROR(parse("1,2\n", {.delimiter = '.'}), "cannot separate fields");
  EXPECT_ERROR(parse("1,2\n3,4", {.limits = {20}}), "over the limit of 20 bytes");
  EXPECT_ERROR(parse("1,2\n3,4", {.limits = {4}}), "the limit is 4");
}

TEST(Csv, MissingValues) {
  const std::string text = "x,y\n1,\nNA,2\n?,null\n";
  EXPECT_ERROR(parse(text), "line 2, column 2 ('y'): the value is missing");
  const Table nan = parse(text, {.missing = CsvOptions::Missing::nan});
  EXPECT_TRUE(std::isnan(nan.values.at<float>({0, 1})));
  EXPECT_TRUE(std::isnan(nan.values.at<float>({2, 0})));
  const Table filled = parse(text, {.missing = CsvOptions::Missing::fill, .fill = -1});
  EXPECT_TRUE(identical(filled.values, Array::from<float>({{1, -1}, {-1, 2}, {-1, -1}})));
}

TEST(Csv, TypesAndChosenColumns) {
  EXPECT_TRUE(
      identical(parse("1\n-2147483648\n", {.dtype = DType::i32}).values, Array::from({{1}, {-2147483647 - 1}})));
  EXPECT_ERROR(parse("1.5\n", {.dtype = DType::i32}), "'1.5' does not fit in i32");
  EXPECT_ERROR(parse("2147483648\n", {.dtype = DType::i32}), "does not fit in i32");
  EXPECT_EQ(parse("0.1\n", {.dtype = DType::f64}).values.at<double>({0, 0}), 0.1);
  const Table two = parse("name,x,y\nrose,1,2\nlily,3,4\n", {.columns = {"y", "x"}});
  EXPECT_EQ(two.columns, Names({"y", "x"}));
  EXPECT_TRUE(identical(two.values, Array::from<float>({{2, 1}, {4, 3}})));
  EXPECT_ERROR(parse("x,y\n1,2\n", {.columns = {"z"}}), "no column 'z'");
  EXPECT_ERROR(parse("1,2\n", {.columns = {"z"}}), "there is no header");
}

TEST(Csv, WritesWhatItReads) {
  const TemporaryFolder folder;
  const Table table{{"a \"b\"", "12", "c"}, Array::from<float>({{0.1f, 1e-30f, -3}, {1.f / 3, 16777216, 0}})};
  write_csv(folder / "t.csv", table);
  const Table back = read_csv(folder / "t.csv");
  EXPECT_EQ(back.columns, table.columns);
  EXPECT_TRUE(identical(back.values, table.values));
  write_csv(folder / "t.csv", {{}, Array::from({{0.1, 1.0 / 3}})}, ';');
  EXPECT_EQ(read_text(folder / "t.csv"), "0.1;0.3333333333333333\n");
  EXPECT_ERROR(write_csv(folder / "t.csv", {{"x"}, table.values}), "1 names for 3 columns");
  EXPECT_ERROR(write_csv(folder / "none/t.csv", table), "none/t.csv: create: No such file or directory");
  EXPECT_EQ(folder.files(), Names({"t.csv"}));
}

}  // namespace
}  // namespace wr::data
