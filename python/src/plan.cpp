// Plans of a compiled Python function: the function is traced into one for each shape of its arguments, and what it
// returns is remembered as a shape that results are filled into.
#include <algorithm>

#include "step.h"

namespace wr::python {
namespace {

constexpr std::size_t kMostPlans = 32;  // of one function; the least recently used goes
constexpr std::size_t kManyPlans = 8;   // worth a word

/// Collects the tensors of a result and gives its shape with their numbers in their places.
nb::object shape_of_result(nb::handle result, std::vector<Tensor>& tensors, Location where) {
  if (result.is_none()) return nb::none();
  if (is_traced(result)) {
    tensors.push_back(tensor_from(result, where));
    return nb::int_(tensors.size() - 1);
  }
  if (nb::isinstance<nb::tuple>(result) || nb::isinstance<nb::list>(result)) {
    nb::list parts;
    for (nb::handle item : result) parts.append(shape_of_result(item, tensors, where));
    if (nb::isinstance<nb::list>(result)) return parts;
    if (PyObject_HasAttrString(result.ptr(), "_make"))
      return nb::make_tuple(nb::borrow(result.type()).attr("_make"), nb::tuple(parts), nb::none());
    return nb::tuple(parts);
  }
  if (nb::isinstance<nb::dict>(result)) {
    nb::dict parts;
    for (auto [key, item] : nb::borrow<nb::dict>(result)) parts[key] = shape_of_result(item, tensors, where);
    return parts;
  }
  throw nb::type_error((to_string(where) + ": a step returns tensors, or tuples, lists or dicts of them; not " +
                        nb::cast<std::string>(result.type().attr("__name__")))
                           .c_str());
}

bool fits(const Plan& plan, const Argument* arguments, std::size_t count, PyObject* statics) {
  if (plan.specs.size() != count) return false;
  for (std::size_t i = 0; i < count; ++i) {
    const Spec& spec = plan.specs[i];
    if (arguments[i].dtype != spec.dtype || !(*arguments[i].shape == spec.shape)) return false;
  }
  if (!statics) return !plan.statics.is_valid();
  if (!plan.statics.is_valid()) return false;
  const int equal = PyObject_RichCompareBool(plan.statics.ptr(), statics, Py_EQ);
  if (equal < 0) throw nb::python_error();
  return equal == 1;
}

void warn_of_many_plans(const Function& f) {
  const std::string text = f.options.name + ": " + std::to_string(f.plans.size()) +
                           " plans, one for each shape it was called with; each is compiled on its own. Pad to a few "
                           "shapes if there are to be many more";
  if (PyErr_WarnEx(PyExc_RuntimeWarning, text.c_str(), 1) != 0) throw nb::python_error();
}

Plan& make_plan(Function& f, const Argument* arguments, std::size_t count, PyObject* statics) {
  auto plan = std::make_unique<Plan>();
  for (std::size_t i = 0; i < count; ++i) plan->specs.push_back({arguments[i].dtype, *arguments[i].shape});
  if (statics) plan->statics = nb::steal(PyDict_Copy(statics));
  const Location where = here();
  plan->step = wr::compile(
      [&](const std::vector<Tensor>& tensors) {
        nb::list list;
        for (const Tensor& t : tensors) list.append(nb::cast(t));
        const nb::object result = nb::steal(PyObject_Call(f.fn.ptr(), nb::tuple(list).ptr(), statics));
        if (!result.is_valid()) throw nb::python_error();
        std::vector<Tensor> outputs;
        plan->result = shape_of_result(result, outputs, where);
        plan->outputs = outputs.size();
        return outputs;
      },
      plan->specs, f.options, where);
  plan->bound.resize(count);
  plan->data.resize(count, nullptr);
  plan->pointers.resize(count);
  plan->single = plan->result.is_valid() && PyLong_Check(plan->result.ptr());
  if (f.plans.size() >= kMostPlans) {
    const auto oldest = std::min_element(f.plans.begin(), f.plans.end(),
                                         [](const auto& a, const auto& b) { return a->used < b->used; });
    f.plans.erase(oldest);
  }
  f.plans.push_back(std::move(plan));
  ++f.compiled;
  if (f.compiled == kManyPlans + 1) warn_of_many_plans(f);
  return *f.plans.back();
}

}  // namespace

nb::object filled(nb::handle shape, const std::vector<nb::object>& values) {
  if (PyLong_Check(shape.ptr())) return values[nb::cast<std::size_t>(shape)];
  if (nb::isinstance<nb::list>(shape)) {
    nb::list out;
    for (nb::handle item : shape) out.append(filled(item, values));
    return out;
  }
  if (nb::isinstance<nb::dict>(shape)) {
    nb::dict out;
    for (auto [key, item] : nb::borrow<nb::dict>(shape)) out[key] = filled(item, values);
    return out;
  }
  if (nb::isinstance<nb::tuple>(shape)) {
    const auto parts = nb::borrow<nb::tuple>(shape);
    const bool named = parts.size() == 3 && parts[2].is_none() && PyCallable_Check(parts[0].ptr());
    nb::list out;
    if (named) {
      for (nb::handle item : parts[1]) out.append(filled(item, values));
      return parts[0](out);
    }
    for (nb::handle item : parts) out.append(filled(item, values));
    return nb::tuple(out);
  }
  return nb::none();
}

Plan& plan_for(Function& f, const Argument* arguments, std::size_t count, PyObject* statics) {
  if (f.last && fits(*f.last, arguments, count, statics)) return *f.last;
  for (const auto& plan : f.plans)
    if (fits(*plan, arguments, count, statics)) return *(f.last = plan.get());
  f.last = nullptr;
  return *(f.last = &make_plan(f, arguments, count, statics));
}

}  // namespace wr::python
