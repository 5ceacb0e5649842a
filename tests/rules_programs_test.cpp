// The programs of examples/rules, each against the same computation written by hand in double.
#include <algorithm>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <limits>

#include "temporary_files.h"
#include "windrow/rules.h"

namespace wr::rules {
namespace {

constexpr double kNear = 1e-6;

/// A program of examples/rules, and its tensors as numbers.
class Example {
 public:
  explicit Example(const std::string& name)
      : program(Program::parse_file(
            (std::filesystem::path(WINDROW_TEST_DATA).parent_path().parent_path() / "examples/rules" / name)
                .string())) {}
  /// A tensor's elements, in row-major order.
  std::vector<double> operator[](const std::string& name) const {
    return program.array(name).astype(DType::f64).to_vector<double>();
  }
  double scalar(const std::string& name) const { return (*this)[name][0]; }
  Program program;
};

double sig(double x) { return 1 / (1 + std::exp(-x)); }
std::size_t at(int i, int j, int n) { return static_cast<std::size_t>(i * n + j); }
std::size_t at(int i, int j, int k, int m, int n) { return static_cast<std::size_t>((i * m + j) * n + k); }
void expect_near(const std::vector<double>& found, const std::vector<double>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], kNear) << i;
}
void normalise(double* x, int n) {
  double total = 0;
  for (int i = 0; i < n; ++i) total += x[i];
  for (int i = 0; i < n; ++i) x[i] /= total;
}

TEST(RulesPrograms, Kinship) {
  const std::vector<Answers> answers = Example("01_kinship.wr").program.run();
  using Rows = std::vector<std::vector<std::string>>;
  EXPECT_EQ(answers[0].rows, Rows({{"Cora", "Dan"}}));
  EXPECT_EQ(answers[1].rows, Rows({{"Bob"}, {"Cora"}, {"Dan"}, {"Eve"}}));
  EXPECT_EQ(answers[2].rows, Rows({{"Cora"}, {"Eve"}}));
}

TEST(RulesPrograms, Perceptron) {
  const Example e("02_perceptron.wr");
  const auto w = e["W"];
  double total = 0;
  for (int i = 0; i < 4; ++i) total += w[i] * std::cos(i);
  EXPECT_NEAR(e.scalar("Soft"), sig(total / 0.5), kNear);
  EXPECT_EQ(e.scalar("Y"), total > 0 ? 1 : 0);
}

TEST(RulesPrograms, Mlp) {
  const Example e("03_mlp.wr");
  const auto w = e["W"];
  std::vector<double> x(20, 0.0);
  for (int j = 0; j < 5; ++j) x[at(0, j, 5)] = std::sin(1 + j);
  for (int i = 1; i < 4; ++i)
    for (int j = 0; j < 5; ++j) {
      double total = 0;
      for (int k = 0; k < 5; ++k) total += w[at(i, j, k, 5, 5)] * x[at(i - 1, k, 5)];
      x[at(i, j, 5)] = sig(total);
    }
  expect_near(e["X"], x);
}

TEST(RulesPrograms, Rnn) {
  const Example e("04_rnn.wr");
  const auto w = e["W"], v = e["V"];
  std::vector<double> h(4, 0.0);
  for (int t = 0; t < 6; ++t) {
    std::vector<double> next(4);
    for (int i = 0; i < 4; ++i) {
      double total = 0;
      for (int j = 0; j < 4; ++j) total += w[at(i, j, 4)] * h[j];
      for (int k = 0; k < 3; ++k) total += v[at(i, k, 3)] * std::sin(1 + k + 2 * t);
      next[i] = sig(total);
    }
    h = next;
  }
  expect_near(e["H"], h);
}

TEST(RulesPrograms, Convolution) {
  const Example e("05_convolution.wr");
  const auto f = e["Filter"];
  std::vector<double> expected(36);
  for (int x = 0; x < 6; ++x)
    for (int y = 0; y < 6; ++y) {
      double total = 0;
      for (int dx = 0; dx < 3 && x + dx < 6; ++dx)
        for (int dy = 0; dy < 3 && y + dy < 6; ++dy)
          for (int c = 0; c < 2; ++c) total += f[at(dx, dy, c, 3, 2)] * std::sin(x + dx + 2 * (y + dy) + 3 * c);
      expected[at(x, y, 6)] = std::max(0.0, total);
    }
  expect_near(e["Features"], expected);
}

TEST(RulesPrograms, Pooling) {
  const Example e("06_pooling.wr");
  std::vector<double> most(9, -10.0), total(9, 0.0), mean(9, 0.0);
  for (int x = 0; x < 6; ++x)
    for (int y = 0; y < 6; ++y) {
      const double f = std::cos(x * y + x);
      most[at(x / 2, y / 2, 3)] = std::max(most[at(x / 2, y / 2, 3)], f);
      total[at(x / 2, y / 2, 3)] += f;
      mean[at(x / 2, y / 2, 3)] += f / 4;
    }
  expect_near(e["Most"], most);
  expect_near(e["Mean"], mean);
  expect_near(e["Total"], total);
}

TEST(RulesPrograms, GraphNet) {
  const Example e("07_graph_net.wr");
  const auto wa = e["WAgg"], ws = e["WSelf"], wo = e["WOut"];
  double z[5][4], next[5][4];
  for (int n = 0; n < 5; ++n)
    for (int d = 0; d < 4; ++d) z[n][d] = std::sin(n + d);
  for (int l = 0; l < 2; ++l) {
    for (int n = 0; n < 5; ++n)
      for (int d = 0; d < 4; ++d) {
        double total = 0;
        for (int k = 0; k < 4; ++k)
          total += wa[at(l, d, k, 4, 4)] * (z[(n + 1) % 5][k] + z[(n + 4) % 5][k]) + ws[at(l, d, k, 4, 4)] * z[n][k];
        next[n][d] = std::max(0.0, total);
      }
    std::copy(&next[0][0], &next[0][0] + 20, &z[0][0]);
  }
  std::vector<double> y(5);
  for (int n = 0; n < 5; ++n) {
    double total = 0;
    for (int d = 0; d < 4; ++d) total += wo[d] * z[n][d];
    y[n] = sig(total);
  }
  expect_near(e["Y"], y);
}

void layer_norm(double* x, int n) {
  double mean = 0, variance = 0;
  for (int i = 0; i < n; ++i) mean += x[i] / n;
  for (int i = 0; i < n; ++i) variance += (x[i] - mean) * (x[i] - mean) / n;
  for (int i = 0; i < n; ++i) x[i] = (x[i] - mean) / std::sqrt(variance + 1e-5);
}

TEST(RulesPrograms, Transformer) {
  const Example e("08_transformer.wr");
  const auto emb = e["Emb"], wq = e["WQ"], wk = e["WK"], wv = e["WV"], ws = e["WS"], w1 = e["W1"], w2 = e["W2"],
             wo = e["WO"];
  constexpr int P = 5, D = 8, K = 4, H = 2, T = 7;
  const int tokens[P] = {3, 1, 4, 1, 5};
  double stream[P][D], mid[P][D], hidden[P][D];
  for (int p = 0; p < P; ++p)
    for (int d = 0; d < D; ++d) stream[p][d] = emb[at(tokens[p], d, D)] + std::sin(p / std::pow(100.0, d / 8.0));
  for (int b = 0; b < 2; ++b) {
    double attn[H][P][K];
    for (int h = 0; h < H; ++h) {
      double q[P][K] = {}, k[P][K] = {}, v[P][K] = {};
      for (int p = 0; p < P; ++p)
        for (int i = 0; i < K; ++i)
          for (int d = 0; d < D; ++d) {
            const auto w = static_cast<std::size_t>(((b * H + h) * K + i) * D + d);
            q[p][i] += wq[w] * stream[p][d];
            k[p][i] += wk[w] * stream[p][d];
            v[p][i] += wv[w] * stream[p][d];
          }
      for (int p = 0; p < P; ++p) {
        double weights[P];
        for (int o = 0; o < P; ++o) {
          double dot = 0;
          for (int i = 0; i < K; ++i) dot += q[p][i] * k[o][i];
          weights[o] = std::exp(dot / 2);
        }
        normalise(weights, P);
        for (int i = 0; i < K; ++i) {
          attn[h][p][i] = 0;
          for (int o = 0; o < P; ++o) attn[h][p][i] += weights[o] * v[o][i];
        }
      }
    }
    for (int p = 0; p < P; ++p) {
      for (int d = 0; d < D; ++d) {
        mid[p][d] = stream[p][d];
        for (int h = 0; h < H; ++h)
          for (int i = 0; i < K; ++i) mid[p][d] += ws[((b * D + d) * H + h) * K + i] * attn[h][p][i];
      }
      layer_norm(mid[p], D);
      for (int o = 0; o < D; ++o) {
        hidden[p][o] = 0;
        for (int d = 0; d < D; ++d) hidden[p][o] += w1[at(b, o, d, D, D)] * mid[p][d];
        hidden[p][o] = std::max(0.0, hidden[p][o]);
      }
      for (int d = 0; d < D; ++d) {
        stream[p][d] = mid[p][d];
        for (int o = 0; o < D; ++o) stream[p][d] += w2[at(b, d, o, D, D)] * hidden[p][o];
      }
      layer_norm(stream[p], D);
    }
  }
  std::vector<double> y(P * T);
  for (int p = 0; p < P; ++p) {
    for (int t = 0; t < T; ++t) {
      double dot = 0;
      for (int d = 0; d < D; ++d) dot += wo[at(t, d, D)] * stream[p][d];
      y[at(p, t, T)] = std::exp(dot);
    }
    normalise(&y[at(p, 0, T)], T);
  }
  expect_near(e["Y"], y);
}

TEST(RulesPrograms, KernelMachine) {
  const Example e("09_kernel_machine.wr");
  const auto a = e["A"];
  const double b = e.scalar("B");
  for (int q = 0; q < 2; ++q) {
    double poly = b, gauss = b;
    for (int i = 0; i < 6; ++i) {
      double dot = 0, distance = 0;
      for (int d = 0; d < 3; ++d) {
        const double t = std::cos(q + d), x = std::sin(i + 2 * d);
        dot += t * x;
        distance += (t - x) * (t - x);
      }
      const double weight = a[i] * (i < 3 ? -1 : 1);
      poly += weight * dot * dot;
      gauss += weight * std::exp(-distance / 2);
    }
    EXPECT_NEAR(e["YPoly"][q], sig(poly), kNear);
    EXPECT_NEAR(e["YGauss"][q], sig(gauss), kNear);
  }
}

TEST(RulesPrograms, BayesNet) {
  double joint[2] = {0, 0};
  for (int b = 0; b < 2; ++b)
    for (int q = 0; q < 2; ++q)
      for (int a = 0; a < 2; ++a) {
        const double alarm = 0.001 + 0.94 * b + 0.029 * q * (1 - b);
        joint[b] += (b ? 0.01 : 0.99) * (q ? 0.02 : 0.98) * (a ? alarm : 1 - alarm) * (0.05 + 0.85 * a);
      }
  normalise(joint, 2);
  expect_near(Example("10_graphical_models.wr")["Burglary"], {joint[0], joint[1]});
}

TEST(RulesPrograms, HiddenMarkovModel) {
  double init[3], trans[3][3], emit[3][2], likelihood = 0, viterbi = 0;
  for (int s = 0; s < 3; ++s) init[s] = 1 + s;
  normalise(init, 3);
  for (int r = 0; r < 3; ++r) {
    for (int s = 0; s < 3; ++s) trans[r][s] = 1 + (r == s ? 3 : 0) + s;
    normalise(trans[r], 3);
    for (int o = 0; o < 2; ++o) emit[r][o] = 1 + o * r;
    normalise(emit[r], 2);
  }
  for (int path = 0; path < 243; ++path) {  // all of them
    double p = 1;
    int rest = path, before = -1;
    for (int t = 0; t < 5; ++t, rest /= 3) {
      const int s = rest % 3;
      p *= (before < 0 ? init[s] : trans[before][s]) * emit[s][t < 3 ? 1 : 0];
      before = s;
    }
    likelihood += p;
    viterbi = std::max(viterbi, p);
  }
  const Example e("10_graphical_models.wr");
  EXPECT_NEAR(e.scalar("Likelihood"), likelihood, kNear * likelihood);
  EXPECT_NEAR(e.scalar("Viterbi"), viterbi, kNear * viterbi);
}

TEST(RulesPrograms, LoopyBeliefPropagation) {
  double message[4][4][2], next[4][4][2];
  std::fill(&message[0][0][0], &message[0][0][0] + 32, 0.5);
  const auto joined = [](int i, int j) { return (i + 1) % 4 == j || (j + 1) % 4 == i; };
  for (int t = 0; t < 40; ++t) {
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        for (int y = 0; y < 2; ++y) {
          next[i][j][y] = 0;
          for (int x = 0; x < 2; ++x) {
            double pre = 1 + x * i;
            for (int k = 0; k < 4; ++k)
              if (joined(k, i) && k != j) pre *= message[k][i][x];
            next[i][j][y] += (x == y ? 3 : 1) * pre;
          }
        }
        normalise(next[i][j], 2);
      }
    std::copy(&next[0][0][0], &next[0][0][0] + 32, &message[0][0][0]);
  }
  std::vector<double> belief(8);
  for (int i = 0; i < 4; ++i) {
    for (int x = 0; x < 2; ++x) {
      belief[at(i, x, 2)] = 1 + x * i;
      for (int k = 0; k < 4; ++k)
        if (joined(k, i)) belief[at(i, x, 2)] *= message[k][i][x];
    }
    normalise(&belief[at(i, 0, 2)], 2);
  }
  expect_near(Example("10_graphical_models.wr")["Belief"], belief);
}

TEST(RulesPrograms, Tucker) {
  Example e("11_tucker.wr");
  const auto core = e["Core"], m1 = e["M1"], m2 = e["M2"], m3 = e["M3"];
  std::vector<double> a(216, 0.0);
  for (int i = 0; i < 6; ++i)
    for (int j = 0; j < 6; ++j)
      for (int k = 0; k < 6; ++k)
        for (int p = 0; p < 3; ++p)
          for (int q = 0; q < 3; ++q)
            for (int r = 0; r < 3; ++r)
              a[at(i, j, k, 6, 6)] += core[at(p, q, r, 3, 3)] * m1[at(i, p, 3)] * m2[at(j, q, 3)] * m3[at(k, r, 3)];
  expect_near(e["A"], a);
  // And it learns: 4 tuples of 216 by a core of 27 numbers.
  const TrainReport report = e.program.train();
  EXPECT_LT(report.losses.back(), 0.5 * report.losses.front());
  EXPECT_LT(report.losses.back(), 4.0 / 216);
}

TEST(RulesPrograms, SetEmbedding) {
  const Example e("12_set_embedding.wr");
  const auto emb = e["Emb"];
  std::vector<double> member(8, 0.0);
  for (int x = 0; x < 8; ++x)
    for (int y : {1, 4, 6})
      for (int d = 0; d < 64; ++d) member[x] += emb[at(x, d, 64)] * emb[at(y, d, 64)];
  expect_near(e["Member"], member);
  for (int x = 0; x < 8; ++x) EXPECT_EQ(member[x] > 0.5, x == 1 || x == 4 || x == 6) << x;
}

TEST(RulesPrograms, EmbeddedRules) {
  const Example e("13_embedded_rules.wr");
  const auto emb = e["Emb"];
  const auto dot = [&](int x, int y) {
    double total = 0;
    for (int d = 0; d < 128; ++d) total += emb[at(x, d, 128)] * emb[at(y, d, 128)];
    return total;
  };
  std::vector<double> aunt(25, 0.0);  // Ann 0, Bob 1, Cora 2, Dan 3, Eve 4
  const int parents[2][2] = {{1, 3}, {0, 1}};
  for (int x = 0; x < 5; ++x)
    for (int y = 0; y < 5; ++y) {
      double total = 0;
      for (const auto& parent : parents) total += dot(x, 2) * dot(1, parent[0]) * dot(parent[1], y);
      aunt[at(x, y, 5)] = sig((total - 0.5) / 0.1);
    }
  expect_near(e["Aunt"], aunt);
  EXPECT_GT(aunt[at(2, 3, 5)], 0.5);  // Cora is Dan's aunt
}

TEST(RulesPrograms, Analogy) {
  Example e("14_analogy.wr");
  e.program.train();
  const auto emb = e["Emb"];
  std::vector<double> wild(5);
  for (int x = 0; x < 5; ++x) {
    double weights[5];
    for (int y = 0; y < 5; ++y) {
      double dot = 0;
      for (int d = 0; d < 6; ++d) dot += emb[at(x, d, 6)] * emb[at(y, d, 6)];
      weights[y] = std::exp(dot);
    }
    normalise(weights, 5);
    wild[x] = sig(weights[1] / 0.5);
  }
  expect_near(e["Wild"], wild);
  // Cat (0) shares its traits with Tiger; Rose (4) shares none.
  EXPECT_GT(wild[0], wild[4]);
}

TEST(RulesPrograms, EveryExampleFormatsToItself) {
  const auto folder = std::filesystem::path(WINDROW_TEST_DATA).parent_path().parent_path() / "examples/rules";
  int programs = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() != ".wr") continue;
    const std::string once = format_text(read_text(file.path().string()));
    EXPECT_EQ(format_text(once), once) << file.path();
    ++programs;
  }
  EXPECT_GE(programs, 14);
}

// ---- how long they take to compile ----

std::vector<std::filesystem::path> all_examples() {
  std::vector<std::filesystem::path> found;
  const auto folder = std::filesystem::path(WINDROW_TEST_DATA).parent_path().parent_path() / "examples/rules";
  for (const auto& file : std::filesystem::directory_iterator(folder))
    if (file.path().extension() == ".wr") found.push_back(file.path());
  std::sort(found.begin(), found.end());
  return found;
}

/// Reading, checking, compiling and running, of the processor: others may use it too. The best of three.
TEST(RulesProgramsTiming, AnswersInUnderAHundredMilliseconds) {
  const auto files = all_examples();
  ASSERT_GE(files.size(), 18U);
  for (const auto& file : files) {
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 3; ++round) {
      const std::clock_t start = std::clock();
      static_cast<void>(Program::parse_file(file.string()).run());
      best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
    }
    EXPECT_LT(best, 0.1) << file.filename();
    RecordProperty(file.stem().string(), std::to_string(best * 1e3) + " ms");
  }
}

/// The step of those that learn, with its gradients.
TEST(RulesProgramsTiming, StepsCompileInUnderAHundredMilliseconds) {
  int learning = 0;
  for (const auto& file : all_examples()) {
    if (read_text(file.string()).find("\n@minimize") == std::string::npos) continue;
    ++learning;
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < 3; ++round)
      best = std::min(best, Program::parse_file(file.string()).train({.steps = 1}).compile_seconds);
    EXPECT_LT(best, 0.1) << file.filename();
    EXPECT_GT(best, 0) << file.filename();
  }
  EXPECT_GE(learning, 6);
}

}  // namespace
}  // namespace wr::rules
