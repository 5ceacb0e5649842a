#include "cli/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace wr::cli {
namespace {

volatile std::sig_atomic_t interrupts = 0;

extern "C" void on_interrupt(int) {
  if (interrupts) _exit(kInterrupted);
  interrupts = 1;
}

}  // namespace

Interruptible::Interruptible() {
  interrupts = 0;
  old_int_ = std::signal(SIGINT, on_interrupt);
  old_term_ = std::signal(SIGTERM, on_interrupt);
}

Interruptible::~Interruptible() {
  std::signal(SIGINT, old_int_);
  std::signal(SIGTERM, old_term_);
}

bool Interruptible::asked() { return interrupts != 0; }

}  // namespace wr::cli
