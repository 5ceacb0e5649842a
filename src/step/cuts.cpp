// Which values ended their strips: what had to be whole before something in the next phase could read it.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "step/profile.h"

namespace wr {
namespace {

using ir::Op;

class Cuts {
 public:
  explicit Cuts(const plan::Schedule& s) : s_(s), g_(*s.graph) {}

  std::vector<Profile::Cut> find() {
    for (std::size_t phase = 1; phase < s_.phases.size(); ++phase)
      for (const plan::Region& region : s_.phases[phase].regions)
        for (const plan::Member& m : region.members)
          for (std::size_t k = 0; k < g_[m.node].inputs.size(); ++k)
            visit(static_cast<int>(phase), region, m, static_cast<int>(k));
    std::vector<Profile::Cut> list;
    for (auto& [key, cut] : found_) list.push_back(std::move(cut));
    std::stable_sort(list.begin(), list.end(), [](auto& a, auto& b) {
      return std::tuple(a.needed, a.phase, -a.bytes) < std::tuple(b.needed, b.phase, -b.bytes);
    });
    return list;
  }

 private:
  const plan::Placement& place(int id) const { return s_.place[id]; }
  int behind(int id) const {
    while (ir::is_view(g_[id].op)) id = g_[id].inputs[0];
    return id;
  }
  bool shared(int phase, int id) const {
    const auto& list = s_.phases[phase].shared;
    return std::find(list.begin(), list.end(), id) != list.end();
  }

  void visit(int phase, const plan::Region& region, const plan::Member& m, int k) {
    // What reads the sum, or the view, is what waits.
    if (g_[m.node].op == Op::lane_sum || ir::is_view(g_[m.node].op)) return;
    const int in = g_[m.node].inputs[k];
    const bool along = plan::cut_of_operand(g_, m.node, k, m.cut) == place(in).cut &&
                       g_[behind(in)].op != Op::lane_sum && !shared(phase, in);
    if (along) return;  // it goes on row by row: something else made it wait
    std::set<int> seen;
    trace(phase, region, m.node, in, seen);
  }

  /// Through views and values that each lane computes for itself, back to what was computed in the phase before.
  void trace(int phase, const plan::Region& region, int reader, int id, std::set<int>& seen) {
    if (!seen.insert(id).second || place(id).home == plan::Home::leaf) return;
    const ir::Node& n = g_[id];
    if (ir::is_view(n.op) || n.op == Op::lane_sum || shared(phase, id)) {
      for (int in : n.inputs) trace(phase, region, reader, in, seen);
      return;
    }
    if (place(id).phase == phase - 1) add(phase, region, reader, id);
  }

  void add(int phase, const plan::Region& region, int reader, int maker) {
    const ir::Node &r = g_[reader], &m = g_[maker];
    const plan::Region& from = s_.phases[place(maker).phase].regions[place(maker).region];
    const auto key = std::tuple(phase, to_string(r.where), to_string(m.where), m.op);
    const bool fresh = !found_.contains(key);
    Profile::Cut& cut = found_[key];
    cut.bytes += static_cast<double>(m.spec.shape.count()) * static_cast<double>(size_of(m.spec.dtype));
    const bool total = place(maker).cut.is_total();
    // Parameters wait for their gradients, always. Rows that wait for a value of all rows: that is how the step was
    // written. (A product along the rows, inside a gradient, is that of a weight.)
    const bool parameters = (m.gradient && !r.gradient) || (r.gradient && r.op == Op::einsum);
    const bool needed = parameters || region.extent != from.extent;
    cut.needed = fresh ? needed : cut.needed && needed;
    if (!fresh) return;
    cut.phase = phase;
    cut.reader = to_string(r.where);
    cut.reader_op = std::string(ir::definition(r.op).name);
    cut.maker = to_string(m.where);
    cut.maker_op = (m.gradient ? "the gradient of " : "") + std::string(ir::definition(m.op).name);
    cut.why = total ? "it is a sum over all rows, which is complete only when every lane is done"
                    : "all its rows are read at once, which is possible only when every lane is done";
  }

  const plan::Schedule& s_;
  const ir::Graph& g_;
  std::map<std::tuple<int, std::string, std::string, Op>, Profile::Cut> found_;
};

}  // namespace

std::vector<Profile::Cut> find_cuts(const plan::Schedule& schedule) { return Cuts(schedule).find(); }

}  // namespace wr
