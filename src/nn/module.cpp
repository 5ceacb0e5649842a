// Modules: paths, states, errors that name the layer; and the modules that are made of others.
#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>

#include "windrow/nn.h"
#include "windrow/step.h"

namespace wr::nn {
namespace {

/// An error that already says which layer it is about.
class LayerError : public Error {
 public:
  using Error::Error;
};

/// Raised whenever any module gets a part: a net compiled before may be another one now.
std::atomic<std::uint64_t> structure = 0;

/// Every module of the process, by address: how a Net finds its members.
class Living {
 public:
  /// Never destroyed: modules with static storage may outlive any other.
  static Living& all() {
    static auto* const instance = new Living;
    return *instance;
  }
  void add(const Module* module) {
    const std::lock_guard lock(mutex_);
    modules_.insert(module);
  }
  void remove(const Module* module) {
    const std::lock_guard lock(mutex_);
    modules_.erase(module);
  }
  std::vector<const Module*> within(const void* begin, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const auto* end = static_cast<const std::byte*>(begin) + bytes;
    std::vector<const Module*> list;
    for (auto it = modules_.lower_bound(static_cast<const Module*>(begin));
         it != modules_.end() && std::less<const void*>()(*it, end); ++it)
      list.push_back(*it);
    return list;
  }

 private:
  std::mutex mutex_;
  std::set<const Module*> modules_;
};

std::string join(const std::string& path, const std::string& name) { return path.empty() ? name : path + "." + name; }

}  // namespace

Module::Module() : record_(std::make_shared<Record>()) { Living::all().add(this); }
Module::Module(const Module& other) : record_(other.record_) { Living::all().add(this); }
Module& Module::operator=(const Module& other) {
  record_ = other.record_;
  return *this;
}
Module::~Module() { Living::all().remove(this); }

Tensor Module::operator()(const Tensor& x, Mode mode, Where where) const {
  try {
    if (x.empty()) fail(where, "the input is an empty Tensor");
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
  module->find_parts();
  const auto record = module->record_;
  add_child({name, std::move(module), record});
}

void Module::add_child(Child child) const {
  for (const Child& c : record_->children)
    if (c.name == child.name) throw Error(kind() + ": there are two parts named '" + child.name + "'");
  child.record->rename(join(path(), child.name));
  record_->children.push_back(std::move(child));
  ++structure;
}

void Module::find_parts_in(const void* begin, std::size_t bytes) const {
  std::size_t number = 0;
  for (const Module* member : Living::all().within(begin, bytes)) {
    if (member == this) continue;
    // A part of a part, or one that child() has registered: a handle's copies share its record.
    if (record_->holds(member->record_.get())) continue;
    member->find_parts();
    add_child({std::to_string(number++), nullptr, member->record_});
  }
}

void Module::Record::rename(const std::string& to) {
  path = to;
  for (const Own& each : own) each.state.rename(join(to, each.name));
  for (const Child& c : children) c.record->rename(join(to, c.name));
}

bool Module::Record::holds(const Record* other) const {
  return this == other ||
         std::any_of(children.begin(), children.end(), [&](const Child& c) { return c.record->holds(other); });
}

void Module::rename(const std::string& path) const {
  find_parts();
  record_->rename(path);
}

std::vector<std::shared_ptr<const Module>> Module::children() const {
  std::vector<std::shared_ptr<const Module>> list;
  for (const Child& c : record_->children)
    if (c.module) list.push_back(c.module);
  return list;
}

void Module::Record::collect(std::vector<State>& list, bool buffers) const {
  const auto known = [&](const State& state) {
    for (const State& s : list)
      if (s.variable() == state.variable()) return true;
    return false;
  };
  for (const Own& each : own)
    if ((each.trained || buffers) && !known(each.state)) list.push_back(each.state);
  for (const Child& c : children) c.record->collect(list, buffers);
}

std::vector<State> Module::parameters() const {
  find_parts();
  std::vector<State> list;
  record_->collect(list, false);
  return list;
}

std::vector<State> Module::states() const {
  find_parts();
  std::vector<State> list;
  record_->collect(list, true);
  return list;
}

// ---- predict ----

struct Module::Predictor {
  const Module* net = nullptr;  // whose parts are traced; a handle that lives while predict() runs
  DType dtype{};
  int rank = 0;
  std::uint64_t made_at = structure;
  Step step;
  std::mutex mutex;
};

Array predict(const Module& net, const Array& x, Location where) {
  if (tracing()) fail(where, "predict: a step is being traced; call the net itself there");
  if (x.rank() == 0) fail(where, "predict: the input is one number; its first axis should be the rows");
  static std::mutex making;
  std::shared_ptr<Module::Predictor> p;
  {
    const std::lock_guard lock(making);
    p = net.record_->predictor;
    if (!p || p->dtype != x.dtype() || p->rank != x.rank() || p->made_at != structure) {
      p = net.record_->predictor = std::make_shared<Module::Predictor>();
      p->dtype = x.dtype();
      p->rank = x.rank();
      p->step = compile(
          CompileOptions{.name = "predict"},
          [self = p.get(), where](const Tensor& rows) { return (*self->net)(rows, Mode::eval, where); },
          Spec{x.dtype(), Shape(x.rank(), any.code)});
    }
  }
  const std::lock_guard lock(p->mutex);
  p->net = &net;
  const Array dense = x.contiguous(where);
  return p->step.run(std::array{&dense}, where)[0].clone(where);
}

namespace detail {

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(abi::__cxa_demangle(type.name(), nullptr, nullptr, &status),
                                                    std::free);
  std::string text = status == 0 ? name.get() : type.name();
  if (const auto colons = text.rfind("::"); colons != std::string::npos) text.erase(0, colons + 2);
  return text;
}

}  // namespace detail

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
