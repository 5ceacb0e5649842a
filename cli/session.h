// What all training commands share: Ctrl-C, files that must be writable, the machine's description.
#pragma once

#include <functional>
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

/// Lets a checkpoint be written whole, however often Ctrl-C is pressed meanwhile.
void save_whole(const std::function<void()>& save);
/// In the middle of training: a disk that is full now may not be later, so training goes on. False if nothing was
/// saved.
bool save_or_warn(const std::function<void()>& save);

/// Where an interrupted run goes when nobody said where: "NAME.safetensors", or the first of "NAME-2.safetensors", ...
/// that is not taken.
std::string free_name(const std::string& name);

/// Finds out now, not after the first epoch, that a file cannot be written.
void check_writable(const std::string& option, const std::string& path);

std::vector<std::pair<std::string, std::string>> machine_rows(int threads);

}  // namespace wr::cli
