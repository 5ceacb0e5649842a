// windrow eval and predict: what a trained net says about a set of images, and about single pictures.
#include <fmt/format.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <numeric>

#include "apps/fashion.h"
#include "apps/pictures.h"
#include "cli/train.h"
#include "windrow/error.h"

namespace wr::cli {
namespace {

using namespace wr::apps;

struct Given {
  std::string file, data;
  std::vector<std::string> pictures;
  int threads = 0;
  bool json = false, invert = false;
};

double share(std::int64_t part, std::int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

void print_classes(const Evaluation& e, const std::vector<std::string>& classes) {
  fmt::print("\n{:<12}{:>8}{:>12}{:>10}\n", "class", "images", "precision", "recall");
  for (std::size_t c = 0; c < kClasses; ++c) {
    std::int64_t images = 0, said = 0;
    for (std::size_t k = 0; k < kClasses; ++k) {
      images += e.confusion[c][k];
      said += e.confusion[k][c];
    }
    fmt::print("{:<12}{:>8}{:>10.2f} %{:>8.2f} %\n", class_name(classes, c), images,
               100 * share(e.confusion[c][c], said), 100 * share(e.confusion[c][c], images));
  }
}

void print_confusion(const Evaluation& e, const std::vector<std::string>& classes) {
  const bool colour = isatty(STDOUT_FILENO) != 0;
  fmt::print("\nrows: what the image is; columns: what the net said\n{:<12}", "");
  for (std::size_t c = 0; c < kClasses; ++c) fmt::print("{:>9.8}", class_name(classes, c));
  fmt::print("\n");
  for (std::size_t row = 0; row < kClasses; ++row) {
    const auto& counts = e.confusion[row];
    const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    fmt::print("{:<12}", class_name(classes, row));
    for (std::size_t c = 0; c < kClasses; ++c) {
      const std::string text = counts[c] ? fmt::format("{:>9}", counts[c]) : fmt::format("{:>9}", "·");
      const bool strong = colour && (c == row || share(counts[c], total) >= 0.05);
      fmt::print("{}{}{}", strong ? (c == row ? "\x1b[32m" : "\x1b[31m") : "", text, strong ? "\x1b[0m" : "");
    }
    fmt::print("\n");
  }
}

int evaluate(const Given& g) {
  Trained trained = load_trained(g.file, g.threads);
  const data::Split images = read_images(g.data.empty() ? trained.settings.data : g.data);
  const Evaluation e = trained.classifier.evaluate(images.test);
  if (g.json) {
    fmt::print("{{\"test_accuracy\":{},\"test_loss\":{},\"images\":{}}}\n", e.accuracy, e.loss, images.test.count());
    return 0;
  }
  const auto& classes = images.test.classes.empty() ? trained.classes : images.test.classes;
  fmt::print("{}: net {}, trained on {}\n{} test images of {}: loss {:.4f}, accuracy {:.2f} %\n", g.file,
             trained.settings.net, trained.data_name, images.test.count(), images.test.name, e.loss, 100 * e.accuracy);
  print_classes(e, classes);
  print_confusion(e, classes);
  return 0;
}

void print_answer(const std::string& path, const Picture& picture, const std::array<float, kClasses>& p,
                  const std::vector<std::string>& classes) {
  std::array<std::size_t, kClasses> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  const auto lines = terminal_lines(picture, isatty(STDOUT_FILENO) ? Shades::colour : Shades::letters);
  fmt::print("{}\n", path);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    fmt::print("  {}", lines[i]);
    if (i < 3) fmt::print("  {:>6.2f} %  {}", 100 * p[order[i]], class_name(classes, order[i]));
    fmt::print("\n");
  }
}

int predict(const Given& g) {
  Trained trained = load_trained(g.file, g.threads);
  const auto count = static_cast<std::int64_t>(g.pictures.size());
  data::Dataset set{Array::empty({count, kSide, kSide}, DType::u8), Array::zeros({count}, DType::i32)};
  std::vector<Picture> pictures;
  for (const std::string& path : g.pictures) {
    const Picture small = resized(read_picture(path), kSide, kSide);
    pictures.push_back(g.invert ? inverted(small) : small);
  }
  std::uint8_t* to = set.x.mutable_data<std::uint8_t>();
  for (const Picture& p : pictures) to = std::copy(p.grey.begin(), p.grey.end(), to);
  const Evaluation e = trained.classifier.evaluate(set);
  for (std::size_t i = 0; i < pictures.size(); ++i)
    print_answer(g.pictures[i], pictures[i], e.probabilities[i], trained.classes);
  return 0;
}

}  // namespace

void add_eval(CLI::App& app, int& exit_code) {
  auto* c = app.add_subcommand("eval", "Test a trained net: loss, accuracy, a table of classes, the confusion matrix");
  auto g = std::make_shared<Given>();
  c->add_option("file", g->file, "Checkpoint of windrow train fashion");
  c->add_option("--data", g->data, "Folder with MNIST's four files (default: what the net was trained on)")
      ->type_name("DIR");
  c->add_option("--threads", g->threads, "Threads")->check(CLI::Range(1, 1024));
  c->add_flag("--json", g->json, "One JSON object");
  c->callback([c, g, &exit_code] {
    if (!c->get_subcommands().empty()) return;  // eval cube FILE
    if (g->file.empty()) throw CLI::RequiredError("file");
    exit_code = evaluate(*g);
  });
}

void add_predict(CLI::App& app, int& exit_code) {
  auto* c = app.add_subcommand("predict", "Say what pictures show: PGM, PNG (8 bits, not interlaced) or NPY");
  auto g = std::make_shared<Given>();
  c->add_option("file", g->file, "Checkpoint of windrow train")->required();
  c->add_option("image", g->pictures, "Pictures; those that are not 28x28 are scaled")->required();
  c->add_flag("--invert", g->invert, "Black is white: for dark things on a light ground");
  c->add_option("--threads", g->threads, "Threads")->check(CLI::Range(1, 1024));
  c->callback([g, &exit_code] { exit_code = predict(*g); });
}

}  // namespace wr::cli
