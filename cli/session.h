// What all training commands share: Ctrl-C, files that must be writable, the machine's description.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace wr::cli {

constexpr int kInterrupted = 130;  // as shells have it: 128 + SIGINT

/// Ctrl-C asks for a stop while this lives; a second one ends the program at once.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  void (*old_int_)(int);
  void (*old_term_)(int);
};
bool interrupted();

/// Finds out now, not after the first epoch, that a file cannot be written.
void check_writable(const std::string& option, const std::string& path);

std::vector<std::pair<std::string, std::string>> machine_rows(int threads);

}  // namespace wr::cli
