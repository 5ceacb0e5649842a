// Times of calls: written down while running, added up between runs.
#include "backend/recorder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/buffer.h"
#include "base/ticks.h"

namespace wr::backend {

using lower::Piece;

namespace {

constexpr std::size_t kKeptBytes = 4 << 20;  // for the times of kept runs
constexpr std::size_t kMaxKept = 32;
constexpr std::size_t kLine = 16;  // times in a pair of cache lines: lanes do not write to one
constexpr double kShareForRecording = 0.008;
constexpr double kSettleNs = 2.5;    // adding one time up, measured
constexpr double kTimedRunNs = 100;  // timing two runs as a whole, measured
constexpr std::size_t kMemorySamples = 1024;

std::size_t rounded(std::size_t n) { return (n + kLine - 1) / kLine * kLine; }

}  // namespace

Recorder::CloseFile::~CloseFile() {
  if (descriptor >= 0) close(descriptor);
}

Recorder::Recorder(const lower::Program& program)
    : program_(program), lanes_(static_cast<std::size_t>(program.lanes)), phases_(program.pieces.size()) {
  for (const lower::Code& code : program.codes) {
    code_begin_.push_back(calls_);
    calls_ += code.calls.size();
  }
  offset_.resize(phases_ * lanes_);
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    for (std::size_t phase = 0; phase < phases_; ++phase) {
      offset_[phase * lanes_ + lane] = length_;
      length_ += 1;
      lower::for_each_run(program.pieces[phase][lane],
                          [&](const Piece& piece, std::int64_t) { length_ += program.codes[piece.code].calls.size(); });
    }
    length_ = rounded(length_);
  }
  commits_ = length_;
  length_ = rounded(length_ + 1 + program.commits.calls.size());
  const std::size_t kept = std::clamp<std::size_t>(kKeptBytes / (length_ * sizeof(std::uint64_t)), 2, kMaxKept);
  times_.assign(kept * length_, 0);
  marks_.resize(kept);
  sums_.resize(lanes_ * calls_);
  commit_sums_.resize(program.commits.calls.size());
  members_.resize(lanes_);
  for (Member& m : members_) {
    m.barrier.assign(phases_, 0);
    m.phase.assign(phases_, 0);
  }
  memory_.reserve(kMemorySamples);
  memory_interval_ = static_cast<std::uint64_t>(20e6 / ns_per_tick());
  tick_cost_ns();  // measured now, not in a run
  statm_.descriptor = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  last_allocations_ = detail::allocation_count();
  sample_memory();
}

bool Recorder::begin(int members) noexcept {
  ++count_;
  recording_ = ++since_ >= every_;
  timed_ = recording_ || since_ + 1 >= every_;
  if (!timed_) {
    last_end_ = 0;
    return false;
  }
  if (recording_) {
    since_ = 0;
    now_ = times_.data() + next_ * length_;
  }
  const std::uint64_t now = ticks();
  if (last_end_ != 0) {
    between_.add(now - last_end_);
    allocated_ += detail::allocation_count() - last_allocations_;
  }
  mark_ = {now, 0, members};
  return recording_;
}

void Recorder::end() noexcept {
  if (!timed_) return;
  mark_.end = ticks();
  runs_.add(mark_.end - mark_.begin);
  if (recording_) {
    recorded_.add(mark_.end - mark_.begin);
    marks_[next_] = mark_;
    next_ = (next_ + 1) % marks_.size();
    filled_ = std::min(filled_ + 1, marks_.size());
    if (++unsettled_ == marks_.size()) settle();
  }
  last_allocations_ = detail::allocation_count();
  last_end_ = ticks();
}

void Recorder::settle() noexcept {
  for (; unsettled_ > 0; --unsettled_) {
    const std::size_t at = (next_ + marks_.size() - unsettled_) % marks_.size();
    add_lanes(marks_[at], times_.data() + at * length_);
  }
  sample_memory();
  choose_rate();
}

void Recorder::add_lanes(const Mark& mark, const std::uint64_t* times) noexcept {
  const int lanes = program_.lanes;
  for (int m = 0; m < mark.members; ++m) {
    Member& member = members_[m];
    std::uint64_t here = mark.begin;  // where this thread's time is accounted for
    for (std::size_t phase = 0; phase < phases_; ++phase) {
      for (int lane = m * lanes / mark.members; lane < (m + 1) * lanes / mark.members; ++lane) {
        const std::uint64_t* t = times + offset(phase, lane);
        Sum* sums = sums_.data() + static_cast<std::size_t>(lane) * calls_;
        (phase == 0 ? member.start : member.barrier[phase]) += t[0] - here;
        lower::for_each_run(program_.pieces[phase][lane], [&](const Piece& piece, std::int64_t) {
          const auto code = static_cast<std::size_t>(piece.code);
          Sum* sum = sums + code_begin_[code];
          const std::size_t calls = program_.codes[code].calls.size();
          for (std::size_t i = 0; i < calls; ++i, ++t) sum[i].add(t[1] - t[0]);
        });
        const std::uint64_t worked = *t - times[offset(phase, lane)];
        member.busy += worked;
        member.phase[phase] += worked;
        here = *t;
      }
    }
    const std::uint64_t* c = times + commits_;
    member.finish += (phases_ > 0 ? c[0] : mark.begin) - here;
  }
  const std::uint64_t* c = times + commits_;
  for (std::size_t i = 0; i < commit_sums_.size(); ++i) commit_sums_[i].add(c[i + 1] - c[i]);
}

/// Few enough runs are recorded in full that writing down and adding up stays below a hundredth of the time.
void Recorder::choose_rate() noexcept {
  if (runs_.calls == 0) return;
  const double run = static_cast<double>(runs_.ticks) / static_cast<double>(runs_.calls) * ns_per_tick();
  every_ = static_cast<int>(std::clamp(cost_ns() / (kShareForRecording * run) + 0.999, 1.0, 1000.0));
}

/// Of one run in full: threads write down in parallel, one adds up.
double Recorder::cost_ns() const noexcept {
  const double members = std::max(1, mark_.members);
  return kTimedRunNs + static_cast<double>(length_) * (tick_cost_ns() / members + kSettleNs);
}

double Recorder::overhead() const {
  if (runs_.calls == 0 || runs_.ticks == 0) return 0;
  return cost_ns() / every_ / (static_cast<double>(runs_.ticks) / static_cast<double>(runs_.calls) * ns_per_tick());
}

void Recorder::sample_memory() noexcept {
  const std::uint64_t now = ticks();
  if (statm_.descriptor < 0 || (!memory_.empty() && now - memory_.back().at < memory_interval_)) return;
  char text[64];
  const ssize_t got = pread(statm_.descriptor, text, sizeof text, 0);
  if (got <= 0) return;
  std::uint64_t size = 0, resident = 0;
  const char* end = text + got;
  auto [stop, problem] = std::from_chars(text, end, size);
  if (problem != std::errc() || stop >= end || std::from_chars(stop + 1, end, resident).ec != std::errc()) return;
  if (memory_.size() == kMemorySamples) {  // every second one goes; from now on half as often
    for (std::size_t i = 0; i < kMemorySamples / 2; ++i) memory_[i] = memory_[2 * i];
    memory_.resize(kMemorySamples / 2);
    memory_interval_ *= 2;
  }
  memory_.push_back({now, resident, detail::allocation_count()});
}

std::vector<Recorder::Kept> Recorder::kept() const {
  std::vector<Kept> runs;
  for (std::size_t i = 0; i < filled_; ++i) {
    const std::size_t at = (next_ + marks_.size() - filled_ + i) % marks_.size();
    runs.push_back({marks_[at].begin, marks_[at].end, marks_[at].members, times_.data() + at * length_});
  }
  return runs;
}

std::size_t Recorder::bytes() const {
  return times_.size() * sizeof(std::uint64_t) + (sums_.size() + commit_sums_.size()) * sizeof(Sum) +
         kMemorySamples * sizeof(MemorySample);
}

}  // namespace wr::backend
