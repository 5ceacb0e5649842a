// A place in the tokens of a text, and what every parser of it does there: look ahead, take, expect. Nesting and the
// length of a statement are limited, so that no text can exhaust the stack or the patience.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>
#include <vector>

#include "rules/lexer.h"

namespace wr::rules {

class Cursor {
 public:
  Cursor(std::string_view text, const std::string& file, std::vector<Comment>& comments, bool in_query = false)
      : file_(file), tokens_(tokenise(text, file, comments, in_query)) {}

 protected:
  using Kind = Token::Kind;
  static constexpr int kDeepest = 200;
  static constexpr int kMostParts = 1000;  // `a + b + c + ...` is a tree as deep as it is long

  [[noreturn]] void fail(Place place, const std::string& message) const { fail_at(file_, place, message); }
  const Token& peek(std::size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  const Token& take() {
    const Token& token = peek();
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  bool is(std::string_view mark, std::size_t ahead = 0) const {
    return peek(ahead).kind == Kind::mark && peek(ahead).text == mark;
  }
  bool is_word(std::string_view word, std::size_t ahead = 0) const {
    return peek(ahead).kind == Kind::name && peek(ahead).text == word;
  }
  bool accept(std::string_view mark) {
    if (!is(mark)) return false;
    take();
    return true;
  }
  static std::string shown(const Token& token) {
    switch (token.kind) {
      case Kind::end:
        return "the end of the text";
      case Kind::string:
        return "\"" + token.text.substr(0, 40) + "\"";
      default:
        return "'" + token.text.substr(0, 40) + "'";
    }
  }
  [[noreturn]] void expected(const std::string& what) const {
    fail(peek().place, fmt::format("expected {}, found {}", what, shown(peek())));
  }
  void expect(std::string_view mark, std::string_view why = {}) {
    if (!accept(mark)) expected(fmt::format("'{}'{}{}", mark, why.empty() ? "" : " ", why));
  }
  std::string name(const std::string& what) {
    if (peek().kind != Kind::name) expected(what);
    return take().text;
  }
  static bool is_whole(const Token& number) { return number.text.find_first_of(".eE") == std::string::npos; }
  std::int64_t integer(const std::string& what) {
    const bool negative = accept("-");
    const Token& token = peek();
    std::int64_t value = 0;
    if (token.kind != Kind::number) expected(what);
    const char* end = token.text.data() + token.text.size();
    const auto result = std::from_chars(token.text.data(), end, value);
    if (!is_whole(token)) fail(token.place, fmt::format("'{}' is no whole number", token.text));
    if (result.ec != std::errc() || result.ptr != end)
      fail(token.place, fmt::format("'{}' is not {} that fits in 63 bits", token.text, what));
    take();
    return negative ? -value : value;
  }
  double real(const std::string& what) {
    const bool negative = accept("-");
    const Token& token = peek();
    if (token.kind != Kind::number) expected(what);
    double value = 0;
    const char* end = token.text.data() + token.text.size();
    const auto result = std::from_chars(token.text.data(), end, value);
    if (result.ec != std::errc() || result.ptr != end)
      fail(token.place, fmt::format("'{}' is too large or too small for a number", token.text));
    take();
    return negative ? -value : value;
  }
  struct Nested {  // one level of brackets, as long as it lives
    explicit Nested(Cursor& cursor) : depth(cursor.depth_) {
      if (++depth > kDeepest) cursor.fail(cursor.peek().place, fmt::format("nested deeper than {} levels", kDeepest));
    }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    ~Nested() { --depth; }
    int& depth;
  };
  void begin_statement() { parts_ = 0; }
  /// One more literal or operator of this statement.
  void count(Place place) {
    if (++parts_ > kMostParts)
      fail(place,
           fmt::format("more than {} literals and operators in one statement; give parts of it names by rules or "
                       "equations of their own",
                       kMostParts));
  }
  int line_before() const { return tokens_[at_ > 0 ? at_ - 1 : 0].place.line; }

 private:
  const std::string& file_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int parts_ = 0;
};

}  // namespace wr::rules
