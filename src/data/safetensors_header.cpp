// The JSON of a safetensors header, read as events: no stack and no tree, so depth and size of hostile input cost
// nothing but the entries we keep.
#include <unordered_set>

#include "base/json.h"
#include "data/safetensors.h"
#include "windrow/error.h"

namespace wr::data {

namespace {

constexpr int kMostDepth = 100;

/// Follows the events through {name: {dtype, shape, data_offsets}, "__metadata__": {string: string}}.
class Handler final : public JsonEvents {
 public:
  void null() override {
    if (place_ == Place::file && in_metadata_)  // the format's library takes it for "none"
      in_metadata_ = false;
    else
      other("null");
  }
  void boolean(bool) override { other("a bool"); }
  void negative(std::int64_t) override { other("a negative number"); }
  void real(double) override { other("a number that is no whole one, or too large"); }

  void whole(std::uint64_t value) override {
    if (place_ == Place::shape) {
      entry().shape.push_back(value);
    } else if (place_ == Place::offsets) {
      if (offsets_ == 2) fail_here("data_offsets has more than two numbers");
      (offsets_++ == 0 ? entry().begin : entry().end) = value;
    } else {
      other("a number");
    }
  }

  void text(std::string& value) override {
    if (place_ == Place::metadata) {
      header.metadata[metadata_key_] = value;
    } else if (place_ == Place::tensor && field_ == kDtype) {
      entry().dtype = value;
    } else {
      other("a string");
    }
  }

  void begin_object() override {
    if (++depth_ > kMostDepth) throw Error("the header is nested too deeply");
    if (place_ == Place::outside) {
      place_ = Place::file;
    } else if (place_ == Place::file) {
      place_ = in_metadata_ ? Place::metadata : Place::tensor;
      seen_ = 0;
    } else if (place_ != Place::ignored) {
      if (place_ == Place::tensor && field_ == kOther)
        enter_ignored();
      else
        other("an object");
    }
  }

  void key(std::string& value) override {
    if (place_ == Place::file) {
      if (!names_.insert(value).second) throw Error("the header has '" + shown(value) + "' twice");
      in_metadata_ = value == "__metadata__";
      if (!in_metadata_) header.tensors.push_back({value, {}, {}, 0, 0});
    } else if (place_ == Place::metadata) {
      if (header.metadata.contains(value)) throw Error("__metadata__ has '" + shown(value) + "' twice");
      metadata_key_ = value;
    } else if (place_ == Place::tensor) {
      field_ = value == "dtype" ? kDtype : value == "shape" ? kShape : value == "data_offsets" ? kOffsets : kOther;
      if (field_ != kOther && (seen_ & field_)) fail_here("has '" + value + "' twice");
      seen_ |= field_;
    }
  }

  void end_object() override {
    --depth_;
    if (place_ == Place::ignored) {
      leave_ignored();
    } else if (place_ == Place::tensor) {
      if (!(seen_ & kDtype)) fail_here("has no dtype");
      if (!(seen_ & kShape)) fail_here("has no shape");
      if (!(seen_ & kOffsets)) fail_here("has no data_offsets");
      place_ = Place::file;
    } else if (place_ == Place::metadata) {
      place_ = Place::file;
      in_metadata_ = false;
    } else {
      place_ = Place::outside;
    }
  }

  void begin_list() override {
    if (++depth_ > kMostDepth) throw Error("the header is nested too deeply");
    if (place_ == Place::ignored) return;
    if (place_ != Place::tensor || field_ == kDtype) {
      other("an array");
    } else if (field_ == kShape) {
      place_ = Place::shape;
    } else if (field_ == kOffsets) {
      place_ = Place::offsets;
      offsets_ = 0;
    } else {
      enter_ignored();
    }
  }

  void end_list() override {
    --depth_;
    if (place_ == Place::ignored) {
      leave_ignored();
      return;
    }
    if (place_ == Place::offsets && offsets_ != 2) fail_here("data_offsets has fewer than two numbers");
    place_ = Place::tensor;
  }

  void refuse(std::size_t byte, const std::string& why) override {
    throw Error("the header is no JSON at its byte " + std::to_string(byte) + ": " + shown(why));
  }

  ParsedHeader header;

 private:
  enum class Place { outside, file, metadata, tensor, shape, offsets, ignored };
  enum Field : unsigned { kOther = 0, kDtype = 1, kShape = 2, kOffsets = 4 };

  TensorEntry& entry() { return header.tensors.back(); }
  static std::string shown(const std::string& text) { return text.size() <= 100 ? text : text.substr(0, 100) + "..."; }
  [[noreturn]] void fail_here(const std::string& reason) {
    throw Error("tensor '" + shown(entry().name) + "': " + reason);
  }
  /// A value that has no business here, unless it belongs to a field we do not know: those are ignored, as by the
  /// format's own library.
  void other(const char* what) {
    if (place_ == Place::ignored || (place_ == Place::tensor && field_ == kOther)) return;
    const std::string reason = std::string("has ") + what + " where it does not belong";
    if (place_ == Place::outside) throw Error("the header " + reason);
    if (in_metadata_) throw Error("__metadata__ " + reason);
    fail_here(reason);
  }
  void enter_ignored() {
    place_ = Place::ignored;
    ignored_from_ = depth_;
  }
  void leave_ignored() {
    if (depth_ < ignored_from_) place_ = Place::tensor;
  }

  Place place_ = Place::outside;
  unsigned field_ = kOther, seen_ = 0;
  bool in_metadata_ = false;
  int depth_ = 0, ignored_from_ = 0, offsets_ = 0;
  std::string metadata_key_;
  std::unordered_set<std::string> names_;
};

}  // namespace

ParsedHeader parse_safetensors_header(std::string_view text) {
  if (!text.starts_with('{')) throw Error("the header does not begin with '{'");
  Handler handler;
  read_json(text, handler);
  return std::move(handler.header);
}

std::string print_safetensors_header(const ParsedHeader& header) {
  std::string out = "{";
  if (!header.metadata.empty()) {
    out += "\"__metadata__\":{";
    for (const auto& [key, value] : header.metadata) out += json_quoted(key) + ":" + json_quoted(value) + ",";
    out.back() = '}';
    out += ',';
  }
  for (const TensorEntry& t : header.tensors) {
    std::string shape;
    for (const std::uint64_t size : t.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    out += json_quoted(t.name) + ":{\"dtype\":\"" + t.dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" +
           std::to_string(t.begin) + "," + std::to_string(t.end) + "]},";
  }
  if (out.size() > 1) out.pop_back();
  out += '}';
  out.append((8 - out.size() % 8) % 8, ' ');  // so that the tensors are aligned
  return out;
}

}  // namespace wr::data
