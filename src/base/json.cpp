// The one file that sees nlohmann-json.
#include "base/json.h"

#include <nlohmann/json.hpp>

#include "windrow/error.h"

namespace wr {
namespace {

using Library = nlohmann::ordered_json;

/// Hands the library's events on.
class Events final : public nlohmann::json_sax<Library> {
 public:
  explicit Events(JsonEvents& to) : to_(to) {}
  bool null() override { return to_.null(), true; }
  bool boolean(bool value) override { return to_.boolean(value), true; }
  bool number_integer(number_integer_t value) override { return to_.negative(value), true; }
  bool number_unsigned(number_unsigned_t value) override { return to_.whole(value), true; }
  bool number_float(number_float_t value, const string_t&) override { return to_.real(value), true; }
  bool string(string_t& value) override { return to_.text(value), true; }
  bool binary(binary_t&) override { return false; }  // JSON has none
  bool start_object(std::size_t) override { return to_.begin_object(), true; }
  bool key(string_t& name) override { return to_.key(name), true; }
  bool end_object() override { return to_.end_object(), true; }
  bool start_array(std::size_t) override { return to_.begin_list(), true; }
  bool end_array() override { return to_.end_list(), true; }
  bool parse_error(std::size_t byte, const std::string&, const nlohmann::detail::exception& error) override {
    std::string why = error.what();
    if (const auto colon = why.rfind(": "); colon != std::string::npos) why.erase(0, colon + 2);
    to_.refuse(byte, why);  // throws
    return false;
  }

 private:
  JsonEvents& to_;
};

constexpr std::size_t kMostDepth = 200;  // a tree is taken down by recursion

class TreeBuilder final : public JsonEvents {
 public:
  explicit TreeBuilder(const std::string& name) : name_(name) {}
  void null() override { add({}); }
  void boolean(bool value) override { add(value); }
  void negative(std::int64_t value) override { add(value); }
  void whole(std::uint64_t value) override {
    if (value > std::uint64_t{INT64_MAX})
      add(static_cast<double>(value));
    else
      add(value);
  }
  void real(double value) override { add(value); }
  void text(std::string& value) override { add(std::move(value)); }
  void begin_object() override { open(Json::object()); }
  void key(std::string& name) override { key_ = std::move(name); }
  void end_object() override { open_.pop_back(); }
  void begin_list() override { open(Json::list()); }
  void end_list() override { open_.pop_back(); }
  void refuse(std::size_t byte, const std::string& why) override {
    throw Error(name_ + ": is not JSON at byte " + std::to_string(byte) + ": " + why.substr(0, 200));
  }

  Json root;

 private:
  /// Parents stay where they are while a child is open: only the innermost grows.
  Json& add(Json value) {
    if (open_.empty()) return root = std::move(value);
    Json& parent = *open_.back();
    if (parent.is_list()) return parent.items().emplace_back(std::move(value));
    return parent.members().emplace_back(Json::Member{std::move(key_), std::move(value)}).value;
  }
  void open(Json value) {
    if (open_.size() == kMostDepth) throw Error(name_ + ": is nested more than 200 deep");
    open_.push_back(&add(std::move(value)));
  }
  const std::string& name_;
  std::string key_;
  std::vector<Json*> open_;
};

}  // namespace

Json::Json() = default;
Json::Json(bool value) : value_(value) {}
Json::Json(Whole number) : value_(number.value) {}
Json::Json(Real number) : value_(number.value) {}
Json::Json(std::string value) : value_(std::move(value)) {}
Json::Json(std::string_view value) : value_(std::string(value)) {}
Json::Json(const char* value) : value_(std::string(value)) {}
Json::Json(std::initializer_list<Member> members) : value_(Object(members)) {}
Json::Json(const Json& other) = default;
Json::Json(Json&& other) noexcept = default;
Json& Json::operator=(const Json& other) = default;
Json& Json::operator=(Json&& other) noexcept = default;
Json::~Json() = default;

Json Json::object() {
  Json result;
  result.value_ = Object{};
  return result;
}

Json Json::list(List values) {
  Json result;
  result.value_ = std::move(values);
  return result;
}

const char* Json::type_name() const {
  static constexpr const char* kNames[] = {"null", "boolean", "number", "number", "string", "array", "object"};
  return kNames[value_.index()];
}

double Json::number() const {
  if (const auto* whole = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*whole);
  return std::get<double>(value_);
}

const Json* Json::find(std::string_view name) const {
  if (!is_object()) return nullptr;
  for (const Member& m : members())
    if (m.name == name) return &m.value;
  return nullptr;
}

const Json& Json::at(std::string_view name) const {
  if (const Json* found = find(name)) return *found;
  throw Error("this JSON has no \"" + std::string(name) + "\"");
}

const Json& Json::at(std::size_t index) const {
  if (is_list() && index < items().size()) return items()[index];
  throw Error("this JSON has no element " + std::to_string(index));
}

Json& Json::operator[](std::string_view name) {
  for (Member& m : members())
    if (m.name == name) return m.value;
  return members().emplace_back(Member{std::string(name), {}}).value;
}

bool operator==(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  return a.value_ == b.value_;
}

std::string Json::dump() const {
  std::string out;
  write_to(out);
  return out;
}

void Json::write_to(std::string& out) const {
  const auto scalar = [](const auto& value) {
    return Library(value).dump(-1, ' ', false, Library::error_handler_t::replace);
  };
  if (is_list()) {
    out += '[';
    for (const Json& each : items()) {
      if (out.back() != '[') out += ',';
      each.write_to(out);
    }
    out += ']';
  } else if (is_object()) {
    out += '{';
    for (const Member& m : members()) {
      if (out.back() != '{') out += ',';
      out += scalar(m.name) + ':';
      m.value.write_to(out);
    }
    out += '}';
  } else if (const auto* whole = std::get_if<std::int64_t>(&value_)) {
    out += std::to_string(*whole);
  } else if (is_number()) {
    out += scalar(number());
  } else if (is_text()) {
    out += scalar(text());
  } else {
    out += is_bool() ? (boolean() ? "true" : "false") : "null";
  }
}

Json parse_json(std::string_view text, const std::string& name) {
  TreeBuilder builder(name);
  read_json(text, builder);
  return std::move(builder.root);
}

std::string json_quoted(const std::string& text) {
  try {
    return Library(text).dump();
  } catch (const Library::exception&) {
    throw Error("the text '" + text + "' is not UTF-8");
  }
}

void read_json(std::string_view text, JsonEvents& events) {
  // The library takes a zero byte for the end; whatever follows it would go unseen.
  if (const auto zero = text.find('\0'); zero != std::string_view::npos) events.refuse(zero, "a zero byte");
  Events handler(events);
  Library::sax_parse(text.begin(), text.end(), &handler);
}

}  // namespace wr
