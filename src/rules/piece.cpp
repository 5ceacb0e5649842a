#include "rules/piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

#include "windrow/contract.h"

namespace wr::rules {
namespace {

bool has(const std::vector<Axis>& axes, const Axis& axis) {
  return std::find(axes.begin(), axes.end(), axis) != axes.end();
}

// How far ltn keeps values from 0 and 1, where its gradients would vanish or explode; and the power of its means.
constexpr double kLtnMargin = 1e-4;
constexpr double kLtnPower = 2;

Tensor from_zero(const Tensor& x) { return x * (1 - kLtnMargin) + kLtnMargin; }
Tensor from_one(const Tensor& x) { return x * (1 - kLtnMargin); }
Tensor at_most_one(const Tensor& x) { return 1 - relu(1 - x); }

/// The letter that an axis has in the text of an einsum over all of these.
char letter(const std::vector<Axis>& all, const Axis& axis) {
  if (all.size() > 52) throw Misuse{"more than 52 variables in one rule or equation"};
  const auto i = std::find(all.begin(), all.end(), axis) - all.begin();
  return static_cast<char>(i < 26 ? 'a' + i : 'A' + i - 26);
}

Semiring semiring_of(Semantics semantics) {
  switch (semantics) {
    case Semantics::godel:
      return Semiring::max_min;
    case Semantics::lukasiewicz:
      return Semiring::lukasiewicz;
    case Semantics::maxprod:
      return Semiring::max_product;
    case Semantics::minplus:
      return Semiring::min_plus;
    default:
      return Semiring::noisy_or;
  }
}

std::int64_t product_of(const Shape& shape, const std::vector<int>& axes) {
  std::int64_t n = 1;
  for (int a : axes) n *= shape[a];
  return n;
}

}  // namespace

std::int64_t Piece::size_of(const Axis& axis) const {
  const auto found = std::find(axes.begin(), axes.end(), axis);
  return found == axes.end() ? -1 : tensor.shape()[static_cast<int>(found - axes.begin())];
}

std::vector<Axis> all_axes(const std::vector<Piece>& pieces) {
  std::vector<Axis> all;
  for (const Piece& p : pieces)
    for (const Axis& a : p.axes)
      if (!has(all, a)) all.push_back(a);
  return all;
}

std::vector<Axis> without(const std::vector<Axis>& axes, const std::vector<Axis>& gone) {
  std::vector<Axis> left;
  for (const Axis& a : axes)
    if (!has(gone, a)) left.push_back(a);
  return left;
}

std::vector<int> positions(const Piece& piece, const std::vector<Axis>& axes) {
  std::vector<int> list;
  for (const Axis& a : axes)
    if (const auto found = std::find(piece.axes.begin(), piece.axes.end(), a); found != piece.axes.end())
      list.push_back(static_cast<int>(found - piece.axes.begin()));
  return list;
}

Tensor aligned(const Piece& piece, const std::vector<Axis>& axes) {
  if (axes.size() > static_cast<std::size_t>(kMaxRank))
    throw Misuse{
        fmt::format("{} variables stand together in one product; at most {} are possible: give parts of it names by "
                    "rules or equations of their own",
                    axes.size(), kMaxRank)};
  if (piece.axes == axes) return piece.tensor;
  Dims order;
  Shape shape;
  for (const Axis& a : axes)
    if (const auto at = positions(piece, {a}); !at.empty()) {
      order.push_back(at[0]);
      shape.push_back(piece.tensor.shape()[at[0]]);
    } else {
      shape.push_back(1);
    }
  bool sorted = true;
  for (int i = 1; i < order.rank(); ++i) sorted = sorted && order[i - 1] < order[i];
  return reshape(sorted ? piece.tensor : permute(piece.tensor, order), shape);
}

Tensor broadcast(const Piece& piece, const std::vector<Axis>& axes, const Shape& shape) {
  const Tensor t = aligned(piece, axes);
  return t.shape() == shape ? t : broadcast_to(t, shape);
}

Piece einsum_of(const std::vector<Piece>& parts, const std::vector<Axis>& out) {
  const std::vector<Axis> all = all_axes(parts);
  std::vector<Axis> kept;
  for (const Axis& a : out)
    if (has(all, a)) kept.push_back(a);
  if (parts.size() == 1 && kept.size() == all.size()) return {aligned(parts[0], kept), kept};
  std::string spec;
  std::vector<Tensor> operands;
  for (const Piece& p : parts) {
    if (!operands.empty()) spec += ',';
    for (const Axis& a : p.axes) spec += letter(all, a);
    operands.push_back(p.tensor);
  }
  spec += "->";
  for (const Axis& a : kept) spec += letter(all, a);
  return {einsum(spec, operands), kept};
}

double Logic::falsehood() const {
  return semantics_ == Semantics::minplus ? std::numeric_limits<double>::infinity() : 0;
}

Tensor Logic::clipped(const Tensor& sum) const { return semantics_ == Semantics::lukasiewicz ? at_most_one(sum) : sum; }

Tensor Logic::meet(const Tensor& a, const Tensor& b) const {
  switch (semantics_) {
    case Semantics::godel:
      return minimum(a, b);
    case Semantics::lukasiewicz:
      return relu(a + b - 1);
    case Semantics::minplus:
      return a + b;
    case Semantics::ltn:
      return from_zero(a) * from_zero(b);
    default:
      return a * b;
  }
}

Tensor Logic::join(const Tensor& a, const Tensor& b) const {
  switch (semantics_) {
    case Semantics::boolean:
    case Semantics::product:
      return a + b - a * b;
    case Semantics::godel:
    case Semantics::maxprod:
      return maximum(a, b);
    case Semantics::lukasiewicz:
      return at_most_one(a + b);
    case Semantics::sum:
      return a + b;
    case Semantics::minplus:
      return minimum(a, b);
    case Semantics::ltn: {
      const Tensor x = from_one(a), y = from_one(b);
      return x + y - x * y;
    }
  }
  return a;
}

Tensor Logic::some(const Tensor& a, const std::vector<int>& axes) const {
  if (axes.empty()) return a;
  switch (semantics_) {
    case Semantics::boolean:
    case Semantics::product:
      return 1 - prod(1 - a, axes);
    case Semantics::godel:
    case Semantics::maxprod:
      return max(a, axes);
    case Semantics::lukasiewicz:
      return at_most_one(sum(a, axes));
    case Semantics::sum:
      return sum(a, axes);
    case Semantics::minplus:
      return min(a, axes);
    case Semantics::ltn:
      return pow(mean(pow(from_zero(a), kLtnPower), axes), 1 / kLtnPower);
  }
  return a;
}

Piece Logic::both(const Piece& a, const Piece& b) const {
  double cells = 1;
  for (const Axis& x : all_axes({a, b})) cells *= static_cast<double>(std::max(a.size_of(x), b.size_of(x)));
  if (cells > most_cells_) throw TooManyCells{cells};
  return elementwise(a, b, [this](const Tensor& x, const Tensor& y) { return meet(x, y); });
}

Piece Logic::either(const Piece& a, const Piece& b) const {
  return elementwise(a, b, [this](const Tensor& x, const Tensor& y) { return join(x, y); });
}

Piece Logic::negation(const Piece& a) const {
  if (semantics_ == Semantics::minplus)
    throw Misuse{"in minplus semantics values are costs, and a cost has no negation"};
  return {1 - a.tensor, a.axes};
}

Piece Logic::weighted(const Piece& a, const Tensor& weight) const {
  switch (semantics_) {
    case Semantics::godel:
      return {minimum(a.tensor, weight), a.axes};
    case Semantics::lukasiewicz:
      return {relu(a.tensor + weight - 1), a.axes};
    case Semantics::minplus:
      return {a.tensor + weight, a.axes};
    default:
      return {a.tensor * weight, a.axes};
  }
}

Piece Logic::implies(const Piece& a, const Piece& b, const std::string& given) const {
  std::string name = given;
  if (name.empty())
    name = semantics_ == Semantics::godel         ? "godel"
           : semantics_ == Semantics::lukasiewicz ? "lukasiewicz"
           : semantics_ == Semantics::maxprod     ? "kleene"
                                                  : "reichenbach";
  if (semantics_ == Semantics::minplus)
    throw Misuse{"in minplus semantics values are costs, and a cost implies nothing"};
  return elementwise(a, b, [&](const Tensor& x, const Tensor& y) -> Tensor {
    if (name == "reichenbach") return 1 - x + x * y;
    if (name == "lukasiewicz") return at_most_one(1 - x + y);
    if (name == "kleene") return maximum(1 - x, y);
    if (name == "godel") return where(x <= y, 1, y);
    return where(x <= y, 1, y / maximum(x, 1e-30));  // goguen; the checker knows no other
  });
}

Piece Logic::exists(std::vector<Piece> parts, const std::vector<Axis>& out) const {
  if (parts.empty()) return {full({}, truth(), dtype_), {}};
  switch (semantics_) {
    case Semantics::sum:
      return einsum_of(parts, out);
    case Semantics::ltn:
      return p_mean(parts, out);
    case Semantics::godel:
    case Semantics::maxprod:
    case Semantics::minplus:
      return one_by_one(std::move(parts), out);
    default:
      return joint(std::move(parts), out);
  }
}

// mean over the join of (a b ..)^p is an einsum of the powers.
Piece Logic::p_mean(const std::vector<Piece>& parts, const std::vector<Axis>& out) const {
  std::vector<Piece> powers;
  const std::vector<Axis> all = all_axes(parts);
  const bool reduces = !without(all, out).empty();
  double count = 1;
  for (const Axis& a : without(all, out))
    for (const Piece& p : parts)
      if (const std::int64_t n = p.size_of(a); n >= 0) {
        count *= static_cast<double>(n);
        break;
      }
  for (const Piece& p : parts) {
    const Tensor x = parts.size() > 1 || reduces ? from_zero(p.tensor) : p.tensor;
    powers.push_back({reduces ? pow(x, kLtnPower) : x, p.axes});
  }
  Piece total = einsum_of(powers, out);
  if (reduces) total.tensor = pow(total.tensor * (1 / count), 1 / kLtnPower);
  return total;
}

Piece Logic::contracted(const Piece& a, const Piece& b, const std::vector<Axis>& out) const {
  const std::vector<Axis> all = all_axes({a, b});
  std::vector<Axis> kept;
  for (const Axis& x : all)
    if (has(out, x)) kept.push_back(x);
  const auto letters = [&](const std::vector<Axis>& axes) {
    std::string text;
    for (const Axis& x : axes) text += letter(all, x);
    return text;
  };
  return {contract(letters(a.axes) + "," + letters(b.axes) + "->" + letters(kept), a.tensor, b.tensor,
                   semiring_of(semantics_)),
          kept};
}

// "Exists" over several variables at once, of the conjunction of all parts: where "and" does not distribute over
// "exists" (product, Lukasiewicz) this is what a body means, whatever its order. The parts become two groups, each
// multiplied out, such that what is multiplied out is least.
Piece Logic::joint(std::vector<Piece> parts, const std::vector<Axis>& out) const {
  const auto merged = [&](const std::vector<Piece>& list) {
    Piece p = list[0];
    for (std::size_t i = 1; i < list.size(); ++i) p = both(p, list[i]);
    return p;
  };
  const std::vector<Axis> all = all_axes(parts);
  if (parts.size() == 1 || without(all, out).empty()) {
    Piece p = merged(parts);
    const std::vector<Axis> gone = without(p.axes, out);
    return {some(p.tensor, positions(p, gone)), without(p.axes, gone)};
  }
  const auto cells = [&](unsigned mask) {
    double n = 1;
    for (const Axis& a : all) {
      std::int64_t size = -1;
      for (std::size_t i = 0; i < parts.size(); ++i)
        if (mask >> i & 1) size = std::max(size, parts[i].size_of(a));
      if (size >= 0) n *= static_cast<double>(size);
    }
    return n;
  };
  if (parts.size() > 16)
    throw Misuse{"more than 16 literals in one body; give parts of it names by rules of their own"};
  const unsigned whole = (1U << parts.size()) - 1;
  unsigned best = 1;
  for (unsigned mask = 1; mask < whole; ++mask)
    if (cells(mask) + cells(whole & ~mask) < cells(best) + cells(whole & ~best)) best = mask;
  std::vector<Piece> first, second;
  for (std::size_t i = 0; i < parts.size(); ++i) (best >> i & 1 ? first : second).push_back(parts[i]);
  return contracted(merged(first), merged(second), out);
}

// Where "and" distributes over "exists", one variable after the other: first the one whose neighbours are smallest.
Piece Logic::one_by_one(std::vector<Piece> parts, const std::vector<Axis>& out) const {
  for (;;) {
    const std::vector<Axis> gone = without(all_axes(parts), out);
    if (gone.empty()) break;
    Axis best;
    double least = std::numeric_limits<double>::infinity();
    for (const Axis& a : gone) {
      std::vector<Piece> with;
      for (const Piece& p : parts)
        if (has(p.axes, a)) with.push_back(p);
      double cells = 1;
      for (const Axis& x : all_axes(with)) {
        std::int64_t size = 1;
        for (const Piece& p : with) size = std::max(size, p.size_of(x));
        cells *= static_cast<double>(size);
      }
      if (cells < least) least = cells, best = a;
    }
    std::vector<Piece> with, rest;
    for (const Piece& p : parts) (has(p.axes, best) ? with : rest).push_back(p);
    Piece joined = with[0];
    for (std::size_t i = 1; i + 1 < with.size(); ++i) joined = both(joined, with[i]);
    if (with.size() > 1) {
      joined = contracted(joined, with.back(), without(all_axes(with), {best}));
    } else {
      joined = {some(joined.tensor, positions(joined, {best})), without(joined.axes, {best})};
    }
    rest.push_back(std::move(joined));
    parts = std::move(rest);
  }
  Piece all = parts[0];
  for (std::size_t i = 1; i < parts.size(); ++i) all = both(all, parts[i]);
  return all;
}

Piece Logic::forall(const Piece& a, const std::vector<Axis>& gone) const {
  const std::vector<int> axes = positions(a, gone);
  if (axes.empty()) return a;
  const std::vector<Axis> left = without(a.axes, gone);
  switch (semantics_) {
    case Semantics::godel:
      return {min(a.tensor, axes), left};
    case Semantics::lukasiewicz:
      return {relu(sum(a.tensor, axes) - static_cast<double>(product_of(a.tensor.shape(), axes) - 1)), left};
    case Semantics::minplus:
      return {sum(a.tensor, axes), left};
    case Semantics::ltn:
      return {1 - pow(mean(pow(1 - from_one(a.tensor), kLtnPower), axes), 1 / kLtnPower), left};
    default:
      return {prod(a.tensor, axes), left};
  }
}

}  // namespace wr::rules
