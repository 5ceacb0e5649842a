// Steps that profile themselves: all that are compiled while profile_all_steps() is on, or in a program that runs under
// WINDROW_PROFILE.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <vector>

#include "step/profile.h"

namespace wr {
namespace {

std::string environment() {
  const char* text = std::getenv("WINDROW_PROFILE");  // NOLINT(concurrency-mt-unsafe)
  return text ? text : "";
}

class Watched {
 public:
  /// Lives to the end of the process, and then reports if the environment asked for it.
  static Watched& shared() {
    static Watched* const instance = [] {
      auto* made = new Watched;
      if (made->on_) std::atexit([] { shared().report(); });
      return made;
    }();
    return *instance;
  }

  void set(bool on) {
    const std::lock_guard lock(mutex_);
    on_ = on;
  }
  bool on() {
    const std::lock_guard lock(mutex_);
    return on_;
  }
  void add(Step::Inside& step) {
    const std::lock_guard lock(mutex_);
    entries_.push_back({&step, {}});
  }
  void remove(Step::Inside& step) {
    const std::lock_guard lock(mutex_);
    for (Entry& e : entries_)
      if (e.step == &step) {
        if (step.executor && is_recorded(step)) e.last = make_profile(step);
        e.step = nullptr;
      }
    std::erase_if(entries_, [](const Entry& e) { return !e.step && (!e.last || e.last->runs == 0); });
  }
  std::vector<Profile> collect() {
    const std::lock_guard lock(mutex_);
    std::vector<Profile> list;
    for (const Entry& e : entries_) {
      if (e.step && is_recorded(*e.step))
        list.push_back(make_profile(*e.step));
      else if (e.last)
        list.push_back(*e.last);
    }
    std::erase_if(list, [](const Profile& p) { return p.runs == 0; });
    return list;
  }

 private:
  struct Entry {
    Step::Inside* step;
    std::optional<Profile> last;
  };

  Watched() {
    const std::string text = environment();
    on_ = !text.empty() && text != "0";
  }

  void report() {
    try {
      const auto profiles = collect();
      const std::string where = environment();
      if (profiles.empty()) return;
      if (where != "1") return write_profiles(where, profiles);
      for (const Profile& p : profiles) fmt::print(stderr, "{}{}\n", p.to_table(), p.bottleneck_report());
    } catch (const std::exception& e) {
      fmt::print(stderr, "windrow: WINDROW_PROFILE: {}\n", e.what());
    }
  }

  std::mutex mutex_;
  bool on_ = false;
  std::vector<Entry> entries_;
};

}  // namespace

void watch(Step::Inside& step) {
  if (!Watched::shared().on()) return;
  step.executor->record(true);
  step.watched = true;
  Watched::shared().add(step);
}

void unwatch(Step::Inside& step) {
  if (step.watched) Watched::shared().remove(step);
}

void profile_all_steps(bool on) { Watched::shared().set(on); }
std::vector<Profile> collected_profiles() { return Watched::shared().collect(); }

}  // namespace wr
