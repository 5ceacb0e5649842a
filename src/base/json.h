// JSON as a value, and as events for texts that are read piece by piece. Nothing of the library that does the work is
// seen here: json.cpp alone pays for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

namespace wr {

/// A value of JSON. Objects keep the order in which their members were added.
class Json {
 public:
  struct Member;
  using List = std::vector<Json>;
  using Object = std::vector<Member>;

  Json();  // null
  Json(bool value);
  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Json(T value) : Json(Whole{std::int64_t(value)}) {}
  template <class T>
  requires std::is_floating_point_v<T> Json(T value) : Json(Real{static_cast<double>(value)}) {}
  Json(std::string value);
  Json(std::string_view value);
  Json(const char* value);
  // Not inline: a Member, of which an object is a list, holds a Json and is complete only after this class.
  Json(const Json& other);
  Json(Json&& other) noexcept;
  Json& operator=(const Json& other);
  Json& operator=(Json&& other) noexcept;
  ~Json();
  Json(std::initializer_list<Member> members);  // {{"name", value}, ...}: an object
  static Json object();
  static Json list(List values = {});
  /// A list of the elements of any range.
  template <class Range>
  static Json list_of(const Range& range) {
    List values;
    for (const auto& each : range) values.emplace_back(each);
    return list(std::move(values));
  }

  bool is_null() const { return value_.index() == 0; }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_number() const {
    return std::holds_alternative<std::int64_t>(value_) || std::holds_alternative<double>(value_);
  }
  bool is_text() const { return std::holds_alternative<std::string>(value_); }
  bool is_list() const { return std::holds_alternative<List>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  const char* type_name() const;  // "null", "boolean", "number", "string", "array", "object"

  /// What it holds; asking for something else is a mistake of the caller (std::bad_variant_access).
  bool boolean() const { return std::get<bool>(value_); }
  double number() const;
  const std::string& text() const { return std::get<std::string>(value_); }
  const List& items() const { return std::get<List>(value_); }
  List& items() { return std::get<List>(value_); }
  const Object& members() const { return std::get<Object>(value_); }
  Object& members() { return std::get<Object>(value_); }

  /// A member of an object; nullptr where there is none, or this is no object.
  const Json* find(std::string_view name) const;
  /// The same, or an element of a list, where it must be there: throws Error.
  const Json& at(std::string_view name) const;
  const Json& at(std::size_t index) const;
  /// A member of an object, added if it is not there.
  Json& operator[](std::string_view name);
  void push_back(Json value) { items().push_back(std::move(value)); }

  friend bool operator==(const Json& a, const Json& b);

  /// On one line. Bytes that are no UTF-8 become U+FFFD; numbers that are not finite become null.
  std::string dump() const;

 private:
  struct Whole {
    std::int64_t value;
  };
  struct Real {
    double value;
  };
  explicit Json(Whole number);
  explicit Json(Real number);
  void write_to(std::string& out) const;
  std::variant<std::monostate, bool, std::int64_t, double, std::string, List, Object> value_;
};

struct Json::Member {
  std::string name;
  Json value;
  friend bool operator==(const Member& a, const Member& b) = default;
};

/// Throws Error: "NAME: is not JSON at byte 12: ...". Nested at most 200 deep.
Json parse_json(std::string_view text, const std::string& name);

/// A text in quotes, with what JSON wants escaped; throws Error if it is not UTF-8.
std::string json_quoted(const std::string& text);

/// What a reader of events is told, in the order of the text. It may throw.
class JsonEvents {
 public:
  virtual ~JsonEvents() = default;
  virtual void null() = 0;
  virtual void boolean(bool value) = 0;
  virtual void negative(std::int64_t value) = 0;
  virtual void whole(std::uint64_t value) = 0;
  virtual void real(double value) = 0;
  virtual void text(std::string& value) = 0;
  virtual void begin_object() = 0;
  virtual void key(std::string& name) = 0;
  virtual void end_object() = 0;
  virtual void begin_list() = 0;
  virtual void end_list() = 0;
  /// The text is no JSON from this byte on; must throw.
  [[noreturn]] virtual void refuse(std::size_t byte, const std::string& why) = 0;
};

/// Needs no stack and builds no tree: depth and size of hostile input cost only what `events` keeps.
void read_json(std::string_view text, JsonEvents& events);

}  // namespace wr
