// The training program: that it learns, that a resumed run is the uninterrupted one bit for bit, what Ctrl-C leaves.
#include "apps/fashion/fashion.h"

#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "apps/common/pictures.h"
#include "apps/fashion/report.h"
#include "errors.h"
#include "run_program.h"
#include "windrow/windrow.h"

namespace wr::apps {
namespace {

std::string temporary(const std::string& name) {
  const auto folder = std::filesystem::path(testing::TempDir()) / ("windrow_fashion_" + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  return (folder / name).string();
}

const data::Split& digits() {
  static const data::Split all{data::draw_digits(600, 1), data::draw_digits(200, 2)};
  return all;
}

Settings small(const std::string& net) {
  Settings s = recipe(net);
  s.epochs = 2;
  s.batch = 32;
  return s;
}

Watch stop_after(const TrainingRun& run, std::int64_t steps) {
  Watch watch;
  watch.stop = [&run, steps] { return run.steps_done() >= steps; };
  return watch;
}

void expect_same_states(const std::string& a, const std::string& b) {
  const Safetensors x = read_safetensors(a), y = read_safetensors(b);
  ASSERT_EQ(x.tensors.size(), y.tensors.size());
  for (const auto& [name, array] : x.tensors) EXPECT_TRUE(identical(array, y.tensors.at(name))) << name;
  EXPECT_EQ(x.metadata.at("loader"), y.metadata.at("loader"));
  EXPECT_EQ(x.metadata.at("step"), y.metadata.at("step"));
}

TEST(Fashion, LearnsDigits) {
  Settings s = small("mlp");
  s.epochs = 8;
  TrainingRun run(s, digits(), 2);
  EXPECT_LT(run.test().accuracy, 0.4);
  EXPECT_TRUE(run.train({}));
  const Evaluation e = run.test();
  EXPECT_GT(e.accuracy, 0.6);
  ASSERT_EQ(run.history().size(), 8u);
  EXPECT_LT(run.history().back().loss, run.history().front().loss);
  std::int64_t right = 0, all = 0;
  for (std::size_t i = 0; i < kClasses; ++i) {
    right += e.confusion[i][i];
    for (const auto count : e.confusion[i]) all += count;
  }
  EXPECT_EQ(all, 200);
  EXPECT_DOUBLE_EQ(static_cast<double>(right) / 200, e.accuracy);
}

data::Split few_digits() { return {digits().train.range(0, 200), digits().test.range(0, 50)}; }

/// Dropout, batch norm, augmentation, schedule, moments: all that a resumed run could lose.
TEST(Fashion, MemoryDoesNotGrowFromEpochToEpoch) {
  Settings s = small("cnn");
  s.epochs = 12;
  TrainingRun run(s, digits(), 2);
  std::vector<std::size_t> used;
  Watch watch;
  watch.epoch = [&](const Epoch&) { used.push_back(mallinfo2().uordblks); };
  run.train(watch);
  ASSERT_EQ(used.size(), 12u);
  EXPECT_LT(used[11], used[1] + 8192) << "bytes in use after epochs 2 and 12";  // the history grows by a line an epoch
}

TEST(Fashion, AResumedRunIsTheUninterruptedOne) {
  const std::string whole = temporary("whole"), part = temporary("part");
  TrainingRun uninterrupted(small("best"), few_digits(), 2);
  ASSERT_TRUE(uninterrupted.train({}));
  uninterrupted.save(whole);
  for (const std::int64_t stop : {3, 5}) {  // 5 steps an epoch
    {
      TrainingRun first(small("best"), few_digits(), 2);
      ASSERT_FALSE(first.train(stop_after(first, stop)));
      first.save(part);
    }
    const Metadata metadata = read_safetensors_header(part).metadata;
    TrainingRun second(settings_of(metadata, part), few_digits(), 1,
                       resumed(metadata, part).plan);  // on one thread: the same bits
    second.load(part);
    EXPECT_EQ(second.steps_done(), stop);
    ASSERT_TRUE(second.train({}));
    second.save(part);
    expect_same_states(whole, part);
    ASSERT_EQ(second.history().size(), 2u);
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(second.history()[i].loss, uninterrupted.history()[i].loss);
      EXPECT_EQ(second.history()[i].validation_accuracy, uninterrupted.history()[i].validation_accuracy);
    }
  }
}

// A checkpoint says what its plans were made for, so that a run goes on with the same bits on another machine.
TEST(Fashion, AResumedRunIsPlannedForTheMachineOfItsCheckpoint) {
  const std::string whole = temporary("elsewhere"), part = temporary("elsewhere_part");
  const PlannedFor elsewhere{.machine = "pi4"};
  TrainingRun uninterrupted(small("mlp"), few_digits(), 2, elsewhere);
  ASSERT_TRUE(uninterrupted.train({}));
  uninterrupted.save(whole);
  TrainingRun first(small("mlp"), few_digits(), 2, elsewhere);
  ASSERT_FALSE(first.train(stop_after(first, 3)));
  first.save(part);
  const Resumed from = resumed(part);
  EXPECT_NE(from.plan.machine.find("Raspberry Pi 4"), std::string::npos) << from.plan.machine;
  EXPECT_EQ(from.plan.simd, planned_for(first.step()).simd);
  EXPECT_NE(from.plan.simd, "");
  EXPECT_EQ(from.difference, "");
  TrainingRun second(small("mlp"), few_digits(), 1, from.plan);
  second.load(part);
  EXPECT_EQ(planned_for(second.step()).machine, from.plan.machine);
  ASSERT_TRUE(second.train({}));
  second.save(part);
  expect_same_states(whole, part);
}

TEST(Fashion, ACheckpointOfAnotherTargetIsSaidNotToGoOnBitForBit) {
  const std::string file = temporary("target");
  TrainingRun(small("mlp"), few_digits(), 1).save(file);
  Metadata metadata = read_safetensors_header(file).metadata;
  metadata["simd"] = "mmx\n";
  const Resumed other = resumed(metadata, file);
  EXPECT_EQ(other.difference.substr(0, 28), "it was trained with mmx?, th") << other.difference;
  EXPECT_EQ(other.plan.lanes, 0);
  EXPECT_EQ(other.plan.machine, "");
  metadata.erase("simd");
  EXPECT_NE(resumed(metadata, file).difference.find("does not say for which machine"), std::string::npos);
  metadata["lanes"] = "0";
  EXPECT_NE(error_of([&] { resumed(metadata, file); }).find("lanes"), std::string::npos);
}

TEST(Fashion, ATrainedNetIsReadBack) {
  const std::string file = temporary("trained");
  TrainingRun run(small("best"), few_digits(), 2);
  run.train({});
  run.save(file);
  Trained trained = load_trained(file, 1);
  EXPECT_EQ(trained.settings.net, "best");
  EXPECT_DOUBLE_EQ(trained.classifier.evaluate(few_digits().test).accuracy, run.test().accuracy);
}

TEST(Fashion, ConflictsNameBothValues) {
  const Settings file = small("mlp");
  const std::string net = error_of([&] { merge(file, {{"net", "cnn"}}, "run.st"); });
  EXPECT_EQ(net, "--net cnn: run.st was trained with net mlp");
  EXPECT_NE(error_of([&] {
              merge(file, {{"epochs", "9"}}, "run.st");
            }).find("trained with epochs 2"),
            std::string::npos);
  EXPECT_EQ(merge(file, {{"lr", "0.5"}, {"net", "mlp"}}, "run.st").lr, 0.5);
}

TEST(Fashion, SettingsSurviveTheFile) {
  Settings s = small("best");
  s.lr = 0.1234567890123456789;
  s.seed = ~std::uint64_t{0};
  Metadata m = to_texts(s);
  m["windrow.app"] = "fashion";
  EXPECT_EQ(to_texts(settings_of(m, "f")), to_texts(s));
  m["lr"] = "fast";
  EXPECT_EQ(error_of([&] { settings_of(m, "f"); }), "f: metadata: lr is 'fast'; expected a number from 1e-12 to 1000");
  m["windrow.app"] = "dqn";
  EXPECT_NE(error_of([&] { settings_of(m, "f"); }).find("windrow.app = dqn"), std::string::npos);
}

TEST(Pictures, PngIsReadBackAndRefusedWhenCut) {
  const Array x = digits().test.x.contiguous();
  const Picture picture = picture_of(x.data<std::uint8_t>(), kSide, kSide);
  const std::string png = encode_png(picture), file = temporary("picture");
  const auto write = [&](const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; };
  write(png);
  EXPECT_EQ(read_pictures(file).at(0).grey, picture.grey);
  for (std::size_t size = 0; size < png.size(); size += 3) {
    write(png.substr(0, size));
    EXPECT_THROW(read_pictures(file).at(0), Error) << size;
  }
  for (std::size_t i = 0; i < png.size(); i += 2) {  // signature, sizes, checksums: one flipped bit is always noticed
    std::string bad = png;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    write(bad);
    EXPECT_THROW(read_pictures(file).at(0), Error) << i;
  }
}

TEST(Pictures, PgmAndResize) {
  const std::string file = temporary("pgm");
  std::ofstream(file) << "P2\n# two by two\n2 2\n100\n0 100 100 0\n";
  const Picture p = read_pictures(file).at(0);
  EXPECT_EQ(p.grey, (std::vector<std::uint8_t>{0, 255, 255, 0}));
  EXPECT_EQ(resized(p, 1, 1).grey, (std::vector<std::uint8_t>{128}));
  EXPECT_EQ(resized(resized(p, 28, 28), 2, 2).grey, p.grey);
  std::ofstream(file) << "P5 99999999 99999999 255\n";
  EXPECT_NE(error_of([&] { read_pictures(file).at(0); }).find("expected 1 to"), std::string::npos);
}

TEST(Pictures, ArraysOfOneOrSeveral) {
  const std::string file = temporary("pictures.npy");
  const Array two = digits().test.x.slice(0, 0, 2).contiguous();
  data::write_npy(file, two);
  ASSERT_EQ(read_pictures(file).size(), 2u);
  EXPECT_EQ(read_pictures(file)[1].grey, two.select(0, 1).to_vector<std::uint8_t>());
  data::write_npy(file, two.astype(DType::f32).expand_dims(3) / 255);
  ASSERT_EQ(read_pictures(file).size(), 2u);
  EXPECT_EQ(read_pictures(file)[1].grey, two.select(0, 1).to_vector<std::uint8_t>());
  data::write_npy(file, two.select(0, 0));
  EXPECT_EQ(read_pictures(file).size(), 1u);
  data::write_npy(file, Array::full({2, 2}, 256, DType::i32));
  EXPECT_NE(error_of([&] { read_pictures(file); }).find("a pixel is 256; expected 0 to 255"), std::string::npos);
  data::write_npy(file, Array::zeros({2}));
  EXPECT_NE(error_of([&] { read_pictures(file); }).find("is f32[2]; expected a picture"), std::string::npos);
}

TEST(Report, HoldsEverythingAndNothingFromOutside) {
  data::Split named = digits();
  named.train.classes = {"<zero>"};
  TrainingRun run(small("softmax"), named, 1);
  run.train({});
  const Evaluation e = run.test();
  const std::string html = report_html({run, e, {{"processor", "a & b"}}});
  for (const char* part :
       {"<svg", "&lt;zero&gt;", "data:image/png;base64,", "a &amp; b", "Dense(784, 10)", "region", "</html>"})
    EXPECT_NE(html.find(part), std::string::npos) << part;
  // "http:" may stand in the name of SVG's namespace, which nobody fetches.
  for (const char* part : {"<zero>", "<script", "src=\"http", "href=", "url(", "https:", "nan"})
    EXPECT_EQ(html.find(part), std::string::npos) << part;
}

#ifdef WINDROW_PROGRAM
void write_idx(const std::string& folder, const std::string& part, const data::Dataset& set) {
  const auto number = [](std::int64_t n) {
    return std::string{static_cast<char>(n >> 24), static_cast<char>(n >> 16), static_cast<char>(n >> 8),
                       static_cast<char>(n)};
  };
  const Array x = set.x.contiguous(), y = set.y.astype(DType::u8).contiguous();
  std::ofstream images(folder + "/" + part + "-images-idx3-ubyte", std::ios::binary);
  images << std::string("\0\0\x08\x03", 4) << number(set.count()) << number(kSide) << number(kSide);
  images.write(reinterpret_cast<const char*>(x.data<std::uint8_t>()), static_cast<std::streamsize>(x.bytes()));
  std::ofstream labels(folder + "/" + part + "-labels-idx1-ubyte", std::ios::binary);
  labels << std::string("\0\0\x08\x01", 4) << number(set.count());
  labels.write(reinterpret_cast<const char*>(y.data<std::uint8_t>()), static_cast<std::streamsize>(y.bytes()));
}

/// Starts the program with its output in a pipe.
pid_t start(const std::vector<std::string>& arguments, int& output) {
  int ends[2];
  if (pipe(ends) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    std::signal(SIGINT, SIG_DFL);  // where the tests are a background job of a shell, it is ignored
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    std::vector<char*> list{const_cast<char*>(WINDROW_PROGRAM)};                   // NOLINT
    for (const auto& a : arguments) list.push_back(const_cast<char*>(a.c_str()));  // NOLINT
    list.push_back(nullptr);
    execv(WINDROW_PROGRAM, list.data());
    _exit(127);
  }
  close(ends[1]);
  output = ends[0];
  return child;
}

/// A folder with the digits in MNIST's four files.
std::string digits_folder() {
  const std::string folder = temporary("data");
  std::filesystem::create_directories(folder);
  write_idx(folder, "train", digits().train);
  write_idx(folder, "t10k", digits().test);
  return folder;
}

TEST(Program, MistakesOfItsUserAreNamed) {
  const std::string folder = digits_folder(), model = temporary("model.safetensors");
  const std::string train = "train fashion --net softmax --epochs 1 --threads 1 --data " + folder;
  const Said trained = run_program(train + " --save " + model);
  ASSERT_EQ(trained.code, 0) << trained.error;
  const std::string cut = temporary("cut.safetensors"), other = temporary("other.safetensors");
  std::filesystem::copy_file(model, cut, std::filesystem::copy_options::overwrite_existing);
  std::filesystem::resize_file(cut, std::filesystem::file_size(cut) - 1);
  write_safetensors(other, {{"w", Array::zeros({3})}});
  data::write_npy(temporary("line.npy"), Array::zeros({7}));
  const struct {
    std::string arguments;
    int code;
    std::vector<std::string> parts;
  } cases[] = {
      {"train fashion --threads 0", 2, {"--threads", "0"}},
      {"train fashion --epochz 3", 2, {"--epochz"}},
      {"train fashion --net foo", 2, {"'foo'", "cnn"}},
      {"train fashion --lr quick", 2, {"lr is 'quick'", "number"}},
      {"train fashion --data " + folder + "/none", 1, {folder + "/none", "train-images"}},
      {train + " --save /no/such/folder/x", 1, {"--save", "/no/such/folder"}},
      {train + " --resume " + folder + "/none", 1, {"none", "No such file"}},
      {train + " --resume " + cut, 1, {cut, "byte"}},
      {train + " --resume " + other, 1, {other}},
      {"train fashion --net mlp --resume " + model, 1, {"net", "softmax", "mlp"}},
      {"eval " + folder, 1, {folder, "not a regular file"}},
      {"eval " + cut, 1, {cut, "byte"}},
      {"eval " + other, 1, {other}},
      {"predict " + model + " " + model, 1, {"none of PGM"}},
      {"predict " + model + " " + temporary("line.npy"), 1, {"f32[7]", "[height, width]"}},
      {"predict " + model + " " + folder + "/none.png", 1, {"none.png", "No such file"}},
  };
  for (const auto& c : cases) {
    const Said said = run_program(c.arguments);
    EXPECT_EQ(said.code, c.code) << c.arguments << "\n" << said.error;
    for (const std::string& part : c.parts)
      EXPECT_NE(said.error.find(part), std::string::npos) << c.arguments << "\nsaid: " << said.error << "not: " << part;
    EXPECT_LE(std::count(said.error.begin(), said.error.end(), '\n'), 2) << c.arguments << "\n" << said.error;
  }
  const Said several = run_program("predict " + model + " --most 3 --json " + folder + "/t10k-images-idx3-ubyte");
  EXPECT_EQ(several.code, 0) << several.error;
  EXPECT_EQ(std::count(several.out.begin(), several.out.end(), '{'), 3) << several.out;
}

/// A limit on the size of files is what a full disk looks like to a program.
TEST(Program, AFullDiskLeavesTheOldCheckpoint) {
  const std::string folder = digits_folder(), model = temporary("full.safetensors");
  const std::string train = "train fashion --net softmax --threads 1 --data " + folder + " --save " + model;
  ASSERT_EQ(run_program(train + " --epochs 1").code, 0);
  const std::string before = read_safetensors_header(model).metadata.at("step");
  const Said said = run_program(train + " --epochs 2", {.before = "trap '' XFSZ; ulimit -f 8;"});
  const std::string text = said.out + said.error;
  EXPECT_EQ(said.code, 1) << text;
  EXPECT_NE(text.find("epoch 2/2"), std::string::npos) << "training goes on: " << text;
  EXPECT_NE(text.find(model), std::string::npos) << text;
  EXPECT_NE(text.find("File too large"), std::string::npos) << text;
  EXPECT_EQ(read_safetensors_header(model).metadata.at("step"), before);
  for (const auto& entry : std::filesystem::directory_iterator(std::filesystem::path(model).parent_path()))
    EXPECT_EQ(entry.path().string().find(model + "."), std::string::npos) << "left behind: " << entry.path();
}

TEST(TrainProgram, CtrlCSavesAndSaysHowToResume) {
  const std::string folder = digits_folder(), file = temporary("stopped.safetensors");
  int output = -1;
  const pid_t child =
      start({"train", "fashion", "--net", "mlp", "--epochs", "1000000", "--data", folder, "--save", file}, output);
  ASSERT_GT(child, 0);
  std::string text;
  bool asked = false;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(output, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<std::size_t>(n));
    if (!asked && text.find("epoch ") != std::string::npos && text.find("images/s") != std::string::npos) {
      kill(child, SIGINT);
      asked = true;
    }
  }
  close(output);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 130) << text;
  EXPECT_NE(text.find("windrow train fashion --resume " + file), std::string::npos) << text;
  EXPECT_GE(std::stoll(read_safetensors_header(file).metadata.at("step")), 1);
  EXPECT_EQ(load_trained(file, 1).settings.net, "mlp");
}
#endif

}  // namespace
}  // namespace wr::apps
