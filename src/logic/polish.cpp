// From gates that are mixtures to hard ones that work: a search that slopes lead.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "logic/draw.h"
#include "windrow/circuit.h"

namespace wr::logic {
namespace {

struct Choice {
  std::size_t layer, gate;
  int function;
};

/// Likely functions of each gate, where there are several.
std::vector<Choice> choices(const std::vector<State>& layers, double likely) {
  std::vector<Choice> all;
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    const Array z = layers[layer].value().astype(DType::f64);
    const double* row = z.data<double>();
    for (std::size_t gate = 0; gate < static_cast<std::size_t>(z.size(0)); ++gate, row += kFunctions) {
      const double top = *std::max_element(row, row + kFunctions);
      double sum = 0;
      for (int f = 0; f < kFunctions; ++f) sum += std::exp(row[f] - top);
      if (1 / sum > 1 - likely) continue;
      for (int f = 0; f < kFunctions; ++f)
        if (std::exp(row[f] - top) / sum >= likely) all.push_back({layer, gate, f});
    }
  }
  return all;
}

/// Any function for any gate that does something.
std::vector<Choice> working_gates(const Functions& functions) {
  std::vector<Choice> all;
  for (std::size_t layer = 0; layer < functions.size(); ++layer)
    for (std::size_t gate = 0; gate < functions[layer].size(); ++gate)
      for (int f = 0; f < kFunctions && functions[layer][gate] != kPassA; ++f) all.push_back({layer, gate, f});
  return all;
}

Choice any_choice(const Functions& functions, Draw& draw) {
  std::size_t gates = 0, layer = 0;
  for (const auto& of_layer : functions) gates += of_layer.size();
  auto gate = static_cast<std::size_t>(draw.below(gates));
  for (; gate >= functions[layer].size(); ++layer) gate -= functions[layer].size();
  return {layer, gate, static_cast<int>(draw.below(kFunctions))};
}

/// Gates of other functions than before: the two logits change places.
void exchange(const std::vector<State>& layers, const Functions& before, const Functions& now) {
  for (std::size_t layer = 0; layer < layers.size(); ++layer) {
    if (before[layer] == now[layer]) continue;
    Array z = layers[layer].value().astype(DType::f64);
    double* row = z.mutable_data<double>();
    for (std::size_t gate = 0; gate < now[layer].size(); ++gate, row += kFunctions)
      std::swap(row[before[layer][gate]], row[now[layer][gate]]);
    State(layers[layer]).set(z.astype(layers[layer].spec().dtype));
  }
}

/// c0 + c1 a + c2 b + c3 ab.
std::array<double, 4> coefficients_of(int function) {
  const auto f = [&](bool a, bool b) { return apply(function, a, b) ? 1.0 : 0.0; };
  const double at_0 = f(false, false), by_a = f(true, false) - at_0, by_b = f(false, true) - at_0;
  return {at_0, by_a, by_b, f(true, true) - at_0 - by_a - by_b};
}

/// What slopes say that a change will change.
class Forecast {
 public:
  explicit Forecast(const std::vector<Array>& slopes) {
    for (const Array& of_layer : slopes) slopes_.push_back(of_layer.astype(DType::f64));
  }
  double operator()(const Choice& choice, int function_now) const {
    const double* slope = slopes_[choice.layer].data<double>() + 4 * choice.gate;
    double change = 0;
    for (std::size_t k = 0; k < 4; ++k) change += slope[k] * (at(choice.function)[k] - at(function_now)[k]);
    return change;
  }

 private:
  static const std::array<double, 4>& at(int function) {
    static const auto all = [] {
      std::array<std::array<double, 4>, kFunctions> of_functions;
      for (int f = 0; f < kFunctions; ++f) of_functions[static_cast<std::size_t>(f)] = coefficients_of(f);
      return of_functions;
    }();
    return all[static_cast<std::size_t>(function)];
  }
  std::vector<Array> slopes_;
};

/// Changes of one gate, by what they promise.
struct Promises {
  std::vector<Choice> better;  // less wrong, the most promising first
  std::vector<Choice> mends;   // something that is wrong becomes right, but other things become wrong, not too many
};

Promises promises(const PolishExam::Slopes& slopes, const Functions& functions) {
  constexpr double kSurely = 0.5, kMostBroken = 8;
  const Forecast of_all(slopes.of_all), of_wrong(slopes.of_wrong);
  // What promises more than there is to mend adds up several ways that are one: it says nothing.
  const double most = static_cast<double>(slopes.wrong) + kSurely;
  std::vector<std::pair<double, Choice>> better;
  Promises found;
  for (std::size_t layer = 0; layer < functions.size(); ++layer)
    for (std::size_t gate = 0; gate < functions[layer].size(); ++gate)
      for (int f = 0; f < kFunctions; ++f) {
        const Choice choice{layer, gate, f};
        const double change = of_all(choice, functions[layer][gate]);
        if (change < -kSurely && change > -most)
          better.emplace_back(change, choice);
        else if (change < kMostBroken && of_wrong(choice, functions[layer][gate]) < -kSurely)
          found.mends.push_back(choice);
      }
  std::stable_sort(better.begin(), better.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [change, choice] : better) found.better.push_back(choice);
  return found;
}

class Polisher {
 public:
  Polisher(const Automaton& automaton, const PolishExam& exam, const PolishOptions& options)
      : exam_(exam),
        options_(options),
        layers_(automaton.parameters()),
        told_(functions_of(automaton)),
        now_(told_),
        best_(told_),
        likely_(choices(layers_, options.likely)),
        working_(working_gates(told_)),
        left_(exam.errors(now_)),
        least_(left_),
        draw_(options.seed) {}

  std::int64_t run() {
    for (int rounds = 0; goes_on(); ++rounds) {  // since the last beginning
      const std::int64_t before = left_;
      const Promises found = look();
      for (const Choice& choice : found.better) attempt({choice}, left_);
      for (int i = 0; i < kWander; ++i) attempt(any_changes(), left_);
      if (left_ < before || !exam_.slopes) continue;
      if (left_ > least_ && rounds >= kRounds) {
        now_ = best_;
        left_ = least_;
      } else if (!kick(found.mends)) {
        continue;
      }
      rounds = 0;
    }
    now_ = best_;
    tell();
    return least_;
  }

 private:
  static constexpr int kWander = 300; // tries at random between looks at the slopes
  static constexpr int kRounds = 4;   // to come back to the fewest errors after something was broken
  static constexpr int kKicks = 600;  // tries to find what breaks little
  static constexpr std::int64_t kBroken = 3;

  bool goes_on() const { return tried_ < options_.tries && least_ > 0; }

  /// The automaton has the functions found so far.
  void tell() {
    exchange(layers_, told_, now_);
    told_ = now_;
  }

  Promises look() {
    if (!exam_.slopes) return {};
    tell();
    return promises(exam_.slopes(), now_);
  }

  bool kick(std::vector<Choice> mends) {
    shuffle(mends, Draw(draw_.bits()));
    if (std::ssize(mends) > kKicks) mends.resize(kKicks);
    for (const Choice& choice : mends)
      if (attempt({choice}, left_ + kBroken)) return true;
    return false;
  }

  std::vector<Choice> any_changes() {
    std::vector<Choice> changes;
    do changes.push_back(any_change());
    while (draw_.unit() < options_.more);
    return changes;
  }

  Choice any_change() {
    const double kind = draw_.unit();
    if (kind < options_.idle || (working_.empty() && likely_.empty())) return any_choice(now_, draw_);
    const bool working = likely_.empty() || (!working_.empty() && kind < options_.idle + options_.any);
    const std::vector<Choice>& from = working ? working_ : likely_;
    return from[static_cast<std::size_t>(draw_.below(from.size()))];
  }

  /// Changes gates if it leaves no more than `most` errors.
  bool attempt(const std::vector<Choice>& changes, std::int64_t most) {
    if (!goes_on()) return false;
    ++tried_;
    std::vector<Choice> before;
    for (const Choice& choice : changes) {
      int& function = now_[choice.layer][choice.gate];
      before.push_back({choice.layer, choice.gate, function});
      function = choice.function;
    }
    const std::int64_t found = exam_.errors(now_);
    if (found > most) {
      for (auto old = before.rbegin(); old != before.rend(); ++old) now_[old->layer][old->gate] = old->function;
      return false;
    }
    left_ = found;
    if (left_ <= least_) {
      least_ = left_;
      best_ = now_;
    }
    return true;
  }

  const PolishExam& exam_;
  const PolishOptions& options_;
  std::vector<State> layers_;
  Functions told_, now_, best_;  // what the automaton has, what is tried, and what leaves the fewest errors
  std::vector<Choice> likely_, working_;
  std::int64_t left_, least_, tried_ = 0;
  Draw draw_;
};

}  // namespace

std::int64_t polish(const Automaton& automaton, const PolishExam& exam, const PolishOptions& options) {
  return Polisher(automaton, exam, options).run();
}

}  // namespace wr::logic
