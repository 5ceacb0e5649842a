#include "rules/join.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace wr::rules {

// ---- relations ----

Relation::Relation(std::vector<std::int64_t> sizes) : tuples_(std::move(sizes)) {}

namespace {
std::vector<Value> reordered(const Value* tuple, const std::vector<int>& order) {
  std::vector<Value> out(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) out[i] = tuple[order[i]];
  return out;
}
}  // namespace

bool Relation::insert(const Value* tuple) {
  if (!tuples_.insert(tuple)) return false;
  for (auto& [order, trie] : orders_) trie.insert(reordered(tuple, order).data());
  return true;
}

void Relation::insert(const Value* prefix, const Row& last) {
  tuples_.insert(prefix, last);
  if (orders_.empty()) return;
  std::vector<Value> tuple(prefix, prefix + arity() - 1);
  tuple.push_back(0);
  for (auto& [order, trie] : orders_)
    last.each([&](Value v) {
      tuple.back() = v;
      trie.insert(reordered(tuple.data(), order).data());
      return true;
    });
}

void Relation::clear() {
  tuples_.clear();
  for (auto& [order, trie] : orders_) trie.clear();
}

const Trie& Relation::ordered(const std::vector<int>& order) {
  if (std::is_sorted(order.begin(), order.end())) return tuples_;
  const auto [found, fresh] = orders_.try_emplace(order);
  if (fresh) {
    std::vector<std::int64_t> sizes;
    for (int c : order) sizes.push_back(tuples_.sizes()[c]);
    Trie trie(std::move(sizes));
    tuples_.each([&](const Value* tuple) { trie.insert(reordered(tuple, order).data()); });
    found->second = std::move(trie);
  }
  return found->second;
}

std::size_t Relation::bytes() const {
  std::size_t total = tuples_.bytes();
  for (const auto& [order, trie] : orders_) total += trie.bytes();
  return total;
}

// ---- planning ----

Join::Join(const CoreRule& rule, const std::vector<Domain>& domains, const Inputs& inputs, int delta,
           const std::vector<Value>& given, const std::vector<int>& given_variables, bool keep_all)
    : rule_(rule),
      domains_(domains),
      given_(rule.domains.size(), false),
      dropped_(rule.domains.size(), false),
      inputs_(inputs) {
  values_.resize(rule.domains.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    given_[given_variables[i]] = true;
    values_[given_variables[i]] = given[i];
  }
  choose_order(delta, keep_all);
  make_sources(inputs);
  make_levels();
}

double Join::estimate(int variable, const std::vector<bool>& bound) const {
  const double size = static_cast<double>(domains_[rule_.domains[variable]].size);
  double best = size;
  for (std::size_t a = 0; a < rule_.body.size(); ++a) {
    const CoreAtom& atom = rule_.body[a];
    double tuples = static_cast<double>(inputs_.body[a]->count());
    bool has = false;
    for (std::size_t i = 0; i < atom.terms.size(); ++i) {
      const CoreTerm& t = atom.terms[i];
      if (!t.constant && t.index == variable)
        has = true;
      else if (t.constant || bound[t.index])
        tuples /= static_cast<double>(std::max<std::int64_t>(1, inputs_.body[a]->tuples().sizes()[i]));
    }
    if (has) best = std::min(best, tuples);
  }
  for (const Condition& c : rule_.conditions) {
    if (c.compare != Condition::Compare::eq) continue;
    const auto other = [&](const CoreTerm& mine, const CoreTerm& its) {
      return !mine.constant && mine.index == variable && (its.constant || bound[its.index]);
    };
    if (other(c.left, c.right) || other(c.right, c.left)) best = std::min(best, 0.5);
  }
  return best;
}

void Join::choose_order(int delta, bool keep_all) {
  const std::size_t n = rule_.domains.size();
  std::vector<int> uses(n, 0), atoms(n, 0);
  for (const CoreAtom& a : rule_.body)
    for (const CoreTerm& t : a.terms)
      if (!t.constant) ++uses[t.index], ++atoms[t.index];
  for (const CoreAtom& a : rule_.negated)
    for (const CoreTerm& t : a.terms)
      if (!t.constant) ++uses[t.index];
  for (const Condition& c : rule_.conditions)
    for (const CoreTerm* t : {&c.left, &c.right})
      if (!t->constant) ++uses[static_cast<std::size_t>(t->index)];
  std::vector<bool> in_head(n, false);
  for (const CoreTerm& t : rule_.head.terms)
    if (!t.constant) in_head[t.index] = true;
  // A variable that one atom alone has asks only whether there is something: the trie's own columns know.
  for (std::size_t v = 0; v < n; ++v) dropped_[v] = !keep_all && !in_head[v] && uses[v] == 1 && atoms[v] == 1;

  const CoreTerm* last = rule_.head.terms.empty() ? nullptr : &rule_.head.terms.back();
  std::vector<bool> bound = given_, leads(n, false);
  if (delta >= 0)
    for (const CoreTerm& t : rule_.body[delta].terms)
      if (!t.constant) leads[t.index] = true;
  for (;;) {
    int best = -1;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t v = 0; v < n; ++v) {
      if (bound[v] || dropped_[v]) continue;
      double cost = estimate(static_cast<int>(v), bound);
      if (leads[v] && order_.empty()) cost *= 1e-3;
      if (last != nullptr && !last->constant && last->index == static_cast<int>(v))
        cost = 1e15 + cost;  // rows at the end
      if (!in_head[v]) cost *= 1.5;
      if (cost < least) least = cost, best = static_cast<int>(v);
    }
    if (best < 0) break;
    bound[best] = true;
    order_.push_back(best);
  }
}

void Join::make_sources(const Inputs& inputs) {
  std::vector<int> place(rule_.domains.size(), 0);
  for (std::size_t v = 0; v < place.size(); ++v) place[v] = given_[v] ? -1 : dropped_[v] ? 1 << 20 : 0;
  for (std::size_t i = 0; i < order_.size(); ++i) place[order_[i]] = static_cast<int>(i);
  const auto source = [&](const CoreAtom& atom, Relation& relation) {
    std::vector<int> order(atom.terms.size());
    std::iota(order.begin(), order.end(), 0);
    const auto rank = [&](int c) {
      const CoreTerm& t = atom.terms[c];
      return t.constant ? -2 : place[t.index];
    };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank(a) < rank(b); });
    Source s;
    s.trie = &relation.ordered(order);
    for (int c : order) s.columns.push_back(atom.terms[c]);
    return s;
  };
  for (std::size_t a = 0; a < rule_.body.size(); ++a) sources_.push_back(source(rule_.body[a], *inputs.body[a]));
  for (std::size_t a = 0; a < rule_.negated.size(); ++a)
    negated_.push_back(source(rule_.negated[a], *inputs.negated[a]));
}

void Join::make_levels() {
  std::vector<int> when(rule_.domains.size(), -1);  // given ones before everything
  for (std::size_t i = 0; i < order_.size(); ++i) when[order_[i]] = static_cast<int>(i);
  levels_.resize(order_.size());
  for (std::size_t i = 0; i < order_.size(); ++i) levels_[i].variable = order_[i];
  for (std::size_t s = 0; s < sources_.size(); ++s)
    for (std::size_t c = 0; c < sources_[s].columns.size(); ++c) {
      const CoreTerm& t = sources_[s].columns[c];
      if (t.constant || dropped_[t.index] || given_[t.index]) continue;
      levels_[when[t.index]].rows.push_back({static_cast<int>(s), static_cast<int>(c)});
    }
  for (std::size_t s = 0; s < negated_.size(); ++s) {
    int last = -1;
    for (const CoreTerm& t : negated_[s].columns)
      if (!t.constant) last = std::max(last, when[t.index]);
    if (last < 0)
      first_negated_.push_back(static_cast<int>(s));
    else
      levels_[last].without.push_back({static_cast<int>(s), static_cast<int>(negated_[s].columns.size()) - 1});
  }
  for (std::size_t c = 0; c < rule_.conditions.size(); ++c) {
    const Condition& condition = rule_.conditions[c];
    const int l = condition.left.constant ? -1 : when[condition.left.index];
    const int r = condition.right.constant ? -1 : when[condition.right.index];
    const int last = std::max(l, r);
    if (last < 0) {
      first_conditions_.push_back(static_cast<int>(c));
      continue;
    }
    Level& level = levels_[last];
    if (condition.compare == Condition::Compare::eq && l != r && level.equals < 0)
      level.equals = static_cast<int>(c);
    else
      level.conditions.push_back(static_cast<int>(c));
  }
  for (const CoreTerm& t : rule_.head.terms)
    if (!t.constant) head_levels_ = std::max(head_levels_, static_cast<std::size_t>(when[t.index] + 1));
  if (!levels_.empty() && !rule_.head.terms.empty()) {
    const CoreTerm& last = rule_.head.terms.back();
    int times = 0;
    for (const CoreTerm& t : rule_.head.terms) times += !t.constant && t.index == last.index;
    row_at_end_ = !last.constant && times == 1 && last.index == levels_.back().variable;
  }
  head_.resize(rule_.head.terms.size());
}

// ---- running ----

const std::vector<Value>& Join::prefix_of(const Source& source, int level) {
  prefix_.clear();
  for (int c = 0; c < level; ++c) {
    const CoreTerm& t = source.columns[c];
    prefix_.push_back(t.constant ? static_cast<Value>(t.index) : values_[t.index]);
  }
  return prefix_;
}

bool Join::possible() {
  for (const Source& s : sources_) {
    if (s.trie->empty()) return false;
    // Constants and given variables stand in the first columns: what they begin must be there.
    int known = 0;
    for (const CoreTerm& t : s.columns) {
      if (t.constant && t.index < 0) return false;
      if (!t.constant && !given_[t.index]) break;
      ++known;
    }
    if (known == 0) continue;
    const std::vector<Value>& prefix = prefix_of(s, known);
    const Row* row = s.trie->row(known - 1, prefix.data());
    if (row == nullptr || !row->contains(prefix.back())) return false;
  }
  for (int n : first_negated_) {
    const Source& s = negated_[n];
    if (s.columns.empty() ? !s.trie->empty()
                          : s.trie->contains(prefix_of(s, static_cast<int>(s.columns.size())).data()))
      return false;
  }
  return std::all_of(first_conditions_.begin(), first_conditions_.end(),
                     [&](int c) { return test(rule_.conditions[c]); });
}

double Join::number_of(const CoreTerm& t, double shift, double constant) const {
  if (t.constant) return constant;
  const auto v = static_cast<std::size_t>(t.index);
  return domains_[rule_.domains[v]].value_of(values_[v]) + shift;
}

bool Join::test(const Condition& c) const {
  double a = 0, b = 0;
  if (c.by_number) {
    a = number_of(c.left, c.left_shift, c.left_number);
    b = number_of(c.right, c.right_shift, c.right_number);
  } else {
    a = c.left.constant ? c.left.index : values_[c.left.index];
    b = c.right.constant ? c.right.index : values_[c.right.index];
  }
  return holds(a, c.compare, b);
}

std::int64_t Join::only_candidate(const Condition& c, int variable) const {
  const bool left = !c.left.constant && c.left.index == variable;
  const CoreTerm& other = left ? c.right : c.left;
  if (!c.by_number) return other.constant ? other.index : static_cast<std::int64_t>(values_[other.index]);
  const double value = left ? number_of(c.right, c.right_shift, c.right_number) - c.left_shift
                            : number_of(c.left, c.left_shift, c.left_number) - c.right_shift;
  const Domain& d = domains_[rule_.domains[variable]];
  if (d.numbers) return value >= 0 && value < static_cast<double>(d.size) ? static_cast<std::int64_t>(value) : -1;
  return d.find(std::to_string(static_cast<std::int64_t>(value)));
}

/// Fills level.all and level.none with the rows that apply; false if there can be no candidate.
bool Join::candidates(Level& level) {
  level.all.clear();
  level.none.clear();
  for (const Use& u : level.rows) {
    const Source& s = sources_[u.source];
    const Row* row = s.trie->row(u.level, prefix_of(s, u.level).data());
    if (row == nullptr || row->empty()) return false;
    level.all.push_back(row);
  }
  for (const Use& u : level.without) {
    const Source& s = negated_[u.source];
    // Its last column in the trie's order is this variable: it is the last of them to be bound.
    const Row* row = s.trie->row(u.level, prefix_of(s, u.level).data());
    if (row != nullptr && !row->empty()) level.none.push_back(row);
  }
  if (level.equals >= 0) {
    const std::int64_t only = only_candidate(rule_.conditions[level.equals], level.variable);
    level.meeting.clear();
    if (only < 0) return false;
    const auto v = static_cast<Value>(only);
    const auto has = [v](const Row* r) { return r->contains(v); };
    if (!std::all_of(level.all.begin(), level.all.end(), has) || std::any_of(level.none.begin(), level.none.end(), has))
      return false;
    level.meeting.insert(v);
    level.all = {&level.meeting};
    level.none.clear();
  } else if (level.all.empty()) {
    level.meeting.fill(domains_[rule_.domains[level.variable]].size);
    for (const Row* r : level.none) level.meeting.erase(*r);
    if (level.meeting.empty()) return false;
    level.all = {&level.meeting};
    level.none.clear();
  } else if (level.all.size() > 1 || !level.none.empty()) {
    Row::meet(level.all, level.none, level.meeting);
    if (level.meeting.empty()) return false;
    level.all = {&level.meeting};
    level.none.clear();
  }
  return true;
}

void Join::emit() {
  for (std::size_t i = 0; i < head_.size(); ++i) {
    const CoreTerm& t = rule_.head.terms[i];
    head_[i] = t.constant ? static_cast<Value>(t.index) : values_[t.index];
  }
  out_->insert(head_.data());
}

void Join::emit_row(const Row& row) {
  for (std::size_t i = 0; i + 1 < head_.size(); ++i) {
    const CoreTerm& t = rule_.head.terms[i];
    head_[i] = t.constant ? static_cast<Value>(t.index) : values_[t.index];
  }
  out_->insert(head_.data(), row);
}

/// Binds the variables from level `at` on. True if there was a solution, or visiting was ended.
bool Join::bind(std::size_t at) {
  if (at == levels_.size()) {
    if (visit_ != nullptr) return !(*visit_)(values_);
    emit();
    return true;
  }
  Level& level = levels_[at];
  if (!candidates(level)) return false;
  const Row& row = *level.all[0];
  if (visit_ == nullptr && at + 1 == levels_.size() && level.conditions.empty()) {
    if (row_at_end_) {
      emit_row(row);
      return true;
    }
    if (head_levels_ <= at) {  // only whether there is one
      emit();
      return true;
    }
  }
  bool found = false;
  const bool one_is_enough = visit_ == nullptr && at >= head_levels_;
  row.each([&](Value v) {
    values_[level.variable] = v;
    for (int c : level.conditions)
      if (!test(rule_.conditions[c])) return true;
    if (bind(at + 1)) {
      found = true;
      if (one_is_enough || visit_ != nullptr) return false;
    }
    return true;
  });
  return found;
}

void Join::run(Trie& out) {
  out_ = &out;
  visit_ = nullptr;
  for (const CoreTerm& t : rule_.head.terms)
    if (t.constant && t.index < 0) return;
  if (possible()) bind(0);
}

bool Join::each(const std::function<bool(const std::vector<Value>&)>& fn) {
  visit_ = &fn;
  return possible() && bind(0);
}

}  // namespace wr::rules
