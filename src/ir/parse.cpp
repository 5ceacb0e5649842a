// Reads the text that print() writes. The text is not trusted: whatever is wrong with it is an Error that names the
// line, the column and what was expected there.
//
// clang-format off
//   graph   = ["graph" "scopes=" INT "random_streams=" INT] {node} ["outputs" REFS] ["updates" list of REF "<-" REF]
//   node    = REF "=" value ":" TYPE "[" sizes "]" ["scope=" INT] ["copy=" INT] ["gradient"] ["@" source line] [body]
//   value   = "input" INT | "state" STRING ["#" INT] | "constant" "[" numbers "]" | OP "(" REFS ")" [attrs]
//   body    = "{" graph "}", of a scan, on lines of its own
//   attrs   = "{" list of ("ints=[" numbers "]" | "reals=[" numbers "]" | "text=" STRING) "}"
// clang-format on
//
// Blank lines, and lines that begin with "//", are skipped.
#include <charconv>
#include <limits>
#include <map>
#include <optional>

#include "ir/graph.h"

namespace wr::ir {
namespace {

constexpr std::int64_t kMostElements = std::int64_t{1} << 40;      // of any value
constexpr std::int64_t kMostLeafElements = std::int64_t{1} << 28;  // of a value that is allocated here

class Parser {
 public:
  explicit Parser(std::string_view text, std::size_t at = 0, int depth = 0)
      : text_(text), at_(at), depth_(depth), graph_(std::make_shared<Graph>()) {}

  std::shared_ptr<Graph> run() {
    skip_lines();
    if (accept_word("graph")) header();
    while (!at_end() && peek() == '%') {
      node();
      end_line();
    }
    if (accept_word("outputs")) outputs();
    if (accept_word("updates")) updates();
    if (!at_end()) expected("a node such as '%0 = ...', 'outputs', 'updates' or the end");
    order_inputs();
    return graph_;
  }

  /// A body: the same between braces. Returns where it ends.
  std::size_t run_body(std::shared_ptr<const Graph>& body) {
    skip_lines();
    if (accept_word("graph")) header();
    while (!at_end() && peek() == '%') {
      node();
      end_line();
    }
    if (accept_word("outputs")) outputs();
    if (!accept("}")) expected("a node such as '%0 = ...', 'outputs' or '}'");
    order_inputs();
    body = graph_;
    return at_;
  }

 private:
  // ---- characters ----
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }

  [[noreturn]] void error_at(std::size_t at, const std::string& message) const {
    std::size_t line = 1, start = 0;
    for (std::size_t i = 0; i < at; ++i)
      if (text_[i] == '\n') {
        ++line;
        start = i + 1;
      }
    throw Error("line " + std::to_string(line) + ", column " + std::to_string(at - start + 1) + ": " + message);
  }
  [[noreturn]] void error(const std::string& message) const { error_at(at_, message); }
  [[noreturn]] void expected(const std::string& what) const {
    const char c = peek();
    const std::string found = at_end()    ? "the end of the text"
                              : c == '\n' ? "the end of the line"
                              : c < ' '   ? "a control character"
                                          : "'" + std::string(1, c) + "'";
    error("expected " + what + ", found " + found);
  }

  void skip_blanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r') ++at_;
  }
  void skip_line() {
    while (!at_end() && peek() != '\n') ++at_;
  }
  void skip_lines() {
    for (;;) {
      skip_blanks();
      if (text_.substr(at_).starts_with("//")) skip_line();
      if (peek() != '\n') return;
      ++at_;
    }
  }
  void end_line() {
    skip_blanks();
    if (peek() == '@') skip_line();
    if (!at_end() && peek() != '\n') expected("the end of the line");
    skip_lines();
  }

  bool accept(std::string_view token) {
    skip_blanks();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) expected("'" + std::string(token) + "'");
  }
  static bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_'; }
  std::string_view word() {
    skip_blanks();
    const std::size_t start = at_;
    while (is_word(peek())) ++at_;
    return text_.substr(start, at_ - start);
  }
  bool accept_word(std::string_view wanted) {
    const std::size_t start = at_;
    if (word() == wanted) return true;
    at_ = start;
    return false;
  }

  // ---- tokens ----
  template <class Number>
  Number number(const char* what) {
    skip_blanks();
    Number value{};
    const char* first = text_.data() + at_;
    const auto [last, problem] = std::from_chars(first, text_.data() + text_.size(), value);
    if (problem == std::errc::result_out_of_range) error(std::string(what) + " is out of range");
    if (problem != std::errc{}) expected(what);
    at_ += static_cast<std::size_t>(last - first);
    return value;
  }
  std::int64_t integer(std::int64_t low, std::int64_t high, const char* what) {
    skip_blanks();
    const std::size_t start = at_;
    const auto value = number<std::int64_t>(what);
    if (value < low || value > high) error_at(start, std::string(what) + " is out of range");
    return value;
  }
  int small(const char* what) { return static_cast<int>(integer(0, std::numeric_limits<int>::max(), what)); }

  /// item() between commas until the closing character.
  template <class Item>
  void list(char close, Item item) {
    const std::string_view end(&close, 1);
    if (accept(end)) return;
    do item();
    while (accept(","));
    if (!accept(end)) expected("',' or '" + std::string(1, close) + "'");
  }

  std::string quoted() {
    expect("\"");
    std::string out;
    while (peek() != '"') {
      if (at_end() || peek() == '\n') expected("'\"'");
      if (peek() != '\\') {
        out += text_[at_++];
        continue;
      }
      ++at_;
      if (peek() == '"' || peek() == '\\') {
        out += text_[at_++];
      } else if (peek() == 'x' && at_ + 2 < text_.size()) {
        unsigned byte = 0;
        const char* first = text_.data() + at_ + 1;
        if (std::from_chars(first, first + 2, byte, 16).ptr != first + 2) expected("two hex digits");
        out += static_cast<char>(byte);
        at_ += 3;
      } else {
        expected("'\\\"', '\\\\' or '\\x..'");
      }
    }
    ++at_;
    return out;
  }

  /// "%3": a node that stands above.
  int reference() {
    skip_blanks();
    const std::size_t start = at_;
    expect("%");
    const auto id = integer(0, std::numeric_limits<int>::max(), "a node's number");
    if (id >= graph_->size()) error_at(start, "%" + std::to_string(id) + " is not defined above");
    return static_cast<int>(id);
  }

  DType dtype() {
    skip_blanks();
    const std::size_t start = at_;
    const std::string_view name = word();
    for (DType t : {DType::f32, DType::f64, DType::i32, DType::u8, DType::boolean})
      if (name == name_of(t)) return t;
    at_ = start;
    expected("a type: f32, f64, i32, u8 or bool");
  }

  Spec spec() {
    Spec out{dtype(), {}};
    skip_blanks();
    const std::size_t start = at_;
    expect("[");
    std::int64_t count = 1;
    list(']', [&] {
      if (out.shape.rank() == kMaxRank) error("a shape has at most " + std::to_string(kMaxRank) + " axes");
      const auto n = integer(0, kMostElements, "a size");
      // Sizes after a 0 count as well: no product of some of them may overflow either.
      if (n > 1 && count > kMostElements / n) error_at(start, "the shape has too many elements");
      count *= n > 1 ? n : 1;
      out.shape.push_back(n);
    });
    return out;
  }

  // ---- lines ----
  void header() {
    expect("scopes=");
    graph_->scopes = small("a number");
    expect("random_streams=");
    graph_->random_streams = small("a number");
    end_line();
  }

  void node() {
    const std::size_t line = at_;
    expect("%");
    if (integer(0, std::numeric_limits<int>::max(), "a node's number") != graph_->size())
      error_at(line, "expected %" + std::to_string(graph_->size()) + ": nodes are numbered in order");
    expect("=");
    skip_blanks();
    const std::size_t call = at_;
    const std::string_view name = word();
    if (name.empty()) expected("an op");
    const OpDef* def = find_op(name);
    if (!def) error_at(call, "unknown op '" + std::string(name) + "'");
    Node node;
    node.op = def->op;
    value_of(node);
    marks(node);
    if (node.op == Op::scan) body(node);
    if (!is_leaf(node.op)) infer(node, call);
    const int id = graph_->size();
    if (const int found = graph_->add_node(std::move(node)); found != id)
      error_at(line, "this node is equal to %" + std::to_string(found));
  }

  /// From the op's name to the type.
  void value_of(Node& node) {
    switch (node.op) {
      case Op::input:
        node.attrs.ints = {small("the input's position")};
        written_type(node, kMostElements);
        break;
      case Op::state: {
        std::string name = quoted();
        const int index = accept("#") ? small("a number") : 0;
        written_type(node, kMostLeafElements);
        node.variable = variable(name, index, node.spec);
        break;
      }
      case Op::constant:
        constant(node);
        break;
      default:
        expect("(");
        list(')', [&] { node.inputs.push_back(reference()); });
        if (accept("{")) attributes(node.attrs);
        written_type(node, kMostElements);
    }
  }

  void written_type(Node& node, std::int64_t most_elements) {
    expect(":");
    skip_blanks();
    const std::size_t start = at_;
    node.spec = spec();
    if (node.spec.shape.count() > most_elements) error_at(start, "the shape has too many elements");
  }

  void attributes(Attrs& attrs) {
    list('}', [&] {
      if (accept("ints=[")) {
        std::vector<std::int64_t> ints;
        list(']', [&] { ints.push_back(number<std::int64_t>("an integer")); });
        attrs.ints = std::move(ints);
      } else if (accept("reals=[")) {
        list(']', [&] { attrs.reals.push_back(number<double>("a number")); });
      } else if (accept("text=")) {
        attrs.text = quoted();
      } else {
        expected("'ints=[', 'reals=[' or 'text='");
      }
    });
  }

  void body(Node& node) {
    constexpr int kDeepest = 16;  // a text of braces alone is no program
    end_line();
    expect("{");
    if (depth_ == kDeepest) error("bodies stand in one another more than " + std::to_string(kDeepest) + " deep");
    at_ = Parser(text_, at_, depth_ + 1).run_body(node.attrs.body);
  }

  /// The elements come before the type, so they are read once the type is known.
  void constant(Node& node) {
    expect("[");
    const std::size_t elements = at_;
    at_ = std::min(text_.find_first_of("]\n", at_), text_.size());
    expect("]");
    written_type(node, kMostLeafElements);
    const std::size_t end = std::exchange(at_, elements);
    switch (node.spec.dtype) {
      case DType::f32:
        node.value = numbers<float, float>(node.spec);
        break;
      case DType::f64:
        node.value = numbers<double, double>(node.spec);
        break;
      case DType::i32:
        node.value = numbers<std::int32_t, std::int32_t>(node.spec);
        break;
      case DType::u8:
        node.value = numbers<std::uint8_t, std::uint8_t>(node.spec);
        break;
      case DType::boolean:
        node.value = numbers<bool, std::uint8_t>(node.spec);
        break;
    }
    at_ = end;
  }

  template <class T, class Read>
  std::shared_ptr<const Array> numbers(const Spec& spec) {
    const std::size_t start = at_;
    std::vector<T> values;
    list(']', [&] {
      const auto value = number<Read>("an element");
      if (std::is_same_v<T, bool> && value != Read{} && value != Read{1}) error("expected 0 or 1");
      values.push_back(static_cast<T>(value));
    });
    if (std::ssize(values) != spec.shape.count())
      error_at(start, "expected " + std::to_string(spec.shape.count()) + " elements for " + to_string(spec) +
                          ", found " + std::to_string(values.size()));
    return std::make_shared<const Array>(Array::from(values, spec.shape));
  }

  void infer(const Node& node, std::size_t at) const {
    std::optional<Spec> inferred;
    try {
      inferred = ir::infer(*graph_, node);
    } catch (const Error& problem) {
      error_at(at, std::string(definition(node.op).name) + ": " + problem.what());
    }
    if (!(*inferred == node.spec))
      error_at(at, std::string(definition(node.op).name) + ": the type is " + to_string(*inferred) + ", not " +
                       to_string(node.spec));
  }

  void marks(Node& node) {
    if (accept("scope=")) node.scope = small("a number");
    if (accept("copy=")) node.copy = small("a number");
    node.gradient = accept_word("gradient");
  }

  std::shared_ptr<Variable> variable(const std::string& name, int index, const Spec& spec) {
    auto& found = variables_[{name, index}];
    if (!found) found = std::make_shared<Variable>(name, Array::zeros(spec.shape, spec.dtype));
    if (!(found->spec == spec)) error("state \"" + name + "\" is " + to_string(found->spec) + " above");
    return found;
  }

  void outputs() {
    do graph_->outputs.push_back(reference());
    while (accept(","));
    end_line();
  }

  void updates() {
    do {
      skip_blanks();
      const std::size_t start = at_;
      Update update{reference(), 0};
      if ((*graph_)[update.state].op != Op::state) error_at(start, "expected a state");
      for (const Update& other : graph_->updates)
        if (other.state == update.state) error_at(start, "this state is updated twice");
      expect("<-");
      skip_blanks();
      const std::size_t value = at_;
      update.value = reference();
      if (!((*graph_)[update.value].spec == (*graph_)[update.state].spec))
        error_at(value, "the state is " + to_string((*graph_)[update.state].spec) + ", the value " +
                            to_string((*graph_)[update.value].spec));
      graph_->updates.push_back(update);
    } while (accept(","));
    end_line();
  }

  /// The step's arguments are in the order of the positions that the inputs state, wherever they stand in the text.
  void order_inputs() {
    std::vector<int> ordered(graph_->inputs.size(), -1);
    for (int id : graph_->inputs) {
      const auto position = static_cast<std::size_t>((*graph_)[id].attrs.ints[0]);
      if (position >= ordered.size() || ordered[position] >= 0)
        error("the positions of the inputs are not 0 to " + std::to_string(ordered.size() - 1));
      ordered[position] = id;
    }
    graph_->inputs = std::move(ordered);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::shared_ptr<Graph> graph_;
  std::map<std::pair<std::string, int>, std::shared_ptr<Variable>> variables_;
};

}  // namespace

std::shared_ptr<Graph> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace wr::ir
