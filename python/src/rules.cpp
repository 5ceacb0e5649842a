// windrow.rules: programs of facts, rules and tensor equations; solved, queried, explained, traced, learned.
#include "windrow/rules.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include "casters.h"
#include "step.h"

namespace wr::python {
namespace {

using namespace nb::literals;
using rules::Answers;
using rules::Program;
using rules::SolveFacts;

using Name = std::optional<std::string>;

std::optional<rules::Semantics> semantics_from(const Name& name) {
  if (!name) return {};
  const auto found = rules::semantics_called(*name);
  if (!found)
    throw nb::value_error(
        ("semantics: '" + *name + "' is not boolean, product, godel, lukasiewicz, sum, maxprod, minplus or ltn")
            .c_str());
  return found;
}

rules::SolveOptions solving(const Name& semantics, int most_iterations, double tolerance, std::size_t memory) {
  return {semantics_from(semantics), most_iterations, tolerance, memory};
}

std::map<std::string, Tensor> inputs_from(const nb::dict& inputs, Location where) {
  std::map<std::string, Tensor> tensors;
  for (auto [name, value] : inputs) tensors.emplace(nb::cast<std::string>(name), tensor_from(value, where));
  return tensors;
}

/// What another thread may go on beside: everything that calls back into Python asks for the interpreter again.
template <class Fn>
auto apart(Fn fn) {
  const Released released;
  return fn();
}

/// Calls `progress`, if there is one, after every `every` steps; hears Ctrl-C after each.
std::function<bool(int, double)> progress_of(nb::handle progress, int every) {
  return [progress, every](int step, double loss) {
    const nb::gil_scoped_acquire acquired;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    if (progress.is_none() || every < 1 || step % every != 0) return true;
    const nb::object answer = progress(step, loss);
    return answer.is_none() || nb::cast<bool>(nb::bool_(answer));
  };
}

nb::list rows_of(const Answers& answers) {
  nb::list rows;
  for (const auto& row : answers.rows) {
    nb::list one;
    for (const std::string& constant : row) one.append(constant.c_str());
    rows.append(nb::tuple(one));
  }
  return rows;
}

void bind_answers(nb::module_& n) {
  nb::class_<Answers>(n, "Answers", "The answers to a query: a row of constants for each.")
      .def_ro("query", &Answers::query, "As it was asked.")
      .def_ro("columns", &Answers::columns, "The query's variables.")
      .def_prop_ro("rows", &rows_of,
                   "A tuple of constants for each answer. A query without variables has one, (), if it holds.")
      .def_ro("values", &Answers::values, "One a row; empty where all are simply true.")
      .def("tsv", &rules::to_tsv, "Tab-separated values with a header line.")
      .def("json", &rules::to_json)
      .def("__len__", [](const Answers& a) { return a.rows.size(); })
      .def("__bool__", [](const Answers& a) { return !a.rows.empty(); })
      .def("__iter__", [](const Answers& a) { return nb::iter(rows_of(a)); })
      .def("__str__", &rules::to_table)
      .def("__repr__", &rules::to_table);
  nb::class_<SolveFacts::Line>(n, "SolvedRule", "What one rule has cost.")
      .def_ro("rule", &SolveFacts::Line::rule)
      .def_ro("line", &SolveFacts::Line::line)
      .def_ro("seconds", &SolveFacts::Line::seconds)
      .def_ro("found", &SolveFacts::Line::found, "Tuples, those known before included.");
  nb::class_<SolveFacts>(n, "SolveFacts", "What solving has cost: give one as facts= to run() or relation().")
      .def(nb::init<>())
      .def_ro("iterations", &SolveFacts::iterations)
      .def_ro("seconds", &SolveFacts::seconds)
      .def_ro("rules", &SolveFacts::rules);
  nb::class_<rules::TrainReport>(n, "TrainReport", "What training has done.")
      .def_ro("losses", &rules::TrainReport::losses, "One a step.")
      .def_ro("seconds", &rules::TrainReport::seconds)
      .def_ro("compile_seconds", &rules::TrainReport::compile_seconds);
}

/// Constants are text; whole numbers, numpy's too, are written as the language has them.
std::vector<std::vector<std::string>> rows_from(const std::string& relation, nb::handle rows) {
  std::vector<std::vector<std::string>> all;
  for (nb::handle row : nb::iter(rows)) {
    const auto refuse = [&](const std::string& what) {
      throw nb::type_error(fmt::format("rows of {}: row {}: {}", relation, all.size() + 1, what).c_str());
    };
    if (nb::isinstance<nb::str>(row)) refuse("a text; expected a tuple of constants, such as ('Ann', 'Bob')");
    std::vector<std::string> constants;
    for (nb::handle each : nb::iter(row)) {
      std::string text;
      if (nb::isinstance<nb::str>(each) ? !nb::try_cast(each, text) : PyIndex_Check(each.ptr()) == 0)
        refuse(fmt::format("{} is no constant; expected text or a whole number", nb::repr(each).c_str()));
      if (!nb::isinstance<nb::str>(each)) text = nb::str(nb::steal(PyNumber_Index(each.ptr()))).c_str();
      constants.push_back(std::move(text));
    }
    all.push_back(std::move(constants));
  }
  return all;
}

void bind_facts(nb::class_<Program>& program) {
  program
      .def(
          "add",
          [](Program& p, const std::string& relation, nb::handle rows, const std::vector<double>& weights) {
            p.add(relation, rows_from(relation, rows), weights);
          },
          "relation"_a, "rows"_a, "weights"_a = std::vector<double>{},
          nb::sig("def add(self, relation: str, rows: collections.abc.Iterable[collections.abc.Iterable[str | int]], "
                  "weights: collections.abc.Sequence[float] = []) -> None"),
          "More facts: rows of constants, names or whole numbers; a weight for each row or none.")
      .def("load", &Program::load, "relation"_a, "path"_a,
           "Facts from a file: .tsv and .csv have a tuple a line, .npy a whole tensor.")
      .def(
          "set", [](Program& p, const std::string& name, nb::handle values) { p.set(name, copied_array(values)); },
          "name"_a, "values"_a, "A whole relation or tensor.");
}

void bind_solving(nb::class_<Program>& program) {
  constexpr std::size_t kMemory = rules::SolveOptions{}.memory;
  program
      .def(
          "query",
          [](const Program& p, const std::string& text, const Name& s, int most, double tolerance, std::size_t memory) {
            return apart([&] { return p.query(text, solving(s, most, tolerance, memory)); });
          },
          "text"_a, "semantics"_a = nb::none(), "most_iterations"_a = 0, "tolerance"_a = -1.0, "memory"_a = kMemory,
          "Answers to one query, such as 'Ancestor(Ann, y)'. Only what it needs is derived.")
      .def(
          "run",
          [](const Program& p, const Name& s, int most, double tolerance, std::size_t memory, SolveFacts* facts) {
            return apart([&] { return p.run(solving(s, most, tolerance, memory), facts); });
          },
          "semantics"_a = nb::none(), "most_iterations"_a = 0, "tolerance"_a = -1.0, "memory"_a = kMemory,
          "facts"_a = nb::none(), "Answers to the queries that stand in the program, in their order.")
      .def(
          "relation",
          [](const Program& p, const std::string& name, const Name& s, int most, double tolerance, std::size_t memory,
             SolveFacts* facts) {
            return apart([&] { return p.relation(name, solving(s, most, tolerance, memory), facts); });
          },
          "name"_a, "semantics"_a = nb::none(), "most_iterations"_a = 0, "tolerance"_a = -1.0, "memory"_a = kMemory,
          "facts"_a = nb::none(), "All tuples of one relation, or all elements of a tensor that are not zero.")
      .def(
          "array",
          [](const Program& p, const std::string& name, const Name& s, int most, double tolerance, std::size_t memory) {
            return apart([&] { return p.array(name, solving(s, most, tolerance, memory)); });
          },
          "name"_a, "semantics"_a = nb::none(), "most_iterations"_a = 0, "tolerance"_a = -1.0, "memory"_a = kMemory,
          "The same as an array, an axis for each argument: bool in boolean semantics, else f64.")
      .def(
          "explain",
          [](const Program& p, const std::string& atom, const Name& s, int most, double tolerance, std::size_t memory) {
            return apart([&] { return p.explain(atom, solving(s, most, tolerance, memory)); });
          },
          "atom"_a, "semantics"_a = nb::none(), "most_iterations"_a = 0, "tolerance"_a = -1.0, "memory"_a = kMemory,
          "Why something holds: a tree of rules and facts.")
      .def(
          "gradient",
          [](const Program& p, const std::string& loss, const std::vector<std::string>& by, const Name& s, int most,
             double tolerance, std::size_t memory) {
            return apart([&] { return p.gradient(loss, by, solving(s, most, tolerance, memory)); });
          },
          "loss"_a, "by"_a, "semantics"_a = nb::none(), "most_iterations"_a = 0, "tolerance"_a = -1.0,
          "memory"_a = kMemory,
          "The gradient of a tensor with one element by relations, tensors or parameters, at a fixpoint: {name: "
          "array}.")
      .def(
          "gradient_by_facts",
          [](const Program& p, const std::string& loss, const std::string& relation, const Name& s, int most,
             double tolerance, std::size_t memory) {
            return apart([&] { return p.gradient_by_facts(loss, relation, solving(s, most, tolerance, memory)); });
          },
          "loss"_a, "relation"_a, "semantics"_a = nb::none(), "most_iterations"_a = 0, "tolerance"_a = -1.0,
          "memory"_a = kMemory,
          "The same by each fact of a relation: a row a fact, without the cells that no fact has.");
}

void bind_learning(nb::class_<Program>& program) {
  program
      .def(
          "trace",
          [](Program& p, const std::string& name, const nb::dict& inputs, const Name& s, DType dtype, int iterations) {
            return p.trace(name, inputs_from(inputs, here()), {semantics_from(s), dtype, iterations});
          },
          "name"_a, "inputs"_a = nb::dict(), "semantics"_a = nb::none(), "dtype"_a = DType::f32, "iterations"_a = 0,
          "In a compiled function: a relation or tensor as a tensor, an axis for each argument. `inputs` {name: "
          "tensor} "
          "take the place of facts, data and rules.")
      .def(
          "trace_constraints",
          [](Program& p, const nb::dict& inputs, const Name& s, DType dtype, int iterations) {
            return p.trace_constraints(inputs_from(inputs, here()), {semantics_from(s), dtype, iterations});
          },
          "inputs"_a = nb::dict(), "semantics"_a = nb::none(), "dtype"_a = DType::f32, "iterations"_a = 0,
          "In a compiled function: how far all constraints hold, in [0, 1].")
      .def(
          "train",
          [](Program& p, int steps, double lr, const Name& s, nb::handle progress, int every) {
            const rules::TrainOptions options{semantics_from(s), steps, lr, progress_of(progress, every), 1};
            return apart([&] { return p.train(options); });
          },
          "steps"_a = 0, "lr"_a = 0.0, "semantics"_a = nb::none(), "progress"_a = nb::none(), "every"_a = 100,
          "Minimises what @minimize names. progress(step, loss) is called after every so many steps; False ends it.")
      .def("learned", &Program::learned, "Rules with the weights and choices they have learned, as text.")
      .def("notes", &Program::notes,
           "What the program may mean and probably does not: inputs without data, constants that nothing gives.")
      .def("parameters", &Program::parameters, "What is learned, once it was traced, trained or loaded.")
      .def("states", &Program::parameters)
      .def("save", &Program::save, "path"_a)
      .def("restore", &Program::restore, "path"_a)
      .def("adopt_learned", &Program::adopt_learned, "other"_a,
           "What another program, of which this one is a further state, has learned. The names of the rest, which has "
           "other constants or rules here and is learned anew.");
}

}  // namespace

void bind_rules(nb::module_& m) {
  nb::module_ n = m.def_submodule(
      "rules", "Tensor logic: programs of facts, rules and tensor equations. docs/rules.md describes the language.");
  bind_answers(n);
  nb::class_<Program> program(n, "Program", "A program of facts, rules, queries and tensor equations.");
  program.def(
      "__init__",
      [](Program* self, const std::string& text, const std::string& name) {
        new (self) Program(Program::parse(text, name));
      },
      "text"_a, "name"_a = "program", "The name stands in messages: `kin.wr:3:14: ...`.");
  bind_facts(program);
  bind_solving(program);
  bind_learning(program);
  program.def_prop_ro("names", &Program::names, "Relations and tensors that are declared or used.")
      .def_prop_ro(
          "semantics", [](const Program& p) { return std::string(rules::to_string(p.semantics())); },
          "The semantics that is used where nothing else is said.")
      .def("__copy__", [](const Program& p) { return Program(p); })
      .def("__repr__", [](const Program& p) {
        std::string text = "<windrow.rules.Program of";
        for (const std::string& name : p.names()) text += " " + name;
        return text + ">";
      });
  n.def(
      "parse", [](const std::string& text, const std::string& name) { return Program::parse(text, name); }, "text"_a,
      "name"_a = "program", "A program from its text.");
  n.def("parse_file", &Program::parse_file, "path"_a, "Files that the program loads are found from its own folder.");
  n.def(
      "format_text", [](const std::string& text, const std::string& name) { return rules::format_text(text, name); },
      "text"_a, "name"_a = "program", "A program's text in the standard layout, comments kept.");
}

}  // namespace wr::python
