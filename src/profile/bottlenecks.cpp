#include "profile/bottlenecks.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "profile/text.h"

namespace wr {
namespace {

using Bottleneck = Profile::Bottleneck;
using Kernel = Profile::Kernel;

constexpr double kWorthSaying = 0.05;  // share of the time
constexpr double kKernelWorthSaying = 0.1;
constexpr double kWellDone = 0.8;        // of the roof: what a kernel of ours can be expected to reach
constexpr double kSharedWell = 0.8;      // of what a further core could bring
constexpr std::int64_t kTinyBatch = 16;  // rows: below, a matrix product reads its weights for too little work
constexpr double kWorthSharing_us = 15;  // work that is worth waking another core for

std::string place(const Kernel& k) {
  return fmt::format("{} {}{}", line_text(k.file, k.line), k.gradient ? "gradient of " : "", k.op);
}

class Search {
 public:
  explicit Search(const Profile& p) : p_(p), busy_(p.busy_us()) {}

  std::vector<Bottleneck> run() {
    if (p_.run_us <= 0 || busy_ <= 0) return {};
    input();
    disturbed();
    too_few_threads();
    too_few_lanes();
    uneven();
    barriers();
    small_calls();
    kernels();
    std::stable_sort(found_.begin(), found_.end(), [](auto& a, auto& b) { return a.gain > b.gain; });
    return std::move(found_);
  }

 private:
  void add(const char* kind, std::string where, std::string text, std::string advice, double gain) {
    found_.push_back({kind, std::move(where), std::move(text), std::move(advice), std::clamp(gain, 0.0, 0.99)});
  }
  /// What saving so much of the threads' work would save of the run.
  double of_run(double work_us) const { return work_us / p_.threads / p_.run_us; }

  void input() {
    const double share = p_.between_us / (p_.run_us + p_.between_us);
    if (share < 0.2) return;
    add("input", "between runs",
        fmt::format("{:.0f} % of the time passes outside the step: {:.1f} us between runs of {:.1f} us{}.", 100 * share,
                    p_.between_us, p_.run_us,
                    p_.memory.allocations_per_run >= 0.5
                        ? fmt::format(", with {:.1f} arrays allocated each time", p_.memory.allocations_per_run)
                        : ""),
        "Prepare arguments ahead (data::Loader does it on its own threads), write into the same arrays again, read "
        "results "
        "less often.",
        share);
  }

  /// What a run takes at best against what it takes: the rest is other programs.
  void disturbed() {
    const double share = 1 - p_.min_us / p_.run_us;
    if (share < 0.4) return;
    add("machine", "the whole step",
        fmt::format(
            "A run takes {:.1f} us, but {:.1f} us at best: other programs use these cores, or the clock changes.",
            p_.run_us, p_.min_us),
        "Stop them, or use fewer threads than cores: lanes wait for one another.", share);
  }

  void too_few_threads() {
    if (p_.threads >= p_.cores || p_.lanes <= p_.threads || busy_ < kWorthSharing_us) return;
    const int could = std::min(p_.cores, p_.lanes);
    add("parallelism", "the whole step",
        fmt::format("{} of {} cores work: the plan has {} lanes for {} thread{}.", p_.threads, p_.cores, p_.lanes,
                    p_.threads, p_.threads == 1 ? "" : "s"),
        fmt::format("Use {} threads (WINDROW_THREADS, CompileOptions::threads).", could),
        kSharedWell * (1 - static_cast<double>(p_.threads) / could));
  }

  void too_few_lanes() {
    if (p_.lanes >= p_.cores || busy_ < kWorthSharing_us) return;
    const bool small = busy_ < 4 * kWorthSharing_us;
    add("parallelism", "the whole step",
        fmt::format(
            "The plan has {} lane{}, the machine {} cores: {}.", p_.lanes, p_.lanes == 1 ? "" : "s", p_.cores,
            small ? "there is too little work to share, or it cannot be cut into rows"
                  : "what would cross between cores was estimated to cost more than it saves, or lanes were fixed"),
        p_.batch > 0 && small ? "A larger batch gives each core enough to do; or run several steps at once."
                              : "Leave CompileOptions::lanes at 0, or see describe() for values that every row needs.",
        kSharedWell * (1 - static_cast<double>(p_.lanes) / p_.cores) * (small ? 0.3 : 0.5));
  }

  /// Phases in which one thread works longer than the others.
  void uneven() {
    if (p_.threads < 2) return;
    double lost = 0, worst = 0;
    int at = 0;
    for (int phase = 0; phase < p_.phases; ++phase) {
      double longest = 0, sum = 0;
      for (const auto& t : p_.thread_times) {
        longest = std::max(longest, t.phase_us[phase]);
        sum += t.phase_us[phase];
      }
      const double waits = longest - sum / p_.threads;
      lost += waits;
      if (waits > worst) {
        worst = waits;
        at = phase;
      }
    }
    if (lost / p_.run_us < kWorthSaying) return;
    const auto [where, why] = single_lane(at);
    add("parallelism", where,
        fmt::format("Threads wait {:.1f} us of a run of {:.1f} us for the one that has most to do; {:.1f} us of it in "
                    "phase {}{}.",
                    lost, p_.run_us, worst, at, why),
        where == "phase " + std::to_string(at)
            ? "The rows cannot be shared out evenly, or another program takes a core; a batch that the cores divide "
              "helps."
            : "Write it so that rows can be computed independently, or make it smaller.",
        lost / p_.run_us);
  }

  /// The longest kernel of a phase that one lane alone computes, if there is a heavy one.
  std::pair<std::string, std::string> single_lane(int phase) const {
    const Kernel* longest = nullptr;
    for (const auto& r : p_.regions) {
      if (r.phase != phase || r.lanes > 1) continue;
      for (const auto& k : p_.kernels)
        if (k.phase == phase && k.region == r.index && (!longest || k.us > longest->us)) longest = &k;
    }
    if (!longest || longest->us < 0.02 * p_.run_us) return {"phase " + std::to_string(phase), ""};
    return {place(*longest), fmt::format(", where one lane alone computes {} ({:.1f} us)", longest->op, longest->us)};
  }

  void barriers() {
    if (p_.threads < 2) return;
    // The thread that waits least at a barrier came last: what it waits is the barrier itself.
    double cost = 0;
    for (int phase = 1; phase < p_.phases; ++phase) cost += least(phase);
    double ends = 1e9;
    for (const auto& t : p_.thread_times) ends = std::min(ends, t.start_us + t.finish_us);
    cost += ends;
    if (cost / p_.run_us < kWorthSaying) return;
    std::string who;
    double avoidable = 0;
    std::string where = "the whole step";
    for (const auto& cut : p_.cuts) {
      if (cut.needed) continue;
      if (who.empty()) where = cut.reader;
      if (avoidable < 3)
        who += fmt::format(" {} ({}) needs {} of {} whole: {}.", cut.reader, cut.reader_op, cut.maker_op, cut.maker,
                           cut.why);
      avoidable += 1;
    }
    add("barrier", where,
        fmt::format("{} barrier{} and the start cost {:.1f} us of a run of {:.1f} us.{}", p_.phases,
                    p_.phases == 1 ? "" : "s", cost, p_.run_us, who),
        avoidable > 0 ? "Without a value that every row waits for (a statistic of the batch, a product along it) "
                        "phases fall together."
                      : "More work a run (a larger batch), or fewer threads: the barriers stay the same.",
        avoidable > 0 ? cost / p_.run_us : 0.5 * cost / p_.run_us);
  }

  double least(int phase) const {
    double least = 1e9;
    for (const auto& t : p_.thread_times) least = std::min(least, t.barrier_us[phase]);
    return least;
  }

  void small_calls() {
    double small = 0, thin = 0, small_roof = 0, thin_roof = 0;
    const Kernel* longest = nullptr;
    const std::int64_t rows = p_.batch;
    for (const auto& k : p_.kernels) {
      const bool product =
          k.op == "einsum" && k.bound != "compute" && rows > 0 && rows < kTinyBatch && k.of_roof() < kWellDone;
      if (k.bound == "overhead") {
        small += k.us;
        small_roof += k.roof_us;
      } else if (product) {
        thin += k.us;
        thin_roof += k.roof_us;
      } else {
        continue;
      }
      if (!longest || k.us > longest->us) longest = &k;
    }
    if (!longest || (small + thin) / busy_ < 0.2) return;
    if (rows > 0 && rows < 4 * kTinyBatch) {
      add("batch", "the whole step",
          fmt::format(
              "A batch of {} is too small to fill the kernels: {:.0f} % of their time goes into calls shorter than "
              "0.15 us{}.",
              rows, 100 * small / busy_,
              thin > 0 ? fmt::format(", {:.0f} % into products that read whole weights for {} row{}",
                                     100 * thin / busy_, rows, rows == 1 ? "" : "s")
                       : ""),
          fmt::format("A batch of {} or more does more per call; `windrow tune` measures which.", 4 * kTinyBatch),
          of_run(0.75 * (small - small_roof + thin - thin_roof)));
    } else {
      add("overhead", place(*longest),
          fmt::format("{:.0f} % of the kernels' time goes into calls shorter than 0.15 us.", 100 * small / busy_),
          "Fewer, larger operations: stack small tensors, sum once instead of often.",
          of_run(0.5 * (small - small_roof)));
    }
  }

  void kernels() {
    std::vector<std::size_t> order(p_.kernels.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return p_.kernels[a].us > p_.kernels[b].us; });
    int said = 0;
    for (auto i : order) {
      const Kernel& k = p_.kernels[i];
      if (k.us / busy_ < kKernelWorthSaying || said == 3) return;
      if (k.bound == "overhead") continue;
      ++said;
      const double room = k.us * std::max(0.0, 1 - k.of_roof() / kWellDone);
      if (k.bound == "compute")
        add("compute", place(k),
            fmt::format("{:.0f} % of the kernels' time at {:.0f} GFLOP/s, {:.0f} % of what this core can.",
                        100 * k.us / busy_, k.gflops(), 100 * k.of_roof()),
            k.of_roof() > 0.7 ? "It is as fast as it gets: fewer operations or more cores."
                              : "Sizes that are multiples of 16 fill the registers; longer rows pay off more.",
            of_run(room));
      else
        add("memory", place(k),
            fmt::format("{:.0f} % of the kernels' time moving {} a run through {} at {:.1f} GB/s, {:.0f} % of what "
                        "this core can.",
                        100 * k.us / busy_, bytes_text(k.bytes), k.bound, k.gbs(), 100 * k.of_roof()),
            k.bound == "L1" || k.bound == "L2"
                ? "The data is in cache already; fewer passes over it (a fused op, fewer elementwise ops) help."
                : "Touch less memory: a smaller batch or model that fits the caches, fewer states, a narrower type.",
            of_run(room));
    }
  }

  const Profile& p_;
  const double busy_;
  std::vector<Bottleneck> found_;
};

}  // namespace

std::vector<Profile::Bottleneck> find_bottlenecks(const Profile& profile) { return Search(profile).run(); }

}  // namespace wr
