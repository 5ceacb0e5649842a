// Step: a traced function compiled once into a static plan. Running it allocates nothing and interprets nothing.
#pragma once

#include <array>
#include <functional>
#include <memory>
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
  /// The machine to plan for: "sapphire", "zen3", "desktop", "pi4", or a file with a description; empty:
  /// WINDROW_MACHINE, else this one. The same machine and target give the same plan and the same bits anywhere.
  std::string machine = {};
  /// Times the few plans that are estimated to be fastest, on memory of its own, and takes the fastest; remembered for
  /// the next compilation of the same step on the same machine. Off, WINDROW_TUNE=1 does the same for a whole program.
  bool tune = false;
};

/// Sizes and times of a plan, for tables and tests.
struct StepFacts {
  int regions = 0, phases = 0, lanes = 1, instructions = 0;
  double flops = 0;
  double compile_ms = 0;
  std::size_t scratch_bytes = 0, partial_bytes = 0, arena_bytes = 0, state_bytes = 0;
  std::size_t lower_bound_bytes = 0;  // of scratch and arena
  std::size_t peak_bytes() const {
    return scratch_bytes * static_cast<std::size_t>(lanes) + partial_bytes * static_cast<std::size_t>(lanes) +
           arena_bytes;
  }
};

class Step {
 public:
  /// Results of one run. They belong to the step and change with its next run; copy what is to be kept.
  class Results {
   public:
    explicit Results(const std::vector<Array>& arrays) : arrays_(arrays) {}
    const Array& operator[](std::size_t i) const { return arrays_.at(i); }
    std::size_t size() const { return arrays_.size(); }
    operator Array() const { return arrays_.at(0).clone(); }  // NOLINT(google-explicit-constructor)
    /// The first result, which must have one element.
    operator float() const { return static_cast<float>(number()); }  // NOLINT(google-explicit-constructor)
    operator double() const { return number(); }                     // NOLINT(google-explicit-constructor)

   private:
    double number() const;
    const std::vector<Array>& arrays_;
  };

  Step();
  Step(Step&&) noexcept;
  Step& operator=(Step&&) noexcept;
  ~Step();

  /// Runs the step on its arguments. Shapes and types are checked; arrays must be contiguous.
  template <class... Arrays>
  requires(std::is_convertible_v<const Arrays&, const Array&>&&...) Results operator()(const Arrays&... arguments) {
    const std::array<const Array*, sizeof...(Arrays)> list{&static_cast<const Array&>(arguments)...};
    return run(list);
  }
  Results run(std::span<const Array* const> arguments);
  /// Runs once more on the arguments of the last run.
  Results again();

  const Array& output(std::size_t i) const;
  int threads() const;
  void set_threads(int threads, Location where = Location::current());
  const StepFacts& facts() const;
  /// Writes down where the time of the runs to come goes (it costs less than 2 %), from nothing; or stops and forgets.
  void profile(bool on);
  /// What has been found so far. Throws Error if profiling is off.
  Profile profile() const;
  /// The plan, for people: regions, strips, kernels, bytes, FLOPs, barriers, memory.
  std::string describe() const;
  /// The optimised graph as text.
  std::string graph() const;

  struct Inside;
  explicit Step(std::unique_ptr<Inside> inside);
  Inside& inside() { return *inside_; }

 private:
  std::unique_ptr<Inside> inside_;
};

/// Traces fn once on tensors of the given types and compiles what it did.
Step compile(const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& fn, const std::vector<Spec>& specs,
             const CompileOptions& options = {}, Location where = Location::current());

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
      : parameters_(detail::parameters<Fn>()), where_(where), call_([&fn](const std::vector<Tensor>& arguments) {
          return detail::call(fn, arguments, std::make_index_sequence<detail::parameters<Fn>()>{});
        }) {}

  Step compiled(const std::vector<Spec>& specs, const CompileOptions& options) const;

 private:
  int parameters_;
  Location where_;
  std::function<std::vector<Tensor>(const std::vector<Tensor>&)> call_;
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
