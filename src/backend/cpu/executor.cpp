// The inner loop of Windrow.
#include "backend/cpu/executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/denormals.h"
#include "base/host.h"
#include "base/thread_team.h"
#include "base/ticks.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace wr::cpu {
namespace {

// Lanes' memory is kept this far apart, so that no prefetch of one lane takes a line another lane writes.
constexpr std::size_t kApart = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes) { return (bytes + kApart - 1) / kApart * kApart; }

/// The system promises more than it has; what is large is compared with what is free before a page is touched.
void expect_memory(const lower::Program& program) {
  constexpr double kLarge = 64e6, kGigabyte = 1e9;
  const auto lanes = static_cast<double>(program.lanes), arena = static_cast<double>(program.arena_bytes);
  const double of_lanes =
      (static_cast<double>(program.scratch_bytes) + static_cast<double>(program.partial_bytes)) * lanes;
  if (arena + of_lanes < kLarge) return;
  const auto have = static_cast<double>(memory_available());
  if (have <= 0 || arena + of_lanes <= have) return;
  const auto text = [&](double bytes) { return fmt::format("{:.1f} GB", bytes / kGigabyte); };
  throw NoMemory(
      fmt::format("the plan needs {} ({} for values that outlive their strips, {} on {} lanes), {} of memory "
                  "are free",
                  text(arena + of_lanes), text(arena), text(of_lanes), program.lanes, text(have)));
}

}  // namespace

void Executor::Free::operator()(void* p) const { std::free(p); }

Executor::Memory Executor::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  // Large ones in huge pages: hundreds of times fewer to be touched here, and fewer addresses to look up in a run.
  const bool huge = bytes >= 2 * kHugePage;
  const std::size_t unit = huge ? kHugePage : kApart;
  bytes = (bytes + unit - 1) / unit * unit;
  Memory memory(static_cast<char*>(std::aligned_alloc(unit, bytes)));
  if (!memory) throw std::bad_alloc();
#if defined(__linux__)
  if (huge) madvise(memory.get(), bytes, MADV_HUGEPAGE);
#endif
  std::memset(memory.get(), 0, bytes);  // touch the pages now, not in the first run
  return memory;
}

Executor::Bound Executor::bound(const lower::CallList& list) const {
  Bound b{{}, list.operands};
  for (const lower::Call& call : list.calls) {
    const Kernels::Bound& kernel = (*kernels_)[call.kernel];
    b.instrs.push_back({kernel.function, kernel.params, call.operands});
  }
  return b;
}

Executor::Executor(lower::Program program, std::unique_ptr<Kernels> kernels)
    : program_(std::move(program)), kernels_(std::move(kernels)) {
  for (const lower::Code& code : program_.codes) codes_.push_back(bound(code));
  commits_ = bound(program_.commits);
  const auto lanes = static_cast<std::size_t>(program_.lanes);
  const std::size_t scratch = rounded(program_.scratch_bytes);
  expect_memory(program_);
  scratch_ = allocate(scratch * lanes);
  partials_ = allocate(program_.partial_bytes * lanes);
  arena_ = allocate(program_.arena_bytes);
  bases_.assign(lanes * static_cast<std::size_t>(program_.bases), nullptr);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    char** bases = bases_.data() + lane * static_cast<std::size_t>(program_.bases);
    bases[lower::kScratch] = scratch_.get() + lane * scratch;
    bases[lower::kPartial] = partials_.get() + lane * program_.partial_bytes;
    bases[lower::kArena] = arena_.get();
    bases[lower::kPartials] = partials_.get();
  }
}

void Executor::bind(int base, void* memory) noexcept {
  for (int lane = 0; lane < program_.lanes; ++lane) bases_[lane * program_.bases + base] = static_cast<char*>(memory);
}

void Executor::reserve_threads(int threads) {
  if (std::min(threads, program_.lanes) > 1) ThreadTeam::shared().reserve(std::min(threads, program_.lanes));
}

template <bool kRecord, class Distance>
std::uint64_t* Executor::run_calls(const Bound& calls, char* const* bases, std::int64_t row0, Distance distance,
                                   std::uint64_t* time) noexcept {
  const lower::Operand* o = calls.operands.data();
  for (const Instr& i : calls.instrs) {
    void* ptr[kMostOperands];
    for (int k = 0; k < i.operands; ++k, ++o) ptr[k] = bases[o->base] + distance(*o);
    i.function(i.params, ptr, row0);
    if constexpr (kRecord) *time++ = ticks();
  }
  return time;
}

namespace {

constexpr auto at_first_row = [](const lower::Operand& o) { return o.offset; };

}  // namespace

template <bool kRecord>
void Executor::run_lane(std::size_t phase, int lane) noexcept {
  char* const* bases = bases_.data() + static_cast<std::size_t>(lane * program_.bases);
  std::uint64_t* time = nullptr;
  if constexpr (kRecord) {
    time = recorder_->times(phase, lane);
    *time++ = ticks();
  }
  lower::for_each_run(program_.pieces[phase][lane], [&](const lower::Piece& piece, std::int64_t turn) {
    const Bound& code = codes_[piece.code];
    const std::int64_t row0 = piece.row0, inner = piece.inner;
    const auto at_row = [=](const lower::Operand& o) { return o.offset + row0 * o.advance + inner * o.inner; };
    const auto at_turn = [=](const lower::Operand& o) { return at_row(o) + turn * o.step; };
    time = turn != 0   ? run_calls<kRecord>(code, bases, row0, at_turn, time)
           : row0 != 0 ? run_calls<kRecord>(code, bases, row0, at_row, time)
                       : run_calls<kRecord>(code, bases, row0, at_first_row, time);
  });
}

template <bool kRecord>
void Executor::body(void* self, int member, int members) {
  auto& e = *static_cast<Executor*>(self);
  const FlushDenormals flush;
  const int lanes = e.program_.lanes;
  const int begin = member * lanes / members, end = (member + 1) * lanes / members;
  for (std::size_t phase = 0; phase < e.program_.pieces.size(); ++phase) {
    if (phase > 0 && members > 1) ThreadTeam::shared().barrier(members);
    for (int lane = begin; lane < end; ++lane) e.run_lane<kRecord>(phase, lane);
  }
}

template <bool kRecord>
void Executor::run_team(int members) noexcept {
  if (members == 1)
    body<kRecord>(this, 0, 1);
  else
    ThreadTeam::shared().run(members, body<kRecord>, this);
  std::uint64_t* time = nullptr;
  if constexpr (kRecord) {
    time = recorder_->commit_times();
    *time++ = ticks();
  }
  run_calls<kRecord>(commits_, bases_.data(), 0, at_first_row, time);
}

void Executor::run(int threads) noexcept {
  const int members = pace_.members(std::clamp(threads, 1, program_.lanes));
  const bool record = recorder_ && recorder_->begin(members);
  record ? run_team<true>(members) : run_team<false>(members);
  if (recorder_) recorder_->end();
  pace_.ran();
}

void Executor::record(bool on) { recorder_ = on ? std::make_unique<backend::Recorder>(program_) : nullptr; }

}  // namespace wr::cpu
