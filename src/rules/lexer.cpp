#include "rules/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::rules {

void fail_at(const std::string& file, Place place, const std::string& message) {
  const std::string& where = place.in_query ? "query" : file;
  throw Error(place.line > 0 ? fmt::format("{}:{}:{}: {}", where, place.line, place.column, message)
                             : fmt::format("{}: {}", where, message));
}

namespace {

constexpr std::size_t kLongestToken = 4096;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
// A prime is part of a name, as in p'; so is any byte of a UTF-8 letter.
bool goes_on(char c) { return starts_name(c) || is_digit(c) || c == '\'' || static_cast<unsigned char>(c) >= 0x80; }

class Lexer {
 public:
  Lexer(std::string_view text, const std::string& file, std::vector<Comment>& comments, bool in_query)
      : text_(text), file_(file), comments_(comments), place_{1, 1, in_query} {}

  std::vector<Token> all() {
    std::vector<Token> tokens;
    if (text_.starts_with("\xef\xbb\xbf")) at_ = 3;
    for (;;) {
      const bool space = skip_space();
      Token token = next();
      token.space_before = space;
      if (token.text.size() > kLongestToken)
        fail_at(file_, token.place,
                fmt::format("a word of {} bytes; at most {} are read", token.text.size(), kLongestToken));
      if (const std::size_t at = text::broken_utf8(token.text); at != std::string::npos)
        fail_at(file_, token.place,
                fmt::format("a word with byte 0x{:02x}, which is no UTF-8; save the program as UTF-8",
                            static_cast<unsigned char>(token.text[at])));
      const bool end = token.kind == Token::Kind::end;
      tokens.push_back(std::move(token));
      if (end) return tokens;
    }
  }

 private:
  char peek(std::size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
  void step() {
    if (text_[at_] == '\n') {
      ++place_.line;
      place_.column = 1;
    } else if ((static_cast<unsigned char>(text_[at_]) & 0xc0) != 0x80) {
      ++place_.column;  // columns count characters, not the bytes of UTF-8
    }
    ++at_;
  }
  bool skip_space() {
    const std::size_t before = at_;
    while (at_ < text_.size()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r')
        step();
      else if (c == '#')
        comment();
      else
        break;
    }
    return at_ != before;
  }
  void comment() {
    const std::size_t begin = at_;
    const int line = place_.line;
    while (at_ < text_.size() && peek() != '\n') step();
    std::string text(text_.substr(begin, at_ - begin));
    while (text.ends_with(' ') || text.ends_with('\r') || text.ends_with('\t')) text.pop_back();
    comments_.push_back({std::move(text), line});
  }
  Token next() {
    Token token;
    token.place = place_;
    if (at_ >= text_.size()) return token;
    const std::size_t begin = at_;
    const char c = peek();
    if (starts_name(c) || static_cast<unsigned char>(c) >= 0x80) {
      token.kind = Token::Kind::name;
      while (at_ < text_.size() && goes_on(peek())) step();
      token.text = text_.substr(begin, at_ - begin);
    } else if (is_digit(c)) {
      token.kind = Token::Kind::number;
      number();
      token.text = text_.substr(begin, at_ - begin);
    } else if (c == '"') {
      token.kind = Token::Kind::string;
      token.text = string(token.place);
    } else {
      token.kind = Token::Kind::mark;
      token.text = mark(token.place);
    }
    return token;
  }
  void number() {
    while (is_digit(peek())) step();
    if (peek() == '.' && is_digit(peek(1))) {  // otherwise the dot ends the statement
      step();
      while (is_digit(peek())) step();
    }
    if ((peek() == 'e' || peek() == 'E') &&
        (is_digit(peek(1)) || ((peek(1) == '-' || peek(1) == '+') && is_digit(peek(2))))) {
      step();
      step();
      while (is_digit(peek())) step();
    }
  }
  std::string string(Place begin) {
    std::string value;
    step();
    for (;;) {
      if (at_ >= text_.size() || peek() == '\n') fail_at(file_, begin, "this text in quotes is not closed on its line");
      if (peek() == '"') break;
      if (peek() == '\\') {
        step();
        const char c = peek();
        if (c != '"' && c != '\\' && c != 't' && c != 'n')
          fail_at(file_, place_, "after \\ only \" \\ t and n may stand");
        value += c == 't' ? '\t' : c == 'n' ? '\n' : c;
      } else {
        value += peek();
      }
      step();
    }
    step();
    return value;
  }
  std::string mark(Place begin) {
    static constexpr std::array<std::string_view, 9> kTwo{":-", "<-", "::", "?-", "->", "!=", "<=", ">=", "+="};
    for (std::string_view two : kTwo)
      if (text_.substr(at_, 2) == two) {
        step();
        step();
        return std::string(two);
      }
    static constexpr std::string_view kOne = "()[]{},.;:?@=<>+-*/^";
    const char c = peek();
    if (kOne.find(c) == std::string_view::npos) {
      const auto byte = static_cast<unsigned char>(c);
      fail_at(file_, begin,
              byte >= 0x20 && byte < 0x7f
                  ? fmt::format("'{}' does not belong to the language{}", c, written_otherwise(c))
                  : fmt::format("byte 0x{:02x} does not belong to the language", byte));
    }
    step();
    return std::string(1, c);
  }
  /// What other languages write so.
  static std::string_view written_otherwise(char c) {
    switch (c) {
      case '%':
        return "; a comment begins with '#'";
      case '&':
        return "; 'and' is written ','";
      case '|':
        return "; 'or' is written ';'";
      case '!':
      case '~':
      case '\\':
        return "; negation is written 'not', unequal '!='";
      case '\'':
        return "; quotes are double ones";
      default:
        return "";
    }
  }

  std::string_view text_;
  const std::string& file_;
  std::vector<Comment>& comments_;
  std::size_t at_ = 0;
  Place place_;
};

}  // namespace

std::vector<Token> tokenise(std::string_view text, const std::string& file, std::vector<Comment>& comments,
                            bool in_query) {
  return Lexer(text, file, comments, in_query).all();
}

}  // namespace wr::rules
