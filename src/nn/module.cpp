// Modules: paths, states, errors that name the layer; and the modules that are made of others.
#include "windrow/nn.h"

namespace wr::nn {
namespace {

/// An error that already says which layer it is about.
class LayerError : public Error {
 public:
  using Error::Error;
};

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

}  // namespace

Module::Module() : record_(std::make_shared<Record>()) {}

Tensor Module::operator()(const Tensor& x, Mode mode, Where where) const {
  try {
    if (!x) fail(where, "the input is an empty Tensor");
    return forward(x, mode, where);
  } catch (const LayerError&) {
    throw;
  } catch (const Error& error) {
    throw LayerError(std::string(error.what()) + " (in layer " + (path().empty() ? "" : "'" + path() + "', ") + kind() +
                     ")");
  }
}

State Module::parameter(const std::string& name, const Array& initial) {
  State state(initial, name);
  record_->own.push_back({name, state, true});
  return state;
}

State Module::buffer(const std::string& name, const State& state) {
  record_->own.push_back({name, state, false});
  state.rename(name);
  return state;
}

void Module::adopt(const std::string& name, std::shared_ptr<const Module> module) {
  if (name.empty()) throw Error(kind() + ": a part without a name");
  for (const Child& c : record_->children)
    if (c.name == name) throw Error(kind() + ": there are two parts named '" + name + "'");
  module->rename(join(path(), name));
  record_->children.push_back({name, std::move(module)});
}

void Module::rename(const std::string& path) const {
  record_->path = path;
  for (const Own& own : record_->own) own.state.rename(join(path, own.name));
  for (const Child& c : record_->children) c.module->rename(join(path, c.name));
}

std::vector<std::shared_ptr<const Module>> Module::children() const {
  std::vector<std::shared_ptr<const Module>> list;
  for (const Child& c : record_->children) list.push_back(c.module);
  return list;
}

void Module::collect(std::vector<State>& list, bool buffers) const {
  const auto known = [&](const State& state) {
    for (const State& s : list)
      if (s.variable() == state.variable()) return true;
    return false;
  };
  for (const Own& own : record_->own)
    if ((own.trained || buffers) && !known(own.state)) list.push_back(own.state);
  for (const Child& c : record_->children) c.module->collect(list, buffers);
}

std::vector<State> Module::parameters() const {
  std::vector<State> list;
  collect(list, false);
  return list;
}

std::vector<State> Module::states() const {
  std::vector<State> list;
  collect(list, true);
  return list;
}

std::string Sequential::kind() const { return "Sequential(" + std::to_string(children().size()) + " parts)"; }

Tensor Sequential::forward(const Tensor& x, Mode mode, const Where& where) const {
  Tensor y = x;
  for (const auto& part : children()) y = (*part)(y, mode, where);
  return y;
}

std::string Concat::kind() const { return "Concat(axis " + std::to_string(axis_) + ")"; }

Tensor Concat::forward(const Tensor& x, Mode mode, const Where& where) const {
  std::vector<Tensor> results;
  for (const auto& part : children()) results.push_back((*part)(x, mode, where));
  return concat(results, axis_, where);
}

Tensor Residual::forward(const Tensor& x, Mode mode, const Where& where) const {
  const Tensor y = (*children()[0])(x, mode, where);
  if (!(y.spec() == x.spec()))
    fail(where, "Residual: the input is " + to_string(x.spec()) + ", the part makes it " + to_string(y.spec()));
  return Operand(x, where) + y;
}

}  // namespace wr::nn
