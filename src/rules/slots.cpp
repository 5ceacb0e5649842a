#include "rules/slots.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/nearest.h"
#include "rules/functions.h"
#include "windrow/error.h"

namespace wr::rules {

int Slots::add(std::size_t count) {
  const int first = static_cast<int>(parent_.size());
  for (std::size_t i = 0; i < count; ++i) parent_.push_back(first + static_cast<int>(i));
  groups_.resize(parent_.size());
  return first;
}

int Slots::root(int slot) const {
  while (parent_[slot] != slot) {
    auto& up = parent_[slot];
    up = parent_[up];
    slot = up;
  }
  return slot;
}

void Slots::set_domain(int slot, int domain, Place place) {
  Group& g = group(root(slot));
  g.domain = domain;
  g.place = place;
}

void Slots::set_size(int slot, std::int64_t size, const std::string& what, const Checked& program) {
  Group& g = group(root(slot));
  const std::int64_t before = g.domain >= 0 ? program.domains[g.domain].size : g.size;
  const bool open = g.domain >= 0 && program.domains[g.domain].open;
  if (before >= 0 && before != size && !open)
    throw Error(fmt::format("{}: {} has {} elements in the array that is given, {} were expected{}",
                            program.syntax.name, what, size, before,
                            g.domain >= 0 ? " (domain " + program.domains[g.domain].name + ")" : ""));
  g.size = size;
}

void Slots::unite(int a, int b, Place place, const std::string& variable, const Checked& program) {
  int x = root(a), y = root(b);
  if (x == y) return;
  const Group &p = group(x), &q = group(y);
  if (p.domain >= 0 && q.domain >= 0 && p.domain != q.domain) {
    const auto name = [&](const Group& g) { return program.domains[g.domain].name; };
    fail_at(program.syntax.name, place,
            fmt::format("domains differ: '{}' is of {} (line {}) and is used here as one of {} (line {})",
                        variable.substr(0, variable.find('#')), name(q), q.place.line, name(p), p.place.line));
  }
  if (p.size >= 0 && q.size >= 0 && p.size != q.size)
    fail_at(program.syntax.name, place,
            fmt::format("sizes differ: '{}' has {} values elsewhere and {} here",
                        variable.substr(0, variable.find('#')), q.size, p.size));
  if (y < x) std::swap(x, y);  // the first one stays: a group is called after its first slot
  Group& into = group(x);
  Group& from = group(y);
  if (into.domain < 0) {
    into.domain = from.domain;
    into.place = from.place;
  }
  into.size = std::max(into.size, from.size);
  into.constants.insert(into.constants.end(), std::make_move_iterator(from.constants.begin()),
                        std::make_move_iterator(from.constants.end()));
  from.constants.clear();
  parent_[y] = x;
}

bool Slots::is_determined(int slot) const {
  const Group& g = group(root(slot));
  return g.domain >= 0 || g.size >= 0 || !g.constants.empty();
}

int Slots::domain_key(int slot) const {
  const int r = root(slot);
  return group(r).domain >= 0 ? group(r).domain : -1 - r;
}

void Slots::add_constant(int slot, const std::string& text, Place place, const std::string* table) {
  group(root(slot)).constants.push_back({text, place, false, table});
}

void Slots::add_compared(int slot, const std::string& text, Place place, const std::string& compare) {
  group(root(slot)).constants.push_back({text, place, compare != "=" && compare != "!="});
}

void Slots::place_constants(Group& g, Checked& program) const {
  Domain& d = program.domains[g.domain];
  for (const Constant& c : g.constants) {
    if (c.only_compared || d.find(c.text) >= 0) continue;
    if (d.open) {
      if (d.size >= kLargestDomain)
        throw Error(
            fmt::format("{}: domain {} has more than {} elements", program.syntax.name, d.name, kLargestDomain));
      d.add(c.text);
      continue;
    }
    const std::string near = d.numbers || d.size > 100'000 ? "" : nearest(c.text, d.names);
    const std::string unknown = fmt::format("unknown constant {} in domain {}{}{}", quoted_constant(c.text), d.name,
                                            d.numbers ? fmt::format(", which is 0 to {}", d.size - 1) : "",
                                            near.empty() ? "" : "; did you mean " + quoted_constant(near) + "?");
    if (c.table != nullptr) throw Error(fmt::format("{}: row {}: {}", *c.table, c.place.line, unknown));
    fail_at(program.syntax.name, c.place, unknown);
  }
}

void Slots::finish(Checked& program, const std::function<std::string(int)>& described) {
  number_arrays(program);
  for (std::size_t s = 0; s < parent_.size(); ++s) {
    if (parent_[s] != static_cast<int>(s)) continue;
    Group& g = groups_[s];
    if (g.domain < 0) {
      Domain d;
      d.name = described(static_cast<int>(s));
      d.numbers = g.size >= 0;
      d.size = std::max<std::int64_t>(g.size, 0);
      d.open = g.size < 0;
      g.domain = static_cast<int>(program.domains.size());
      program.domains.push_back(std::move(d));
    }
    place_constants(g, program);
  }
  for (std::size_t s = 0; s < parent_.size(); ++s)
    if (parent_[s] == static_cast<int>(s)) check_array(groups_[s], program);
}

// An array has no names for its elements: those of an open domain are numbers, unless constants say otherwise.
void Slots::number_arrays(Checked& program) const {
  const auto each = [&](auto&& fn) {
    for (std::size_t s = 0; s < parent_.size(); ++s)
      if (const Group& g = groups_[s]; parent_[s] == static_cast<int>(s) && g.domain >= 0)
        fn(g, program.domains[g.domain]);
  };
  each([](const Group& g, Domain& d) {
    if (!d.open || d.size > 0 || g.size < 0) return;
    d.numbers = true;
    d.size = g.size;
  });
  std::set<const Domain*> named;
  each([&](const Group& g, const Domain& d) {
    if (d.open && d.numbers && std::any_of(g.constants.begin(), g.constants.end(), [&](const Constant& c) {
          return !c.only_compared && d.find(c.text) < 0;
        }))
      named.insert(&d);
  });
  each([&](const Group&, Domain& d) {
    if (!named.contains(&d)) return;
    d.numbers = false;
    d.size = 0;
    named.erase(&d);
  });
}

void Slots::check_array(const Group& g, const Checked& program) {
  const Domain& d = program.domains[g.domain];
  if (g.size < 0 || d.size == g.size) return;
  throw Error(
      fmt::format("{}: domain {} has {} constant{}, and an array that is given has {} along it; an array names none: "
                  "declare them, as in `domain {} = {}.` or `domain {} = {{Ann, Bob}}.`",
                  program.syntax.name, d.name, d.size, d.size == 1 ? "" : "s", g.size, d.name, g.size, d.name));
}

}  // namespace wr::rules
