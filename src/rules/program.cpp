#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/nearest.h"
#include "rules/demand.h"
#include "rules/explain.h"
#include "rules/files.h"
#include "rules/functions.h"
#include "rules/inside.h"
#include "rules/real.h"
#include "rules/solve.h"
#include "windrow/data.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {

Answers answers_of(const Checked& checked, const CoreProgram& core, Solver& solver, const std::string& query) {
  Answers answers;
  answers.query = query;
  for (const std::string& n : core.answer_names) answers.columns.push_back(n.substr(0, n.find('#')));
  const auto& domains = core.predicates[core.answer].domains;
  solver.relation(core.answer).tuples().each([&](const Value* tuple) {
    std::vector<std::string> row;
    for (std::size_t i = 0; i < domains.size(); ++i) row.push_back(checked.domains[domains[i]].name_of(tuple[i]));
    answers.rows.push_back(std::move(row));
  });
  return answers;
}

Answers solved(const Checked& checked, const Program::Inside& inside, int query, const SolveOptions& options,
               SolveFacts* facts) {
  const Data& data = inside.data;
  const Statement& s = checked.syntax.statements[query];
  const Semantics semantics = options.semantics.value_or(inside.semantics);
  if (semantics != Semantics::boolean)
    return solve_real(checked, data, inside.parameters, query, semantics, options, facts);
  const CoreProgram core = demanded(to_core(checked, query));
  Solver solver(checked, core, data, options);
  solver.run({core.answer});
  if (facts != nullptr) *facts = solver.facts();
  return answers_of(checked, core, solver, format(s.body));
}

/// "P(x1, x2)" for all tuples of P.
std::string all_of(const Predicate& p) {
  std::string text = p.name + (p.tensor ? "[" : "(");
  for (std::size_t i = 0; i < p.domains.size(); ++i) text += fmt::format("{}x{}", i ? ", " : "", i + 1);
  return text + (p.tensor ? "]" : ")");
}

/// Truth values that are neither true nor false: weights of tables as those of facts, and numbers from 0 to 1.
bool has_degrees(const Data& data) {
  for (const auto& [name, tables] : data.tables)
    for (const Table& table : tables)
      if (std::any_of(table.weights.begin(), table.weights.end(), [](double w) { return w != 1; })) return true;
  for (const auto& [name, array] : data.arrays) {
    if (!is_floating(array.dtype())) continue;
    const std::vector<double> values = array.astype(DType::f64).to_vector<double>();
    const auto [least, most] = std::minmax_element(values.begin(), values.end());
    if (!values.empty() && *least >= 0 && *most <= 1 &&
        std::any_of(values.begin(), values.end(), [](double v) { return v > 0 && v < 1; }))
      return true;
  }
  return false;
}

int declared_arity(const Syntax& syntax, const std::string& name) {
  for (const Statement& s : syntax.statements) {
    if ((s.kind == Statement::Kind::relation || s.kind == Statement::Kind::tensor) && s.name == name)
      return static_cast<int>(s.domains.size());
  }
  int arity = -1;
  const auto see = [&](const Atom& a, bool) {
    if (arity < 0 && a.name == name && !a.choice) arity = static_cast<int>(a.terms.size());
  };
  for (const Statement& s : syntax.statements) {
    if (s.kind != Statement::Kind::directive) see(s.head, false);
    for_each_atom(s.body, false, see);
    for_each_atom(s.value, see);
  }
  return arity;
}

}  // namespace

const Statement* directive(const Syntax& syntax, std::string_view name) {
  const auto& all = syntax.statements;
  const auto found = std::find_if(all.rbegin(), all.rend(), [&](const Statement& s) {
    return s.kind == Statement::Kind::directive && s.name == name;
  });
  return found == all.rend() ? nullptr : &*found;
}

Semantics semantics_of(const Syntax& syntax, const Data& data) {
  if (const Statement* said = directive(syntax, "semantics")) return *semantics_called(said->semantics);
  bool real = false;
  for (const Statement& s : syntax.statements) {
    const bool rule_of_its_own =
        s.kind == Statement::Kind::rule &&
        (s.has_temperature || (!s.semantics.empty() && semantics_called(s.semantics) != Semantics::boolean));
    real = real || s.weighted || s.learned_weight || s.learn || rule_of_its_own ||
           s.kind == Statement::Kind::equation || s.kind == Statement::Kind::tensor;
  }
  return real || has_degrees(data) ? Semantics::product : Semantics::boolean;
}

void Program::Inside::check_again() {
  checked = check(syntax, data, folder);
  semantics = semantics_of(syntax, data);
}

void Program::Inside::add_table(const std::string& relation, Table table) {
  std::vector<Table>& tables = data.tables[relation];
  tables.push_back(std::move(table));
  try {
    check_again();
  } catch (...) {
    tables.pop_back();
    if (tables.empty()) data.tables.erase(relation);
    throw;
  }
}

void Program::Inside::set_array(const std::string& name, const Array& values) {
  auto before = data.arrays;
  data.arrays[name] = values;
  try {
    check_again();
  } catch (...) {
    data.arrays = std::move(before);
    throw;
  }
}

Checked Program::Inside::with_query(std::string_view text) const {
  Syntax all = syntax;
  all.statements.push_back(parse_query(text));
  // In a domain that grows with the data, a constant that no data know is a slip of the pen.
  for_each_atom(all.statements.back().body, false, [&](const Atom& a, bool) {
    const int id = checked.id(a.name);
    if (id < 0 || a.choice) return;
    for (const Term& t : a.terms) {
      if (t.kind != Term::Kind::constant && t.kind != Term::Kind::number) continue;
      const bool known = std::any_of(checked.domains.begin(), checked.domains.end(),
                                     [&](const Domain& d) { return d.find(t.text) >= 0; });
      if (known) continue;
      std::vector<std::string> names;
      for (int d : checked.predicates[id].domains)
        if (checked.domains[d].size <= 100'000)
          names.insert(names.end(), checked.domains[d].names.begin(), checked.domains[d].names.end());
      const std::string near = nearest(t.text, names);
      fail_at(all.name, t.place,
              fmt::format("unknown constant {}{}", quoted_constant(t.text),
                          near.empty() ? "" : "; did you mean " + quoted_constant(near) + "?"));
    }
  });
  return check(std::move(all), data, folder);
}

Program::Program(std::unique_ptr<Inside> inside) : inside_(std::move(inside)) {}
Program::Program(const Program& other) : inside_(std::make_unique<Inside>(*other.inside_)) {
  for (auto& [name, state] : inside_->parameters) state = State(state.value(), name);  // of its own
}
Program::Program(Program&&) noexcept = default;
Program& Program::operator=(Program&&) noexcept = default;
Program::~Program() = default;

Program Program::parse(std::string_view text, const std::string& name) { return parse_in_folder(text, "", name); }

Program Program::parse_in_folder(std::string_view text, const std::string& folder, const std::string& name) {
  auto inside = std::make_unique<Inside>();
  inside->syntax = parse_text(text, name);
  inside->folder = folder;
  for (const Statement& s : inside->syntax.statements)
    if (s.kind == Statement::Kind::directive && s.name == "load") {
      const std::string path = path_from(folder, s.file);
      if (path.ends_with(".npy"))
        inside->data.arrays[s.head.name] = wr::data::read_npy(path);
      else
        inside->data.tables[s.head.name].push_back(read_table(path, declared_arity(inside->syntax, s.head.name)));
    }
  inside->check_again();
  return Program(std::move(inside));
}

Program Program::parse_file(const std::string& path) {
  const std::filesystem::path file(path);
  return parse_in_folder(read_text_file(path), file.parent_path().string(), file.filename().string());
}

void Program::add(const std::string& relation, const std::vector<std::vector<std::string>>& rows,
                  const std::vector<double>& weights) {
  if (!weights.empty() && weights.size() != rows.size())
    throw Error(fmt::format("{}: {} rows and {} weights", relation, rows.size(), weights.size()));
  inside_->add_table(relation, {rows, weights, "rows of " + relation});
}

void Program::load(const std::string& relation, const std::string& path) {
  if (path.ends_with(".npy"))
    inside_->set_array(relation, wr::data::read_npy(path));
  else
    inside_->add_table(relation, read_table(path, declared_arity(inside_->syntax, relation)));
}

void Program::set(const std::string& name, const Array& values) { inside_->set_array(name, values); }

Answers Program::query(std::string_view text, const SolveOptions& options) const {
  const Checked checked = inside_->with_query(text);
  return solved(checked, *inside_, static_cast<int>(checked.syntax.statements.size()) - 1, options, nullptr);
}

std::vector<Answers> Program::run(const SolveOptions& options, SolveFacts* facts) const {
  std::vector<Answers> all;
  for (std::size_t i = 0; i < inside_->checked.syntax.statements.size(); ++i)
    if (inside_->checked.syntax.statements[i].kind == Statement::Kind::query)
      all.push_back(solved(inside_->checked, *inside_, static_cast<int>(i), options, facts));
  return all;
}

Answers Program::relation(const std::string& name, const SolveOptions& options, SolveFacts* facts) const {
  const int id = inside_->checked.id(name);
  if (id < 0) throw Error(fmt::format("{}: no relation or tensor is called '{}'", inside_->syntax.name, name));
  const Checked checked = inside_->with_query(all_of(inside_->checked.predicates[id]));
  return solved(checked, *inside_, static_cast<int>(checked.syntax.statements.size()) - 1, options, facts);
}

Array Program::array(const std::string& name, const SolveOptions& options) const {
  const int id = inside_->checked.id(name);
  const Semantics semantics = options.semantics.value_or(inside_->semantics);
  if (id >= 0 && semantics != Semantics::boolean) {
    RealSolver solver(inside_->checked, inside_->data, inside_->parameters, semantics, options);
    return solver.value(id);
  }
  const Answers answers = relation(name, options);
  const Predicate& p = inside_->checked.predicates[id];
  Shape shape;
  double cells = 1;
  for (int d : p.domains) {
    shape.push_back(inside_->checked.domains[d].size);
    cells *= static_cast<double>(shape.back());
  }
  if (cells * 8 > static_cast<double>(options.memory))
    throw Error(fmt::format("{}: an array {} of {} would take {:.3g} bytes, the limit is {}", inside_->syntax.name,
                            to_string(shape), name, cells * 8, options.memory));
  std::vector<double> values(static_cast<std::size_t>(cells), 0.0);
  for (std::size_t r = 0; r < answers.rows.size(); ++r) {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < p.domains.size(); ++i) {
      const Domain& d = inside_->checked.domains[p.domains[i]];
      at = at * d.size + d.find(answers.rows[r][i]);
    }
    values[at] = answers.values.empty() ? 1.0 : answers.values[r];
  }
  const Array array = Array::from(values, shape);
  return p.tensor ? array : array.astype(DType::boolean);
}

std::string Program::explain(std::string_view atom, const SolveOptions& options) const {
  const Checked checked = inside_->with_query(atom);
  const Statement& s = checked.syntax.statements.back();
  if (s.body.kind != Formula::Kind::atom || s.body.atom.tensor)
    throw Error("explain: expected one relation with constants, such as Ancestor(Ann, Bob)");
  const int predicate = checked.id(s.body.atom.name);
  std::vector<Value> tuple;
  for (std::size_t i = 0; i < s.body.atom.terms.size(); ++i) {
    const Term& t = s.body.atom.terms[i];
    const int d = checked.predicates[predicate].domains[i];
    if (t.kind != Term::Kind::constant && t.kind != Term::Kind::number)
      throw Error(fmt::format("explain: '{}' is a variable; expected constants, such as {}", format(t),
                              checked.domains[d].find(t.text) >= 0 ? quoted_constant(t.text) : "Ancestor(Ann, Bob)"));
    tuple.push_back(static_cast<Value>(checked.domains[d].find(t.text)));
  }
  const Semantics semantics = options.semantics.value_or(inside_->semantics);
  CoreProgram core = to_core(checked);
  if (semantics != Semantics::boolean)
    for (CoreRule& rule : core.rules) rule.doubted = std::exchange(rule.negated, {});
  SolveOptions in_these = options;
  in_these.semantics = semantics;
  Solver solver(checked, core, inside_->data, in_these);
  solver.keep_ranks();
  solver.run({predicate});
  const bool derived = solver.rank(predicate, tuple.data()) >= 0;
  const std::string no_rule = format(s.body.atom) + " does not hold: no rule derives it\n";
  if (semantics == Semantics::boolean)
    return derived ? explain_tuple(checked, core, solver, predicate, tuple) : no_rule;
  RealSolver real(checked, inside_->data, inside_->parameters, semantics, options);
  Worth worth;
  worth.of = [&](int p, const std::vector<Value>& t) { return real.value_at(p, t); };
  worth.semantics = semantics;
  if (derived) return explain_tuple(checked, core, solver, predicate, tuple, worth);
  const double value = worth.of(predicate, tuple);
  if (value == Logic(semantics, DType::f64).falsehood()) return no_rule;
  return fmt::format("{:.6g}  {}   no witness: it holds by what is learned, given as a tensor, or counted\n", value,
                     format(s.body.atom));
}

std::vector<std::string> Program::names() const {
  std::vector<std::string> names;
  for (const Predicate& p : inside_->checked.predicates)
    if (!p.name.starts_with('?')) names.push_back(p.name);
  std::sort(names.begin(), names.end());
  return names;
}

Semantics Program::semantics() const { return inside_->semantics; }

}  // namespace wr::rules
