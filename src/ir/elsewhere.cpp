#include "ir/elsewhere.h"

#include <mutex>
#include <unordered_map>

namespace wr::ir {
namespace {

struct Entry {
  std::weak_ptr<Variable> variable;  // another may come to stand at the same address
  std::unique_ptr<Elsewhere> where;
  bool exposed = false;
};

class Entries {
 public:
  static Entries& shared() {
    static auto* entries = new Entries;  // for states that outlive everything
    return *entries;
  }
  Entry* find(const Variable& variable) {
    const auto it = entries_.find(&variable);
    return it != entries_.end() && !it->second.variable.expired() ? &it->second : nullptr;
  }
  Entry& of(const std::shared_ptr<Variable>& variable) {
    std::erase_if(entries_, [](const auto& each) { return each.second.variable.expired(); });
    Entry& entry = entries_[variable.get()];
    entry.variable = variable;
    return entry;
  }
  std::mutex mutex;

 private:
  std::unordered_map<const Variable*, Entry> entries_;
};

}  // namespace

Elsewhere* elsewhere(const Variable& variable) {
  Entries& entries = Entries::shared();
  const std::lock_guard lock(entries.mutex);
  Entry* entry = entries.find(variable);
  return entry ? entry->where.get() : nullptr;
}

void set_elsewhere(const std::shared_ptr<Variable>& variable, std::unique_ptr<Elsewhere> where) {
  Entries& entries = Entries::shared();
  const std::lock_guard lock(entries.mutex);
  entries.of(variable).where = std::move(where);
  some_states_are_elsewhere.store(true, std::memory_order_relaxed);
}

void expose(const std::shared_ptr<Variable>& variable) {
  Entries& entries = Entries::shared();
  const std::lock_guard lock(entries.mutex);
  entries.of(variable).exposed = true;
}

bool is_exposed(const Variable& variable) {
  Entries& entries = Entries::shared();
  const std::lock_guard lock(entries.mutex);
  const Entry* entry = entries.find(variable);
  return entry && entry->exposed;
}

}  // namespace wr::ir
