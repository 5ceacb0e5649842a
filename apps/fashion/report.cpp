#include "apps/fashion/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/common/curves.h"
#include "apps/common/page.h"
#include "apps/common/pictures.h"
#include "apps/common/times.h"
#include "apps/fashion/progress.h"
#include "windrow/files.h"

namespace wr::apps {
namespace {

constexpr std::size_t kMistakesShown = 40;

std::string head(const Report& r) {
  const Settings& s = r.run.settings();
  const std::string title = fmt::format("{} on {}", s.net, r.run.images().train.name);
  std::string out = page_head(title);
  double rate = 0;
  for (const Epoch& e : r.run.history()) rate += e.rate / static_cast<double>(r.run.history().size());
  out += "<div class=\"facts\">\n";
  out += fact(fmt::format("{:.2f} %", 100 * r.test.accuracy), "test accuracy");
  out += fact(fmt::format("{:.4f}", r.test.loss), "test loss");
  out += fact(duration_text(r.run.seconds()), "training time");
  out += fact(fmt::format("{:.1f} k", rate / 1000), "images a second");
  out += fact(std::to_string(r.run.history().size()), "epochs");
  return out + "</div>\n";
}

std::string curves(const Report& r) {
  Curve loss{"training", {}}, accuracy{"training", {}}, validation_loss{"validation", {}}, validation{"validation", {}};
  for (const Epoch& e : r.run.history()) {
    loss.values.push_back(e.loss);
    accuracy.values.push_back(100 * e.accuracy);
    if (e.validation_loss) validation_loss.values.push_back(*e.validation_loss);
    if (e.validation_accuracy) validation.values.push_back(100 * *e.validation_accuracy);
  }
  std::string note;
  if (r.run.settings().smoothing > 0 || r.run.settings().shift > 0 || r.run.settings().flip)
    note =
        "<p class=\"note\">Training figures are of changed images, smoothed labels or a net with dropout; validation "
        "figures are of plain ones. That is why training can look worse.</p>\n";
  return fmt::format(
      "<h2>Learning</h2>\n<div class=\"two\">\n<figure style=\"margin:0\">{}<figcaption>loss</figcaption></figure>\n"
      "<figure style=\"margin:0\">{}<figcaption>accuracy, %</figcaption></figure>\n</div>\n{}",
      chart({loss, validation_loss}), chart({accuracy, validation}), note);
}

double share(std::int64_t part, std::int64_t all) {
  return static_cast<double>(part) / static_cast<double>(std::max<std::int64_t>(1, all));
}

/// The confusions that make up most of the mistakes, in words.
std::string commonest(const Report& r) {
  struct Pair {
    std::size_t label, answer;
    std::int64_t count;
  };
  std::vector<Pair> pairs;
  for (std::size_t label = 0; label < kClasses; ++label)
    for (std::size_t answer = 0; answer < kClasses; ++answer)
      if (label != answer && r.test.confusion[label][answer] > 0)
        pairs.push_back({label, answer, r.test.confusion[label][answer]});
  if (pairs.empty()) return "";
  std::stable_sort(pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.count > b.count; });
  pairs.resize(std::min<std::size_t>(3, pairs.size()));
  const auto& classes = r.run.images().train.classes;
  std::vector<std::string> words;
  for (const Pair& p : pairs)
    words.push_back(fmt::format("{} for {} ({})", escape(class_name(classes, p.label)),
                                escape(class_name(classes, p.answer)), p.count));
  return fmt::format(" Taken for another most often: {}.", fmt::join(words, ", "));
}

std::string confusion(const Report& r) {
  const auto& classes = r.run.images().train.classes;
  std::string out = fmt::format(
      "<h2>Confusion</h2>\n<p class=\"note\">Rows: what the test image is. Columns: what the net said.{}</p>\n"
      "<div class=\"wide\"><table class=\"matrix\">\n<thead><tr><th></th>",
      commonest(r));
  for (std::size_t c = 0; c < kClasses; ++c) out += fmt::format("<th>{}</th>", escape(class_name(classes, c)));
  out += "<th>recall</th></tr></thead>\n<tbody>\n";
  for (std::size_t row = 0; row < kClasses; ++row) {
    const auto& counts = r.test.confusion[row];
    const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    out += fmt::format("<tr><th>{}</th>", escape(class_name(classes, row)));
    for (std::size_t c = 0; c < kClasses; ++c) {
      const double part = share(counts[c], total);
      // Few mistakes must show: the shade grows with the root of the share.
      out +=
          fmt::format("<td{} style=\"background:rgba({},{:.2f})\">{}</td>", counts[c] == 0 ? " class=\"zero\"" : "",
                      c == row ? "31,111,235" : "217,72,15", c == row ? 0.65 * part : 0.9 * std::sqrt(part), counts[c]);
    }
    out += fmt::format("<td>{:.1f} %</td></tr>\n", 100 * share(counts[row], total));
  }
  out += "<tr><th>precision</th>";
  for (std::size_t c = 0; c < kClasses; ++c) {
    std::int64_t said = 0;
    for (const auto& counts : r.test.confusion) said += counts[c];
    out += fmt::format("<td>{:.1f} %</td>", 100 * share(r.test.confusion[c][c], said));
  }
  return out + "<td></td></tr>\n</tbody></table></div>\n";
}

struct Mistake {
  std::size_t image, label, answer;
  float sure;
};

std::vector<Mistake> find_mistakes(const Report& r) {
  const Array labels = r.run.images().test.y.contiguous();
  std::vector<Mistake> all;
  for (std::size_t i = 0; i < r.test.probabilities.size(); ++i) {
    const auto& p = r.test.probabilities[i];
    const auto answer = static_cast<std::size_t>(std::max_element(p.begin(), p.end()) - p.begin());
    const auto label = static_cast<std::size_t>(labels.data<std::int32_t>()[i]);
    if (answer != label) all.push_back({i, label, answer, p[answer]});
  }
  std::stable_sort(all.begin(), all.end(), [](const Mistake& a, const Mistake& b) { return a.sure > b.sure; });
  return all;
}

std::string mistakes(const Report& r) {
  const auto all = find_mistakes(r);
  const auto& classes = r.run.images().train.classes;
  const Array pixels = r.run.images().test.x.contiguous();
  std::string out = fmt::format(
      "<h2>Mistakes</h2>\n<p class=\"note\">{} of {} test images. These are the ones the net was surest of.</p>\n"
      "<div class=\"mistakes\">\n",
      all.size(), r.test.probabilities.size());
  for (std::size_t i = 0; i < std::min(kMistakesShown, all.size()); ++i) {
    const Mistake& m = all[i];
    const Picture picture = picture_of(pixels.data<std::uint8_t>() + m.image * kSide * kSide, kSide, kSide);
    const std::string label = escape(class_name(classes, m.label)), answer = escape(class_name(classes, m.answer));
    out += fmt::format(
        "<figure><img alt=\"test image {}\" src=\"data:image/png;base64,{}\">is {}<br>said <b>{}</b> "
        "({:.0f}&nbsp;%)</figure>\n",
        m.image, base64(encode_png(picture)), label, answer, 100 * m.sure);
  }
  return out + "</div>\n";
}

std::string layers(const Report& r) {
  const nn::Summary s = nn::summary(r.run.net(), f32(1, kSide, kSide, 1));
  std::string out =
      "<h2>Net</h2>\n<div class=\"wide\"><table "
      "class=\"layers\">\n<thead><tr><th>layer</th><th>kind</th><th>output</th><th>parameters</th>"
      "<th>kFLOP an image</th></tr></thead>\n<tbody>\n";
  const auto row = [&](const nn::Summary::Row& l, const std::string& name) {
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td></tr>\n", escape(name),
                       escape(l.kind), escape(to_string(l.output)), l.parameters, l.flops / 1e3);
  };
  for (const auto& l : s.rows) row(l, l.path);
  row(s.total, "total");
  return out + "</tbody></table></div>\n";
}

std::string details(const Report& r) {
  std::vector<std::pair<std::string, std::string>> settings;
  for (const auto& [name, text] : to_texts(r.run.settings()))
    settings.emplace_back(name, text.empty() ? "default" : text);
  return fmt::format(
      "<div class=\"two\">\n<div><h2>Settings</h2>\n{}</div>\n<div><h2>Machine</h2>\n{}</div>\n</div>\n"
      "<h2>Plan</h2>\n<details><summary>what a training step does, region by "
      "region</summary>\n<pre>{}</pre></details>\n",
      table(settings), table(r.machine), escape(r.run.step().describe()));
}

}  // namespace

std::string report_html(const Report& report) {
  return head(report) + curves(report) + confusion(report) + mistakes(report) + layers(report) + details(report) +
         "</body>\n</html>\n";
}

void write_report(const std::string& path, const Report& report) { write_file(path, report_html(report)); }

}  // namespace wr::apps
