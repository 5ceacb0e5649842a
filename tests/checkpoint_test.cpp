// Checkpoints: resuming is exact, loading is all or nothing, and saving survives every failure of the file system.
#include "windrow/checkpoint.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <random>

#include "temporary_files.h"
#include "windrow/data.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

using Names = std::vector<std::string>;

// ---- resuming ----

/// A run with all that has state: parameters, Adam, dropout, an augmenting and shuffling loader.
class Training {
 public:
  explicit Training(std::uint64_t seed, int threads = 1)
      : w0_(weights({144, 32}, seed), "w0"),
        w1_(weights({32, 10}, seed + 1), "w1"),
        random_(seed),
        loader_(small_images(), {.batch = 16, .seed = seed, .example = {144}, .augment = {.shift = 1, .noise = 0.05f}}),
        train_(compile(
            CompileOptions{.name = "train", .threads = threads, .lanes = 2},
            [&](const Tensor& x, const Tensor& y) {
              const Tensor hidden = where(random_.bernoulli(0.8, {16, 32}), relu(matmul(x, w0_)), 0);
              const Tensor loss = cross_entropy(matmul(hidden, w1_), y);
              adam_.minimize(loss, {w0_, w1_});
              return loss;
            },
            f32(16, 144), i32(16))) {
    states_.add_group("model", {w0_, w1_});
    states_.add_group("optimiser", adam_.states());
    states_.add("dropout", random_.counter());
  }

  float step() {
    auto& [x, y] = loader_.next();
    return train_(x, y);
  }
  void save(const std::string& path) const { save_checkpoint(path, states_, {{"loader", to_string(loader_.state())}}); }
  void load(const std::string& path) {
    loader_.restore(data::parse_loader_state(load_checkpoint(path, states_).at("loader")));
  }
  const CheckpointStates& states() const { return states_; }

 private:
  static Array weights(const Shape& shape, std::uint64_t seed) {
    std::mt19937 random(static_cast<unsigned>(seed));
    std::vector<float> values(static_cast<std::size_t>(shape.count()));
    for (float& v : values) v = (static_cast<float>(random()) * 0x1p-32f - 0.5f) * 0.3f;
    return Array::from(values, shape);
  }
  static data::Dataset small_images() {
    const data::Dataset digits = data::draw_digits(200, 1);
    return {digits.x.slice(1, 2, 26, 2).slice(2, 2, 26, 2), digits.y};
  }

  State w0_, w1_;
  Random random_;
  optim::Adam adam_;
  data::Loader loader_;
  Step train_;
  CheckpointStates states_;
};

TEST(Checkpoint, ResumedTrainingIsBitIdentical) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.safetensors";
  Training whole(3);
  std::vector<float> losses;
  for (int i = 0; i < 17; ++i) whole.step();
  whole.save(path);
  for (int i = 0; i < 20; ++i) losses.push_back(whole.step());
  whole.save(folder / "end-whole");
  Training resumed(3, 2);  // on another number of threads
  for (int i = 0; i < 5; ++i) resumed.step();
  resumed.load(path);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(resumed.step(), losses[i]) << i;
  resumed.save(folder / "end-resumed");
  EXPECT_EQ(read_text(folder / "end-whole"), read_text(folder / "end-resumed"));
  // The test would notice: without loading, the losses differ.
  Training fresh(3);
  EXPECT_NE(fresh.step(), losses[0]);
}

TEST(Checkpoint, HoldsAllStates) {
  const TemporaryFolder folder;
  const Training run(1);
  run.save(folder / "f");
  const auto saved = read_safetensors_header(folder / "f").tensors;
  EXPECT_EQ(saved.size(), run.states().all().size());
  EXPECT_EQ(saved.at("model.w0"), f32(144, 32));
  EXPECT_EQ(saved.at("dropout"), i32());
  std::size_t moments = 0;
  for (const auto& [name, spec] : saved) moments += name.starts_with("optimiser.") && spec == f32(144, 32);
  EXPECT_EQ(moments, 2u);  // of the first weights: mean and square
}

TEST(Checkpoint, NamesAreUnique) {
  CheckpointStates states;
  const State a(Array::scalar(1.f), "w"), b(Array::scalar(2.f), "w"), unnamed(Array::scalar(3.f));
  states.add_group("net", {a, b, unnamed});
  Names names;
  for (const auto& [name, state] : states.all()) names.push_back(name);
  EXPECT_EQ(names, Names({"net.2", "net.w", "net.w#2"}));
  EXPECT_ERROR(states.add("net.w", a), "two states called 'net.w'");
  EXPECT_ERROR(states.add("__metadata__", a), "no state can be called");
  EXPECT_ERROR(states.add("x", State()), "is an empty State");
}

TEST(Checkpoint, LoadingIsAllOrNothingAndListsEverything) {
  const TemporaryFolder folder;
  CheckpointStates saved, wanted;
  saved.add("same", State(Array::from({1.f, 2.f})));
  saved.add("shape", State(Array::from({1.f, 2.f})));
  saved.add("type", State(Array::from({1.f, 2.f})));
  saved.add("gone", State(Array::from({1})));
  save_checkpoint(folder / "f", saved);
  const State same(Array::from({7.f, 8.f}));
  wanted.add("same", same);
  wanted.add("shape", State(Array::from({1.f, 2.f, 3.f})));
  wanted.add("type", State(Array::from({1, 2})));
  wanted.add("new", State(Array::scalar(1.0)));
  EXPECT_EQ(
      error_of([&] { load_checkpoint(folder / "f", wanted); }),
      folder / "f" +
          ": the checkpoint does not fit:\n  missing: new f64[]\n  differs: shape is f32[2] in the file, f32[3] in the "
          "program\n  differs: type is f32[2] in the file, i32[2] in the program\n  unexpected: gone i32[1]");
  EXPECT_TRUE(identical(same.value(), Array::from({7.f, 8.f})));
  CheckpointStates right;
  for (const auto& [name, state] : saved.all()) right.add(name, name == "same" ? same : State(state.value()));
  load_checkpoint(folder / "f", right);
  EXPECT_TRUE(identical(same.value(), Array::from({1.f, 2.f})));
}

// ---- failures ----

/// Larger than the writer's buffer, so that saving takes several writes.
CheckpointStates large_states(float value) {
  CheckpointStates states;
  for (const char* name : {"a", "b", "c"}) states.add(name, State(Array::full({30000}, value)));
  return states;
}

struct Failure {
  int operation = 0;  // the how-many-th
  int error = 0;
  bool short_write = false;  // let one byte through first
};

/// Fails one operation of the kinds given, and counts them.
FileFault fail_one(const Failure& failure, int& seen, FileOperation& what) {
  return [failure, &seen, &what](FileOperation operation, const std::string&, std::size_t& bytes) {
    if (operation == FileOperation::open || operation == FileOperation::read) return 0;
    const int number = seen++;
    if (failure.short_write && number == failure.operation - 1 && bytes > 1) bytes = 1;
    if (number != failure.operation) return 0;
    what = operation;
    return failure.error;
  };
}

TEST(CheckpointFailure, EveryFailedOperationLeavesTheOldFile) {
  const TemporaryFolder folder;
  const std::string path = folder / "f";
  const CheckpointStates old_states = large_states(1), new_states = large_states(2);
  save_checkpoint(path, old_states, {{"which", "old"}});
  const std::string old_file = read_text(path);
  save_checkpoint(folder / "new", new_states, {{"which", "new"}});
  const std::string new_file = read_text(folder / "new");
  std::filesystem::remove(folder / "new");
  std::map<FileOperation, int> kinds;
  for (const int error : {ENOSPC, EIO}) {
    for (const bool short_write : {false, true}) {
      for (int operation = 0;; ++operation) {
        int seen = 0;
        FileOperation what{};
        std::string message;
        {
          const FileFaultScope fault(fail_one({operation, error, short_write}, seen, what));
          message = error_of([&] { save_checkpoint(path, new_states, {{"which", "new"}}); });
        }
        if (seen <= operation) {  // there was nothing left to fail
          EXPECT_EQ(message, "no error");
          EXPECT_EQ(read_text(path), new_file);
          write_text(path, old_file);
          break;
        }
        ++kinds[what];
        EXPECT_EQ(message.find(path + ": "), 0u) << message;
        EXPECT_NE(message.find(std::generic_category().message(error)), std::string::npos) << message;
        // Once it is renamed, the new file is there and complete; before, the old one is untouched.
        EXPECT_EQ(read_text(path) == (what == FileOperation::sync_folder ? new_file : old_file), true) << message;
        EXPECT_EQ(folder.files(), Names({"f"})) << message;
        write_text(path, old_file);
      }
    }
  }
  EXPECT_EQ(kinds.size(), 6u);  // create, write, sync, close, rename, sync_folder
  EXPECT_GT(kinds[FileOperation::write], 3 * 4);
}

TEST(CheckpointFailure, ShortWritesAreContinued) {
  const TemporaryFolder folder;
  save_checkpoint(folder / "plain", large_states(1));
  {
    int turn = 0;
    const FileFaultScope slow([&](FileOperation, const std::string&, std::size_t& bytes) {
      bytes = std::min<std::size_t>(bytes, static_cast<std::size_t>(1 + turn++ % 5000));
      return 0;
    });
    save_checkpoint(folder / "slow", large_states(1));
  }
  EXPECT_TRUE(read_text(folder / "plain") == read_text(folder / "slow"));
}

TEST(CheckpointFailure, AFileThatCannotGrow) {
  // A real failure of write(): the process may not make files larger than 100 kB.
  const TemporaryFolder folder;
  save_checkpoint(folder / "f", CheckpointStates(), {{"which", "old"}});
  const std::string old_file = read_text(folder / "f");
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  rlimit small = before;
  small.rlim_cur = 100000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message = error_of([&] { save_checkpoint(folder / "f", large_states(2)); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(message, folder / "f" + ": write: File too large");
  EXPECT_EQ(read_text(folder / "f"), old_file);
  EXPECT_EQ(folder.files(), Names({"f"}));
}

TEST(CheckpointFailure, PlacesWhereNoFileCanBe) {
  const TemporaryFolder folder;
  const CheckpointStates states = large_states(1);
  EXPECT_ERROR(save_checkpoint(folder / "none/f", states), "none/f: create: No such file or directory");
  save_checkpoint("/dev/null", states);  // written to, not replaced
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
  EXPECT_ERROR(save_checkpoint(folder / ".", states), "is not a regular file");
  EXPECT_ERROR(save_checkpoint("/proc/f", states), "/proc/f: create: ");
  EXPECT_ERROR(load_checkpoint(folder / "f", states), "/f: open: No such file or directory");
  EXPECT_TRUE(folder.files().empty());
}

TEST(CheckpointFailure, LinksAndPermissionsStay) {
  const TemporaryFolder folder;
  const CheckpointStates states = large_states(1);
  save_checkpoint(folder / "real", states);
  ASSERT_EQ(::chmod((folder / "real").c_str(), 0600), 0);
  std::filesystem::create_symlink("real", folder / "link");
  save_checkpoint(folder / "link", large_states(2), {{"which", "new"}});
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
  EXPECT_EQ(read_safetensors_header(folder / "real").metadata.at("which"), "new");
  struct stat facts {};
  ASSERT_EQ(::stat((folder / "real").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600u);
}

TEST(CheckpointFailure, ABrokenReadChangesNoState) {
  const TemporaryFolder folder;
  const CheckpointStates saved = large_states(1), loaded = large_states(5);
  save_checkpoint(folder / "f", saved);
  int reads = 0;
  for (int fails = 0; fails < 5; ++fails) {  // size, header, three tensors
    reads = 0;
    const FileFaultScope fault([&](FileOperation operation, const std::string&, std::size_t&) {
      return operation == FileOperation::read && reads++ == fails ? EIO : 0;
    });
    EXPECT_ERROR(load_checkpoint(folder / "f", loaded), "/f: read: Input/output error");
    for (const auto& [name, state] : loaded.all()) EXPECT_EQ(state.value().at<float>({0}), 5.f);
  }
  EXPECT_EQ(reads, 5);
}

}  // namespace
}  // namespace wr
