// What a profiled executor on a device writes down: when its launches ran there, and when the host sent and fetched.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wr::backend {

struct DeviceRecord {
  /// In nanoseconds.
  struct Sum {
    std::uint64_t calls = 0;
    double ns = 0, min = 0, max = 0;
    void add(double t) noexcept {
      min = calls == 0 || t < min ? t : min;
      max = t > max ? t : max;
      ns += t;
      ++calls;
    }
  };
  /// What happened: a launch by number, or one of these.
  enum What : int { kSend = -1, kLaunch = -2, kFetch = -3 };
  struct Event {
    int what = 0;  // launches ran on the device, all else is the host's
    double begin_ns = 0, end_ns = 0;
  };
  struct Launch {
    std::string kernel;
    int phase = -1;  // -1: copies after the last
    Sum sum;
  };

  std::uint64_t runs = 0, recorded = 0;  // recorded ones wait for the device
  int every = 1;                         // one run in so many is recorded
  Sum whole, between, send, launching, fetch;
  std::vector<Launch> launches;
  std::uint64_t sent_bytes = 0, fetched_bytes = 0;  // in recorded runs
  std::vector<Event> timeline;                      // of the last recorded runs, a ring
  std::size_t next = 0;                             // in the ring
};

}  // namespace wr::backend
