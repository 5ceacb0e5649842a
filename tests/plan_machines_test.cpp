// Plans for machines that are given, whatever this one is: what a plan must not do holds on each of them.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/machine.h"
#include "step/inside.h"
#include "support/graphs.h"
#include "support/machines.h"
#include "temporary_files.h"
#include "windrow/transformer.h"
#include "windrow/windrow.h"

namespace wr {
namespace {

class PlanFor : public testing::TestWithParam<std::string> {
 protected:
  CompileOptions options(int lanes = 0) const {
    CompileOptions o;
    o.lanes = lanes;
    o.machine = GetParam();
    return o;
  }
  Machine machine() const { return machine_named(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Machines, PlanFor, testing::ValuesIn(test::machine_names()),
                         [](const auto& info) { return info.param; });

double bytes_of(const Spec& spec) {
  return static_cast<double>(spec.shape.count()) * static_cast<double>(size_of(spec.dtype));
}

/// What the caller's thread copies after the last phase.
double committed_bytes(const Step::Inside& step) {
  double bytes = 0;
  for (const auto& c : step.schedule.commits) bytes += bytes_of((*step.schedule.graph)[c.node].spec);
  return bytes;
}

/// Two tables of 10,000 rows, of which a step reads 512 each.
struct Recommender {
  nn::Embedding users{10000, 32}, items{10000, 32};
  nn::Sequential net{nn::Dense(64, 64), nn::Relu(), nn::Dense(64, 1)};
  optim::Adam adam;
  Step step(const CompileOptions& options) {
    return compile(
        options,
        [&](Tensor user, Tensor item, Tensor y) {
          const Tensor u = users(user), i = items(item);
          const Tensor logits = sum(u * i, 1) + reshape(net(concat({u, i}, 1)), {512});
          const Tensor loss = loss::binary_cross_entropy(logits, y);
          auto parameters = users.parameters();
          for (const auto& list : {items.parameters(), net.parameters()})
            parameters.insert(parameters.end(), list.begin(), list.end());
          adam.minimize(loss, parameters);
          return loss;
        },
        i32(512), i32(512), f32(512));
  }
};

/// A loss over all positions of all samples as one list of rows does not end the strips of the samples.
TEST_P(PlanFor, ALossOfRowsThatWereReshapedGoesAlongWithTheNet) {
  const std::int64_t b = 8, t = 16, classes = 20;
  const nn::Dense net(32, classes);
  optim::Adam adam;
  const auto step = compile(
      options(2),
      [&](Tensor x, Tensor y) {
        const Tensor logits = reshape(net(x), {b * t, classes});
        const Tensor loss = loss::cross_entropy(logits, reshape(y, {b * t}));
        adam.minimize(loss, net.parameters());
        return loss;
      },
      f32(b, t, 32), i32(b, t));
  EXPECT_LE(step.facts().phases, 2) << step.describe();
}

/// Every product of a strip goes through its weights again, and through their gradients twice: a sample alone is too
/// short for weights of this size, though its values would be nearer.
TEST(PlanForZen3, StripsAreLongEnoughForTheirWeights) {
  nn::Sequential net;
  for (int layer = 0; layer < 4; ++layer) net.add(nn::TransformerEncoderLayer(192, 6));
  optim::Adam adam;
  CompileOptions options;
  options.machine = "zen3";
  options.lanes = 2;
  const Step step = compile(
      options,
      [&](Tensor x, Tensor y) {
        const Tensor loss = loss::mse(net(x), y);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      f32(4, 128, 192), f32(4, 128, 192));
  const plan::Region& first = step.inside().schedule.phases[0].regions[0];
  EXPECT_EQ(first.extent, 4) << step.describe();
  EXPECT_EQ(first.strip, 2) << step.describe();
}

TEST_P(PlanFor, TablesAreUpdatedByRowsNotByColumns) {
  Recommender model;
  const Step step = model.step(options());
  const plan::Schedule& s = const_cast<Step&>(step).inside().schedule;
  int updates = 0;
  for (std::size_t id = 0; id < s.place.size(); ++id) {
    const auto& shape = (*s.graph)[static_cast<int>(id)].spec.shape;
    if (s.place[id].home != plan::Home::state || shape.count() != 320000) continue;
    ++updates;
    const plan::Cut cut = s.place[id].cut;
    EXPECT_TRUE(cut.is_flat() || (cut.is_along() && cut.axis() == 0)) << step.describe();
  }
  EXPECT_EQ(updates, 6);  // two tables, each with two moments, all written where they stand
}

TEST_P(PlanFor, NothingLargeIsCopiedByOneThread) {
  {
    Recommender model;
    Step step = model.step(options());
    EXPECT_LT(committed_bytes(step.inside()), 4096) << step.describe();
  }
  nn::Sequential net{nn::Dense(2048, 2048), nn::Relu(), nn::Dense(2048, 2048), nn::Relu(), nn::Dense(2048, 10)};
  optim::Adam adam;
  Step step = compile(
      options(),
      [&](Tensor x, Tensor y) {
        const Tensor loss = loss::cross_entropy(net(x), y);
        adam.minimize(loss, net.parameters());
        return loss;
      },
      f32(32, 2048), i32(32));
  EXPECT_LT(committed_bytes(step.inside()), 4096) << step.describe();
}

TEST_P(PlanFor, StripsOfPicturesStayNear) {
  const State w0(Array::ones({3, 3, 1, 32}), "w0"), w1(Array::ones({3, 3, 32, 32}), "w1");
  Step step = compile(
      options(2),
      [&](Tensor x) {
        const Tensor a = relu(test::by_patches(x, w0)), b = test::by_patches(a - mean(a, {0, 1, 2}, Keep::yes), w1);
        return mean(square(b - mean(b, {0, 1, 2}, Keep::yes)));
      },
      f32(64, 28, 28, 1));
  // A picture's patches are 0.7 MB: where not even one stays near, two may share the calls.
  const auto most = std::max<std::int64_t>(2, machine().l2 / 700'000);
  for (const auto& phase : step.inside().schedule.phases)
    for (const auto& region : phase.regions)
      for (const auto& m : region.members) {
        const ir::Node& n = (*step.inside().schedule.graph)[m.node];
        if (n.op == ir::Op::unfold && n.spec.shape.count() > 1'000'000) {
          EXPECT_LE(region.strip, most) << step.describe();
        }
      }
}

TEST_P(PlanFor, IsNeverEstimatedSlowerThanOneOpAfterTheOther) {
  Recommender model;
  Step step = model.step(options());
  const ir::Graph& graph = *step.inside().graph;
  const auto all = plan::schedules(graph, {machine(), 0}, 1000);
  const auto plain = std::find_if(
      all.begin(), all.end(), [](const auto& s) { return s.form.find("one op after the other") != std::string::npos; });
  ASSERT_NE(plain, all.end());
  EXPECT_LE(step.inside().schedule.estimate_ns, plain->estimate_ns);
  EXPECT_EQ(all.front().form, step.inside().schedule.form);
}

TEST_P(PlanFor, SaysWhatItIsFor) {
  Recommender model;
  EXPECT_NE(model.step(options()).describe().find("planned for " + GetParam() + ": "), std::string::npos);
}

// ---- plans chosen by measuring ----

class TunedPlan : public testing::Test {
 protected:
  void SetUp() override { setenv("WINDROW_CACHE_DIR", (folder_ / ".").c_str(), 1); }
  void TearDown() override { unsetenv("WINDROW_CACHE_DIR"); }

  Step step() {
    CompileOptions options;
    options.machine = "zen3";
    options.tune = true;
    return compile(
        options,
        [&](Tensor x) {
          const Tensor loss = mean(square(matmul(x, w_)));
          sgd_.minimize(loss, {w_});
          return loss;
        },
        f32(64, 32));
  }
  std::string plans() const { return folder_ / "plans"; }

  TemporaryFolder folder_;
  State w_{Array::ones({32, 32}), "w"};
  optim::Sgd sgd_{{.lr = 0.1}};
};

TEST_F(TunedPlan, LeavesStatesAlone) {
  Step s = step();
  EXPECT_EQ(w_.value().at<float>({0, 0}), 1.0f);
  EXPECT_FLOAT_EQ(s(Array::ones({64, 32})), 1024.0f);
  EXPECT_NE(w_.value().at<float>({0, 0}), 1.0f);
}

TEST_F(TunedPlan, IsRememberedByGraph) {
  const std::string first = step().inside().schedule.form;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(plans())) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(read_text(files[0].string()), first);
  // Another of the candidates, put there by hand, is taken at its word.
  const auto list = plan::schedules(*step().inside().graph, {machine_named("zen3"), 0}, 4);
  for (const auto& s : list) {
    write_text(files[0].string(), s.form);
    EXPECT_EQ(step().inside().schedule.form, s.form);
  }
}

TEST_F(TunedPlan, NonsenseIsTimedAgain) {
  step();
  const auto file = std::filesystem::directory_iterator(plans())->path().string();
  for (const std::string& text : {std::string("cut it somehow"), std::string(100'000, 'x'), std::string()}) {
    write_text(file, text);
    const std::string form = step().inside().schedule.form;
    EXPECT_EQ(read_text(file), form);
  }
}

TEST_F(TunedPlan, AFolderThatCannotBeWrittenIsNoError) {
  setenv("WINDROW_CACHE_DIR", "/proc/nowhere", 1);
  EXPECT_FLOAT_EQ(step()(Array::ones({64, 32})), 1024.0f);
}

}  // namespace
}  // namespace wr
