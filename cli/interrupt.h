// Ctrl-C asks for a stop; a second one ends the program at once.
#pragma once

namespace wr::cli {

constexpr int kInterrupted = 130;  // as shells have it: 128 + SIGINT

/// Catches SIGINT and SIGTERM while it lives.
class Interruptible {
 public:
  Interruptible();
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;
  static bool asked();

 private:
  void (*old_int_)(int);
  void (*old_term_)(int);
};

}  // namespace wr::cli
