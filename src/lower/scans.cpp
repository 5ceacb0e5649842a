// A scan as a loop: its body is lowered once, for a strip's rows, like a region. What changes from moment to moment is
// where its inputs and outputs stand.
#include "ir/scan.h"

#include <algorithm>

#include "lower/lowering.h"

namespace wr::lower {

using ir::Op;
using ir::ScanForm;
using plan::Cut;
using plan::Home;

namespace {

constexpr std::int64_t kTurnsWorthACopy = 8;  // of a matrix

/// One moment of a value that has all of them: at `slot` in the first turn, then on by `direction`.
View moment_of(const View& all, std::int64_t slot, std::int64_t direction) {
  View v = all;
  v.offset += slot * all.strides[0] * all.elem();
  v.step = direction * all.strides[0] * all.elem();
  v.shape = Shape(std::span(all.shape).subspan(1));
  v.strides = Strides(std::span(all.strides).subspan(1));
  return v;
}

/// The body of a scan as a schedule of one region, cut as the scan is.
class Body {
 public:
  Body(const ir::Attrs& attrs, const ir::ScanRows* rows, std::int64_t extent, std::size_t block_bytes) {
    const ir::Graph& body = *attrs.body;
    schedule.graph = attrs.body;
    schedule.block_bytes = block_bytes;
    schedule.place.resize(static_cast<std::size_t>(body.size()));
    schedule.phases.resize(1);
    schedule.phases[0].regions.resize(1);
    region().extent = extent;
    View nowhere;
    nowhere.base = -1;
    homes.whole.assign(static_cast<std::size_t>(body.size()), nowhere);
    homes.partial = homes.whole;
    homes.shared.resize(1);
    for (int id = 0; id < body.size(); ++id) {
      place(body[id], id, rows);
      if (body[id].op == Op::result) homes.further[body[id].inputs[0]].push_back(id);
    }
  }

  plan::Region& region() { return schedule.phases[0].regions[0]; }
  const plan::Placement& at(int id) const { return schedule.place[id]; }

  plan::Schedule schedule;
  Homes homes;

 private:
  void place(const ir::Node& node, int id, const ir::ScanRows* rows) {
    plan::Placement& p = schedule.place[id];
    const ir::AxisTo to = rows ? rows->node[id] : ir::kWhole;
    p.cut = to.is_along() ? Cut::along(to.axis()) : to.is_reduced() ? Cut::total(to.group()) : Cut::once();
    // An input that is cut is there as rows; of other leaves all is.
    if (ir::is_leaf(node.op) && !(node.op == Op::input && to.is_along())) p.home = Home::leaf;
    if (ir::is_view(node.op) && (at(node.inputs[0]).home != Home::strip || at(node.inputs[0]).cut.is_once()))
      p.home = Home::view;
    if (p.home != Home::strip) return;
    p.phase = 0;
    p.region = 0;
    if (!ir::is_leaf(node.op)) region().members.push_back({id, p.cut});
  }
};

bool is_input(const ir::Graph& body, int id) {
  while (ir::is_view(body[id].op)) id = body[id].inputs[0];
  return body[id].op == Op::input;
}

/// The loop of one scan, for a strip's rows or whole.
class Loop {
 public:
  Loop(const ir::Node& scan, Body& body, const Homes& homes, Kernels& kernels, Emitter& emit, std::vector<View> in,
       std::vector<Destination> out)
      : form_(ScanForm::of(scan.attrs)),
        graph_(*scan.attrs.body),
        body_(body),
        homes_(homes),
        kernels_(kernels),
        emit_(emit),
        in_(std::move(in)),
        out_(std::move(out)),
        direction_(form_.reverse ? -1 : 1),
        first_moment_(form_.reverse ? form_.steps - 1 : 0) {}

  /// Says where the body's inputs stand and its outputs go, and emits what comes before the first turn.
  Given begin(int scan) {
    given_.scan = scan;
    for (int k = 0; k < static_cast<int>(in_.size()); ++k) give_input(k);
    for (int id = 0; id < graph_.size(); ++id)
      if (graph_[id].op == Op::constant)
        body_.homes.whole[id] =
            dense_view(homes_.constants.at(graph_[id].value.get()), 0, graph_[id].spec.dtype, graph_[id].spec.shape);
    turn_weights();
    for (int r = 0; r < form_.results(); ++r) form_.is_sum(r) ? give_sum(r) : give_result(r);
    for (const Handed& h : handed_) given_.copied.push_back(h.node);
    return given_;
  }

  /// What comes after the last member of a turn. What the next turn reads is written when all has been read.
  void end_turn(Lowering& lowering) {
    std::vector<std::pair<View, View>> later;
    for (const Handed& h : handed_) {
      emit_.inside = h.node;
      View from = lowering.made(h.node);
      if (h.how == Handed::added) add_to(h.to, from);
      if (h.how == Handed::copied) kernels_.copy(h.to, from, emit_);
      if (h.how != Handed::stored) continue;
      if (is_input(graph_, h.node)) {
        const View aside = emit_.scratch(from.dtype, from.shape);
        kernels_.copy(aside, from, emit_);
        from = aside;
      }
      later.emplace_back(h.to, from);
    }
    for (const auto& [to, from] : later) kernels_.copy(to, from, emit_);
  }

 private:
  /// An output that its own call cannot write where it belongs.
  struct Handed {
    enum How { copied, stored, added } how;
    View to;
    int node;
  };

  void give_input(int k) {
    const int node = graph_.inputs[k];
    View v = in_[k];
    if (k < form_.carries) {
      const View& stored = out_[k].view;
      const View begin = form_.has_time(k) ? moment_of(stored, form_.first_slot(), direction_) : stored;
      kernels_.copy(begin, v, emit_);
      v = begin;
    } else if (k < form_.carries + form_.sequences) {
      v = moment_of(v, first_moment_, direction_);
    }
    if (body_.at(node).home == Home::leaf)
      body_.homes.whole[node] = v;
    else
      given_.values[node] = v;
  }

  /// A product reads its second operand best with the columns of the result together. Weights that lie the other way,
  /// as going back they do, are laid out for it once, not at every moment.
  void turn_weights() {
    if (form_.steps < kTurnsWorthACopy) return;
    for (int id = 0; id < graph_.size(); ++id) {
      if (graph_[id].op != Op::einsum) continue;
      const int weights = graph_[id].inputs[1];
      const ir::Labels labels = ir::Labels::of(graph_[id].attrs.text);
      const std::string& own = labels.operands[1];
      if (graph_[weights].op != Op::input || body_.at(weights).home != Home::leaf || own.size() != 2) continue;
      if (labels.result.find(own[0]) == std::string::npos || labels.holders(own[0]) != 1) continue;
      View across = body_.homes.whole[weights];
      if (labels.result.find(own[1]) != std::string::npos || across.step != 0 || across.strides[1] != 1) continue;
      std::swap(across.shape[0], across.shape[1]);
      std::swap(across.strides[0], across.strides[1]);
      View turned = emit_.scratch(across.dtype, across.shape);
      kernels_.copy(turned, across, emit_);
      std::swap(turned.shape[0], turned.shape[1]);
      std::swap(turned.strides[0], turned.strides[1]);
      given_.turned[id] = turned;
    }
  }

  /// Can the call that makes a node write it to a place of ours?
  bool can_give(int node) const {
    return !ir::is_leaf(graph_[node].op) && !ir::is_view(graph_[node].op) && !given_.results.contains(node);
  }

  void give_result(int r) {
    const int node = graph_.outputs[r];
    const Destination& to = out_[r];
    if (form_.is_carry(r) && !form_.has_time(r)) {  // its old value is read until the turn's end
      handed_.push_back({Handed::stored, to.view, node});
      return;
    }
    const View view =
        moment_of(to.view, form_.is_carry(r) ? form_.first_slot() + direction_ : first_moment_, direction_);
    if (can_give(node))
      given_.results[node] = {view, to.accumulate};
    else
      handed_.push_back({Handed::copied, view, node});
  }

  void give_sum(int r) {
    const int node = graph_.outputs[r];
    const Destination& to = out_[r];
    if (!to.accumulate) {
      View zeros = dense_view(homes_.zero, 0, to.view.dtype, to.view.shape);
      zeros.strides = Strides(zeros.shape.rank(), 0);
      kernels_.copy(to.view, zeros, emit_);
    }
    if (can_give(node) && ir::can_accumulate(graph_, node))
      given_.results[node] = {to.view, true};
    else
      handed_.push_back({Handed::added, to.view, node});
  }

  void add_to(const View& to, const View& from) {
    const auto graph = std::make_shared<ir::Graph>();
    const Spec spec{to.dtype, to.shape};
    const int a = graph->add_input(spec, {}), b = graph->add_input(spec, {});
    kernels_.make({*graph, graph->add(Op::add, {a, b}, {}, {}), Cut::once(), {{to}}, {to, from}}, emit_);
  }

  const ScanForm form_;
  const ir::Graph& graph_;
  Body& body_;
  const Homes& homes_;
  Kernels& kernels_;
  Emitter& emit_;
  const std::vector<View> in_;
  const std::vector<Destination> out_;
  const std::int64_t direction_, first_moment_;
  Given given_;
  std::vector<Handed> handed_;
};

}  // namespace

std::vector<Turn> Lowering::run_inside(Given given) {
  given_ = std::move(given);
  local_ = given_.values;
  return lower_region();
}

std::vector<Turn> Lowering::lower_scan(int id, Cut cut) {
  const Node& n = graph_[id];
  std::vector<View> in;
  const Turn before{emit_.begin_list(), 0, rows_};
  for (std::size_t k = 0; k < n.inputs.size(); ++k) in.push_back(operand(id, static_cast<int>(k), cut));
  local_[id] = destination(id, cut);
  std::vector<Destination> out{{local_[id]}};
  for (int r = 1; r < ScanForm::of(n.attrs).results(); ++r) out.push_back(further_destination(id, r, cut));

  const ir::ScanRows* rows = cut.is_along() ? ir::scan_rows(n.attrs, cut.axis()) : nullptr;
  Body body(n.attrs, rows, region_->extent, schedule_.block_bytes);
  Loop loop(n, body, homes_, kernels_, emit_, std::move(in), std::move(out));
  Given given = loop.begin(id);
  emit_.begin_loop();
  Lowering inside(body.schedule, body.homes, kernels_, emit_, 0, &body.region(), 0, rows_, first_);
  std::vector<Turn> turns = inside.run_inside(std::move(given));
  turns.push_back({emit_.begin_list(), 0, rows_});
  loop.end_turn(inside);
  emit_.end_loop();
  emit_.inside = -1;
  turns.front().span = static_cast<int>(turns.size());
  turns.front().turns = ScanForm::of(n.attrs).steps;
  turns.insert(turns.begin(), before);
  return turns;
}

}  // namespace wr::lower
