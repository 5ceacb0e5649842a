// Step: a traced function compiled once into a static plan. Running it allocates nothing and interprets nothing.
//
// Open sizes. With f32(wr::any, 784) the step keeps a plan a shape: the first run on arguments of a new shape traces
// the function again and compiles a plan (milliseconds), later ones allocate nothing. It keeps CompileOptions::plans of
// them; the one that was not used for longest goes. All of them share the states, and each gives the bits of a step
// compiled for its shape alone. The function is kept, so what it refers to must live as long as the step.
//
// Threads. Runs of one step, of steps that share a State, and reading or setting such a State wait for one another.
// Results belong to the step: where two threads run the same one, each may see the other's.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "windrow/array.h"
#include "windrow/location.h"
#include "windrow/profile.h"
#include "windrow/tensor.h"

namespace wr {

struct CompileOptions {
  std::string name = {};  // for describe() and errors
  int threads = 0;        // 0: WINDROW_THREADS, else the cores there are
  /// Virtual cores the plan is made for; results depend on it, never on the threads. 0: chosen for this machine.
  int lanes = 0;
  bool profile = false;  // from the first run on; see Step::profile
  /// "sse4", "avx2" or "avx512"; empty: WINDROW_SIMD, else the best this machine has.
  std::string simd = {};
  /// The machine to plan for: "sapphire", "zen3", "zen5", "desktop", "pi4", or a file with a description; empty:
  /// WINDROW_MACHINE, else this one. The same machine and target give the same plan and the same bits anywhere.
  std::string machine = {};
  /// Times the few plans that are estimated to be fastest, on memory of its own, and takes the fastest; remembered for
  /// the next compilation of the same step on the same machine. Off, WINDROW_TUNE=1 does the same for a whole program.
  bool tune = false;
  /// How many plans a step with open sizes keeps.
  int plans = 8;
  /// After each run, results and states must be finite, and before it, arguments that are indices in range: otherwise
  /// an Error names the first op (and row) that is to blame, and the states are as they were. It costs a copy of the
  /// states. Unset: as WINDROW_CHECK says (1 or 0), else debug builds of the library check steps that update states.
  std::optional<bool> check = {};
  /// Where it runs: "cpu", "auto", "opencl", "opencl:1", "opencl:NAME", "cuda", "cuda:1" (docs/devices.md); empty: as
  /// OnDevice says (windrow/device.h), else WINDROW_DEVICE, else the CPU.
  std::string device = {};
};

/// Sizes and times of a plan, for tables and tests.
struct StepFacts {
  int regions = 0, phases = 0, lanes = 1, instructions = 0;
  double flops = 0;
  double compile_ms = 0;
  std::size_t scratch_bytes = 0, partial_bytes = 0, arena_bytes = 0, state_bytes = 0;
  std::size_t lower_bound_bytes = 0;  // of scratch and arena
  std::vector<Spec> arguments;        // what the plan is for
  std::size_t peak_bytes() const {
    return scratch_bytes * static_cast<std::size_t>(lanes) + partial_bytes * static_cast<std::size_t>(lanes) +
           arena_bytes;
  }
};

/// What compile() traces.
using TracedFunction = std::function<std::vector<Tensor>(const Tensors&)>;

class Step {
 public:
  struct Inside;
  /// Results of one run. They belong to the step and change with its next run; copy what is to be kept. On a device
  /// they come home when they are read.
  class Results {
   public:
    /// `there`: the plan on a device that they are to be brought from; null where they are here.
    Results(const std::vector<Array>& arrays, Location where, Inside* there = nullptr)
        : arrays_(arrays), there_(there), where_(where) {}
    const Array& operator[](std::size_t i) const {
      if (i >= arrays_.size()) none(i);
      if (there_) bring(i);
      return arrays_[i];
    }
    std::size_t size() const { return arrays_.size(); }
    operator Array() const { return (*this)[0].clone(where_); }  // NOLINT(google-explicit-constructor)
    /// The first result, which must have one element.
    operator float() const { return static_cast<float>(number()); }  // NOLINT(google-explicit-constructor)
    operator double() const { return number(); }                     // NOLINT(google-explicit-constructor)

   private:
    [[noreturn]] void none(std::size_t i) const;
    void bring(std::size_t i) const;
    double number() const;
    const std::vector<Array>& arrays_;
    Inside* there_;
    Location where_;  // of the run
  };
  /// What a step is run on: an array, or the first result of another step. Remembers the caller's line.
  class Argument {
   public:
    Argument(const Array& a, Location at = Location::current()) : array(&a), where(at) {}       // NOLINT
    Argument(const Results& r, Location at = Location::current()) : array(&r[0]), where(at) {}  // NOLINT
    const Array* array;
    Location where;
  };

  /// Not to be run: what compile() gives is to be moved here first.
  Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;
  ~Step();

  /// Runs the step on its arguments. Shapes and types are checked; arrays must be contiguous.
  template <class... Arrays>
  requires(std::is_convertible_v<const Arrays&, Argument>&&...) Results operator()(const Argument& first,
                                                                                   const Arrays&... rest) {
    const std::array<const Array*, 1 + sizeof...(Arrays)> list{first.array, Argument(rest, first.where).array...};
    return run(list, first.where);
  }
  Results operator()(Location where = Location::current()) { return run({}, where); }
  Results run(std::span<const Array* const> arguments, Location where = Location::current());
  /// Runs once more on the arguments of the last run.
  Results again(Location where = Location::current());
  /// Makes the plan for arguments of these types now, not in the first run that needs it: for steps with open sizes.
  void prepare(const std::vector<Spec>& arguments, Location where = Location::current());

  /// Result i of the last run, and of those to come: on a device, what has been asked for here comes home with every
  /// run.
  const Array& output(std::size_t i, Location where = Location::current()) const;
  int threads() const;
  /// At most 1024, of which a run takes no more than its plan has lanes.
  void set_threads(int threads, Location where = Location::current());
  /// Of the plan that ran last; of none (no lanes) while a step with open sizes has not run.
  const StepFacts& facts() const;
  /// Of all its plans, the one used last first.
  std::vector<StepFacts> plans() const;
  /// Writes down where the time of the runs to come goes (it costs less than 2 %), from nothing; or stops and forgets.
  void profile(bool on);
  /// What has been found so far about the plan that ran last. Throws Error if profiling is off.
  Profile profile() const;
  /// The plan, for people: regions, strips, kernels, bytes, FLOPs, barriers, memory. All of them where sizes are open.
  std::string describe() const;
  /// The optimised graph as text, of the plan that ran last.
  std::string graph() const;

  explicit Step(std::unique_ptr<Inside> inside);
  /// The plan that ran last.
  Inside& inside() const;

 private:
  friend Step compile_traced(const TracedFunction& fn, const std::vector<Spec>& specs, const CompileOptions& options,
                             Location where);
  struct Plans;
  explicit Step(std::unique_ptr<Plans> plans);
  Plans& compiled(Location where) const;

  std::unique_ptr<Plans> plans_;
};

Step compile_traced(const TracedFunction& fn, const std::vector<Spec>& specs, const CompileOptions& options,
                    Location where);

/// Traces fn once on tensors of the given types and compiles what it did; with open sizes, once a shape when it runs.
/// A template, so that nobody tries to make a function of the braces in compile({.name = "step"}, ...): clang 16 fails.
template <std::convertible_to<TracedFunction> Fn>
Step compile(const Fn& fn, const std::vector<Spec>& specs, const CompileOptions& options = {},
             Location where = Location::current()) {
  return compile_traced(fn, specs, options, where);
}

namespace detail {

inline std::vector<Tensor> as_list(Tensor t) { return {std::move(t)}; }
inline std::vector<Tensor> as_list(std::vector<Tensor> t) { return t; }
template <class... T>
std::vector<Tensor> as_list(std::tuple<T...> t) {
  return std::apply([](auto&... each) { return std::vector<Tensor>{each...}; }, t);
}
template <class A, class B>
std::vector<Tensor> as_list(std::pair<A, B> t) {
  return {t.first, t.second};
}

template <class Fn, std::size_t... I>
constexpr bool takes(std::index_sequence<I...>) {
  return std::is_invocable_v<Fn&, decltype((static_cast<void>(I), std::declval<const Tensor&>()))...>;
}
inline constexpr int kMostParameters = 32;
/// How many tensors a function takes; -1 if it takes something else.
template <class Fn, int N = 0>
constexpr int parameters() {
  if constexpr (N > kMostParameters)
    return -1;
  else if constexpr (takes<Fn>(std::make_index_sequence<N>{}))
    return N;
  else
    return parameters<Fn, N + 1>();
}

template <class Fn, std::size_t... I>
std::vector<Tensor> call(Fn& fn, const std::vector<Tensor>& arguments, std::index_sequence<I...>) {
  if constexpr (std::is_void_v<decltype(fn(arguments[I]...))>) {
    fn(arguments[I]...);
    return {};
  } else {
    return as_list(fn(arguments[I]...));
  }
}

}  // namespace detail

/// A function of some tensors that compile() calls, and where the user wrote it. Made from any callable by itself.
class StepFunction {
 public:
  template <class Fn>
  requires(!std::is_same_v<std::remove_cvref_t<Fn>, StepFunction> && detail::parameters<Fn>() >= 0)
      StepFunction(Fn&& fn,  // NOLINT(google-explicit-constructor)
                   Location where = Location::current())
      : parameters_(detail::parameters<Fn>()),
        where_(where),
        call_(refer(fn)),
        keep_([&fn] { return keep(std::forward<Fn>(fn)); }) {}

  Step compiled(const std::vector<Spec>& specs, const CompileOptions& options) const;

 private:
  template <class Fn>
  static TracedFunction refer(Fn& fn) {
    return [&fn](const std::vector<Tensor>& arguments) {
      return detail::call(fn, arguments, std::make_index_sequence<detail::parameters<Fn>()>{});
    };
  }
  /// Moved or copied into the step, which will trace it again; only referred to if it can be neither.
  template <class Fn>
  static TracedFunction keep(Fn&& fn) {
    using Own = std::decay_t<Fn>;
    if constexpr (std::is_constructible_v<Own, Fn&&>) {
      return [own = std::make_shared<Own>(std::forward<Fn>(fn))](const std::vector<Tensor>& arguments) {
        return detail::call(*own, arguments, std::make_index_sequence<detail::parameters<Own>()>{});
      };
    } else {
      return refer(fn);
    }
  }

  int parameters_;
  Location where_;
  TracedFunction call_;                   // good while compile() runs
  std::function<TracedFunction()> keep_;  // the same, good for as long as it is kept
};

/// compile([&](Tensor x, Tensor y) { ...; return loss; }, wr::f32(64, 784), wr::i32(64))
template <std::same_as<Spec>... Specs>
Step compile(const CompileOptions& options, const StepFunction& fn, const Specs&... specs) {
  return fn.compiled({specs...}, options);
}
template <std::same_as<Spec>... Specs>
Step compile(const StepFunction& fn, const Specs&... specs) {
  return fn.compiled({specs...}, {});
}

/// Computes one expression now.
Array eval(const Tensor& tensor, Location where = Location::current());
std::vector<Array> eval(const std::vector<Tensor>& tensors, Location where = Location::current());

}  // namespace wr
