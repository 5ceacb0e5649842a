// einsum of two operands as matrix products: labels are sorted into rows, columns, inner and batch, merged where memory
// allows, and what is left over becomes loops round the product.
#include <algorithm>

#include "backend/cpu/choose.h"
#include "backend/cpu/gemm.h"
#include "ir/attributes.h"

namespace wr::cpu {
namespace {

struct GemmCall {
  Gemm first, rest;  // rest accumulates: the later turns of loops over inner labels
  int loops;
  std::int64_t size[kMaxRank];
  std::int64_t a[kMaxRank], b[kMaxRank], c[kMaxRank];  // bytes
  bool inner[kMaxRank];
};

void run_gemm(const GemmCall& call, void* const* ptr, std::int64_t) {
  const char* a = static_cast<const char*>(ptr[1]);
  const char* b = static_cast<const char*>(ptr[2]);
  char* c = static_cast<char*>(ptr[0]);
  if (call.loops == 0) return call.first(a, b, c, ptr[3]);
  std::int64_t index[kMaxRank] = {};
  int inner_done = 0;  // loops over inner labels that are past their first turn
  while (true) {
    (inner_done ? call.rest : call.first)(a, b, c, ptr[3]);
    int l = call.loops - 1;
    for (; l >= 0; --l) {
      const bool more = ++index[l] < call.size[l];
      const std::int64_t steps = more ? 1 : -(call.size[l] - 1);
      a += steps * call.a[l];
      b += steps * call.b[l];
      c += steps * call.c[l];
      if (call.inner[l]) inner_done += more ? index[l] == 1 : -1;
      if (more) break;
      index[l] = 0;
    }
    if (l < 0) return;
  }
}

struct Label {
  std::int64_t size = 1, a = 0, b = 0, c = 0;  // strides in elements
};

enum Kind { kRow, kCol, kInner, kBatch, kKinds };

/// Neighbouring labels of one kind that lie one inside the other in every operand become one.
void merge(std::vector<Label>& labels) {
  std::stable_sort(labels.begin(), labels.end(), [](const Label& x, const Label& y) {
    return std::max({x.c, x.a, x.b}) > std::max({y.c, y.a, y.b});
  });
  std::vector<Label> merged;
  for (const Label& l : labels) {
    if (!merged.empty()) {
      Label& outer = merged.back();
      if (outer.a == l.a * l.size && outer.b == l.b * l.size && outer.c == l.c * l.size) {
        outer = {outer.size * l.size, l.a, l.b, l.c};
        continue;
      }
    }
    merged.push_back(l);
  }
  labels = std::move(merged);
}

/// Takes the label that the product itself runs over: one that is contiguous if there is one, else the largest.
Label take(std::vector<Label>& labels) {
  if (labels.empty()) return {};
  auto contiguous = [](const Label& l) { return l.c == 1 || l.a == 1 || l.b == 1; };
  auto best = std::max_element(labels.begin(), labels.end(), [&](const Label& x, const Label& y) {
    return std::pair(contiguous(x) && x.size >= 4, x.size) < std::pair(contiguous(y) && y.size >= 4, y.size);
  });
  const Label l = *best;
  labels.erase(best);
  return l;
}

}  // namespace

void Chooser::einsum() {
  const auto& [out, accumulate] = work_.out[0];
  const View &a = work_.in[0], &b = work_.in[1];
  const ir::Labels labels = ir::Labels::of(node_.attrs.text);
  const std::string &la = labels.operands[0], &lb = labels.operands[1], &lc = labels.result;
  std::vector<Label> kinds[kKinds];
  std::string all = la + lb;
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  bool empty = false;
  for (char label : all) {
    Label l;
    const auto ia = la.find(label), ib = lb.find(label), ic = lc.find(label);
    const bool in_a = ia != std::string::npos, in_b = ib != std::string::npos, in_c = ic != std::string::npos;
    l.size = in_a ? a.shape[static_cast<int>(ia)] : b.shape[static_cast<int>(ib)];
    if (l.size == 0 && in_c) empty = true;
    if (l.size == 1) continue;
    if (in_a) l.a = a.strides[static_cast<int>(ia)];
    if (in_b) l.b = b.strides[static_cast<int>(ib)];
    if (in_c) l.c = out.strides[static_cast<int>(ic)];
    kinds[in_a && in_b ? (in_c ? kBatch : kInner) : in_a ? kRow : kCol].push_back(l);
  }
  if (empty) return;
  for (auto& kind : kinds) merge(kind);
  // Batches of row by row products with one side missing are matrix times vector: let the batch stay a loop.
  const Label m = take(kinds[kRow]), n = take(kinds[kCol]), k = take(kinds[kInner]);
  GemmCall made{};
  GemmShape shape{out.dtype, m.size, n.size, k.size, m.a, k.a, k.b, n.b, m.c, n.c, accumulate};
  made.first = make_gemm(shape, target(), kernels_.machine());
  for (Kind kind : {kBatch, kRow, kCol, kInner})
    for (const Label& l : kinds[kind]) {
      const int i = made.loops++;
      made.size[i] = l.size;
      made.a[i] = l.a * a.elem();
      made.b[i] = l.b * b.elem();
      made.c[i] = l.c * out.elem();
      made.inner[i] = kind == kInner;
    }
  shape.accumulate = true;
  made.rest = kinds[kInner].empty() ? made.first : make_gemm(shape, target(), kernels_.machine());
  const auto bytes = std::max(made.first.scratch_bytes, made.rest.scratch_bytes);
  const View scratch = bytes ? emit_.scratch_bytes(bytes) : out;
  call(run_gemm, made, {out, a, b, scratch}, made.first.kernel);
}

}  // namespace wr::cpu
