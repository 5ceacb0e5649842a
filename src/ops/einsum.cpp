// einsum and the matrix products on top of it. In the graph the spec (attrs.text) is explicit: "bi,io->bo".
#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "ir/attributes.h"
#include "ops/define.h"

namespace wr {

using ir::Op;

namespace {

bool is_label(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// Labels for the batch axes of a matrix product, counted from the last.
std::string batch_labels(int n) {
  std::string labels;
  for (int i = n - 1; i >= 0; --i) labels += static_cast<char>('A' + i);
  return labels;
}

std::string rank_error(const Tensor& a, const Tensor& b) {
  return "needs operands of rank 2 or more, got " + to_string(a.shape()) + " and " + to_string(b.shape());
}

Tensor product(const char* name, const Tensor& a, const Tensor& b, const char* la, const char* lb, Location where) try {
  if (a.empty() || b.empty()) fail(where, std::string(name) + ": an operand is an empty Tensor");
  if (a.rank() < 2 || b.rank() < 2) fail(where, std::string(name) + ": " + rank_error(a, b));
  if (a.dtype() != b.dtype())
    fail(where, std::string(name) + ": operand types differ: " + to_string(a.spec()) + " and " + to_string(b.spec()) +
                    "; cast one of them");
  const auto inner_a = a.size(la[0] == 'k' ? -2 : -1), inner_b = b.size(lb[0] == 'k' ? -2 : -1);
  if (inner_a != inner_b)
    fail(where, std::string(name) + ": inner sizes differ: the left operand is " + to_string(a.shape()) +
                    ", the right one " + to_string(b.shape()) + (name == std::string("matmul") ? "" : " (as given)"));
  // Batch axes of size 1 against larger ones are dropped from the operand that has them.
  const int batch = std::max(a.rank(), b.rank()) - 2;
  const std::string labels = batch_labels(batch);
  auto own = [&](const Tensor& t, const Tensor& other, std::string& spec) {
    Shape kept;
    for (int i = 0; i < t.rank() - 2; ++i) {
      const int from_last = t.rank() - 2 - i;
      const auto n = t.shape()[i];
      const int j = other.rank() - 2 - from_last;
      const auto m = j < 0 ? 1 : other.shape()[j];
      if (n != m && n != 1 && m != 1)
        fail(where, std::string(name) + ": batch sizes " + to_string(a.shape()) + " and " + to_string(b.shape()) +
                        " do not broadcast");
      if (n == 1 && m != 1) continue;
      kept.push_back(n);
      spec += labels[batch - from_last];
    }
    kept.push_back(t.size(-2));
    kept.push_back(t.size(-1));
    return kept.rank() == t.rank() ? t : reshape(t, kept, where);
  };
  std::string sa, sb;
  const Tensor ta = own(a, b, sa), tb = own(b, a, sb);
  return einsum(sa + la + "," + sb + lb + "->" + labels + "mn", {ta, tb}, where);
} catch (const Error& error) {
  ops::refuse_as(name, where, error);
}

}  // namespace

// Where no result is given it is the labels that occur once, in alphabetical order, as numpy has it.
std::string ops::explicit_labels(std::string_view given, const char* op, Location where) {
  std::string spec;
  for (char c : given)
    if (c != ' ') spec += c;
  for (std::size_t i = 0; i < spec.size(); ++i) {
    const char c = spec[i];
    if (is_label(c) || c == ',') continue;
    if (c == '-' && i + 1 < spec.size() && spec[i + 1] == '>' && spec.find("->", i + 2) == std::string::npos) {
      ++i;
      continue;
    }
    fail(where, std::string(op) + ": '" + std::string(given) + "': unexpected '" + std::string(1, c) +
                    "' at position " + std::to_string(i) +
                    "; labels are letters, operands are separated by ',', the result follows '->'");
  }
  if (spec.find("->") != std::string::npos) return spec;
  std::map<char, int> seen;
  for (char c : spec)
    if (is_label(c)) ++seen[c];
  spec += "->";
  for (auto [label, n] : seen)
    if (n == 1) spec += label;
  return spec;
}

Tensor einsum(std::string_view spec, const std::vector<Tensor>& operands, Location where) {
  return ir::apply(Op::einsum, operands, {{}, {}, ops::explicit_labels(spec, "einsum", where)}, where);
}

Tensor matmul(const Tensor& a, const Tensor& b, Location where) { return product("matmul", a, b, "mk", "kn", where); }
Tensor matmul_nt(const Tensor& a, const Tensor& b, Location where) {
  return product("matmul_nt", a, b, "mk", "nk", where);
}
Tensor matmul_tn(const Tensor& a, const Tensor& b, Location where) {
  return product("matmul_tn", a, b, "km", "kn", where);
}

namespace ops {
namespace {

Spec infer_einsum(std::span<const Spec> in, const Attrs& attrs) {
  const std::string quoted = "'" + attrs.text + "': ";
  const auto arrow = attrs.text.find("->");
  if (arrow == std::string::npos) refuse(quoted + "has no '->'");
  for (std::size_t i = 0; i < attrs.text.size(); ++i)
    if (!is_label(attrs.text[i]) && !(attrs.text[i] == ',' && i < arrow) && i != arrow && i != arrow + 1)
      refuse(quoted + "unexpected '" + attrs.text[i] + "' at position " + std::to_string(i));
  const ir::Labels p = ir::Labels::of(attrs.text);
  if (p.operands.size() != in.size())
    refuse(quoted + "names " + std::to_string(p.operands.size()) + " operands, " + std::to_string(in.size()) +
           " are given");
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const std::string& labels = p.operands[i];
    if (in[i].dtype != in[0].dtype)
      refuse(quoted + "operand types differ: " + to_string(in[0]) + " and " + to_string(in[i]));
    expect_floating(in[i], "an operand");
    if (static_cast<int>(labels.size()) != in[i].shape.rank())
      refuse(quoted + "operand " + std::to_string(i) + " has labels '" + labels + "' but its shape is " +
             to_string(in[i].shape));
    for (std::size_t k = 0; k < labels.size(); ++k) {
      const auto n = in[i].shape[static_cast<int>(k)];
      auto [it, fresh] = sizes.emplace(labels[k], n);
      if (!fresh && it->second != n)
        refuse(quoted + "label '" + labels[k] + "' is " + std::to_string(it->second) + " in one place and " +
               std::to_string(n) + " in operand " + std::to_string(i) + " " + to_string(in[i].shape));
    }
  }
  Spec out{in[0].dtype, {}};
  std::set<char> used;
  for (char c : p.result) {
    if (!used.insert(c).second) refuse(quoted + "label '" + c + "' stands twice in the result");
    auto it = sizes.find(c);
    if (it == sizes.end()) refuse(quoted + "label '" + c + "' of the result is in no operand");
    out.shape.push_back(it->second);
  }
  return out;
}

AxisMap einsum_axes(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  const ir::Labels p = ir::Labels::of(attrs.text);
  AxisMap map;
  std::string reduced;
  for (std::size_t i = 0; i < in.size(); ++i) {
    Axes axes;
    for (char c : p.operands[i]) {
      const auto at = p.result.find(c);
      if (std::count(p.operands[i].begin(), p.operands[i].end(), c) > 1) {
        axes.push_back(kWhole);
      } else if (at != std::string::npos) {
        axes.push_back(static_cast<int>(at));
      } else {
        if (reduced.find(c) == std::string::npos) reduced += c;
        axes.push_back(AxisTo::reduced(static_cast<int>(reduced.find(c))));
      }
    }
    map.operand.push_back(axes);
  }
  return map;
}

// For operand i: einsum of g and the others, with i's labels as the result. Labels that only operand i has are
// broadcast; repeated labels put the gradient on the diagonal through a product with the identity.
std::vector<Tensor> gradient_of_einsum(const Gradient& of) {
  const ir::Labels p = ir::Labels::of(of.attrs.text);
  std::vector<Tensor> gradients;
  for (std::size_t i = 0; i < of.in.size(); ++i) {
    std::string spec = p.result;
    std::vector<Tensor> operands{of.g};
    std::set<char> have(p.result.begin(), p.result.end());
    for (std::size_t j = 0; j < of.in.size(); ++j)
      if (j != i) {
        spec += "," + p.operands[j];
        have.insert(p.operands[j].begin(), p.operands[j].end());
        operands.push_back(of.in[j]);
      }
    // A repeated label is an axis of the identity that its later occurrences bring.
    for (char c : p.operands[i])
      if (std::count(p.operands[i].begin(), p.operands[i].end(), c) > 1) have.insert(c);
    Shape spread;
    std::set<char> own;
    char fresh = 'A';
    auto new_label = [&] {
      while (have.count(fresh) || of.attrs.text.find(fresh) != std::string::npos) ++fresh;
      have.insert(fresh);
      return fresh;
    };
    bool needs_broadcast = false;
    std::string kept;
    for (std::size_t k = 0; k < p.operands[i].size(); ++k) {
      const char c = p.operands[i][k];
      const auto n = of.in[i].shape()[static_cast<int>(k)];
      if (!own.insert(c).second) {
        const char twin = new_label();
        spec += std::string(",") + c + twin;
        operands.push_back(Tensor(Array::eye(n, of.g.dtype())));
        kept += twin;
        spread.push_back(n);
      } else if (have.count(c)) {
        kept += c;
        spread.push_back(n);
      } else {
        needs_broadcast = true;
        spread.push_back(1);
      }
    }
    Tensor d = einsum(spec + "->" + kept, operands);
    if (needs_broadcast) d = broadcast_to(reshape(d, spread), of.in[i].shape());
    gradients.push_back(d);
  }
  return gradients;
}

/// A multiplication and an addition for every combination of the labels' indices.
double einsum_flops(const Spec&, std::span<const Spec> in, const Attrs& attrs) {
  const ir::Labels labels = ir::Labels::of(attrs.text);
  double product = 2;
  std::string seen;
  for (std::size_t i = 0; i < in.size(); ++i)
    for (int k = 0; k < in[i].shape.rank(); ++k) {
      const char label = labels.operands[i][k];
      if (seen.find(label) != std::string::npos) continue;
      seen += label;
      product *= static_cast<double>(in[i].shape[k]);
    }
  return product;
}

const OpDef kOpDefs[] = {
    {Op::einsum,
     "einsum",
     infer_einsum,
     einsum_axes,
     gradient_of_einsum,
     "sums of products over labelled axes",
     nullptr,
     {.arithmetic = true, .flops = einsum_flops}},
};

}  // namespace

std::span<const OpDef> einsum_ops() { return kOpDefs; }

}  // namespace ops
}  // namespace wr
