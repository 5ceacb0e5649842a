// What this process finds around it: cores, caches, memory. What plans are made for is a Machine (base/machine.h).
#pragma once

#include <cstdint>
#include <string>

#include "windrow/error.h"

namespace wr {

struct Host {
  std::string cpu;              // "Intel(R) Xeon(R) Processor"; "unknown" where the system does not say
  std::string system;           // "Linux 6.1.0 x86_64"
  int cores = 1;                // what this process may use: affinity mask and container quota considered
  int cores_online = 1;         // what the machine has
  std::int64_t l1d = 0;         // bytes, of one core
  std::int64_t l2 = 0;          // bytes, of one core
  std::int64_t l3 = 0;          // bytes, shared; 0: there is none
  bool caches_assumed = false;  // the system does not say: the sizes are those of a modest machine
  std::int64_t cache_line = 64;
  std::int64_t page = 4096;
  std::int64_t memory = 0;  // bytes; a container's limit if that is lower; 0: unknown
};

/// Detected when first asked for, then fixed.
const Host& host();

/// Something needs more memory than there is; said before any of it is touched.
class NoMemory : public Error {
 public:
  using Error::Error;
};

/// Bytes that can be allocated now without swapping; 0: unknown.
std::int64_t memory_available();

}  // namespace wr
