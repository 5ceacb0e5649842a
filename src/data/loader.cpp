// Loader: a ring of batches between the loading thread, which fills them in order, and the caller, who holds one at a
// time. Everything it needs is allocated when it is made.
#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "data/random.h"
#include "data/rows.h"
#include "windrow/error.h"

namespace wr::data {

namespace {

constexpr int kMostAhead = 1024;

LoaderOptions checked(const LoaderOptions& options, std::int64_t examples) {
  if (options.batch < 1) throw Error("loader: the batch size is " + std::to_string(options.batch));
  if (options.ahead < 0 || options.ahead > kMostAhead) {
    throw Error("loader: ahead must be 0.." + std::to_string(kMostAhead) + ", is " + std::to_string(options.ahead));
  }
  if (examples < 1) throw Error("loader: there are no examples");
  if (options.rest == LoaderOptions::Rest::drop && examples < options.batch) {
    throw Error("loader: " + std::to_string(examples) + " examples do not fill one batch of " +
                std::to_string(options.batch) + "; Rest::keep gives short batches");
  }
  return options;
}

}  // namespace

struct Loader::Inside {
  Inside(std::int64_t count, const Spec& x, const Spec& y, FillBatch function, const LoaderOptions& wanted)
      : options(checked(wanted, count)),
        examples(count),
        per_epoch(options.rest == LoaderOptions::Rest::drop ? count / options.batch
                                                            : (count + options.batch - 1) / options.batch),
        short_rows(options.rest == LoaderOptions::Rest::keep ? count % options.batch : 0),
        spec_x(x),
        spec_y(y),
        fill(std::move(function)),
        order(static_cast<std::size_t>(count)),
        rows(static_cast<std::size_t>(options.batch)),
        slots(static_cast<std::size_t>(options.ahead) + 1),
        short_slots(short_rows > 0 ? slots.size() : 0),
        seed(options.seed) {
    for (Batch& slot : slots) make_room(slot, options.batch);
    for (Batch& slot : short_slots) make_room(slot, short_rows);
  }
  ~Inside() { stop(); }

  void make_room(Batch& slot, std::int64_t count) const {
    slot.x = Array::zeros(with_rows(spec_x, count).shape, spec_x.dtype);
    slot.y = Array::zeros(with_rows(spec_y, count).shape, spec_y.dtype);
  }
  static Spec with_rows(Spec spec, std::int64_t count) {
    spec.shape[0] = count;
    return spec;
  }

  /// Where a batch of an epoch stands in a place of the ring.
  Batch& at(std::size_t place, std::int64_t batch_index) {
    return short_rows > 0 && batch_index + 1 == per_epoch ? short_slots[place] : slots[place];
  }

  /// Fills a batch; only one thread at a time does.
  void prepare(Batch& batch, std::uint64_t epoch, std::int64_t index) {
    if (!ordered || order_epoch != epoch) {
      std::iota(order.begin(), order.end(), 0);
      if (options.shuffle) shuffle(order, Draw(seed, 0x0bde, epoch));
      ordered = true;
      order_epoch = epoch;
    }
    const std::int64_t first = index * options.batch;
    batch.count = std::min(options.batch, examples - first);
    const std::int64_t filled = short_rows > 0 ? batch.count : options.batch;
    for (std::int64_t i = 0; i < filled; ++i) rows[i] = order[(first + i) % examples];
    batch.epoch = epoch;
    batch.index = index;
    fill({std::span(rows).first(static_cast<std::size_t>(filled)), seed, epoch}, batch);
    if (Spec{batch.x.dtype(), batch.x.shape()} != with_rows(spec_x, filled) ||
        Spec{batch.y.dtype(), batch.y.shape()} != with_rows(spec_y, filled)) {
      throw Error("loader: the function that fills batches changed their shape or type");
    }
  }

  /// Epoch and index of the batch after this one.
  void advance(std::uint64_t& epoch, std::int64_t& index) const {
    if (++index == per_epoch) {
      index = 0;
      ++epoch;
    }
  }

  void start() {
    try {
      thread = std::thread([this, epoch = epoch, index = index] { work(epoch, index); });
    } catch (const std::system_error& error) {
      throw Error(std::string("loader: the system gives no thread: ") + error.what());
    }
  }

  void work(std::uint64_t at_epoch, std::int64_t at_index) {
    for (;;) {
      {
        std::unique_lock lock(mutex);
        room.wait(lock, [&] { return stopping || produced - released < slots.size(); });
        if (stopping) return;
      }
      try {
        prepare(at(produced % slots.size(), at_index), at_epoch, at_index);
      } catch (...) {
        const std::lock_guard lock(mutex);
        failure = std::current_exception();
        ready.notify_one();
        return;
      }
      advance(at_epoch, at_index);
      const std::lock_guard lock(mutex);
      ++produced;
      ready.notify_one();
    }
  }

  void stop() {
    if (!thread.joinable()) return;
    {
      const std::lock_guard lock(mutex);
      stopping = true;
      room.notify_one();
    }
    thread.join();
    stopping = false;
  }

  Batch& next() {
    Batch* batch = nullptr;
    if (options.ahead == 0) {
      batch = &at(0, index);
      prepare(*batch, epoch, index);
    } else {
      if (!thread.joinable()) start();
      std::unique_lock lock(mutex);
      if (taken > released) {
        ++released;
        room.notify_one();
      }
      ready.wait(lock, [&] { return produced > taken || failure; });
      if (produced == taken) std::rethrow_exception(failure);
      batch = &at(taken++ % slots.size(), index);
    }
    advance(epoch, index);
    return *batch;
  }

  void restore(const LoaderState& state) {
    stop();
    produced = released = taken = 0;
    failure = nullptr;
    ordered = false;
    seed = state.seed;
    epoch = state.epoch;
    index = state.next;
  }

  LoaderOptions options;
  std::int64_t examples, per_epoch;
  std::int64_t short_rows;  // of the last batch of an epoch, where it is a short one
  Spec spec_x, spec_y;
  FillBatch fill;
  // The loading side's own.
  std::vector<std::int64_t> order, rows;
  std::uint64_t order_epoch = 0;
  bool ordered = false;
  std::vector<Batch> slots,
      short_slots;  // the ring; each place has room for a full and, where there is one, a short batch
  // The caller's own: where the next batch stands.
  std::uint64_t seed, epoch = 0;
  std::int64_t index = 0;
  // Shared under the mutex; only the loading thread changes `produced`, so it may read it without. Counts of batches
  // filled, given to the caller and given back by it.
  std::size_t produced = 0, taken = 0, released = 0;
  std::exception_ptr failure;
  bool stopping = false;
  std::mutex mutex;
  std::condition_variable ready, room;
  std::thread thread;
};

Loader::Loader(std::int64_t examples, const Spec& x, const Spec& y, FillBatch fill, const LoaderOptions& options,
               Location where) try {
  if (x.shape.empty() || y.shape.empty() || x.shape[0] != options.batch || y.shape[0] != options.batch) {
    throw Error("loader: batches of " + to_string(x) + " and " + to_string(y) + " do not begin with an axis of " +
                std::to_string(options.batch) + " examples");
  }
  if (!fill) throw Error("loader: there is no function to fill batches");
  inside_ = std::make_unique<Inside>(examples, x, y, std::move(fill), options);
} catch (const Error& error) {
  fail(where, error.what());
}

Loader::Loader(const Dataset& data, const LoaderOptions& options, Location where) try {
  const LoaderOptions good = checked(options, data.count());
  const auto [x, y] = batch_specs(data, good);
  inside_ = std::make_unique<Inside>(data.count(), x, y, fill_from(data, good), good);
} catch (const Error& error) {
  fail(where, error.what());
}

Loader::Loader(Loader&&) noexcept = default;
Loader& Loader::operator=(Loader&&) noexcept = default;
Loader::~Loader() = default;

Batch& Loader::next() { return inside_->next(); }
std::int64_t Loader::batches_per_epoch() const { return inside_->per_epoch; }

LoaderState Loader::state() const {
  return {inside_->seed, inside_->epoch, inside_->index, inside_->examples, inside_->options.batch};
}

void Loader::restore(const LoaderState& state) {
  if (state.examples != inside_->examples || state.batch != inside_->options.batch) {
    throw Error("loader: the state is of " + std::to_string(state.examples) + " examples in batches of " +
                std::to_string(state.batch) + ", this loader has " + std::to_string(inside_->examples) +
                " in batches of " + std::to_string(inside_->options.batch));
  }
  if (state.next < 0 || state.next >= inside_->per_epoch) {
    throw Error("loader: the state says batch " + std::to_string(state.next) + " of " +
                std::to_string(inside_->per_epoch));
  }
  inside_->restore(state);
}

Loader::Iterator& Loader::Iterator::operator++() {
  batch_ = batch_->index + 1 == loader_->batches_per_epoch() ? nullptr : &loader_->next();
  return *this;
}

std::string to_string(const LoaderState& state) {
  return "seed=" + std::to_string(state.seed) + " epoch=" + std::to_string(state.epoch) +
         " next=" + std::to_string(state.next) + " examples=" + std::to_string(state.examples) +
         " batch=" + std::to_string(state.batch);
}

LoaderState parse_loader_state(std::string_view text) {
  LoaderState state;
  const std::string_view all = text;
  const auto number = [&](std::string_view key, auto& value) {
    if (text.starts_with(key)) {
      const auto [end, error] = std::from_chars(text.data() + key.size(), text.data() + text.size(), value);
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
      if (error == std::errc()) return;
    }
    throw Error("loader: '" + std::string(all.substr(0, 100)) + "' is no state of a loader");
  };
  number("seed=", state.seed);
  number(" epoch=", state.epoch);
  number(" next=", state.next);
  number(" examples=", state.examples);
  number(" batch=", state.batch);
  if (!text.empty()) throw Error("loader: '" + std::string(all.substr(0, 100)) + "' is no state of a loader");
  return state;
}

}  // namespace wr::data
