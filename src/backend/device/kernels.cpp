// Functions by number, and which family a node belongs to.
#include "backend/device/kernels.h"

#include <limits>

#include "backend/device/choose.h"
#include "backend/device/product.h"

namespace wr::device {

using ir::Op;

namespace {

/// Functions count with 32 bits.
void expect_small(const View& v) {
  std::int64_t last = 0;
  for (int i = 0; i < v.shape.rank(); ++i) last += std::max<std::int64_t>(v.shape[i] - 1, 0) * std::abs(v.strides[i]);
  if (last >= std::numeric_limits<std::int32_t>::max())
    throw NotKnown(cat("a value of ", v.count(), " elements: device code counts to 2^31"));
}

}  // namespace

int Kernels::add(const std::vector<View>& operands, const std::string& body) {
  Function f;
  std::string key;
  for (const View& v : operands) {
    expect_small(v);
    wide_ |= v.dtype == DType::f64;
    f.types.push_back(pointer_type(form_, v));
    key += f.types.back();
  }
  f.body = body;
  const auto [it, fresh] = known_.try_emplace(key + body, static_cast<int>(functions_.size()));
  if (fresh) functions_.push_back(std::move(f));
  return it->second;
}

std::int64_t Kernels::keep(const std::vector<std::int32_t>& numbers) {
  const auto [it, fresh] = known_tables_.try_emplace(numbers, static_cast<std::int64_t>(tables_.size()));
  if (fresh) tables_.insert(tables_.end(), numbers.begin(), numbers.end());
  return it->second;
}

void Kernels::copy(const View& to, const View& from, lower::Emitter& emit) {
  if (to.count() == 0) return;
  const Walk both = walk(to.shape, {to, from});
  Writer w(form_);
  w.each(
      both.axes, [&] { w.line("p0[", both.place(0), "] = p1[", both.place(1), "];"); }, true);
  emit.call(add({to, from}, w.text()), {to, from}, "copy");
}

void Kernels::make(const lower::Work& work, lower::Emitter& emit) { Chooser(*this, work, emit).run(); }

void Chooser::call(const Operands& operands, const Body& body, unsigned in_place) {
  Writer w(form());
  body(w);
  emit_.call(kernels_.add(operands, w.text()), operands, name(), in_place);
}

View Chooser::dense(const View& v) {
  if (v.dense()) return v;
  const View d = emit_.scratch(v.dtype, v.shape);
  copy(d, v);
  return d;
}

Chooser::Operands Chooser::all() const {
  Operands list;
  for (const lower::Destination& to : work_.out) list.push_back(to.view);
  list.insert(list.end(), work_.in.begin(), work_.in.end());
  return list;
}

bool Chooser::empty() const {
  for (const lower::Destination& to : work_.out)
    if (to.view.count() > 0) return false;
  return true;
}

/// What writes an op's functions; null where nothing does.
Chooser::Family Chooser::family_of(Op op) {
  if (ir::is_elementwise(op)) return &Chooser::map;
  if (ir::is_update(op)) return &Chooser::update;
  if (ir::is_update_of_rows(op)) return &Chooser::update_rows;
  if (ir::is_row_op(op)) return &Chooser::rows;
  switch (op) {
    case Op::reduce_sum:
    case Op::reduce_max:
    case Op::reduce_min:
    case Op::reduce_prod:
      return &Chooser::reduce;
    case Op::reduce_argmax:
    case Op::reduce_argmin:
      return &Chooser::arg;
    case Op::lane_sum:
      return &Chooser::lane_sum;
    case Op::einsum:
      return &Chooser::einsum;
    case Op::contract:
    case Op::contract_share:
    case Op::contract_grad:
      return &Chooser::contract;
    case Op::concat:
      return &Chooser::concat;
    case Op::pad:
      return &Chooser::pad;
    case Op::unfold:
    case Op::fold:
    case Op::max_pool_pick:
    case Op::max_pool_scatter:
      return &Chooser::window;
    case Op::conv:
    case Op::conv_grad_x:
    case Op::conv_grad_w:
      return &Chooser::conv;
    case Op::gates:
    case Op::gates_grad_x:
    case Op::gates_grad_coefficients:
    case Op::gates_grad:
      return &Chooser::gates;
    case Op::neighbours:
    case Op::neighbours_sum:
      return &Chooser::neighbours;
    case Op::lstm:
      return &Chooser::lstm;
    case Op::lstm_grad:
      return &Chooser::lstm_grad;
    case Op::gru:
      return &Chooser::gru;
    case Op::gru_grad:
      return &Chooser::gru_grad;
    case Op::attention:
      return &Chooser::attention;
    case Op::attention_grad:
      return &Chooser::attention_grad;
    case Op::random:
      return &Chooser::random;
    case Op::iota:
      return &Chooser::iota;
    case Op::gather:
    case Op::scatter_add:
    case Op::take_along:
    case Op::put_along:
    case Op::one_hot:
    case Op::embedding_sum:
    case Op::embedding_grad:
    case Op::index_order:
      return &Chooser::index;
    default:
      return nullptr;
  }
}

/// A scan is a loop round calls for the nodes of its body, each of which is asked for.
bool knows(const ir::Graph& graph, int node) {
  return graph[node].op == Op::scan || Chooser::family_of(graph[node].op) != nullptr;
}

void Chooser::run() {
  const Family family = family_of(node_.op);
  if (!family) throw NotKnown(cat("there is no device code for ", ir::definition(node_.op).name));
  if (!empty()) (this->*family)();
}

}  // namespace wr::device
