#include "apps/fashion/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "apps/common/pictures.h"
#include "windrow/files.h"
#include "windrow/report.h"
#include "windrow/text.h"

namespace wr::apps {
namespace {

constexpr std::size_t kMistakesShown = 40;

const char* const kStyle = R"(<style>
.matrix td{width:3.8rem;text-align:center;border:1px solid var(--back)}.matrix th{border:0}
.matrix thead th{text-align:center;white-space:nowrap}.matrix .zero{color:transparent}.layers :nth-child(2){text-align:left}
.mistakes{display:grid;grid-template-columns:repeat(auto-fill,minmax(7.2rem,1fr));gap:.8rem}
.mistakes figure{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:.5rem;font-size:.8rem}
.mistakes img{width:100%;image-rendering:pixelated;border-radius:4px;display:block;margin-bottom:.3rem}
.mistakes b{color:var(--b)}
</style>
)";

report::Texts facts(const Report& r) {
  double rate = 0;
  for (const Epoch& e : r.run.history()) rate += e.rate / static_cast<double>(r.run.history().size());
  return {{"test accuracy", fmt::format("{:.2f} %", 100 * r.test.accuracy)},
          {"test loss", fmt::format("{:.4f}", r.test.loss)},
          {"training time", text::duration(r.run.seconds())},
          {"images a second", fmt::format("{:.1f} k", rate / 1000)},
          {"epochs", std::to_string(r.run.history().size())}};
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
    words.push_back(fmt::format("{} for {} ({})", text::escape(class_name(classes, p.label)),
                                text::escape(class_name(classes, p.answer)), p.count));
  return fmt::format(" Taken for another most often: {}.", fmt::join(words, ", "));
}

std::string confusion(const Report& r) {
  const auto& classes = r.run.images().train.classes;
  std::string out = fmt::format(
      "<h2>Confusion</h2>\n<p class=\"note\">Rows: what the test image is. Columns: what the net said.{}</p>\n"
      "<div class=\"wide\"><table class=\"matrix\">\n<thead><tr><th></th>",
      commonest(r));
  for (std::size_t c = 0; c < kClasses; ++c) out += fmt::format("<th>{}</th>", text::escape(class_name(classes, c)));
  out += "<th>recall</th></tr></thead>\n<tbody>\n";
  for (std::size_t row = 0; row < kClasses; ++row) {
    const auto& counts = r.test.confusion[row];
    const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    out += fmt::format("<tr><th>{}</th>", text::escape(class_name(classes, row)));
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
    const std::string label = text::escape(class_name(classes, m.label)),
                      answer = text::escape(class_name(classes, m.answer));
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
    out += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1f}</td></tr>\n", text::escape(name),
                       text::escape(l.kind), text::escape(to_string(l.output)), l.parameters, l.flops / 1e3);
  };
  for (const auto& l : s.rows) row(l, l.path);
  row(s.total, "total");
  return out + "</tbody></table></div>\n";
}

void add_details(report::Page& page, const Report& r) {
  report::Texts settings;
  for (const auto& [name, text] : to_texts(r.run.settings()))
    settings.emplace_back(name, text.empty() ? "default" : text);
  page.html("<div class=\"two\">\n<div>").heading("Settings").table(settings);
  page.html("</div>\n<div>").heading("Machine").table(r.machine).html("</div>\n</div>\n");
  page.heading("Plan").folded("what a training step does, region by region", r.run.step().describe());
}

}  // namespace

std::string report_html(const Report& r) {
  const Settings& s = r.run.settings();
  report::Page page(fmt::format("{} on {}", s.net, r.run.images().train.name));
  page.html(kStyle).facts(facts(r)).heading("Learning").figures(report::curves(history_of(r.run.history()), "epoch"));
  if (s.smoothing > 0 || s.shift > 0 || s.flip)
    page.note(
        "Training figures are of changed images, smoothed labels or a net with dropout; validation figures are of "
        "plain ones. That is why training can look worse.");
  page.html(confusion(r)).html(mistakes(r)).html(layers(r));
  add_details(page, r);
  return page.text();
}

void write_report(const std::string& path, const Report& report) { write_file(path, report_html(report)); }

}  // namespace wr::apps
