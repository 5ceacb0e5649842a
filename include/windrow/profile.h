// Where a step's time goes: per kernel, per line of the user's code, per thread; against what this machine can do.
//
//   step.profile(true);
//   for (...) step(x, y);
//   std::cout << step.profile().to_table();
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wr {

/// What this machine does at best: measured, not looked up.
struct Roofline {
  struct Level {
    std::string name;        // "L1", "L2", "L3", "memory"
    std::int64_t bytes = 0;  // of one core; L3 is shared; memory: 0
    double gbs = 0;          // GB/s, half read and half written, one core
    double gbs_all = 0;      // all threads together
  };
  int threads = 1;
  double gflops_f32 = 0, gflops_f64 = 0;          // one core
  double gflops_f32_all = 0, gflops_f64_all = 0;  // all threads together
  std::vector<Level> levels;                      // nearest first
};
/// Measured when first asked for (some tenths of a second), then remembered. 0 threads: as many as steps use by
/// default.
const Roofline& roofline(int threads = 0);

/// One step's profile. Times are microseconds. A plain value: it can be stored, read again and compared.
struct Profile {
  /// One kernel of the plan with all its calls: on every lane, in every strip. Times of lanes are added up.
  struct Kernel {
    std::string op;      // "einsum"
    std::string detail;  // "bi,io->bo [64, 128]"
    std::string kernel;  // "xsmm"
    std::string file;    // the user's
    int line = 0;
    bool gradient = false;  // of what that line says
    int phase = 0;
    int region = 0;  // of the phase; -1: a value that each lane computes for itself, -2: the caller's copy at the end
    std::int64_t rows = 0;                       // of a strip
    double calls = 0;                            // a run
    double us = 0;                               // a run, all lanes added up
    double mean_us = 0, min_us = 0, max_us = 0;  // a call
    double flops = 0, bytes = 0;                 // a run
    double roof_us = 0;                          // a run, at this machine's best
    std::string bound;  // what keeps it from being faster: "compute", "L1", "L2", "L3", "memory", "overhead"
    double gflops() const { return us > 0 ? flops / us / 1e3 : 0; }
    double gbs() const { return us > 0 ? bytes / us / 1e3 : 0; }
    double of_roof() const { return us > 0 ? roof_us / us : 0; }
  };
  /// Kernels that belong together: of one line, or of one kind.
  struct Group {
    std::string name;  // "train.cpp:42", or "einsum [xsmm]"
    std::string text;  // the line, where its file can be read
    double calls = 0, us = 0, forward_us = 0, gradient_us = 0;
    double mean_us = 0, min_us = 0, max_us = 0;
    double flops = 0, bytes = 0, roof_us = 0;
  };
  /// Microseconds of a run.
  struct Thread {
    double busy_us = 0;
    double start_us = 0;             // until it began
    double finish_us = 0;            // waiting for the others at the end
    std::vector<double> barrier_us;  // waiting before each phase
    std::vector<double> phase_us;    // working in each phase
  };
  struct Region {
    int phase = 0, index = 0;
    std::int64_t extent = 1, strip = 1, strips = 1;
    int lanes = 1;
    bool flat = false;               // rows are elements
    double us = 0;                   // all lanes added up
    std::int64_t scratch_bytes = 0;  // live at most, a lane
  };
  /// A value that could not go on in the strips it was made in, so that a barrier stands before what reads it.
  struct Cut {
    int phase = 0;                  // that begins there
    std::string reader, reader_op;  // "train.cpp:42", "softmax"
    std::string maker, maker_op;
    std::string why;
    double bytes = 0;     // that cross
    bool needed = false;  // no other plan could avoid it: a sum over all rows must be complete before it is used
  };
  struct Memory {
    std::int64_t state_bytes = 0, argument_bytes = 0, result_bytes = 0;
    std::int64_t arena_bytes = 0, scratch_bytes = 0, partial_bytes = 0;  // the latter two of one lane
    struct Point {
      double us = 0;  // since the run began
      std::int64_t bytes = 0;
    };
    std::vector<Point> live;  // what holds something during one run: scratch of all lanes, lane sums, arena
    struct Sample {
      double seconds = 0;
      std::int64_t resident_bytes = 0;  // of the whole process
      std::int64_t allocations = 0;     // of arrays, so far
    };
    std::vector<Sample> samples;
    double allocations_per_run = 0;  // of arrays, between runs; a run itself allocates nothing
  };
  struct Event {
    int thread = 0, lane = 0;         // thread: the row, where rows have names
    int kernel = 0;                   // of kernels; -1: barrier, -2: start, -3: waiting for the others at the end
    double begin_us = 0, end_us = 0;  // since the first event
  };
  /// What bounds the step, and what to do.
  struct Bottleneck {
    std::string kind;   // "compute", "memory", "barrier", "parallelism", "batch", "input", "overhead", "machine"
    std::string where;  // "train.cpp:42 einsum"
    std::string text;   // a sentence for people
    std::string advice;
    double gain = 0;  // share of the time that could be saved, estimated: 0.2 is a fifth
  };

  std::string name, machine, simd, date;
  int threads = 1, lanes = 1, phases = 1;
  std::int64_t batch = 0;                     // the leading size that all arguments with axes share; 0: there is none
  int cores = 1;                              // this process may use
  std::int64_t runs = 0, recorded = 0;        // of which recorded in full
  int every = 1;                              // one run in so many is recorded in full
  double run_us = 0, min_us = 0, max_us = 0;  // short runs are not all timed
  double between_us = 0;                      // from one run to the next, outside the step
  double compile_ms = 0, flops = 0, overhead = 0;  // estimated share of the time that recording took
  Roofline roof;
  std::vector<Kernel> kernels;  // in order of execution
  std::vector<Thread> thread_times;
  std::vector<Region> regions;
  std::vector<Cut> cuts;
  Memory memory;
  std::vector<Event> timeline;          // of the last recorded runs
  std::vector<std::string> rows;        // names of its rows, on a device; otherwise they are threads
  std::vector<Bottleneck> bottlenecks;  // greatest gain first

  double busy_us() const;            // all kernels of a run, all threads
  std::vector<Group> lines() const;  // longest first
  std::vector<Group> kinds() const;

  /// For the terminal; `top` kernels at most.
  std::string to_table(int top = 20) const;
  std::string bottleneck_report() const;
  std::string to_json() const;
};

/// Several steps in one file; read back by profiles_from_json(), which trusts nothing.
std::string to_json(std::span<const Profile> profiles);
std::vector<Profile> profiles_from_json(std::string_view text, const std::string& name = "profile");
/// For chrome://tracing and ui.perfetto.dev.
std::string to_trace(std::span<const Profile> profiles);
/// A page that needs nothing else: flame graph, timeline of each thread, memory, tables.
std::string to_html(std::span<const Profile> profiles);
/// What became faster and slower from one to the other, by line and kernel.
std::string difference(const Profile& before, const Profile& after);
/// The file appears complete or not at all; its name says what it holds: .json, .trace.json, .html, .txt.
void write_profiles(const std::string& path, std::span<const Profile> profiles);

/// While on, every step compiled from now on profiles itself. WINDROW_PROFILE=1 does the same for a whole program and
/// prints the tables at its end; WINDROW_PROFILE=FILE writes them there.
void profile_all_steps(bool on);
/// The profiles of those steps, gone ones included, in the order they were compiled; those that never ran are left out.
std::vector<Profile> collected_profiles();

}  // namespace wr
