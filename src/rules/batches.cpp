// Batches: the program checked again with the batch in place of a domain's size, traced with rows as inputs; a second
// step for the rows that are left over at the end.
#include "windrow/rules_batches.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>

#include "rules/inside.h"
#include "windrow/error.h"

namespace wr::rules {
namespace {

Array rows_of(const Array& array, std::int64_t first, std::int64_t count) {
  return array.slice(0, first, first + count).contiguous();
}

}  // namespace

std::vector<std::string> in_domain(const Program& program, const std::string& domain) {
  const Checked& checked = program.inside().checked;
  std::string declared;
  bool known = false;
  for (const Domain& d : checked.domains) {
    known = known || d.name == domain;
    if (d.place.line > 0) declared += (declared.empty() ? "; there are " : ", ") + d.name;
  }
  if (!known) throw Error(fmt::format("{}: no domain is called '{}'{}", checked.syntax.name, domain, declared));
  std::vector<std::string> names;
  for (const Predicate& p : checked.predicates)
    if (!p.defined && !p.domains.empty() && checked.domains[p.domains[0]].name == domain) names.push_back(p.name);
  return names;
}

struct Batches::Inside {
  Program program;
  std::string domain;
  std::vector<std::string> inputs, results;
  BatchOptions options;
  std::vector<Spec> specs;
  std::optional<Step> whole, rest;
  std::int64_t rest_rows = 0;

  const Checked& checked() const { return program.inside().checked; }

  Spec spec_of(const std::string& name, std::int64_t rows) const {
    const int id = checked().id(name);
    if (id < 0) throw Error(fmt::format("{}: no relation or tensor is called '{}'", checked().syntax.name, name));
    const Predicate& p = checked().predicates[id];
    Shape shape;
    for (std::size_t i = 0; i < p.domains.size(); ++i) {
      const Domain& d = checked().domains[p.domains[i]];
      if ((d.name == domain) != (i == 0))
        throw Error(fmt::format("{}: in batches of {}, the first index of {}, and no other, must be of that domain",
                                checked().syntax.name, domain, name));
      shape.push_back(i == 0 ? rows : d.size);
    }
    if (shape.rank() == 0) throw Error(fmt::format("{}: {} has no index of {}", checked().syntax.name, name, domain));
    return {options.dtype, shape};
  }

  Step compiled(std::int64_t rows) {
    Program sized = with_size(rows);
    std::vector<Spec> given;
    for (const std::string& name : inputs) given.push_back(spec_of(name, rows));
    return compile(
        [&](const std::vector<Tensor>& in) {
          std::map<std::string, Tensor> values;
          for (std::size_t i = 0; i < inputs.size(); ++i) values[inputs[i]] = in[i];
          std::vector<Tensor> list;
          for (const std::string& name : results)
            list.push_back(sized.trace(name, values, {.semantics = options.semantics, .dtype = options.dtype}));
          return list;
        },
        given, options.compile);
  }

  /// The program, with so many constants in the domain. Parameters are shared: what was learned is used.
  Program with_size(std::int64_t rows) const {
    auto inside = std::make_unique<Program::Inside>(program.inside());
    for (Statement& s : inside->syntax.statements)
      if (s.kind == Statement::Kind::domain && s.name == domain) s.size = rows;
    for (const std::string& name : inputs) {
      inside->data.arrays.erase(name);
      inside->data.tables.erase(name);
    }
    inside->check_again();
    return Program(std::move(inside));
  }

  Step& step_for(std::int64_t rows) {
    if (rows == options.batch) {
      if (!whole) whole.emplace(compiled(rows));
      return *whole;
    }
    if (!rest || rest_rows != rows) {
      rest.emplace(compiled(rows));
      rest_rows = rows;
    }
    return *rest;
  }
};

Batches::Batches(const Program& program, const std::string& domain, std::vector<std::string> inputs,
                 std::vector<std::string> results, const BatchOptions& options)
    : inside_(std::make_unique<Inside>(
          Inside{program, domain, std::move(inputs), std::move(results), options, {}, {}, {}, 0})) {
  const Syntax& syntax = program.inside().syntax;
  const bool sized = std::any_of(syntax.statements.begin(), syntax.statements.end(), [&](const Statement& s) {
    return s.kind == Statement::Kind::domain && s.name == domain && s.size >= 0;
  });
  if (!sized)
    throw Error(
        fmt::format("{}: batches of {}: there is no domain of that name with a size, such as "
                    "`domain {} = 1000.`",
                    syntax.name, domain, domain));
  if (options.batch < 1) throw Error(fmt::format("{}: a batch of {} constants", syntax.name, options.batch));
  if (inside_->results.empty()) throw Error(fmt::format("{}: batches without a result", syntax.name));
  inside_->program = inside_->with_size(options.batch);
  for (const std::string& name : inside_->inputs) inside_->specs.push_back(inside_->spec_of(name, options.batch));
  for (const std::string& name : inside_->results) inside_->spec_of(name, options.batch);
}

Batches::Batches(Batches&&) noexcept = default;
Batches::~Batches() = default;

std::int64_t Batches::batch() const { return inside_->options.batch; }
Step& Batches::step() { return inside_->step_for(inside_->options.batch); }
const Spec& Batches::input_spec(std::size_t input) const { return inside_->specs.at(input); }

void Batches::run(std::int64_t rows, const Load& load, const Take& take) {
  const std::int64_t batch = inside_->options.batch;
  const auto begin = [&](std::int64_t first) {
    return std::async(std::launch::async,
                      [&load, first, count = std::min(batch, rows - first)] { return load(first, count); });
  };
  std::future<std::vector<Array>> next;
  if (rows > 0) next = begin(0);
  for (std::int64_t first = 0; first < rows; first += batch) {
    std::vector<Array> now = next.get();
    if (first + batch < rows) next = begin(first + batch);
    const std::int64_t count = std::min(batch, rows - first);
    std::vector<const Array*> arguments;
    for (std::size_t i = 0; i < now.size(); ++i) {
      now[i] = now[i].astype(inside_->options.dtype).contiguous();
      arguments.push_back(&now[i]);
    }
    const Step::Results found = inside_->step_for(count).run(arguments);
    std::vector<Array> results;
    for (std::size_t i = 0; i < found.size(); ++i) results.push_back(found[i]);
    take(first, results);
  }
}

std::map<std::string, Array> Batches::run(const std::map<std::string, Array>& inputs) {
  std::vector<Array> given;
  std::int64_t rows = -1;
  for (std::size_t i = 0; i < inside_->inputs.size(); ++i) {
    const std::string& name = inside_->inputs[i];
    const auto found = inputs.find(name);
    if (found == inputs.end())
      throw Error(fmt::format("{}: no rows of {} are given", inside_->checked().syntax.name, name));
    Shape shape = inside_->specs[i].shape;
    if (found->second.rank() > 0) shape[0] = found->second.shape()[0];
    if (found->second.shape() != shape || (rows >= 0 && shape[0] != rows))
      throw Error(fmt::format("{}: {} is {}, expected rows of {}{}", inside_->checked().syntax.name, name,
                              to_string(found->second.shape()), to_string(inside_->specs[i].shape),
                              rows >= 0 ? fmt::format(", {} of them", rows) : ""));
    rows = shape[0];
    given.push_back(found->second);
  }
  std::map<std::string, Array> all;
  for (const std::string& name : inside_->results) {
    const Spec spec = inside_->spec_of(name, std::max<std::int64_t>(rows, 0));
    all.emplace(name, Array::zeros(spec.shape, spec.dtype));
  }
  run(
      std::max<std::int64_t>(rows, 0),
      [&](std::int64_t first, std::int64_t count) {
        std::vector<Array> part;
        for (const Array& a : given) part.push_back(rows_of(a, first, count));
        return part;
      },
      [&](std::int64_t first, const std::vector<Array>& results) {
        for (std::size_t i = 0; i < results.size(); ++i) {
          Array& to = all.at(inside_->results[i]);
          const std::int64_t row = results[i].count() / results[i].shape()[0];
          if (to.dtype() == DType::f64)
            std::copy_n(results[i].data<double>(), results[i].count(), to.mutable_data<double>() + first * row);
          else
            std::copy_n(results[i].data<float>(), results[i].count(), to.mutable_data<float>() + first * row);
        }
      });
  return all;
}

}  // namespace wr::rules
