// Union of axes through each op's axis map.
#include "plan/classes.h"

#include <algorithm>
#include <numeric>

#include "plan/schedule.h"

namespace wr::plan {
namespace {

class Unions {
 public:
  explicit Unions(int n) : parent_(static_cast<std::size_t>(n)) { std::iota(parent_.begin(), parent_.end(), 0); }
  int root(int i) {
    while (at(i) != i) i = at(i) = at(at(i));
    return i;
  }
  void join(int a, int b) { at(root(b)) = root(a); }

 private:
  int& at(int i) { return parent_[i]; }
  std::vector<int> parent_;
};

}  // namespace

AxisClasses::AxisClasses(const ir::Graph& graph, const Machine& machine) {
  int total = 0;
  for (int i = 0; i < graph.size(); ++i) {
    first_.push_back(total);
    total += graph[i].spec.shape.rank();
  }
  Unions unions(total);
  std::vector<std::vector<int>> reduced(static_cast<std::size_t>(graph.size()));  // axes a node sums over
  for (int i = 0; i < graph.size(); ++i) {
    const ir::Node& node = graph[i];
    if (node.inputs.empty()) continue;
    const auto& map = ir::axes_of(graph, i);
    for (std::size_t k = 0; k < map.operand.size(); ++k) {
      const int in = first_[node.inputs[k]];
      for (int a = 0; a < map.operand[k].rank(); ++a) {
        if (graph[node.inputs[k]].spec.shape[a] <= 1) continue;
        const ir::AxisTo to = map.operand[k][a];
        if (to.is_along()) unions.join(in + a, first_[i] + to.axis());
        if (to.is_reduced()) reduced[i].push_back(in + a);
      }
    }
  }
  weight_.assign(static_cast<std::size_t>(total), 0);
  for (int i = 0; i < graph.size(); ++i) {
    const Shape& shape = graph[i].spec.shape;
    const double work = work_ns(graph, i, machine);
    std::vector<int> touched;
    for (int a = 0; a < shape.rank(); ++a) {
      const int root = unions.root(first_[i] + a);
      class_.push_back(shape[a] > 1 ? root : -1);
      if (shape[a] > 1) touched.push_back(root);
    }
    for (int axis : reduced[i]) touched.push_back(unions.root(axis));
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    for (int root : touched) weight_[root] += work;
  }
}

std::vector<int> AxisClasses::heaviest(int most) const {
  std::vector<int> order;
  for (std::size_t c = 0; c < weight_.size(); ++c)
    if (weight_[c] > 0) order.push_back(static_cast<int>(c));
  const auto n = std::min<std::size_t>(order.size(), static_cast<std::size_t>(most));
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), order.end(),
                    [&](int a, int b) { return weight_[a] != weight_[b] ? weight_[a] > weight_[b] : a < b; });
  order.resize(n);
  return order;
}

}  // namespace wr::plan
