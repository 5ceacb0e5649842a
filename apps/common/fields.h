// Settings as named fields: each is a number, a choice or a yes/no, known by name on the command line and in
// checkpoints.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "windrow/checkpoint.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::apps {

/// Names as they are on the command line and in a checkpoint; values as text.
using Texts = std::map<std::string, std::string>;

template <class S>
struct NamedField {
  std::string name, help, type;
  std::function<std::string(const S&)> get;
  std::function<void(S&, const std::string&)> set;
};

[[noreturn]] inline void refuse_setting(const std::string& name, const std::string& text, const std::string& expected) {
  throw Error(fmt::format("{} is '{}'; expected {}", name, text::printable(text), expected));
}

template <class S, class T>
NamedField<S> number_field(const std::string& name, T S::*member, T low, T high, const std::string& help) {
  return {name, help, std::is_integral_v<T> ? "N" : "X", [=](const S& s) { return fmt::format("{}", s.*member); },
          [=](S& s, const std::string& text) {
            T value{};
            const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
            if (error != std::errc{} || end != text.data() + text.size() || !(value >= low && value <= high))
              refuse_setting(name, text, fmt::format("a number from {} to {}", low, high));
            s.*member = value;
          }};
}

template <class S>
NamedField<S> choice_field(const std::string& name, std::string S::*member, const std::vector<std::string>& names,
                           const std::string& help) {
  return {name, help, fmt::format("{}", fmt::join(names, "|")), [=](const S& s) { return s.*member; },
          [=](S& s, const std::string& text) {
            if (std::find(names.begin(), names.end(), text) == names.end())
              refuse_setting(name, text, fmt::format("one of {}", fmt::join(names, ", ")));
            s.*member = text;
          }};
}

template <class S>
NamedField<S> yes_no_field(const std::string& name, bool S::*member, const std::string& help) {
  return {name, help, "yes|no", [=](const S& s) { return std::string(s.*member ? "yes" : "no"); },
          [=](S& s, const std::string& text) {
            if (text != "yes" && text != "no") refuse_setting(name, text, "yes or no");
            s.*member = text == "yes";
          }};
}

/// Any text.
template <class S>
NamedField<S> text_field(const std::string& name, std::string S::*member, const std::string& type,
                         const std::string& help) {
  return {name, help, type, [=](const S& s) { return s.*member; },
          [=](S& s, const std::string& text) { s.*member = text; }};
}

template <class S>
const NamedField<S>& field_named(const std::vector<NamedField<S>>& fields, const std::string& name) {
  for (const auto& f : fields)
    if (f.name == name) return f;
  throw Error(fmt::format("there is no setting called '{}'", name));
}

template <class S>
Texts texts_of(const S& settings, const std::vector<NamedField<S>>& fields) {
  Texts texts;
  for (const auto& f : fields) texts[f.name] = f.get(settings);
  return texts;
}

/// Settings as a checkpoint's metadata has them; each field must be there.
template <class S, class Fields>
S fields_from(const Metadata& metadata, const std::string& path, const Fields& fields) {
  S settings;
  for (const auto& f : fields) {
    const auto found = metadata.find(f.name);
    if (found == metadata.end()) throw Error(fmt::format("{}: its metadata has no '{}'", path, f.name));
    try {
      f.set(settings, found->second);
    } catch (const Error& e) {
      throw Error(fmt::format("{}: metadata: {}", path, e.what()));
    }
  }
  return settings;
}

/// Refuses metadata that is not `app`'s; `what` is what was expected, in words.
inline void expect_app(const Metadata& metadata, const std::string& path, const std::string& app,
                       const std::string& what) {
  const auto found = metadata.find("windrow.app");
  if (found != metadata.end() && found->second == app) return;
  throw Error(
      fmt::format("{}: is no checkpoint of {}: its metadata has {}", path, what,
                  found == metadata.end() ? "no windrow.app" : "windrow.app = " + text::printable(found->second)));
}

}  // namespace wr::apps
