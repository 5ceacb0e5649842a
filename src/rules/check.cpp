#include "rules/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <numeric>
#include <set>

#include "base/nearest.h"
#include "rules/files.h"
#include "rules/functions.h"
#include "rules/safety.h"
#include "rules/slots.h"
#include "rules/strata.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {

std::optional<double> as_number(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end) return {};
  return value;
}

class Checker {
 public:
  Checker(Syntax syntax, const Data& data, const std::string& folder) : data_(data), folder_(folder) {
    out_.syntax = std::move(syntax);
  }

  Checked run() {
    own_names();
    for (const Statement& s : out_.syntax.statements)
      if (s.kind == Statement::Kind::domain) declare_domain(s);
    for (const Statement& s : out_.syntax.statements)
      if (s.kind == Statement::Kind::relation || s.kind == Statement::Kind::tensor) declare(s);
    for (const Statement& s : out_.syntax.statements) register_heads(s);
    for (const auto& [name, tables] : data_.tables)
      for (const Table& table : tables) register_table(name, table);
    for (const auto& [name, array] : data_.arrays) register_array(name, array);
    variables_.resize(out_.syntax.statements.size());
    for (std::size_t i = 0; i < out_.syntax.statements.size(); ++i) walk(i);
    finish_domains();
    for (std::size_t i = 0; i < out_.syntax.statements.size(); ++i) expect_known_indices(i);
    for (const Statement& s : out_.syntax.statements) check_safety(out_, s);
    find_strata(out_);
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(Place place, const std::string& message) const { fail_at(out_.syntax.name, place, message); }
  std::string at(Place place) const {
    if (place.in_query) return "the query";
    return place.line > 0 ? fmt::format("line {}", place.line) : std::string("the data");
  }

  // ---- quantified variables get names of their own, so that each name has one meaning in a statement ----
  void own_names() {
    for (Statement& s : out_.syntax.statements) {
      std::set<std::string> seen;
      for (const Term& t : s.head.terms) seen.insert(t.text);
      rename(s.body, seen, {});
    }
  }
  static void rename(Term& t, const std::map<std::string, std::string>& names) {
    if (t.kind != Term::Kind::variable) return;
    if (const auto found = names.find(t.text); found != names.end()) t.text = found->second;
    if (const auto found = names.find(t.other); found != names.end()) t.other = found->second;
  }
  static void rename(Formula& f, std::set<std::string>& seen, std::map<std::string, std::string> names) {
    const bool binds =
        f.kind == Formula::Kind::exists || f.kind == Formula::Kind::forall || f.kind == Formula::Kind::count;
    if (binds)
      for (std::string& v : f.variables) {
        std::string own = v;
        for (int n = 2; seen.contains(own); ++n) own = fmt::format("{}#{}", v, n);
        seen.insert(own);
        names[v] = own;
        v = own;
      }
    for (Term& t : f.atom.terms) {
      rename(t, names);
      if (t.kind == Term::Kind::variable) seen.insert(t.text);
    }
    rename(f.left, names);
    rename(f.right, names);
    for (Formula& part : f.parts) rename(part, seen, names);
  }

  // ---- declarations ----
  void declare_domain(const Statement& s) {
    if (const auto found = domain_ids_.find(s.name); found != domain_ids_.end())
      fail(s.place, fmt::format("domain {} was declared before, on line {}", s.name,
                                out_.domains[static_cast<std::size_t>(found->second)].place.line));
    Domain d;
    d.name = s.name;
    d.place = s.place;
    d.open = s.open;
    if (s.size >= 0 || (s.names.empty() && !s.open && s.file.empty() && s.size != -1)) {
      d.numbers = true;
      d.size = s.size;
      if (s.size < 0) fail(s.place, fmt::format("domain {} has {} elements; expected 0 or more", s.name, s.size));
      if (s.size > kLargestDomain)
        fail(s.place,
             fmt::format("domain {} has {} elements; at most {} are possible", s.name, s.size, kLargestDomain));
    } else {
      const std::vector<std::string> names = s.file.empty() ? s.names : read_names(path_from(folder_, s.file));
      for (const std::string& name : names) {
        if (d.index.contains(name)) fail(s.place, fmt::format("domain {} has '{}' twice", s.name, name));
        d.add(name);
      }
    }
    domain_ids_[s.name] = static_cast<int>(out_.domains.size());
    out_.domains.push_back(std::move(d));
  }
  int domain_called(const std::string& name, Place place) const {
    const auto found = domain_ids_.find(name);
    if (found != domain_ids_.end()) return found->second;
    std::vector<std::string> names;
    for (const auto& [known, id] : domain_ids_) names.push_back(known);
    const std::string near = nearest(name, names);
    fail(place, fmt::format("unknown domain '{}'{}", name, near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  void declare(const Statement& s) {
    const bool tensor = s.kind == Statement::Kind::tensor;
    if (const int known = out_.id(s.name); known >= 0)
      fail(s.place, fmt::format("{} was declared before, on line {}", s.name, predicate(known).place.line));
    if (tensor && s.domains.size() > static_cast<std::size_t>(kMaxRank))
      fail(s.place, fmt::format("{} has {} indices; at most {} are possible", s.name, s.domains.size(), kMaxRank));
    const int id = add_predicate(s.name, tensor, s.domains.size(), s.place);
    predicate(id).declared = true;
    predicate(id).input = s.input;
    predicate(id).learn = s.learn;
    for (std::size_t i = 0; i < s.domains.size(); ++i)
      slots_.set_domain(slot(id, i), domain_called(s.domains[i], s.domain_places[i]), s.domain_places[i]);
  }
  Predicate& predicate(int id) { return out_.predicates[id]; }
  int add_predicate(const std::string& name, bool tensor, std::size_t arity, Place place) {
    const int id = static_cast<int>(out_.predicates.size());
    Predicate p;
    p.name = name;
    p.tensor = tensor;
    p.place = place;
    p.domains.assign(arity, -1);
    out_.predicates.push_back(std::move(p));
    out_.ids[name] = id;
    first_slot_.push_back(slots_.add(arity));
    return id;
  }
  int slot(int id, std::size_t i) const { return first_slot_[id] + static_cast<int>(i); }

  // ---- what a program defines ----
  static std::size_t arity_of(const Atom& a) {
    std::size_t n = 0;
    for (const Term& t : a.terms) n += t.virtual_index ? 0 : 1;
    return n;
  }
  int known_or_new(const Atom& a) {
    const int id = out_.id(a.name);
    if (id < 0) return add_predicate(a.name, a.tensor, arity_of(a), a.place);
    same_shape(a, id);
    return id;
  }
  void same_shape(const Atom& a, int id) {
    const Predicate& p = predicate(id);
    if (p.tensor != a.tensor)
      fail(a.place, fmt::format("{} is a {} ({}); here it is written as a {}", a.name, p.tensor ? "tensor" : "relation",
                                at(p.place), a.tensor ? "tensor" : "relation"));
    if (p.domains.size() != arity_of(a))
      fail(a.place, fmt::format("{} has {} {} ({}), {} here", a.name, p.domains.size(),
                                p.tensor ? "indices" : "arguments", at(p.place), arity_of(a)));
  }
  void register_heads(const Statement& s) {
    switch (s.kind) {
      case Statement::Kind::fact:
      case Statement::Kind::rule:
      case Statement::Kind::equation: {
        if (find_function(s.head.name) != nullptr && !s.head.tensor)
          fail(s.head.place,
               fmt::format("'{}' is a function of the language; no relation can have its name", s.head.name));
        const int id = known_or_new(s.head);
        if (s.kind != Statement::Kind::fact) predicate(id).defined = true;
        if (s.kind == Statement::Kind::rule && s.head.tensor)
          fail(s.head.place,
               fmt::format("{} is a tensor; it has equations with '=', relations have rules with ':-'", s.head.name));
        break;
      }
      default:
        break;
    }
  }
  void register_table(const std::string& name, const Table& table) {
    if (table.rows.empty()) return;
    const int known = out_.id(name);
    const std::size_t arity = table.rows[0].size();
    const int id = known >= 0 ? known : add_predicate(name, false, arity, {});
    if (predicate(id).domains.size() != arity)
      throw Error(
          fmt::format("{}: {} columns; {} has {} arguments", table.origin, arity, name, predicate(id).domains.size()));
  }
  void register_array(const std::string& name, const Array& array) {
    int id = out_.id(name);
    const auto rank = static_cast<std::size_t>(array.rank());
    if (id < 0) id = add_predicate(name, true, rank, {});
    if (predicate(id).domains.size() != rank)
      throw Error(fmt::format("{}: the array is {}; {} has {} indices", out_.syntax.name, to_string(array.shape()),
                              name, predicate(id).domains.size()));
    for (std::size_t i = 0; i < rank; ++i)
      slots_.set_size(slot(id, i), array.shape()[static_cast<int>(i)], fmt::format("index {} of {}", i + 1, name),
                      out_);
  }

  // ---- uses ----
  void walk(std::size_t i) {
    Statement& s = out_.syntax.statements[i];
    scope_ = &variables_[i];
    switch (s.kind) {
      case Statement::Kind::fact:
        for (const Term& t : s.head.terms)
          if (t.kind == Term::Kind::variable || t.kind == Term::Kind::anything)
            fail(t.place,
                 fmt::format("'{}' is a variable; a fact has constants, which begin with a capital or stand in "
                             "quotes",
                             format(t)));
        use(s.head);
        break;
      case Statement::Kind::rule:
        use(s.head);
        use(s.body);
        break;
      case Statement::Kind::equation:
        use(s.head);
        use(s.value);
        break;
      case Statement::Kind::query:
      case Statement::Kind::constraint:
        use(s.body);
        break;
      case Statement::Kind::directive:
        if (s.name == "load" || (s.name == "minimize" && s.head.name != "constraints"))
          resolve(s.head.name, s.head.place);
        if (s.name == "semantics" && !semantics_called(s.semantics)) unknown_semantics(s);
        if (s.name == "minimize") check_options(s);
        break;
      default:
        break;
    }
    if (s.kind == Statement::Kind::rule && !s.semantics.empty() && !semantics_called(s.semantics)) unknown_semantics(s);
    if (s.kind == Statement::Kind::constraint && !s.semantics.empty() && !is_implication(s.semantics))
      fail(s.semantics_place, fmt::format("unknown implication '{}'; there are {}", s.semantics, implication_names()));
  }
  void check_options(const Statement& s) const {
    for (const Option& o : s.options) {
      if (o.name == "optimiser") {
        if (o.value != "adam" && o.value != "adamw" && o.value != "sgd" && o.value != "rmsprop")
          fail(o.place, fmt::format("unknown optimiser '{}'; there are adam, adamw, sgd and rmsprop", o.value));
      } else if (o.name != "lr" && o.name != "steps" && o.name != "decay") {
        fail(o.place, fmt::format("unknown option '{}'; there are lr, steps, decay and optimiser", o.name));
      } else {
        check_number(o);
      }
    }
  }
  void check_number(const Option& o) const {
    const std::optional<double> value = as_number(o.value);
    const auto expected = [&](std::string_view what) {
      fail(o.place, fmt::format("{}={}: expected {}", o.name, o.value, what));
    };
    if (!value || !std::isfinite(*value)) expected("a number");
    if (o.name == "lr" && *value <= 0) expected("a number above 0");
    if (o.name == "decay" && *value < 0) expected("a number from 0 on");
    if (o.name == "steps" && (*value < 1 || *value > 1e9 || *value != std::floor(*value)))
      expected("a whole number from 1 to 1000000000");
  }
  [[noreturn]] void unknown_semantics(const Statement& s) const {
    fail(s.semantics_place, fmt::format("unknown semantics '{}'; there are {}", s.semantics, semantics_names()));
  }
  /// `called`: it could also have been meant as a function.
  int resolve(const std::string& name, Place place, bool called = false) const {
    if (const int id = out_.id(name); id >= 0) return id;
    std::vector<std::string> names;
    for (const Predicate& p : out_.predicates) names.push_back(p.name);
    if (called)
      for (std::string_view function : function_names()) names.emplace_back(function);
    const std::string near = nearest(name, names);
    fail(place, fmt::format("unknown relation{} tensor{} '{}'{}", called ? "," : " or", called ? " or function" : "",
                            name, near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  void use(const Atom& a, bool in_expression = false) {
    int id = -1;
    if (a.choice) {
      id = out_.id("?" + a.name);
      if (id < 0) id = add_predicate("?" + a.name, false, a.terms.size(), a.place);
    } else {
      id = resolve(a.name, a.place, in_expression && !a.tensor);
    }
    same_shape(a, id);
    std::size_t i = 0;
    for (const Term& t : a.terms) {
      if (t.virtual_index) {
        use_variable(t.text);
        continue;
      }
      use(t, slot(id, i));
      ++i;
    }
  }
  int use_variable(const std::string& name) {
    const auto [found, fresh] = scope_->try_emplace(name, 0);
    if (fresh) found->second = slots_.add(1);
    return found->second;
  }
  void use(const Term& t, int s) {
    switch (t.kind) {
      case Term::Kind::variable: {
        const int v = use_variable(t.text);
        if (!t.other.empty()) use_variable(t.other);
        // x + 1 is of x's own domain; x + dx and x / 2 are of another.
        const bool same = t.op == 0 || (t.other.empty() && t.op == '+');
        if (same) slots_.unite(s, v, t.place, t.text, out_);
        break;
      }
      case Term::Kind::constant:
      case Term::Kind::number:
        slots_.add_constant(s, t.text, t.place);
        break;
      default:
        break;
    }
  }
  void use(const Formula& f) {
    if (f.kind == Formula::Kind::atom) use(f.atom);
    if (f.kind == Formula::Kind::compare) use_comparison(f);
    for (const std::string& v : f.variables) use_variable(v);
    for (const Formula& part : f.parts) use(part);
  }
  void use_comparison(const Formula& f) {
    const bool left = f.left.kind == Term::Kind::variable, right = f.right.kind == Term::Kind::variable;
    for (const Term* t : {&f.left, &f.right})
      if (t->kind == Term::Kind::anything) fail(t->place, "'_' cannot be compared");
    if (!f.left.other.empty() || !f.right.other.empty())
      fail(f.place, "only a variable, or a variable and a number such as x + 1, can be compared");
    if (left && right) slots_.unite(use_variable(f.left.text), use_variable(f.right.text), f.place, f.right.text, out_);
    if (left && !right) slots_.add_compared(use_variable(f.left.text), f.right.text, f.right.place, f.compare);
    if (right && !left) slots_.add_compared(use_variable(f.right.text), f.left.text, f.left.place, f.compare);
  }
  void use(const Expr& e) {
    if (e.kind == Expr::Kind::reference) use(e.atom, true);
    if (e.kind == Expr::Kind::index) use_variable(e.name);
    for (const std::string& v : e.variables) use_variable(v);
    for (const Expr& part : e.parts) use(part);
  }

  // ---- domains of everything, and constants in them ----
  void finish_domains() {
    for (const auto& [name, tables] : data_.tables)
      for (const Table& table : tables) add_rows(out_.id(name), table);
    for (std::size_t id = 0; id < out_.predicates.size(); ++id)
      if (out_.predicates[id].name.starts_with('?')) choose_domains(static_cast<int>(id));
    slots_.finish(out_, [this](int s) { return described(s); });
    for (std::size_t id = 0; id < out_.predicates.size(); ++id)
      for (std::size_t i = 0; i < out_.predicates[id].domains.size(); ++i)
        out_.predicates[id].domains[i] = slots_.domain_of(slot(static_cast<int>(id), i));
    out_.variables.resize(variables_.size());
    for (std::size_t s = 0; s < variables_.size(); ++s)
      for (const auto& [name, v] : variables_[s]) out_.variables[s][name] = slots_.domain_of(v);
    for (Domain& d : out_.domains)
      if (!d.numbers)
        for (const std::string& n : d.names) d.ordered = d.ordered && as_number(n).has_value();
  }
  /// A tensor of an index about which nothing is said would have no elements, and nobody would be told.
  void expect_known_indices(std::size_t statement) const {
    const Statement& s = out_.syntax.statements[statement];
    if (s.kind != Statement::Kind::equation) return;
    const auto unknown = [&](int domain) {
      const Domain& d = out_.domains[domain];
      return d.size == 0 && d.open && d.place.line == 0;
    };
    const Predicate& head = out_.predicates[out_.id(s.head.name)];
    std::set<std::string> counted;  // virtual indices: they have as many values as there are steps
    std::size_t index = 0;
    for (const Term& t : s.head.terms) {
      if (t.virtual_index) {
        counted.insert(t.text);
        continue;
      }
      if (unknown(head.domains[index++]))
        fail(t.place, fmt::format("nothing says which values index {} of {} has; declare it, as in `domain D = 10. "
                                  "tensor {}[D].`",
                                  index, s.head.name, s.head.name));
    }
    for (const auto& [name, domain] : out_.variables[statement])
      if (unknown(domain) && !counted.contains(name))
        fail(s.place,
             fmt::format("nothing says which values '{}' has; use it as the index of a declared tensor", name));
  }
  /// In ?r(x, y), ?s(y, z) nothing says of which domain y is, but the relations that r can be may all agree.
  void choose_domains(int choice) {
    std::vector<int> candidates;
    const std::size_t arity = predicate(choice).domains.size();
    for (std::size_t p = 0; p < out_.predicates.size(); ++p) {
      const Predicate& candidate = out_.predicates[p];
      bool fits = !candidate.tensor && !candidate.defined && !candidate.name.starts_with('?') &&
                  candidate.domains.size() == arity;
      for (std::size_t i = 0; fits && i < arity; ++i)
        fits = !slots_.is_determined(slot(choice, i)) ||
               slots_.domain_key(slot(choice, i)) == slots_.domain_key(slot(static_cast<int>(p), i));
      if (fits) candidates.push_back(static_cast<int>(p));
    }
    for (std::size_t i = 0; i < arity; ++i) {
      if (candidates.empty() || slots_.is_determined(slot(choice, i))) continue;
      const int key = slots_.domain_key(slot(candidates[0], i));
      if (std::all_of(candidates.begin(), candidates.end(),
                      [&](int p) { return slots_.domain_key(slot(p, i)) == key; }))
        slots_.unite(slot(candidates[0], i), slot(choice, i), predicate(choice).place, predicate(choice).name, out_);
    }
  }
  void add_rows(int id, const Table& table) {
    if (id < 0) return;
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      const auto& row = table.rows[r];
      if (row.size() != predicate(id).domains.size())
        throw Error(fmt::format("{}: row {}: {} fields; {} has {} arguments", table.origin, r + 1, row.size(),
                                predicate(id).name, predicate(id).domains.size()));
      for (std::size_t i = 0; i < row.size(); ++i)
        slots_.add_constant(slot(id, i), row[i], {static_cast<int>(r) + 1}, &table.origin);
    }
  }
  std::string described(int s) const {
    for (std::size_t id = out_.predicates.size(); id-- > 0;)
      if (first_slot_[id] <= s && s < first_slot_[id] + static_cast<int>(out_.predicates[id].domains.size()))
        return fmt::format("{}.{}", out_.predicates[id].name, s - first_slot_[id] + 1);
    return "variable";
  }

  const Data& data_;
  const std::string& folder_;
  Checked out_;
  std::map<std::string, int> domain_ids_;
  std::vector<int> first_slot_;
  Slots slots_;
  std::vector<std::map<std::string, int>> variables_;
  std::map<std::string, int>* scope_ = nullptr;
};

}  // namespace

std::int64_t Domain::find(const std::string& constant) const {
  if (!numbers) {
    const auto found = index.find(constant);
    return found == index.end() ? -1 : found->second;
  }
  std::int64_t value = 0;
  const char* end = constant.data() + constant.size();
  const auto result = std::from_chars(constant.data(), end, value);
  return result.ec == std::errc() && result.ptr == end && value >= 0 && value < size ? value : -1;
}

double Domain::value_of(std::int64_t i) const {
  return numbers ? static_cast<double>(i) : as_number(names[i]).value_or(0);
}

std::int64_t Domain::add(const std::string& constant) {
  const auto [found, fresh] = index.try_emplace(constant, size);
  if (!fresh) return found->second;
  names.push_back(constant);
  return size++;
}

Checked check(Syntax syntax, const Data& data, const std::string& folder) {
  return Checker(std::move(syntax), data, folder).run();
}

}  // namespace wr::rules
