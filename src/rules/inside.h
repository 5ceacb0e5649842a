// What a Program holds: its text as parsed, the data that was added, and what the checker made of both.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "rules/check.h"
#include "rules/trace.h"
#include "windrow/rules.h"

namespace wr::rules {

struct Program::Inside {
  Syntax syntax;
  Data data;
  std::string folder;
  Checked checked;
  Semantics semantics = Semantics::boolean;  // where nothing else is said
  mutable Parameters parameters;             // made when they are first needed
  /// What the optimiser remembered at the end of training, by the names of its states: the next one goes on from there.
  std::map<std::string, Array> moments;

  void check_again();
  /// Data that the checker refuses are not kept.
  void add_table(const std::string& relation, Table table);
  void set_array(const std::string& name, const Array& values);
  /// The program with one more query.
  Checked with_query(std::string_view text) const;
};

/// The directive of that name, of several the last; null: there is none.
const Statement* directive(const Syntax& syntax, std::string_view name);
/// The semantics that a program asks for, by @semantics or by what it and its data are made of.
Semantics semantics_of(const Syntax& syntax, const Data& data);
/// @fixpoint's numbers; 0 and -1 where there is none.
int fixpoint_iterations(const Syntax& syntax);
double fixpoint_tolerance(const Syntax& syntax);

}  // namespace wr::rules
