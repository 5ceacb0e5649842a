// Fuzzes the reader of CSV files; the first byte chooses the options.
#include "data/readers.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using wr::data::CsvOptions;
  if (size == 0) return 0;
  const int choice = data[0];
  CsvOptions options;
  options.delimiter = choice & 1 ? ';' : ',';
  options.header = static_cast<CsvOptions::Header>((choice >> 1 & 3) % 3);
  options.missing = static_cast<CsvOptions::Missing>((choice >> 3 & 3) % 3);
  options.dtype = choice & 32 ? wr::DType::f64 : choice & 64 ? wr::DType::i32 : wr::DType::f32;
  options.limits = {1 << 20};
  if (choice & 128) options.columns = {"x"};
  return refuse_or_read(data + 1, size - 1, [&](const wr::Source& source) {
    const wr::data::Table table = wr::data::read_csv(source, options);
    touch(table.values);
    if (!table.columns.empty() && std::ssize(table.columns) != table.values.size(1)) __builtin_trap();
  });
}
