// CSV: numbers in lines of fields; fields may be quoted ("" is a quote inside), lines end in \n or \r\n, empty lines
// are skipped. Errors name line and column as an editor counts them.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>

#include "data/readers.h"
#include "windrow/error.h"

namespace wr::data {

namespace {

struct Field {
  std::string_view text;
  bool quoted = false;
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_missing(const Field& field) {
  const std::string_view t = trimmed(field.text);
  return t.empty() || t == "NA" || t == "N/A" || t == "null" || t == "?";
}

/// A number as from_chars reads it, also with a plus sign or spaces around it.
std::errc parse_number(std::string_view text, double& value) {
  text = trimmed(text);
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc::invalid_argument || end != text.data() + text.size()) return std::errc::invalid_argument;
  const bool tiny = text.find("e-") != std::string_view::npos || text.find("E-") != std::string_view::npos;
  if (error == std::errc::result_out_of_range && tiny) {
    value = 0;
    return std::errc();
  }
  return error;
}

bool is_number(std::string_view text) {
  double value = 0;
  return parse_number(text, value) != std::errc::invalid_argument;
}

/// At most 40 characters of a field, for a message; unprintable bytes become '?'.
std::string shown(std::string_view text) {
  std::string out(text.substr(0, 40));
  for (char& c : out)
    if (static_cast<unsigned char>(c) < ' ') c = '?';
  return "'" + out + (text.size() > 40 ? "...'" : "'");
}

/// Splits the text into records.
class Scanner {
 public:
  Scanner(const Source& source, std::string_view text, char delimiter)
      : source_(source), text_(text), delimiter_(delimiter) {
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
  }

  /// The next line with anything on it, or false at the end. The fields are valid until the next call.
  bool next(std::vector<Field>& fields) {
    fields.clear();
    unquoted_.clear();
    while (at_ < text_.size() && (text_[at_] == '\n' || text_[at_] == '\r')) {
      line_ += text_[at_] == '\n';
      ++at_;
    }
    record_line_ = line_;
    if (at_ == text_.size()) return false;
    do fields.push_back(field());
    while (at_ < text_.size() && text_[at_] == delimiter_ && (++at_, true));
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    if (at_ < text_.size() && text_[at_] != '\n') refuse(fields.size(), "a line ends in \\r but not in \\r\\n");
    return true;
  }

  /// Where the current record begins.
  std::uint64_t line() const { return record_line_; }
  /// `column` counts from 1; 0 leaves it out.
  [[noreturn]] void refuse(std::size_t column, const std::string& reason, std::string_view name = {}) const {
    throw Error(source_.name() + ": line " + std::to_string(record_line_) +
                (column ? ", column " + std::to_string(column) : "") + (name.empty() ? "" : " (" + shown(name) + ")") +
                ": " + reason);
  }

 private:
  Field field() {
    if (at_ < text_.size() && text_[at_] == '"') return quoted();
    std::size_t end = at_;
    while (end < text_.size() && text_[end] != delimiter_ && text_[end] != '\n' && text_[end] != '\r') ++end;
    const Field found{text_.substr(at_, end - at_), false};
    at_ = end;
    return found;
  }

  Field quoted() {
    const std::size_t begin = ++at_;
    std::string* copy = nullptr;  // only where a quote inside must be undoubled
    std::size_t from = begin;
    for (;; ++at_) {
      if (at_ >= text_.size()) refuse(0, "a quoted field is not closed");
      if (text_[at_] == '\n') ++line_;
      if (text_[at_] != '"') continue;
      if (at_ + 1 == text_.size() || text_[at_ + 1] != '"') break;
      if (!copy) copy = unquoted_.emplace_back(std::make_unique<std::string>()).get();
      copy->append(text_.substr(from, at_ + 1 - from));
      from = at_ + 2;
      ++at_;
    }
    if (copy) copy->append(text_.substr(from, at_ - from));
    const Field found{copy ? std::string_view(*copy) : text_.substr(begin, at_ - begin), true};
    ++at_;
    if (at_ < text_.size() && text_[at_] != delimiter_ && text_[at_] != '\n' && text_[at_] != '\r') {
      refuse(0, "text follows a quoted field");
    }
    return found;
  }

  const Source& source_;
  std::string_view text_;
  char delimiter_;
  std::size_t at_ = 0;
  std::uint64_t line_ = 1, record_line_ = 1;
  std::vector<std::unique_ptr<std::string>> unquoted_;
};

class Parser {
 public:
  Parser(const Source& source, std::string_view text, const CsvOptions& options)
      : source_(source), options_(options), text_(text), scanner_(source, text, options.delimiter) {}

  Table parse() {
    std::vector<Field> fields;
    if (!scanner_.next(fields)) throw Error(source_.name() + ": line 1: the file has no lines");
    width_ = fields.size();
    if (is_header(fields)) {
      for (const Field& field : fields) names_.emplace_back(field.quoted ? field.text : trimmed(field.text));
      choose_columns();
      reserve();
    } else {
      if (!options_.columns.empty()) scanner_.refuse(0, "columns were asked for by name, but there is no header");
      choose_columns();
      reserve();
      row(fields);
    }
    while (scanner_.next(fields)) row(fields);
    return table();
  }

 private:
  bool is_header(const std::vector<Field>& fields) const {
    if (options_.header != CsvOptions::Header::automatic) return options_.header == CsvOptions::Header::yes;
    return std::any_of(fields.begin(), fields.end(),
                       [](const Field& f) { return !is_number(f.text) && !is_missing(f); });
  }

  void choose_columns() {
    if (options_.columns.empty()) {
      for (std::size_t i = 0; i < width_; ++i) chosen_.push_back(i);
      return;
    }
    for (const std::string& name : options_.columns) {
      const auto found = std::find(names_.begin(), names_.end(), name);
      if (found == names_.end()) scanner_.refuse(0, "there is no column " + shown(name));
      chosen_.push_back(static_cast<std::size_t>(found - names_.begin()));
    }
  }

  void reserve() {
    // A field takes at least the byte that ends it, so no file has more rows of this width.
    const auto lines = static_cast<std::uint64_t>(std::count(text_.begin(), text_.end(), '\n')) + 1;
    const std::uint64_t rows = std::min(lines, text_.size() / width_ + 1);
    const std::uint64_t most = rows * chosen_.size();
    if (most > options_.limits.bytes / sizeof(double)) {
      throw Error(source_.name() + ": " + std::to_string(most) + " values are over the limit of " +
                  std::to_string(options_.limits.bytes) + " bytes of memory");
    }
    values_.reserve(most);
  }

  void row(const std::vector<Field>& fields) {
    if (fields.size() != width_) {
      scanner_.refuse(0,
                      "has " + std::to_string(fields.size()) + " fields, the first line has " + std::to_string(width_));
    }
    for (const std::size_t column : chosen_) values_.push_back(value(fields[column], column));
    ++rows_;
  }

  double value(const Field& field, std::size_t column) const {
    const std::string_view name = names_.empty() ? std::string_view() : names_[column];
    const auto refuse = [&](const std::string& reason) { scanner_.refuse(column + 1, reason, name); };
    double number = 0;
    if (is_missing(field)) {
      if (options_.missing == CsvOptions::Missing::refuse) refuse("the value is missing");
      number = options_.missing == CsvOptions::Missing::nan ? std::numeric_limits<double>::quiet_NaN() : options_.fill;
    } else {
      const std::errc error = parse_number(field.text, number);
      if (error == std::errc::invalid_argument) refuse(shown(field.text) + " is not a number");
      if (error != std::errc()) refuse(shown(field.text) + " is too large");
    }
    if (options_.dtype == DType::f32 && std::isfinite(number) && std::abs(number) > std::numeric_limits<float>::max()) {
      refuse(shown(field.text) + " does not fit in f32");
    }
    if (options_.dtype == DType::i32 &&
        !(std::trunc(number) == number && number >= -2147483648.0 && number <= 2147483647.0)) {
      refuse(shown(field.text) + " does not fit in i32");
    }
    return number;
  }

  Table table() {
    Table result;
    if (!names_.empty())
      for (const std::size_t column : chosen_) result.columns.push_back(names_[column]);
    const Shape shape{static_cast<std::int64_t>(rows_), static_cast<std::int64_t>(chosen_.size())};
    const Array wide = Array::borrow(static_cast<const void*>(values_.data()), shape, DType::f64);
    result.values = options_.dtype == DType::f64 ? wide.clone() : wide.astype(options_.dtype);
    return result;
  }

  const Source& source_;
  const CsvOptions& options_;
  std::string_view text_;
  Scanner scanner_;
  std::size_t width_ = 0, rows_ = 0;
  std::vector<std::string> names_;
  std::vector<std::size_t> chosen_;
  std::vector<double> values_;
};

void expect_delimiter(const std::string& path, char delimiter) {
  if (std::string_view("\"\n\r+-.").find(delimiter) != std::string_view::npos ||
      std::isalnum(static_cast<unsigned char>(delimiter))) {
    throw Error(path + ": '" + std::string(1, delimiter) + "' cannot separate fields");
  }
}

std::string quoted_if_needed(const std::string& text, char delimiter) {
  if (text.find_first_of(std::string("\"\n\r ") + delimiter) == std::string::npos && !text.empty() &&
      !is_number(text)) {
    return text;
  }
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

}  // namespace

Table read_csv(const Source& source, const CsvOptions& options) {
  expect_delimiter(source.name(), options.delimiter);
  if (options.dtype == DType::u8 || options.dtype == DType::boolean) {
    throw Error(source.name() + ": csv is read as f32, f64 or i32, not " + std::string(name_of(options.dtype)));
  }
  if (source.size() > options.limits.bytes) {
    throw Error(source.name() + ": has " + std::to_string(source.size()) + " bytes; the limit is " +
                std::to_string(options.limits.bytes));
  }
  std::string text(source.size(), '\0');
  source.read(0, std::span(reinterpret_cast<std::uint8_t*>(text.data()), text.size()));
  return Parser(source, text, options).parse();
}

Table read_csv(const std::string& path, const CsvOptions& options) { return read_csv(Source::open(path), options); }

Array Table::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) throw Error("column: the table has no column " + shown(name));
  return values.select(1, found - columns.begin()).contiguous();
}

void write_csv(const std::string& path, const Table& table, char delimiter) {
  expect_delimiter(path, delimiter);
  if (table.values.rank() != 2)
    throw Error(path + ": a table has rows and columns, these values are " + to_string(table.values.shape()));
  const std::int64_t rows = table.values.size(0), columns = table.values.size(1);
  if (!table.columns.empty() && std::ssize(table.columns) != columns) {
    throw Error(path + ": " + std::to_string(table.columns.size()) + " names for " + std::to_string(columns) +
                " columns");
  }
  FileWriter file(path);
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (i) file.write(std::string_view(&delimiter, 1));
    file.write(quoted_if_needed(table.columns[i], delimiter));
  }
  if (!table.columns.empty()) file.write("\n");
  const bool narrow = table.values.dtype() == DType::f32;
  const Array wide = table.values.astype(DType::f64).contiguous();
  const double* value = columns ? wide.data<double>() : nullptr;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c, ++value) {
      char digits[64];
      const auto end = narrow ? std::to_chars(digits, digits + sizeof digits, static_cast<float>(*value)).ptr
                              : std::to_chars(digits, digits + sizeof digits, *value).ptr;
      if (c) file.write(std::string_view(&delimiter, 1));
      file.write(std::string_view(digits, static_cast<std::size_t>(end - digits)));
    }
    file.write("\n");
  }
  file.commit();
}

}  // namespace wr::data
