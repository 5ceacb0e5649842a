// windrow eval of classifiers, and predict: what a trained net says about a set of images, and about single pictures.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "apps/common/pictures.h"
#include "apps/fashion/fashion.h"
#include "base/json.h"
#include "cli/eval.h"
#include "cli/session.h"
#include "cli/train.h"
#include "windrow/error.h"
#include "windrow/text.h"

namespace wr::cli {
namespace {

using namespace wr::apps;

struct Given {
  std::string file;
  std::vector<std::string> pictures;
  int threads = 0, most = 16;
  bool json = false, invert = false;
};

double share(std::int64_t part, std::int64_t all) {
  return all > 0 ? static_cast<double>(part) / static_cast<double>(all) : 0;
}

Json confusion_json(const Evaluation& e) {
  Json rows = Json::list();
  for (const auto& row : e.confusion) rows.push_back(Json::list_of(row));
  return rows;
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
  const bool colour = colours();
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

}  // namespace

int evaluate_fashion(const EvalOptions& g) {
  Trained trained = load_trained(g.file, g.threads);
  const data::Split images = read_images(g.data.empty() ? trained.settings.data : g.data);
  const Evaluation e = trained.classifier.evaluate(images.test);
  if (g.json) {
    fmt::print("{}\n", Json{{"app", "fashion"},
                            {"test_accuracy", e.accuracy},
                            {"test_loss", e.loss},
                            {"images", images.test.count()},
                            {"confusion", confusion_json(e)}}
                           .dump());
    return 0;
  }
  const auto& classes = images.test.classes.empty() ? trained.classes : images.test.classes;
  fmt::print("{}: net {}, trained on {}\n{} test images of {}: loss {:.4f}, accuracy {:.2f} %\n",
             text::printable(g.file), trained.settings.net, trained.data_name, images.test.count(),
             text::printable(images.test.name), e.loss, 100 * e.accuracy);
  print_classes(e, classes);
  print_confusion(e, classes);
  return 0;
}

namespace {

/// A picture as the net sees it, and where it is from.
struct Asked {
  std::string name;
  Picture picture;
};

/// Of a file with several pictures at most so many; the name then says which.
void read_asked(const Given& g, const std::string& path, std::vector<Asked>& asked) {
  const std::vector<Picture> pictures = read_pictures(path);
  const std::size_t count = std::min(pictures.size(), static_cast<std::size_t>(g.most));
  for (std::size_t i = 0; i < count; ++i) {
    const Picture small = resized(pictures[i], kSide, kSide);
    asked.push_back(
        {pictures.size() == 1 ? path : fmt::format("{} [{}]", path, i), g.invert ? inverted(small) : small});
  }
  if (count < pictures.size() && !g.json)
    fmt::print("{}: the first {} of {} pictures; --most says how many\n", text::printable(path), count,
               pictures.size());
}

void print_answer(const Asked& asked, const std::array<float, kClasses>& p, const std::vector<std::string>& classes,
                  bool json) {
  std::array<std::size_t, kClasses> order{};
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p[a] > p[b]; });
  if (json) {
    const Json line{{"image", asked.name}, {"class", class_name(classes, order[0])}, {"probability", p[order[0]]}};
    fmt::print("{}\n", line.dump());
    return;
  }
  const auto lines = terminal_lines(asked.picture, colours() ? Shades::colour : Shades::letters);
  fmt::print("{}\n", text::printable(asked.name));
  for (std::size_t i = 0; i < lines.size(); ++i) {
    fmt::print("  {}", lines[i]);
    if (i < 3) fmt::print("  {:>6.2f} %  {}", 100 * p[order[i]], class_name(classes, order[i]));
    fmt::print("\n");
  }
}

int predict(const Given& g) {
  Trained trained = load_trained(g.file, g.threads);
  std::vector<Asked> asked;
  for (const std::string& path : g.pictures) read_asked(g, path, asked);
  const std::int64_t count = std::ssize(asked);
  data::Dataset set{Array::empty({count, kSide, kSide}, DType::u8), Array::zeros({count}, DType::i32)};
  std::uint8_t* to = set.x.mutable_data<std::uint8_t>();
  for (const Asked& a : asked) to = std::copy(a.picture.grey.begin(), a.picture.grey.end(), to);
  const Evaluation e = trained.classifier.evaluate(set);
  for (std::size_t i = 0; i < asked.size(); ++i) print_answer(asked[i], e.probabilities[i], trained.classes, g.json);
  return 0;
}

}  // namespace

void add_predict(Command program) {
  auto c = program.add("predict", "Say what pictures show: PGM, PNG (8 bits, not interlaced), NPY or IDX");
  auto g = std::make_shared<Given>();
  c.option("file", g->file, "Checkpoint of windrow train fashion").type("FILE").required();
  c.option("image", g->pictures, "Pictures; those that are not 28x28 are scaled").type("FILE").required();
  c.flag("--invert", g->invert, "Black is white: for dark things on a light ground");
  c.option("--most", g->most, "Pictures of a file that holds several").range(1, 1000000).show_default();
  c.flag("--json", g->json, "One JSON object a picture");
  c.option("--threads", g->threads, "Threads").range(1, 1024);
  c.does([g] { return predict(*g); });
}

}  // namespace wr::cli
