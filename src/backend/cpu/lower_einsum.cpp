// einsum of two operands as matrix products: labels are sorted into rows, columns, inner and batch, merged where memory
// allows, and what is left over becomes loops round the product.
#include <algorithm>

#include "backend/cpu/gemm.h"
#include "backend/cpu/lower.h"

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

void Lowering::lower_einsum(int id, const View& out, const View& a, const View& b, bool accumulate) {
  const std::string& spec = graph_[id].attrs.text;
  const auto comma = spec.find(','), arrow = spec.find("->");
  const std::string la = spec.substr(0, comma), lb = spec.substr(comma + 1, arrow - comma - 1),
                    lc = spec.substr(arrow + 2);
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
  for (auto& labels : kinds) merge(labels);
  // Batches of row by row products with one side missing are matrix times vector: let the batch stay a loop.
  const Label m = take(kinds[kRow]), n = take(kinds[kCol]), k = take(kinds[kInner]);
  GemmCall call{};
  GemmShape shape{out.dtype, m.size, n.size, k.size, m.a, k.a, k.b, n.b, m.c, n.c, accumulate};
  call.first = make_gemm(shape, emit_.target());
  for (Kind kind : {kBatch, kRow, kCol, kInner})
    for (const Label& l : kinds[kind]) {
      const int i = call.loops++;
      call.size[i] = l.size;
      call.a[i] = l.a * a.elem();
      call.b[i] = l.b * b.elem();
      call.c[i] = l.c * out.elem();
      call.inner[i] = kind == kInner;
    }
  shape.accumulate = true;
  call.rest = kinds[kInner].empty() ? call.first : make_gemm(shape, emit_.target());
  const auto bytes = std::max(call.first.scratch_bytes, call.rest.scratch_bytes);
  const View scratch = bytes ? emit_.scratch_bytes(bytes) : out;
  emit_.call(run_gemm, call, {out, a, b, scratch}, call.first.kernel);
}

}  // namespace wr::cpu
