// A graph as text, one line a node. parse.cpp reads it back; the grammar stands there.
#include <charconv>
#include <map>

#include "ir/graph.h"

namespace wr::ir {
namespace {

template <class Number>
void append_number(std::string& out, Number value) {
  char digits[40];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);  // floats: the shortest that reads back
}

template <class List, class Append>
void append_list(std::string& out, const List& list, Append append) {
  bool first = true;
  for (const auto& item : list) {
    if (!first) out += ", ";
    first = false;
    append(item);
  }
}

void append_quoted(std::string& out, std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_attrs(std::string& out, const Attrs& attrs) {
  if (attrs == Attrs{}) return;
  const char* separator = " {";
  auto key = [&](const char* name) {
    out += separator;
    out += name;
    separator = ", ";
  };
  if (!attrs.ints.empty()) {
    key("ints=[");
    append_list(out, attrs.ints, [&](std::int64_t i) { append_number(out, i); });
    out += ']';
  }
  if (!attrs.reals.empty()) {
    key("reals=[");
    append_list(out, attrs.reals, [&](double r) { append_number(out, r); });
    out += ']';
  }
  if (!attrs.text.empty()) {
    key("text=");
    append_quoted(out, attrs.text);
  }
  out += '}';
}

template <class T>
void append_typed_elements(std::string& out, const Array& value, std::int64_t limit) {
  const T* data = value.data<T>();
  for (std::int64_t i = 0; i < value.count(); ++i) {
    if (i) out += ", ";
    if (i == limit) {
      out += "...";
      return;
    }
    if constexpr (std::is_floating_point_v<T>)
      append_number(out, data[i]);
    else
      append_number(out, static_cast<int>(data[i]));
  }
}

void append_elements(std::string& out, const Array& value, std::int64_t limit) {
  out += '[';
  switch (value.dtype()) {
    case DType::f32:
      append_typed_elements<float>(out, value, limit);
      break;
    case DType::f64:
      append_typed_elements<double>(out, value, limit);
      break;
    case DType::i32:
      append_typed_elements<std::int32_t>(out, value, limit);
      break;
    case DType::u8:
      append_typed_elements<std::uint8_t>(out, value, limit);
      break;
    case DType::boolean:
      append_typed_elements<bool>(out, value, limit);
      break;
  }
  out += ']';
}

/// Different states may have the same name: the second, third, ... of a name is told apart by "#1", "#2", ...
class StateNames {
 public:
  int index(const Variable* variable) {
    auto& known = by_name_[variable->name];
    for (std::size_t i = 0; i < known.size(); ++i)
      if (known[i] == variable) return static_cast<int>(i);
    known.push_back(variable);
    return static_cast<int>(known.size()) - 1;
  }

 private:
  std::map<std::string, std::vector<const Variable*>> by_name_;
};

void append_reference(std::string& out, int id) {
  out += '%';
  append_number(out, id);
}

void append_call(std::string& out, const Node& node, StateNames& names, std::int64_t limit) {
  out += definition(node.op).name;
  if (node.op == Op::input) {
    out += ' ';
    append_number(out, node.attrs.ints.empty() ? std::int64_t{-1} : node.attrs.ints[0]);
  } else if (node.op == Op::state) {
    out += ' ';
    append_quoted(out, node.variable ? node.variable->name : "");
    if (const int index = node.variable ? names.index(node.variable.get()) : 0) {
      out += '#';
      append_number(out, index);
    }
  } else if (node.op == Op::constant) {
    out += ' ';
    if (node.value) append_elements(out, *node.value, limit);
  } else {
    out += '(';
    append_list(out, node.inputs, [&](int i) { append_reference(out, i); });
    out += ')';
    append_attrs(out, node.attrs);
  }
}

void append_graph(std::string& out, const Graph& graph, const std::string& indent, StateNames& names,
                  std::int64_t limit, bool with_lines);

void append_node(std::string& out, const Graph& graph, int id, StateNames& names, std::int64_t limit, bool with_lines,
                 const std::string& indent = "") {
  const Node& node = graph[id];
  append_reference(out, id);
  out += " = ";
  append_call(out, node, names, limit);
  out += " : ";
  out += to_string(node.spec);
  if (node.scope) {
    out += " scope=";
    append_number(out, node.scope);
  }
  if (node.copy) {
    out += " copy=";
    append_number(out, node.copy);
  }
  if (node.gradient) out += " gradient";
  if (with_lines && *node.where.file_name()) {
    out += "  @";
    out += to_string(node.where);
  }
  if (node.attrs.body) {
    out += '\n' + indent + "{\n";
    append_graph(out, *node.attrs.body, indent + "  ", names, limit, with_lines);
    out += indent + '}';
  }
}

void append_graph(std::string& out, const Graph& graph, const std::string& indent, StateNames& names,
                  std::int64_t limit, bool with_lines) {
  if (graph.scopes || graph.random_streams) {
    out += indent + "graph scopes=";
    append_number(out, graph.scopes);
    out += " random_streams=";
    append_number(out, graph.random_streams);
    out += '\n';
  }
  for (int id = 0; id < graph.size(); ++id) {
    out += indent;
    append_node(out, graph, id, names, limit, with_lines, indent);
    out += '\n';
  }
  if (!graph.outputs.empty()) {
    out += indent + "outputs ";
    append_list(out, graph.outputs, [&](int id) { append_reference(out, id); });
    out += '\n';
  }
  if (!graph.updates.empty()) {
    out += indent + "updates ";
    append_list(out, graph.updates, [&](const Update& update) {
      append_reference(out, update.state);
      out += " <- ";
      append_reference(out, update.value);
    });
    out += '\n';
  }
}

}  // namespace

std::string print(const Graph& graph, bool with_lines) {
  std::string out;
  StateNames names;
  append_graph(out, graph, "", names, -1, with_lines);
  return out;
}

std::string print_node(const Graph& graph, int id) {
  constexpr std::int64_t kElementsInMessages = 16;
  std::string out;
  StateNames names;
  append_node(out, graph, id, names, kElementsInMessages, true);
  return out;
}

}  // namespace wr::ir
