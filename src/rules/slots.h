// Places that have a domain (arguments of predicates, variables of statements), and which of them have the same one: a
// union-find that knows what was declared, which constants were seen, and where.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "rules/check.h"

namespace wr::rules {

class Slots {
 public:
  /// So many new slots; the number of the first.
  int add(std::size_t count);
  void set_domain(int slot, int domain, Place place);
  /// The size of an array's axis, which errors call `what`.
  void set_size(int slot, std::int64_t size, const std::string& what, const Checked& program);
  void unite(int a, int b, Place place, const std::string& variable, const Checked& program);
  /// `table`: the file where it stands, in the row that the place has as its line; nullptr for the program.
  void add_constant(int slot, const std::string& text, Place place, const std::string* table = nullptr);
  /// A constant that is only compared with: it need not belong to the domain where the order alone is asked.
  void add_compared(int slot, const std::string& text, Place place, const std::string& compare);
  /// Makes the domains that nobody declared, puts constants into open ones, and refuses unknown constants and arrays of
  /// other sizes.
  void finish(Checked& program, const std::function<std::string(int)>& described);
  int domain_of(int slot) const { return group(root(slot)).domain; }
  /// Before finish(): whether anything says what the slot's domain is, and a number that equal domains share.
  bool is_determined(int slot) const;
  int domain_key(int slot) const;

 private:
  struct Constant {
    std::string text;
    Place place;
    bool only_compared;
    const std::string* table = nullptr;
  };
  struct Group {
    int domain = -1;
    Place place;
    std::int64_t size = -1;
    std::vector<Constant> constants;
  };
  int root(int slot) const;
  Group& group(int root) { return groups_[root]; }
  const Group& group(int root) const { return groups_[root]; }
  void place_constants(Group& g, Checked& program) const;
  void number_arrays(Checked& program) const;
  static void check_array(const Group& g, const Checked& program);

  mutable std::vector<int> parent_;
  std::vector<Group> groups_;
};

}  // namespace wr::rules
