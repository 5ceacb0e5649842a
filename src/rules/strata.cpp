// Which predicates need which: strongly connected components in the order of computing, and the refusal of programs in
// which something depends on its own negation.
#include "rules/strata.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>

namespace wr::rules {
namespace {

struct Edge {
  int to = 0;
  bool negative = false;
  Place place;
};

struct Walk {  // Tarjan's, with its own stack: programs may be deep
  const std::vector<std::vector<Edge>>& edges;
  std::vector<int> index, low, stack;
  std::vector<bool> on_stack;
  std::vector<std::vector<int>> components;
  int next = 0;

  explicit Walk(const std::vector<std::vector<Edge>>& e)
      : edges(e), index(e.size(), -1), low(e.size(), 0), on_stack(e.size(), false) {}
  void open(int v) {
    index[v] = low[v] = next++;
    stack.push_back(v);
    on_stack[v] = true;
  }
  void from(int root) {
    struct Frame {
      int v;
      std::size_t edge;
    };
    std::vector<Frame> frames{{root, 0}};
    open(root);
    while (!frames.empty()) {
      Frame& f = frames.back();
      const auto v = static_cast<std::size_t>(f.v);
      if (f.edge < edges[v].size()) {
        const int to = edges[v][f.edge++].to;
        if (index[to] < 0) {
          open(to);
          frames.push_back({to, 0});
        } else if (on_stack[to]) {
          low[v] = std::min(low[v], index[to]);
        }
        continue;
      }
      if (low[v] == index[v]) close(f.v);
      const int done = f.v;
      frames.pop_back();
      if (!frames.empty()) {
        auto& up = low[frames.back().v];
        up = std::min(up, low[done]);
      }
    }
  }
  void close(int v) {
    std::vector<int> component;
    int member = -1;
    do {
      member = stack.back();
      stack.pop_back();
      on_stack[member] = false;
      component.push_back(member);
    } while (member != v);
    std::sort(component.begin(), component.end());
    components.push_back(std::move(component));
  }
};

/// The way from one predicate to another inside their component, as names.
std::string path(const Checked& program, const std::vector<std::vector<Edge>>& edges, int from, int to) {
  std::vector<int> before(edges.size(), -1);
  std::deque<int> queue{from};
  before[from] = from;
  while (!queue.empty() && before[to] < 0) {
    const int v = queue.front();
    queue.pop_front();
    for (const Edge& e : edges[v])
      if (before[e.to] < 0) {
        before[e.to] = v;
        queue.push_back(e.to);
      }
  }
  std::string text = program.predicates[to].name;
  for (int v = to; v != from; v = before[v]) text = program.predicates[before[v]].name + " <- " + text;
  return text;
}

}  // namespace

void find_strata(Checked& program) {
  std::vector<std::vector<Edge>> edges(program.predicates.size());
  for (const Statement& s : program.syntax.statements) {
    if (s.kind != Statement::Kind::rule && s.kind != Statement::Kind::equation) continue;
    const auto head = static_cast<std::size_t>(program.id(s.head.name));
    const auto add = [&](const Atom& a, bool negative) {
      if (!a.choice) edges[head].push_back({program.id(a.name), negative, a.place});
      if (a.choice)  // may turn out to be any relation of that signature
        for (std::size_t p = 0; p < program.predicates.size(); ++p)
          if (matches_choice(program, a, static_cast<int>(p), static_cast<int>(head)))
            edges[head].push_back({static_cast<int>(p), negative, a.place});
    };
    if (s.kind == Statement::Kind::rule)
      for_each_atom(s.body, false, add);
    else
      for_each_atom(s.value, add);
  }
  Walk walk(edges);
  for (std::size_t v = 0; v < edges.size(); ++v)
    if (walk.index[v] < 0) walk.from(static_cast<int>(v));
  program.components = std::move(walk.components);
  program.component_of.assign(edges.size(), 0);
  for (std::size_t c = 0; c < program.components.size(); ++c)
    for (int p : program.components[c]) program.component_of[p] = static_cast<int>(c);
  for (std::size_t v = 0; v < edges.size(); ++v)
    for (const Edge& e : edges[v])
      if (e.negative && program.component_of[v] == program.component_of[e.to]) {
        const std::string& name = program.predicates[v].name;
        fail_at(program.syntax.name, e.place,
                fmt::format("{} depends on its own negation: {} <- not {}; negation must be stratified", name, name,
                            path(program, edges, e.to, static_cast<int>(v))));
      }
}

bool matches_choice(const Checked& program, const Atom& choice, int predicate, int head) {
  const Predicate& p = program.predicates[predicate];
  if (p.tensor || predicate == head || p.domains.size() != choice.terms.size() || p.defined) return false;
  const Predicate* like = nullptr;
  if (const int id = program.id("?" + choice.name); id >= 0) like = &program.predicates[id];
  return like != nullptr && like != &p && !p.name.starts_with('?') && p.domains == like->domains;
}

}  // namespace wr::rules
