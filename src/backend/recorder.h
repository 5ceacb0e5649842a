// What a profiled executor writes down: the time after each kernel call. A program's calls are known beforehand, so a
// record is nothing but times, in memory that exists before the first run. Of short runs
// only one in some is recorded in full, and timed together with the one before it; the others are only counted.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "lower/program.h"

namespace wr::backend {

class Recorder {
 public:
  explicit Recorder(const lower::Program& program);

  // ---- while running ----
  /// Begins a run; true if it is to be recorded in full.
  bool begin(int members) noexcept;
  /// Where the times of a lane in a phase go: its beginning, then the end of each call.
  std::uint64_t* times(std::size_t phase, int lane) noexcept {
    return now_ + offset_[phase * lanes_ + static_cast<std::size_t>(lane)];
  }
  /// The caller's copies after the last phase: likewise.
  std::uint64_t* commit_times() noexcept { return now_ + commits_; }
  void end() noexcept;

  // ---- afterwards ----
  struct Sum {
    std::uint64_t calls = 0, ticks = 0, min = ~std::uint64_t{0}, max = 0;
    void add(std::uint64_t t) noexcept {
      ++calls;
      ticks += t;
      min = t < min ? t : min;
      max = t > max ? t : max;
    }
  };
  /// Where a thread's time went, in ticks, over the recorded runs.
  struct Member {
    std::uint64_t busy = 0, start = 0, finish = 0;
    std::vector<std::uint64_t> barrier;  // waiting before each phase
    std::vector<std::uint64_t> phase;    // working in each phase
  };
  /// A run that is still there call by call.
  struct Kept {
    std::uint64_t begin, end;
    int members;
    const std::uint64_t* times;
  };
  struct MemorySample {
    std::uint64_t at;      // ticks
    std::uint64_t pages;   // of the process, resident
    std::uint64_t arrays;  // array allocations so far
  };

  /// Adds up what has been recorded and not yet been added up.
  void settle() noexcept;
  const Sum& call(int lane, std::size_t code, std::size_t number) const {
    return sums_[static_cast<std::size_t>(lane) * calls_ + code_begin_[code] + number];
  }
  const Sum& commit(std::size_t number) const { return commit_sums_[number]; }
  const std::vector<Member>& members() const { return members_; }
  std::uint64_t count() const { return count_; }     // all runs
  const Sum& runs() const { return runs_; }          // those that were timed
  const Sum& recorded() const { return recorded_; }  // those recorded in full
  const Sum& between() const { return between_; }    // from the end of one run to the beginning of the next
  std::uint64_t array_allocations() const { return allocated_; }  // between runs
  int every() const { return every_; }
  /// The share of the time that recording is estimated to take.
  double overhead() const;
  std::vector<Kept> kept() const;  // oldest first
  const std::vector<MemorySample>& memory() const { return memory_; }
  std::size_t offset(std::size_t phase, int lane) const {
    return offset_[phase * lanes_ + static_cast<std::size_t>(lane)];
  }
  std::size_t commit_offset() const { return commits_; }
  std::size_t bytes() const;

 private:
  struct Mark {
    std::uint64_t begin = 0, end = 0;
    int members = 1;
  };
  void add_lanes(const Mark& mark, const std::uint64_t* times) noexcept;
  void sample_memory() noexcept;
  void choose_rate() noexcept;
  double cost_ns() const noexcept;

  const lower::Program& program_;
  std::size_t lanes_, phases_;
  std::size_t calls_ = 0;    // of all codes
  std::size_t length_ = 0;   // times a recorded run has
  std::size_t commits_ = 0;  // where the commits' begin
  std::vector<std::size_t> offset_, code_begin_;
  std::vector<std::uint64_t> times_;  // [kept run][time]
  std::vector<Mark> marks_;           // of the kept runs
  std::size_t next_ = 0, unsettled_ = 0, filled_ = 0;
  std::uint64_t* now_ = nullptr;
  Mark mark_;
  bool recording_ = false, timed_ = false;
  std::uint64_t count_ = 0;
  int every_ = 1, since_ = 0;
  std::uint64_t last_end_ = 0, last_allocations_ = 0, allocated_ = 0;
  std::vector<Sum> sums_, commit_sums_;
  Sum runs_, recorded_, between_;
  std::vector<Member> members_;
  std::vector<MemorySample> memory_;
  std::uint64_t memory_interval_ = 0;
  struct CloseFile {
    int descriptor = -1;
    ~CloseFile();
  } statm_;
};

}  // namespace wr::backend
