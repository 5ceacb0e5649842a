// Components, facts, rules and heads. Formulas, expressions and recursion along an index stand in files of their own.
#include "rules/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "rules/functions.h"
#include "rules/strata.h"
#include "windrow/error.h"

namespace wr::rules {

Tracer::Tracer(const Checked& program, const Data& data, Parameters& parameters, const TraceSettings& settings,
               std::shared_ptr<const Lists> lists)
    : program_(program), data_(data), parameters_(parameters), settings_(settings), lists_(std::move(lists)) {}

void Tracer::fail(Place place, const std::string& message) const { fail_at(program_.syntax.name, place, message); }

Logic Tracer::logic(const Statement& s) const {
  const double cells = static_cast<double>(settings_.memory) / static_cast<double>(wr::size_of(settings_.dtype));
  if (s.kind != Statement::Kind::rule || s.semantics.empty()) return {settings_.semantics, settings_.dtype, cells};
  const Semantics own = *semantics_called(s.semantics);
  if (own == Semantics::boolean)
    fail(s.semantics_place, "boolean semantics is one of whole programs; this one has values in between");
  if ((own == Semantics::minplus) != (settings_.semantics == Semantics::minplus))
    fail(s.semantics_place, fmt::format("a rule of {} semantics in a program of {} semantics: costs and truth values "
                                        "do not mix",
                                        s.semantics, to_string(settings_.semantics)));
  return {own, settings_.dtype, cells};
}

Shape Tracer::shape_of(int id) const {
  Shape shape;
  double cells = 1;
  const Predicate& p = predicate(id);
  if (p.domains.size() > static_cast<std::size_t>(kMaxRank))
    fail(p.place, fmt::format("{} has {} arguments; as a tensor it can have {}", p.name, p.domains.size(), kMaxRank));
  for (int d : p.domains) {
    if (domain(d).size == 0)
      fail(p.place, fmt::format("domain {} of {} is empty: declare it, or give facts or data", domain(d).name, p.name));
    shape.push_back(domain(d).size);
    cells *= static_cast<double>(domain(d).size);
  }
  const double bytes = cells * static_cast<double>(wr::size_of(settings_.dtype));
  if (bytes > static_cast<double>(settings_.memory))
    fail(p.place, fmt::format("{} has {:.3g} elements, which take {:.3g} MB; the limit is {} MB", p.name, cells,
                              bytes / (1 << 20), settings_.memory >> 20));
  return shape;
}

void Tracer::check_size(double cells) const {
  const double bytes = cells * static_cast<double>(wr::size_of(settings_.dtype));
  if (bytes <= static_cast<double>(settings_.memory)) return;
  const Statement& s = program_.syntax.statements[statement_];
  fail(s.place, fmt::format("`{}` needs {:.3g} elements at a time, which take {:.3g} MB; the limit is {} MB", format(s),
                            cells, bytes / (1 << 20), settings_.memory >> 20));
}

std::int64_t Tracer::size_of(const std::string& variable) const {
  return domain(program_.variables[statement_].at(variable)).size;
}

// ---- facts and parameters ----

void Tracer::each_fact(int id, const std::function<void(const Value* tuple, double weight)>& fn) const {
  const Predicate& p = predicate(id);
  const double truth = Logic(settings_.semantics, settings_.dtype).truth();
  std::vector<Value> tuple(p.domains.size());
  const auto see = [&](std::size_t i, const std::string& text) {
    tuple[i] = static_cast<Value>(domain(p.domains[i]).find(text));
  };
  for (const Statement& s : program_.syntax.statements) {
    if (s.kind != Statement::Kind::fact || s.head.name != p.name) continue;
    for (std::size_t i = 0; i < tuple.size(); ++i) see(i, s.head.terms[i].text);
    if (s.weighted && !is_truth_value(s.weight)) fail(s.place, wrong_weight(s.weight));
    fn(tuple.data(), s.weighted ? s.weight : truth);
  }
  const auto found = data_.tables.find(p.name);
  if (found == data_.tables.end()) return;
  for (const Table& table : found->second)
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      for (std::size_t i = 0; i < tuple.size(); ++i) see(i, table.rows[r][i]);
      if (!table.weights.empty() && !p.tensor && !is_truth_value(table.weights[r]))
        throw Error(fmt::format("{}: row {}: {}", table.origin, r + 1, wrong_weight(table.weights[r])));
      fn(tuple.data(), table.weights.empty() ? truth : table.weights[r]);
    }
}

bool Tracer::is_truth_value(double weight) const {
  switch (settings_.semantics) {
    case Semantics::product:
    case Semantics::godel:
    case Semantics::lukasiewicz:
    case Semantics::ltn:
      return weight >= 0 && weight <= 1;
    default:
      return !std::isnan(weight);
  }
}

std::string Tracer::wrong_weight(double weight) const {
  return fmt::format("a weight of {:g}; in {} semantics weights are from 0 to 1", weight,
                     to_string(settings_.semantics));
}

void Tracer::check_truth_values(int id, const Array& values) const {
  const Array all = values.astype(DType::f64).contiguous();
  const double* v = all.data<double>();
  const auto wrong = std::find_if_not(v, v + all.count(), [&](double x) { return is_truth_value(x); });
  if (wrong == v + all.count()) return;
  std::string tuple;
  for (std::int64_t rest = wrong - v, i = all.rank() - 1; i >= 0; --i) {
    const std::int64_t size = all.shape()[static_cast<int>(i)];
    tuple = domain(predicate(id).domains[i]).name_of(rest % size) + (tuple.empty() ? "" : ", ") + tuple;
    rest /= size;
  }
  throw Error(fmt::format("{}: the array that is given for {} has at ({}) {}", program_.syntax.name, predicate(id).name,
                          tuple, wrong_weight(*wrong)));
}

double Tracer::falsehood_of(int id) const {
  return predicate(id).tensor ? 0 : Logic(settings_.semantics, settings_.dtype).falsehood();
}

void Tracer::add_fact(int id, double weight, double& value) const {
  switch (settings_.semantics) {  // a fact that is given twice
    case Semantics::minplus:
      value = predicate(id).tensor ? weight : std::min(value, weight);
      break;
    case Semantics::product:
    case Semantics::ltn:
      value = predicate(id).tensor ? weight : value + weight - value * weight;
      break;
    default:
      value = std::max(value, weight);
  }
}

Array Tracer::base_array(int id) const {
  const Shape shape = shape_of(id);
  std::vector<double> values(static_cast<std::size_t>(shape.count()), falsehood_of(id));
  each_fact(id, [&](const Value* tuple, double weight) {
    std::int64_t at = 0;
    for (int i = 0; i < shape.rank(); ++i) at = at * shape[i] + tuple[i];
    add_fact(id, weight, values[at]);
  });
  return Array::from(values, shape).astype(settings_.dtype);
}

const State& Tracer::parameter(const std::string& name, const Shape& shape, double scale) {
  if (const auto found = parameters_.find(name); found != parameters_.end()) {
    if (found->second.shape() == shape && found->second.spec().dtype == settings_.dtype) return found->second;
    if (found->second.shape() == shape) {  // learned in another precision
      found->second = State(found->second.value().astype(settings_.dtype), name);
      return found->second;
    }
    throw Error(fmt::format("{}: {} was learned as {}; it is {} now", program_.syntax.name, name,
                            to_string(found->second.shape()), to_string(shape)));
  }
  std::uint64_t seed = 1;
  for (const Statement& s : program_.syntax.statements)
    if (s.kind == Statement::Kind::directive && s.name == "seed") seed = static_cast<std::uint64_t>(s.size);
  for (char c : name) seed = seed * 1099511628211ULL + static_cast<unsigned char>(c);
  std::mt19937_64 engine(seed);
  // Not std::normal_distribution: its numbers differ between libraries.
  const auto uniform = [&] { return (static_cast<double>(engine() >> 11) + 0.5) * 0x1p-53; };
  std::vector<double> values(static_cast<std::size_t>(shape.count()));
  for (double& v : values) v = scale * std::sqrt(-2 * std::log(uniform())) * std::cos(6.283185307179586 * uniform());
  return parameters_[name] = State(Array::from(values, shape).astype(settings_.dtype), name);
}

Tensor Tracer::base(int id) {
  const Predicate& p = predicate(id);
  if (const auto found = data_.arrays.find(p.name); found != data_.arrays.end()) {
    if (!p.tensor) check_truth_values(id, found->second);
    return found->second.astype(settings_.dtype);
  }
  if (const TupleList* list = list_of(id)) return base_list(id, *list);
  if (!p.learn) return base_array(id);
  const Shape shape = shape_of(id);
  const double scale =
      p.tensor ? 1 / std::sqrt(static_cast<double>(shape.rank() > 0 ? shape[shape.rank() - 1] : 1)) : 0.1;
  const Tensor value = parameter(p.name, shape, scale);
  return p.tensor ? value : sigmoid(value);
}

// ---- components ----

Tensor Tracer::value(int id) {
  if (const auto found = values_.find(id); found != values_.end()) return found->second;
  // What is followed step by step where this is needed means nothing to its own equations.
  const Bound kept = std::exchange(bound_, {});
  const Joint* joint = std::exchange(joint_, nullptr);
  const int statement = statement_;
  trace_component(program_.component_of[id]);
  bound_ = kept;
  joint_ = joint;
  statement_ = statement;
  return values_.at(id);
}

bool Tracer::needs_fixpoint(int component) const {
  const auto& members = program_.components[component];
  bool cyclic = false;
  for (const Statement& s : program_.syntax.statements) {
    if (s.kind != Statement::Kind::rule && s.kind != Statement::Kind::equation) continue;
    if (std::find(members.begin(), members.end(), program_.id(s.head.name)) == members.end()) continue;
    const auto see = [&](const Atom& a, bool) {
      cyclic = cyclic || (!a.choice && std::find(members.begin(), members.end(), program_.id(a.name)) != members.end());
    };
    if (s.kind == Statement::Kind::rule)
      for_each_atom(s.body, false, see);
    else
      for_each_atom(s.value, see);
  }
  Sequence sequence;
  return cyclic && !is_virtual(component) && !find_sequence(component, sequence);
}

void Tracer::trace_component(int component) {
  const auto& members = program_.components[component];
  Sequence sequence;
  if (!needs_fixpoint(component)) {
    if (is_virtual(component)) {
      trace_virtual(component);
    } else if (find_sequence(component, sequence)) {
      trace_sequence(sequence);
    } else {
      values_[members[0]] = computed(members[0]);
    }
    return;
  }
  if (settings_.iterations == 0)
    throw Error(fmt::format("{}: {} is recursive: say how many iterations to trace", program_.syntax.name,
                            predicate(members[0]).name));
  std::vector<Tensor> now;
  for (int m : members) now.push_back(base(m));
  for (int i = 0; i < settings_.iterations; ++i) now = next(component, now);
  for (std::size_t i = 0; i < members.size(); ++i) values_[members[i]] = now[i];
}

std::vector<Tensor> Tracer::next(int component, const std::vector<Tensor>& now) {
  const auto& members = program_.components[component];
  for (std::size_t i = 0; i < members.size(); ++i) values_[members[i]] = now[i];
  std::vector<Tensor> after;
  for (int m : members) after.push_back(computed(m));
  for (int m : members) values_.erase(m);
  return after;
}

Tensor Tracer::computed(int id) {
  const Tensor start = base(id);
  if (!predicate(id).defined) return start;
  return predicate(id).tensor ? with_equations(id, start) : with_rules(id, start);
}

Tensor Tracer::with_rules(int id, const Tensor& start) {
  const Predicate& p = predicate(id);
  const Logic all(settings_.semantics, settings_.dtype);
  Tensor total = start;
  double temperature = 0;
  for (std::size_t i = 0; i < program_.syntax.statements.size(); ++i) {
    const Statement& s = program_.syntax.statements[i];
    if (s.kind == Statement::Kind::directive && s.name == "semantics" && s.has_temperature) temperature = s.temperature;
    if (s.kind != Statement::Kind::rule || s.head.name != p.name) continue;
    if (s.has_temperature) temperature = s.temperature;
    const int before = std::exchange(statement_, static_cast<int>(i));
    const BodyValue body = rule_value(static_cast<int>(i));
    const TupleList* list = list_of(id);
    const Tensor value = list != nullptr ? listed_head(s.head, body, *list, all.falsehood())
                                         : head_tensor(s.head, spread(body, all.falsehood()), id, "=", all.falsehood());
    statement_ = before;
    total = all.either({total, {}}, {value, {}}).tensor;
  }
  return settings_.semantics == Semantics::sum ? truth_of_sum(total, temperature) : total;
}

/// The paper's: what adds up becomes a truth value by a step, or by a sigmoid where there is a temperature.
Tensor Tracer::truth_of_sum(const Tensor& total, double temperature) const {
  return temperature > 0 ? sigmoid(total * (1 / temperature)) : cast(total > 0, dtype());
}

BodyValue Tracer::rule_value(int statement) {
  const int before = std::exchange(statement_, statement);
  const Statement& s = program_.syntax.statements[statement];
  const SaidAt here(location_of(s));
  const Logic meaning = logic(s);
  std::vector<Axis> out;
  for (const Term& t : s.head.terms)
    if (t.kind == Term::Kind::variable && std::find(out.begin(), out.end(), t.text) == out.end()) out.push_back(t.text);
  BodyValue value = placed([&] { return conjunction_value(s.body, out, meaning, ""); });
  Piece& piece = value.piece;
  if (s.weighted && !is_truth_value(s.weight)) fail(s.place, wrong_weight(s.weight));
  if (s.weighted) piece = meaning.weighted(piece, full({}, s.weight, dtype()));
  if (s.learned_weight) {
    const Tensor w = parameter(weight_name(s), {}, 0);
    piece = meaning.weighted(piece, meaning.semantics() == Semantics::minplus ? softplus(w) : sigmoid(w));
  }
  if (meaning.semantics() == Semantics::sum && settings_.semantics != Semantics::sum)
    piece.tensor = truth_of_sum(piece.tensor, s.temperature);
  statement_ = before;
  return value;
}

/// A body over the variables of `out`, all others quantified; those that lists have make the joint.
BodyValue Tracer::conjunction_value(const Formula& body, const std::vector<Axis>& out, const Logic& logic,
                                    const std::string& implication) {
  // In a rule of another semantics what stands in no list need not be false.
  std::optional<Joint> joint;
  if (logic.semantics() == settings_.semantics) joint = joint_of(body);
  if (joint && joint->count == 0) {
    Joint none;
    for (const Axis& a : out)
      if (joint->has(a)) none.columns[a] = {};
    return {{full({}, logic.falsehood(), dtype()), {}}, none};
  }
  const Joint* outer = joint_;
  if (joint) joint_ = &*joint;
  std::vector<Piece> parts;
  conjuncts(body, logic, implication, parts);
  joint_ = outer;
  if (!joint) return {logic.exists(std::move(parts), out), {}};
  std::vector<Axis> kept{kJoint};
  std::vector<std::string> variables;
  for (const Axis& a : out) (joint->has(a) ? variables : kept).push_back(a);
  return regrouped(logic.exists(std::move(parts), kept), *joint, variables, logic);
}

BodyValue Tracer::body(int statement) {
  statement_ = statement;
  const Statement& s = program_.syntax.statements[statement];
  const SaidAt here(location_of(s));
  const Logic meaning = logic(s);
  std::vector<Axis> names;
  for_each_atom(s.body, false, [&](const Atom& a, bool) {
    for (const Term& t : a.terms)
      if (t.kind == Term::Kind::variable && std::find(names.begin(), names.end(), t.text) == names.end())
        names.push_back(t.text);
  });
  const bool query = s.kind == Statement::Kind::query;
  BodyValue value = placed([&]() -> BodyValue {
    if (query && is_led_by_lists(s.body)) return conjunction_value(s.body, names, meaning, "");
    return {formula(s.body, meaning, query ? "" : s.semantics), {}};
  });
  if (value.joint && value.joint->count == 0) return value;
  std::vector<Axis> order;
  if (value.joint) order.push_back(kJoint);
  for (const Axis& a : names)
    if (value.piece.size_of(a) >= 0) order.push_back(a);
  value.piece = {aligned(value.piece, order), order};
  return value;
}

// ---- heads ----

Tensor Tracer::shifted(const Tensor& x, int axis, std::int64_t by, std::int64_t size, double outside) {
  // out[i] = x[i - by] for i of 0 .. size - 1, `outside` where there is none.
  const std::int64_t n = x.shape()[axis];
  const std::int64_t first = std::max<std::int64_t>(0, -by), last = std::min(n, size - by);
  if (first >= last) {
    Shape shape = x.shape();
    shape[axis] = size;
    return full(shape, outside, dtype());
  }
  const Tensor part = first == 0 && last == n ? x : slice(x, axis, first, last);
  Dims before(x.rank(), 0), after(x.rank(), 0);
  before[axis] = first + by;
  after[axis] = size - (last + by);
  return before[axis] == 0 && after[axis] == 0 ? part : pad(part, before, after, outside);
}

Piece Tracer::pooled(const Piece& piece, const Term& term, std::int64_t size, const std::string& assign,
                     double outside) {
  const int axis = positions(piece, {term.text})[0];
  Tensor x = piece.tensor;
  const std::int64_t n = x.shape()[axis], by = term.amount, groups = (n + by - 1) / by;
  const double neutral = assign == "max=" ? -1e30 : assign == "min=" ? 1e30 : 0;
  if (groups * by != n) {
    Dims none(x.rank(), 0), after(x.rank(), 0);
    after[axis] = groups * by - n;
    x = pad(x, none, after, neutral);
  }
  Shape shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i == axis) shape.push_back(groups);
    shape.push_back(i == axis ? by : x.shape()[i]);
  }
  x = reshape(x, shape);
  x = assign == "max="   ? max(x, axis + 1)
      : assign == "min=" ? min(x, axis + 1)
      : assign == "avg=" ? mean(x, axis + 1)
                         : sum(x, axis + 1);
  return {shifted(x, axis, 0, size, outside), piece.axes};
}

Tensor Tracer::head_tensor(const Atom& head, const Piece& given, int id, const std::string& assign, double outside,
                           int skipped) {
  Piece piece = given;
  Shape shape = shape_of(id);
  if (skipped >= 0) shape.erase(skipped);
  struct Move {
    int axis;
    std::int64_t by;
  };
  std::vector<Axis> axes;  // one for each index, in order
  std::vector<Move> moves;
  Shape before_moves = shape;
  int place = -1, at = 0;
  for (const Term& t : head.terms) {
    if (t.virtual_index || ++place == skipped) continue;
    const std::int64_t size = shape[at];
    const bool bound = t.kind == Term::Kind::variable && bound_.contains(t.text);
    if (t.kind == Term::Kind::constant || t.kind == Term::Kind::number || bound) {
      const int d = predicate(id).domains[place];
      moves.push_back({at, bound ? bound_.at(t.text) + t.amount : domain(d).find(t.text)});
      before_moves[at] = 1;
      axes.push_back(fmt::format("#head {}", at));
    } else if (t.kind == Term::Kind::variable && (t.op == 0 || (t.other.empty() && (t.op == '+' || t.op == '/')))) {
      Axis name = t.text;
      if (std::find(axes.begin(), axes.end(), name) != axes.end()) {  // T[i, i]: only where both are equal
        const Axis twin = fmt::format("#head {}", at);
        const Piece equal{Tensor(Array::eye(size, dtype())), {name, twin}};
        piece = elementwise(piece, equal, [&](const Tensor& a, const Tensor& b) { return where(b > 0, a, outside); });
        name = twin;
      }
      if (t.op == '/') piece = pooled(piece, t, size, assign, outside);
      if (t.op == '+') {
        moves.push_back({at, t.amount});
        before_moves[at] = size_of(t.text);
      }
      axes.push_back(name);
    } else {
      fail(t.place, fmt::format("'{}' cannot stand on the left", format(t)));
    }
    ++at;
  }
  Tensor x = broadcast(piece, axes, before_moves);
  for (const Move& m : moves) x = shifted(x, m.axis, m.by, shape[m.axis], outside);
  return x;
}

}  // namespace wr::rules
