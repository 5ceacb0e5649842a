// Scans: what nobody reads of them is not computed or kept, their bodies are optimised as graphs of their own, and a
// scan in the body of another is written out, as a program's loops are not nested.
#include <algorithm>
#include <map>

#include "ir/scan.h"
#include "ops/scan.h"
#include "passes/passes.h"
#include "passes/rewrite.h"

namespace wr::passes {

using ir::ScanForm;

namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// How each result of a scan is read.
struct Reads {
  std::vector<bool> any;       // at all
  std::vector<bool> not_last;  // of kept values: otherwise than by taking the last one
};

bool takes_only(const Node& node, std::int64_t slot) {
  if (node.op != Op::slice) return false;
  const ir::Slice slice = ir::Slice::of(node.attrs, node.spec.shape.rank());
  return slice.starts[0] == slot && slice.counts[0] == 1;
}

Reads reads_of(const Graph& graph, int scan, const std::vector<std::vector<int>>& users,
               const std::vector<bool>& is_result) {
  const ScanForm form = ScanForm::of(graph[scan].attrs);
  Reads reads{std::vector<bool>(at(form.results()), false), std::vector<bool>(at(form.results()), false)};
  const auto read_by = [&](int result, int value) {
    for (int user : users[at(value)]) {
      if (graph[user].op == Op::result && value == scan) continue;
      reads.any[at(result)] = true;
      if (!takes_only(graph[user], form.last_slot())) reads.not_last[at(result)] = true;
    }
    if (is_result[at(value)]) reads.any[at(result)] = reads.not_last[at(result)] = true;
  };
  read_by(0, scan);
  for (int user : users[at(scan)])
    if (graph[user].op == Op::result) read_by(static_cast<int>(graph[user].attrs.ints[0]), user);
  return reads;
}

/// A scan with those results alone that are read, and those carried values alone that they need.
class Trimmed {
 public:
  Trimmed(const Node& scan, const Reads& reads) : form_(ScanForm::of(scan.attrs)), body_(*scan.attrs.body) {
    find_live(reads);
    ScanForm form = form_;
    form.kept.clear();
    form.carries = form.stacked = form.sums = form.sequences = 0;
    for (int r = 0; r < form_.results(); ++r) {
      if (!live_[at(r)]) continue;
      results.push_back(r);
      ++(form_.is_carry(r) ? form.carries : form_.is_stacked(r) ? form.stacked : form.sums);
      if (form_.is_carry(r)) form.kept.push_back(form_.kept[at(r)] && reads.not_last[at(r)]);
    }
    for (int k = 0; k < static_cast<int>(body_.inputs.size()); ++k) {
      const bool carry = k < form_.carries;
      if (carry ? !live_[at(k)] : !needed_[at(body_.inputs[at(k)])]) continue;
      operands.push_back(k);
      form.sequences += !carry && k < form_.carries + form_.sequences ? 1 : 0;
    }
    attrs = form.attrs(copied());
  }

  std::vector<int> results, operands;  // of the scan's own, in the new order
  Attrs attrs;

 private:
  void need(int id) {
    needed_[at(id)] = true;
    for (int n = id; n >= 0; --n)
      if (needed_[at(n)])
        for (int in : body_[n].inputs) needed_[at(in)] = true;
  }

  void find_live(const Reads& reads) {
    live_ = reads.any;
    needed_.assign(at(body_.size()), false);
    for (int r = 0; r < form_.results(); ++r)
      if (live_[at(r)]) need(body_.outputs[at(r)]);
    for (bool more = true; more;) {
      more = false;
      for (int c = 0; c < form_.carries; ++c)
        if (!live_[at(c)] && needed_[at(body_.inputs[at(c)])]) {
          live_[at(c)] = more = true;
          need(body_.outputs[at(c)]);
        }
    }
  }

  std::shared_ptr<const Graph> copied() const {
    auto to = std::make_shared<Graph>();
    std::vector<int> made(at(body_.size()), -1);
    for (int k : operands) {
      const int in = body_.inputs[at(k)];
      made[at(in)] = to->add_input(body_[in].spec, body_[in].where);
    }
    for (int id = 0; id < body_.size(); ++id) {
      if (!needed_[at(id)] || body_[id].op == Op::input) continue;
      Node node = body_[id];
      for (int& in : node.inputs) in = made[at(in)];
      made[at(id)] = to->add_node(std::move(node));
    }
    for (int r : results) to->outputs.push_back(made[at(body_.outputs[at(r)])]);
    return to;
  }

  const ScanForm form_;
  const Graph& body_;
  std::vector<bool> live_;    // by result
  std::vector<bool> needed_;  // by node of the body
};

/// The scan's results in the new graph, by old number; those that are not read are left out.
void map_results(Rewriter& rewriter, int scan, int made, const Trimmed& trimmed) {
  const Graph& graph = rewriter.from;
  const ScanForm before = ScanForm::of(graph[scan].attrs), after = ScanForm::of(trimmed.attrs);
  const auto value = [&](int old_number) {
    const auto found = std::find(trimmed.results.begin(), trimmed.results.end(), old_number);
    if (found == trimmed.results.end()) return -1;
    const int number = static_cast<int>(found - trimmed.results.begin());
    const int node = number == 0 ? made : rewriter.add(Op::result, {made}, {{number}, {}, {}});
    if (before.has_time(old_number) == after.has_time(number)) return node;
    // Only the last moment is read: a value with one moment stands for all of them, see map_slice.
    Shape shape{1};
    for (auto n : (*rewriter.to)[node].spec.shape) shape.push_back(n);
    return rewriter.reshape(node, shape);
  };
  rewriter.map(scan, value(0));
  for (int id = scan + 1; id < graph.size(); ++id)
    if (graph[id].op == Op::result && graph[id].inputs[0] == scan)
      rewriter.map(id, value(static_cast<int>(graph[id].attrs.ints[0])));
}

std::shared_ptr<Graph> trim(const Graph& graph) {
  std::vector<std::vector<int>> users(at(graph.size()));
  for (int id = 0; id < graph.size(); ++id)
    for (int in : graph[id].inputs) users[at(in)].push_back(id);
  std::vector<bool> is_result(at(graph.size()), false);
  for (int id : graph.outputs) is_result[at(id)] = true;
  for (const ir::Update& update : graph.updates) is_result[at(update.value)] = true;

  Rewriter rewriter(graph);
  std::vector<bool> shortened(at(graph.size()), false);  // of kept values, the last one alone is there
  std::vector<bool> done(at(graph.size()), false);
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (node.op == Op::input || done[at(id)]) continue;
    if (node.op == Op::scan) {
      const Trimmed trimmed(node, reads_of(graph, id, users, is_result));
      rewriter.enter(id);
      std::vector<int> operands;
      for (int k : trimmed.operands) operands.push_back(rewriter.mapped(node.inputs[at(k)]));
      map_results(rewriter, id, rewriter.add(Op::scan, operands, trimmed.attrs), trimmed);
      const auto mark = [&](int value) {
        done[at(value)] = true;
        const int made = rewriter.mapped(value);
        shortened[at(value)] = made >= 0 && !((*rewriter.to)[made].spec == graph[value].spec);
      };
      mark(id);
      for (int user : users[at(id)])
        if (graph[user].op == Op::result) mark(user);
    } else if (node.op == Op::slice && shortened[at(node.inputs[0])]) {
      rewriter.enter(id);
      ir::Slice slice = ir::Slice::of(node.attrs, node.spec.shape.rank());
      slice.starts[0] = 0;
      rewriter.map(id, rewriter.add(Op::slice, {rewriter.mapped(node.inputs[0])}, slice.attrs()));
    } else {
      rewriter.map(id, rewriter.copy(id));
    }
  }
  return rewriter.finish();
}

bool has_scan(const Graph& graph) {
  for (int id = 0; id < graph.size(); ++id)
    if (graph[id].op == Op::scan) return true;
  return false;
}

// ---- written out ----

/// All results of a scan, as the turns of its body give them.
std::vector<Tensor> turns(const Node& scan, const std::vector<Tensor>& operands, const std::shared_ptr<Graph>& to) {
  const ScanForm form = ScanForm::of(scan.attrs);
  std::vector<Tensor> in = operands;
  std::vector<std::vector<Tensor>> made(at(form.results()));
  const auto timed = [&](const Tensor& t) { return expand_dims(t, 0, scan.where); };
  for (int c = 0; c < form.carries; ++c) made[at(c)].push_back(timed(in[at(c)]));
  for (std::int64_t turn = 0; turn < form.steps; ++turn) {
    const std::int64_t moment = form.reverse ? form.steps - 1 - turn : turn;
    for (int s = form.carries; s < form.carries + form.sequences; ++s) {
      const Tensor& all = operands[at(s)];
      in[at(s)] = squeeze(slice(all, 0, moment, moment + 1, 1, scan.where), 0, scan.where);
    }
    const std::vector<Tensor> out = ops::inlined(*scan.attrs.body, in, to);
    for (int r = 0; r < form.results(); ++r) {
      if (form.is_carry(r)) in[at(r)] = out[at(r)];
      if (!form.is_sum(r))
        made[at(r)].push_back(timed(out[at(r)]));
      else if (turn == 0)
        made[at(r)].push_back(out[at(r)]);
      else
        made[at(r)][0] = add(made[at(r)][0], out[at(r)]);
    }
  }
  std::vector<Tensor> results;
  for (int r = 0; r < form.results(); ++r) {
    std::vector<Tensor>& parts = made[at(r)];
    if (form.is_carry(r) && !form.kept[at(r)]) {
      results.push_back(in[at(r)]);
      continue;
    }
    if (form.reverse) std::reverse(parts.begin(), parts.end());
    results.push_back(parts.size() == 1 ? parts[0] : concat(parts, 0, scan.where));
  }
  return results;
}

}  // namespace

std::shared_ptr<Graph> write_out_scans(const Graph& graph) {
  Rewriter rewriter(graph);
  const ir::TraceScope numbers_too(rewriter.to);
  std::vector<std::vector<Tensor>> results(at(graph.size()));
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (node.op == Op::input) continue;
    rewriter.enter(id);
    if (node.op == Op::scan) {
      std::vector<Tensor> operands;
      for (int in : node.inputs) operands.emplace_back(rewriter.to, rewriter.mapped(in));
      results[at(id)] = turns(node, operands, rewriter.to);
      rewriter.map(id, results[at(id)][0].node());
    } else if (node.op == Op::result && graph[node.inputs[0]].op == Op::scan) {
      rewriter.map(id, results[at(node.inputs[0])][at(static_cast<int>(node.attrs.ints[0]))].node());
    } else {
      rewriter.map(id, rewriter.copy(id));
    }
  }
  return rewriter.finish();
}

std::shared_ptr<Graph> trim_scans(const Graph& graph) {
  constexpr int kMostRounds = 4;  // what a trimmed scan does not read, another need not make
  auto current = dce(graph);
  for (int round = 0; round < kMostRounds && has_scan(*current); ++round) current = dce(*trim(*current));
  return current;
}

namespace {

/// A scan whose body is optimised. Views of sums are taken once, after the last moment: rows of a batch then add to the
/// sums themselves.
class OptimisedScan {
 public:
  OptimisedScan(const Node& scan, Fuse fused) : form_(ScanForm::of(scan.attrs)) {
    std::shared_ptr<const Graph> body = scan.attrs.body;
    while (has_scan(*body)) body = write_out_scans(*body);
    body_ = optimise(*body, fused);
    views_.resize(at(form_.results()));
    for (int r = 1; r < form_.results(); ++r)
      if (!form_.is_carry(r)) take_views(r);
    attrs = form_.attrs(dce(*body_));
  }

  Attrs attrs;

  int with_views(int result, int value, Rewriter& rewriter) const {
    for (const Node& view : views_[at(result)])
      value = view.op == Op::reshape ? rewriter.reshape(value, timed(view.spec.shape, result))
                                     : rewriter.permute(value, order_of(view, result));
    return value;
  }

 private:
  void take_views(int r) {
    std::vector<Node> views;
    int id = body_->outputs[at(r)];
    for (; (*body_)[id].op == Op::reshape || (*body_)[id].op == Op::permute; id = (*body_)[id].inputs[0])
      views.insert(views.begin(), (*body_)[id]);
    if (!ir::can_accumulate(*body_, id)) return;
    body_->outputs[at(r)] = id;
    views_[at(r)] = std::move(views);
  }

  Shape timed(const Shape& shape, int result) const {
    if (!form_.has_time(result)) return shape;
    Shape all{form_.steps};
    for (auto n : shape) all.push_back(n);
    return all;
  }
  Dims order_of(const Node& permute, int result) const {
    const Dims order = ir::list_of(permute.attrs);
    if (!form_.has_time(result)) return order;
    Dims all{0};
    for (auto axis : order) all.push_back(axis + 1);
    return all;
  }

  const ScanForm form_;
  std::shared_ptr<Graph> body_;
  std::vector<std::vector<Node>> views_;  // by result, in the order they are taken
};

}  // namespace

std::shared_ptr<Graph> optimise_bodies(std::shared_ptr<Graph> given, Fuse fused) {
  if (!has_scan(*given)) return given;
  const Graph& graph = *given;
  Rewriter rewriter(graph);
  std::map<int, OptimisedScan> scans;
  for (int id = 0; id < graph.size(); ++id) {
    const Node& node = graph[id];
    if (node.op == Op::input) continue;
    rewriter.enter(id);
    if (node.op == Op::scan) {
      const OptimisedScan& scan = scans.emplace(id, OptimisedScan(node, fused)).first->second;
      std::vector<int> operands;
      for (int in : node.inputs) operands.push_back(rewriter.mapped(in));
      rewriter.map(id, rewriter.add(Op::scan, std::move(operands), scan.attrs));
    } else if (const auto scan = node.op == Op::result ? scans.find(node.inputs[0]) : scans.end();
               scan != scans.end()) {
      const int made = rewriter.add(Op::result, {rewriter.mapped(node.inputs[0])}, node.attrs);
      rewriter.map(id, scan->second.with_views(static_cast<int>(node.attrs.ints[0]), made, rewriter));
    } else {
      rewriter.map(id, rewriter.copy(id));
    }
  }
  return rewriter.finish();
}

}  // namespace wr::passes
