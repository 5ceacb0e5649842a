#include "rules/functions.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

namespace wr::rules {
namespace {

constexpr std::array kFunctions{
    Function{"sig", "sig(x) or sig(x, temperature)", 1, 2, false},
    Function{"sigmoid", "sigmoid(x)", 1, 1, false},
    Function{"step", "step(x)", 1, 1, false},
    Function{"relu", "relu(x)", 1, 1, false},
    Function{"gelu", "gelu(x)", 1, 1, false},
    Function{"softplus", "softplus(x)", 1, 1, false},
    Function{"tanh", "tanh(x)", 1, 1, false},
    Function{"exp", "exp(x)", 1, 1, false},
    Function{"log", "log(x)", 1, 1, false},
    Function{"sqrt", "sqrt(x)", 1, 1, false},
    Function{"abs", "abs(x)", 1, 1, false},
    Function{"square", "square(x)", 1, 1, false},
    Function{"sin", "sin(x)", 1, 1, false},
    Function{"cos", "cos(x)", 1, 1, false},
    Function{"floor", "floor(x)", 1, 1, false},
    Function{"softmax", "softmax(x)", 1, 1, false},
    Function{"lnorm", "lnorm(x)", 1, 1, false},
    Function{"normalise", "normalise(x)", 1, 1, false},
    Function{"eq", "eq(x, y)", 2, 2, false},
    Function{"lt", "lt(x, y)", 2, 2, false},
    Function{"max", "max(x, y) or max(i: x)", 2, 2, true},
    Function{"min", "min(x, y) or min(i: x)", 2, 2, true},
    Function{"sum", "sum(i: x)", 1, 0, true},
    Function{"mean", "mean(i: x)", 1, 0, true},
    Function{"prod", "prod(i: x)", 1, 0, true},
    Function{"argmax", "argmax(i: x)", 1, 0, true},
};

constexpr std::array<std::string_view, 8> kSemantics{"boolean", "product", "godel",   "lukasiewicz",
                                                     "sum",     "maxprod", "minplus", "ltn"};
constexpr std::array<std::string_view, 5> kImplications{"reichenbach", "lukasiewicz", "kleene", "godel", "goguen"};

template <std::size_t N>
std::string listed(const std::array<std::string_view, N>& names) {
  std::string text;
  for (std::string_view name : names) text += (text.empty() ? "" : ", ") + std::string(name);
  return text;
}

}  // namespace

std::vector<std::string_view> function_names() {
  std::vector<std::string_view> names;
  for (const Function& f : kFunctions) names.push_back(f.name);
  return names;
}

const Function* find_function(std::string_view name) {
  const auto* found =
      std::find_if(kFunctions.begin(), kFunctions.end(), [&](const Function& f) { return f.name == name; });
  return found == kFunctions.end() ? nullptr : found;
}

std::string semantics_names() { return listed(kSemantics); }

bool is_implication(std::string_view name) {
  return std::find(kImplications.begin(), kImplications.end(), name) != kImplications.end();
}
std::string implication_names() { return listed(kImplications); }

std::string_view to_string(Semantics semantics) { return kSemantics[static_cast<std::size_t>(semantics)]; }

std::optional<Semantics> semantics_called(std::string_view name) {
  if (name == "bool") return Semantics::boolean;
  const auto* found = std::find(kSemantics.begin(), kSemantics.end(), name);
  if (found == kSemantics.end()) return {};
  return static_cast<Semantics>(found - kSemantics.begin());
}

}  // namespace wr::rules
