#include "step/profile.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <tuple>

#include "base/host.h"
#include "base/ticks.h"
#include "profile/bottlenecks.h"

namespace wr {
namespace {

using backend::Recorder;
using lower::Call;
using lower::CallCost;

// Arithmetic of a transcendental function in multiplications and additions, about: what a polynomial of its precision
// takes. For the roofline only; FLOPs are counted as one an element.
constexpr double kTranscendental = 20;

/// Which level of memory a working set of so many bytes stays in.
std::size_t level_of(const Roofline& roof, double bytes) {
  for (std::size_t i = 0; i + 1 < roof.levels.size(); ++i)
    if (bytes <= 0.75 * static_cast<double>(roof.levels[i].bytes)) return i;
  return roof.levels.size() - 1;
}

/// Kernels whose calls last so short that calling them is what costs.
constexpr double kShortCall_us = 0.15;

/// The time a call needs at least, and what it waits for most.
struct Limit {
  double us = 0;
  std::string bound;
};

struct Touched {
  double flops = 0;           // as the roofline counts them
  std::vector<double> bytes;  // by level
};

Limit limit_of(const Touched& t, const Roofline& roof, bool wide) {
  const double compute = t.flops / (wide ? roof.gflops_f64 : roof.gflops_f32) / 1e3;
  double memory = 0, most = -1;
  std::size_t level = 0;
  for (std::size_t i = 0; i < t.bytes.size(); ++i) {
    const double us = t.bytes[i] / roof.levels[i].gbs / 1e3;
    memory += us;
    if (us > most) {
      most = us;
      level = i;
    }
  }
  return {std::max(compute, memory), compute >= memory ? "compute" : roof.levels[level].name};
}

double bytes_of(const Spec& spec) {
  return static_cast<double>(spec.shape.count()) * static_cast<double>(size_of(spec.dtype));
}

/// The leading size that all arguments with axes share.
std::int64_t batch_of(const ir::Graph& graph) {
  std::int64_t rows = 0;
  for (int in : graph.inputs) {
    const Shape& shape = graph[in].spec.shape;
    if (shape.rank() == 0) continue;
    if (rows != 0 && shape[0] != rows) return 0;
    rows = shape[0];
  }
  return rows;
}

class Assembly {
 public:
  explicit Assembly(Step::Inside& step)
      : step_(step),
        schedule_(step.schedule),
        graph_(*step.schedule.graph),
        program_(step.executor->program()),
        record_(*step.executor->recorder()),
        us_per_tick_(ns_per_tick() / 1e3) {}

  Profile assemble() {
    record_.settle();
    describe_step();
    if (p_.recorded > 0) {
      gather_kernels();
      limit_kernels();
      gather_threads();
      gather_timeline();
    }
    gather_memory();
    p_.cuts = find_cuts(schedule_);
    if (p_.recorded > 0) p_.bottlenecks = find_bottlenecks(p_);
    return std::move(p_);
  }

 private:
  double us(std::uint64_t ticks) const { return static_cast<double>(ticks) * us_per_tick_; }
  double us_a_run(std::uint64_t ticks) const { return us(ticks) / static_cast<double>(record_.recorded().calls); }

  void describe_step() {
    p_ = profile_of_plan(step_);
    p_.runs = static_cast<std::int64_t>(record_.count());
    p_.overhead = record_.overhead();
    p_.recorded = static_cast<std::int64_t>(record_.recorded().calls);
    p_.every = record_.every();
    if (p_.runs == 0) return;
    p_.run_us = us(record_.runs().ticks) / static_cast<double>(std::max<std::uint64_t>(record_.runs().calls, 1));
    p_.min_us = us(record_.runs().min);
    p_.max_us = us(record_.runs().max);
    if (record_.between().calls > 0)
      p_.between_us = us(record_.between().ticks) / static_cast<double>(record_.between().calls);
    p_.roof = roofline(step_.threads);
  }

  /// The graph and the node of a call: those of a body where it stands in one.
  std::pair<const ir::Graph&, int> made_by(const Call& call) const {
    if (call.inside >= 0) return {*graph_[call.node].attrs.body, call.inside};
    return {graph_, call.node};
  }

  /// The kernel a call belongs to: the same node, the same kernel, the same place among the node's calls.
  int kernel_of(int phase, int region, const Call& call, int occurrence) {
    const auto key = std::tuple(phase, region, call.node, call.inside, std::string(call.name), occurrence);
    const auto [it, fresh] = index_.emplace(key, static_cast<int>(p_.kernels.size()));
    if (!fresh) return it->second;
    const auto [graph, node] = made_by(call);
    const ir::Node& n = graph[node];
    Profile::Kernel k;
    k.op = std::string(ir::definition(n.op).name);
    k.detail = (n.op == ir::Op::einsum ? n.attrs.text + " " : "") + to_string(n.spec.shape);
    k.kernel = call.name;
    k.file = n.where.file_name();
    k.line = static_cast<int>(n.where.line());
    k.gradient = n.gradient;
    k.phase = phase;
    k.region = region;
    p_.kernels.push_back(std::move(k));
    touched_.push_back({0, std::vector<double>(p_.roof.levels.size(), 0)});
    nodes_.push_back(&n);
    sums_.emplace_back();
    return it->second;
  }

  /// Kernels of a code's instrs, in order.
  std::vector<int> kernels_of(int phase, const lower::Code& code) {
    std::vector<int> list;
    std::map<std::tuple<int, int, std::string>, int> seen;
    for (const Call& c : code.calls)
      list.push_back(kernel_of(phase, code.region, c, seen[{c.node, c.inside, c.name}]++));
    return list;
  }

  void gather_kernels() {
    of_code_.resize(program_.codes.size());
    const double rest = resident_bytes() / program_.lanes;
    for (std::size_t phase = 0; phase < program_.pieces.size(); ++phase)
      for (int lane = 0; lane < program_.lanes; ++lane) {
        std::map<int, int> times;  // a code runs in this lane
        lower::for_each_run(program_.pieces[phase][lane],
                            [&](const lower::Piece& piece, std::int64_t) { ++times[piece.code]; });
        for (auto [c, count] : times) add_code(static_cast<int>(phase), lane, static_cast<std::size_t>(c), count, rest);
      }
    for (std::size_t i = 0; i < program_.commits.calls.size(); ++i) {
      const int k = kernel_of(p_.phases, -2, program_.commits.calls[i], static_cast<int>(i));
      of_commit_.push_back(k);
      add_sum(k, record_.commit(i));
      const CallCost& cost = program_.commits.costs[i];
      add_bytes(k, level_of(p_.roof, rest), static_cast<double>(cost.scratch_bytes + cost.whole_bytes), 1);
    }
    for (std::size_t k = 0; k < p_.kernels.size(); ++k) finish(p_.kernels[k], sums_[k]);
  }

  void add_code(int phase, int lane, std::size_t c, int count, double rest) {
    const lower::Code& code = program_.codes[c];
    if (of_code_[c].empty()) of_code_[c] = kernels_of(phase, code);
    double live = 0, weights = 0;
    for (const CallCost& cost : code.costs) {
      live = std::max(live, static_cast<double>(cost.live_bytes));
      weights += static_cast<double>(cost.whole_bytes);
    }
    const std::size_t far = level_of(p_.roof, rest), near = level_of(p_.roof, live);
    const std::size_t again = count > 1 ? level_of(p_.roof, live + weights) : far;
    for (std::size_t i = 0; i < code.calls.size(); ++i) {
      const int k = of_code_[c][i];
      add_sum(k, record_.call(lane, c, i));
      Profile::Kernel& kernel = p_.kernels[k];
      kernel.rows = std::max(kernel.rows, code.rows);
      const CallCost& cost = code.costs[i];
      add_bytes(k, near, static_cast<double>(cost.scratch_bytes), count);
      add_bytes(k, again, static_cast<double>(cost.whole_bytes), count);
      add_bytes(k, far, static_cast<double>(cost.strip_bytes), count);
      if (is_main(code, i)) add_flops(k, code.calls[i], code, count);
    }
  }

  /// Of several calls for one node, the arithmetic is the last one's that is no copy.
  static bool is_main(const lower::Code& code, std::size_t i) {
    const bool copy = std::string_view(code.calls[i].name) == "copy";
    const auto together = [&](std::size_t j) {
      return code.calls[j].node == code.calls[i].node && code.calls[j].inside == code.calls[i].inside;
    };
    for (std::size_t j = i + 1; j < code.calls.size() && together(j); ++j)
      if (copy || std::string_view(code.calls[j].name) != "copy") return false;
    for (std::size_t j = i; copy && j-- > 0 && together(j);)
      if (std::string_view(code.calls[j].name) != "copy") return false;
    return true;
  }

  void add_flops(int k, const Call& call, const lower::Code& code, int count) {
    Profile::Kernel& kernel = p_.kernels[k];
    double part = 1;
    if (code.region >= 0) {
      const auto& region = schedule_.phases[kernel.phase].regions[code.region];
      part = static_cast<double>(code.rows) / static_cast<double>(std::max<std::int64_t>(region.extent, 1));
    }
    const auto [graph, node] = made_by(call);
    // Copies round a loop do none of its arithmetic.
    const double flops = graph[node].attrs.body ? 0 : plan::flops(graph, node) * part * count;
    kernel.flops += flops;
    touched_[k].flops += flops * (ir::definition(graph[node].op).traits.heavy ? kTranscendental : 1);
  }

  void add_bytes(int k, std::size_t level, double bytes, int count) {
    p_.kernels[k].bytes += bytes * count;
    touched_[k].bytes[level] += bytes * count;
  }

  void add_sum(int k, const Recorder::Sum& s) {
    Recorder::Sum& sum = sums_[k];
    if (s.calls == 0) return;
    sum.calls += s.calls;
    sum.ticks += s.ticks;
    sum.min = std::min(sum.min, s.min);
    sum.max = std::max(sum.max, s.max);
  }

  void finish(Profile::Kernel& k, const Recorder::Sum& s) const {
    if (s.calls == 0) return;
    k.calls = static_cast<double>(s.calls) / static_cast<double>(record_.recorded().calls);
    k.us = us_a_run(s.ticks);
    k.mean_us = us(s.ticks) / static_cast<double>(s.calls);
    k.min_us = us(s.min);
    k.max_us = us(s.max);
  }

  void limit_kernels() {
    for (std::size_t i = 0; i < p_.kernels.size(); ++i) {
      Profile::Kernel& k = p_.kernels[i];
      const Limit limit = limit_of(touched_[i], p_.roof, nodes_[i]->spec.dtype == DType::f64);
      k.roof_us = limit.us;
      k.bound = k.mean_us < kShortCall_us && k.of_roof() < 0.5 ? "overhead" : limit.bound;
    }
  }

  /// What stays in memory from run to run: states, arguments, results, what crosses phases.
  double resident_bytes() const {
    const StepFacts& f = step_.facts;
    double bytes =
        static_cast<double>(f.state_bytes + f.arena_bytes + f.partial_bytes * static_cast<std::size_t>(f.lanes));
    for (int in : graph_.inputs) bytes += bytes_of(graph_[in].spec);
    for (const Array& a : step_.outputs) bytes += static_cast<double>(a.bytes());
    return bytes;
  }

  void gather_threads() {
    for (int m = 0; m < p_.threads; ++m) {
      const Recorder::Member& member = record_.members()[m];
      Profile::Thread t;
      t.busy_us = us_a_run(member.busy);
      t.start_us = us_a_run(member.start);
      t.finish_us = us_a_run(member.finish);
      for (auto ticks : member.barrier) t.barrier_us.push_back(us_a_run(ticks));
      for (auto ticks : member.phase) t.phase_us.push_back(us_a_run(ticks));
      p_.thread_times.push_back(std::move(t));
    }
    for (std::size_t phase = 0; phase < schedule_.phases.size(); ++phase)
      for (std::size_t r = 0; r < schedule_.phases[phase].regions.size(); ++r) add_region(phase, r);
  }

  void add_region(std::size_t phase, std::size_t r) {
    const plan::Region& region = schedule_.phases[phase].regions[r];
    Profile::Region out;
    out.phase = static_cast<int>(phase);
    out.index = static_cast<int>(r);
    out.extent = region.extent;
    out.strip = region.strip;
    out.lanes = region.lanes();
    out.flat = region.flat;
    std::set<std::int64_t> strips;  // by first row
    for (const auto& lane : program_.pieces[phase])
      for (const auto& piece : lane) {
        const lower::Code& code = program_.codes[piece.code];
        if (code.region != static_cast<int>(r)) continue;
        strips.insert(piece.row0 - piece.inner);
        for (const CallCost& cost : code.costs) out.scratch_bytes = std::max(out.scratch_bytes, cost.live_bytes);
      }
    out.strips = static_cast<int>(strips.size());
    for (const Profile::Kernel& k : p_.kernels)
      if (k.phase == out.phase && k.region == out.index) out.us += k.us;
    p_.regions.push_back(out);
  }

  // ---- the last runs, call by call ----

  void gather_timeline() {
    const auto kept = record_.kept();
    for (const Recorder::Kept& run : kept) {
      for (int m = 0; m < run.members; ++m) add_member(run, m, kept.front().begin);
      const std::uint64_t* c = run.times + record_.commit_offset();
      for (std::size_t i = 0; i < program_.commits.calls.size(); ++i)
        p_.timeline.push_back({0, 0, of_commit_[i], us(c[i] - kept.front().begin), us(c[i + 1] - kept.front().begin)});
    }
    if (!kept.empty()) gather_live(kept.back());
  }

  void add_member(const Recorder::Kept& run, int m, std::uint64_t origin) {
    std::uint64_t here = run.begin;
    auto add = [&](int lane, int kernel, std::uint64_t begin, std::uint64_t end) {
      p_.timeline.push_back({m, lane, kernel, us(begin - origin), us(end - origin)});
    };
    for (std::size_t phase = 0; phase < program_.pieces.size(); ++phase)
      for (int lane = m * program_.lanes / run.members; lane < (m + 1) * program_.lanes / run.members; ++lane) {
        const std::uint64_t* t = run.times + record_.offset(phase, lane);
        add(lane, phase == 0 ? -2 : -1, here, t[0]);
        lower::for_each_run(program_.pieces[phase][lane], [&](const lower::Piece& piece, std::int64_t) {
          for (int kernel : of_code_[piece.code]) {
            add(lane, kernel, t[0], t[1]);
            ++t;
          }
        });
        here = *t;
      }
    add(0, -3, here, run.times[record_.commit_offset()]);
  }

  /// Bytes that hold something, over one run: each lane's scratch, and what crosses phases.
  void gather_live(const Recorder::Kept& run) {
    std::vector<std::pair<std::uint64_t, std::int64_t>> changes;
    for (std::size_t phase = 0; phase < program_.pieces.size(); ++phase)
      for (int lane = 0; lane < program_.lanes; ++lane) {
        const std::uint64_t* t = run.times + record_.offset(phase, lane);
        std::int64_t live = 0;
        const auto add_code = [&](const lower::Piece& piece, std::int64_t) {
          for (const CallCost& cost : program_.codes[piece.code].costs) {
            if (cost.live_bytes != live) changes.emplace_back(*t, cost.live_bytes - live);
            live = cost.live_bytes;
            ++t;
          }
        };
        lower::for_each_run(program_.pieces[phase][lane], add_code);
        if (live != 0) changes.emplace_back(*t, -live);
      }
    std::sort(changes.begin(), changes.end());
    std::int64_t now = static_cast<std::int64_t>(step_.facts.arena_bytes) +
                       static_cast<std::int64_t>(step_.facts.partial_bytes) * program_.lanes;
    p_.memory.live.push_back({0, now});
    for (auto [at, change] : changes) {
      now += change;
      const double when = us(at - run.begin);
      if (p_.memory.live.back().us == when)
        p_.memory.live.back().bytes = now;
      else
        p_.memory.live.push_back({when, now});
    }
    p_.memory.live.push_back({us(run.end - run.begin), now});
  }

  void gather_memory() {
    Profile::Memory& m = p_.memory;
    if (record_.between().calls > 0)
      m.allocations_per_run =
          static_cast<double>(record_.array_allocations()) / static_cast<double>(record_.between().calls);
    for (const auto& s : record_.memory())
      m.samples.push_back({us(s.at - record_.memory().front().at) / 1e6,
                           static_cast<std::int64_t>(s.pages) * host().page, static_cast<std::int64_t>(s.arrays)});
  }

  Step::Inside& step_;
  const plan::Schedule& schedule_;
  const ir::Graph& graph_;
  const lower::Program& program_;
  Recorder& record_;
  const double us_per_tick_;
  Profile p_;
  std::map<std::tuple<int, int, int, int, std::string, int>, int> index_;
  std::vector<Touched> touched_;           // by kernel
  std::vector<const ir::Node*> nodes_;     // by kernel
  std::vector<Recorder::Sum> sums_;        // by kernel
  std::vector<std::vector<int>> of_code_;  // kernels of a code's calls
  std::vector<int> of_commit_;
};

}  // namespace

Profile profile_of_plan(const Step::Inside& step) {
  Profile p;
  p.name = step.options.name.empty() ? "step" : step.options.name;
  p.machine = host().cpu;
  p.simd = std::string(step.executor->target());
  p.date = fmt::format("{:%Y-%m-%d %H:%M}",
                       fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
  const ir::Graph& graph = *step.schedule.graph;
  const StepFacts& f = step.facts;
  p.lanes = step.executor->program().lanes;
  p.threads = std::clamp(step.threads, 1, p.lanes);
  p.cores = host().cores;
  p.phases = f.phases;
  p.compile_ms = f.compile_ms;
  p.flops = f.flops;
  p.batch = batch_of(graph);
  Profile::Memory& m = p.memory;
  m.state_bytes = static_cast<std::int64_t>(f.state_bytes);
  m.arena_bytes = static_cast<std::int64_t>(f.arena_bytes);
  m.scratch_bytes = static_cast<std::int64_t>(f.scratch_bytes);
  m.partial_bytes = static_cast<std::int64_t>(f.partial_bytes);
  for (int in : graph.inputs) m.argument_bytes += static_cast<std::int64_t>(bytes_of(graph[in].spec));
  for (const Array& a : step.outputs) m.result_bytes += static_cast<std::int64_t>(a.bytes());
  return p;
}

Profile make_profile(Step::Inside& step) {
  return step.executor->device_record() ? make_device_profile(step) : Assembly(step).assemble();
}

bool is_recorded(const Step::Inside& step) { return step.executor->recorder() || step.executor->device_record(); }

}  // namespace wr
