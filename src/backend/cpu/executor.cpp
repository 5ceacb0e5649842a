// The inner loop of Windrow.
#include "backend/cpu/executor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/denormals.h"
#include "base/thread_team.h"

namespace wr::cpu {
namespace {

// Lanes' memory is kept this far apart, so that no prefetch of one lane takes a line another lane writes.
constexpr std::size_t kApart = 4096;

std::size_t rounded(std::size_t bytes) { return (bytes + kApart - 1) / kApart * kApart; }

}  // namespace

void Executor::Free::operator()(void* p) const { std::free(p); }

Executor::Memory Executor::allocate(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  bytes = rounded(bytes);
  Memory memory(static_cast<char*>(std::aligned_alloc(kApart, bytes)));
  if (!memory) throw std::bad_alloc();
  std::memset(memory.get(), 0, bytes);  // touch the pages now, not in the first run
  return memory;
}

Executor::Executor(Program program) : program_(std::move(program)) {
  const auto lanes = static_cast<std::size_t>(program_.lanes);
  const std::size_t scratch = rounded(program_.scratch_bytes);
  scratch_ = allocate(scratch * lanes);
  partials_ = allocate(program_.partial_bytes * lanes);
  arena_ = allocate(program_.arena_bytes);
  bases_.assign(lanes * static_cast<std::size_t>(program_.bases), nullptr);
  for (std::size_t lane = 0; lane < lanes; ++lane) {
    char** bases = bases_.data() + lane * static_cast<std::size_t>(program_.bases);
    bases[kScratch] = scratch_.get() + lane * scratch;
    bases[kPartial] = partials_.get() + lane * program_.partial_bytes;
    bases[kArena] = arena_.get();
    bases[kPartials] = partials_.get();
  }
}

void Executor::bind(int base, void* memory) noexcept {
  for (int lane = 0; lane < program_.lanes; ++lane)
    bases_[static_cast<std::size_t>(lane * program_.bases + base)] = static_cast<char*>(memory);
}

void Executor::reserve_threads(int threads) {
  if (std::min(threads, program_.lanes) > 1) ThreadTeam::shared().reserve(std::min(threads, program_.lanes));
}

void Executor::run_instrs(const std::vector<Instr>& instrs, char* const* bases, std::int64_t row0,
                          std::int64_t inner) noexcept {
  for (const Instr& i : instrs) {
    void* ptr[kMaxOperands];
    for (int k = 0; k < i.operands; ++k) {
      const Operand& o = i.operand[k];
      ptr[k] = bases[o.base] + o.offset + row0 * o.advance + inner * o.inner;
    }
    i.fn(i.params, ptr, row0);
  }
}

void Executor::run_lane(std::size_t phase, int lane) noexcept {
  char* const* bases = bases_.data() + static_cast<std::size_t>(lane * program_.bases);
  for (const Piece& piece : program_.pieces[phase][static_cast<std::size_t>(lane)])
    run_instrs(program_.codes[static_cast<std::size_t>(piece.code)].instrs, bases, piece.row0, piece.inner);
}

void Executor::body(void* self, int member, int members) {
  auto& e = *static_cast<Executor*>(self);
  const FlushDenormals flush;
  const int lanes = e.program_.lanes;
  const int begin = member * lanes / members, end = (member + 1) * lanes / members;
  for (std::size_t phase = 0; phase < e.program_.pieces.size(); ++phase) {
    if (phase > 0 && members > 1) ThreadTeam::shared().barrier(members);
    for (int lane = begin; lane < end; ++lane) e.run_lane(phase, lane);
  }
}

void Executor::run(int threads) noexcept {
  const int members = std::clamp(threads, 1, program_.lanes);
  if (members == 1)
    body(this, 0, 1);
  else
    ThreadTeam::shared().run(members, body, this);
  run_instrs(program_.commits, bases_.data(), 0, 0);
}

}  // namespace wr::cpu
