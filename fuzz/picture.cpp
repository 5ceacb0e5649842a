// Fuzzes the readers of pictures: PNG, PGM, NPY and IDX, told apart by their first bytes. They read files, so the input
// becomes one, in memory.
#include <sys/mman.h>
#include <unistd.h>

#include <string>

#include "apps/common/pictures.h"
#include "target.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int file = memfd_create("picture", 0);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != static_cast<ssize_t>(size)) return 0;
  try {
    for (const wr::apps::Picture& p : wr::apps::read_pictures(path))
      if (p.width < 1 || p.height < 1 || std::ssize(p.grey) != p.width * p.height) __builtin_trap();
  } catch (const wr::Error&) {
  }
  return 0;
}
