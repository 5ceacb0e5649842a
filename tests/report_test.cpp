// Charts, progress, logs, pages: what users see of a training.
#include "windrow/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>

#include "report/axis.h"
#include "report/event_file.h"
#include "temporary_files.h"
#include "windrow/chart.h"
#include "windrow/error.h"
#include "windrow/files.h"

namespace wr {
namespace {

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

std::vector<std::string> texts(const chart::Axis& axis) {
  std::vector<std::string> all;
  for (const chart::Mark& m : axis.marks()) all.push_back(m.text);
  return all;
}

using Strings = std::vector<std::string>;

TEST(ChartAxis, MarksAreRoundAndAllInOneForm) {
  EXPECT_EQ(texts(chart::Axis({0, 1}, {}, 0, 1)), (Strings{"0", "0.5", "1.0"}));
  EXPECT_EQ(texts(chart::Axis({0.0712, 0.0731}, {}, 0, 1)),
            (Strings{"0.0710", "0.0715", "0.0720", "0.0725", "0.0730", "0.0735"}));
  EXPECT_EQ(texts(chart::Axis({10000, 10040}, {}, 0, 1)), (Strings{"10.00k", "10.01k", "10.02k", "10.03k", "10.04k"}));
  EXPECT_EQ(texts(chart::Axis({-2, 7}, {}, 0, 1)), (Strings{"-5", "0", "5", "10"}));
  EXPECT_EQ(texts(chart::Axis({0, 3e6}, {}, 0, 1)), (Strings{"0", "1M", "2M", "3M"}));
  EXPECT_EQ(texts(chart::Axis({1, 30}, {.whole = true, .ends = chart::Axis::Ends::at_data}, 0, 1)),
            (Strings{"10", "20", "30"}));
  EXPECT_EQ(texts(chart::Axis({0.001, 1}, {.logarithmic = true}, 0, 1)), (Strings{"0.001", "0.01", "0.1", "1"}));
  EXPECT_EQ(texts(chart::Axis({0.8, 2.7}, {.logarithmic = true}, 0, 1)), (Strings{"1.0", "1.5", "2.0", "2.5"}));
}

TEST(Axis, ShowsWhatIsHardToShow) {
  const double nan = std::nan("");
  for (const std::vector<double>& values :
       {std::vector<double>{}, {nan}, {5}, {0}, {1e300, -1e300}, {1e-300, 2e-300}, {7, 7 + 1e-15}, {-3, -3}})
    for (const bool logarithmic : {false, true}) {
      const chart::Axis axis(values, {.logarithmic = logarithmic}, 0, 100);
      EXPECT_LE(axis.marks().size(), 12u);
      for (const double v : values) EXPECT_TRUE(!axis.shows(v) || std::isfinite(axis.at(v))) << v;
    }
}

TEST(Axis, TextsDoNotOverlap) {
  std::vector<double> values{0, 1e6};
  chart::Axis axis(values, {.whole = true}, 0, 60);
  axis.thin_out();
  double end = -100;
  for (const chart::Mark& m : axis.marks()) {
    EXPECT_GT(axis.at(m.value) - chart::text_width(m.text) / 2, end);
    end = axis.at(m.value) + chart::text_width(m.text) / 2;
  }
}

TEST(Chart, EscapesAndSkipsWhatCannotBeDrawn) {
  chart::Lines lines;
  lines.title = "a < b & c";
  lines.log_y = true;
  lines.series = {{"one", {1, 2, 3}, {10, 0, 1000}}, {"none", {}, {}}};
  const std::string svg = chart::lines(lines);
  EXPECT_NE(svg.find("a &lt; b &amp; c"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg.find("inf"), std::string::npos);
  EXPECT_EQ(count(svg, "r=\"2.5\""), 2u) << "zero has no logarithm";
  EXPECT_EQ(chart::lines({}), "");
  EXPECT_EQ(chart::bars({}), "");
}

TEST(Chart, ValuesStandWhereTheMouseIs) {
  chart::Lines lines;
  lines.x_label = "epoch";
  lines.series = {{"training", {1, 2}, {0.5, 0.25}}, {"validation", {2}, {0.75}}};
  const std::string svg = chart::lines(lines);
  EXPECT_EQ(count(svg, "class=\"band\""), 2u);
  EXPECT_NE(svg.find("epoch 2"), std::string::npos);
  EXPECT_GE(count(svg, "validation 0.75"), 2u) << "at the end of the curve, and under the mouse";
}

TEST(Chart, AWholeNightsRunStaysASmallPictureAndKeepsItsPeaks) {
  chart::Series s{"loss", {}, {}};
  for (int i = 0; i < 100'000; ++i) {
    s.x.push_back(i);
    s.y.push_back(i == 54'321 ? 9 : 1);
  }
  chart::Lines lines;
  lines.series = {s};
  const std::string svg = chart::lines(lines);
  EXPECT_LT(svg.size(), 200'000u);
  const auto points = svg.find("points=\"");
  const double top = 30;  // where the highest mark, 10, stands; 9 is a tenth below it
  std::istringstream in(svg.substr(points + 8, svg.find('"', points + 8) - points - 8));
  double highest = 1e9, x = 0, y = 0;
  char comma = 0;
  while (in >> x >> comma >> y) highest = std::min(highest, y);
  EXPECT_LT(highest, top + 0.2 * 250);
}

TEST(Chart, WideNamesStandBelowAndInsideThePicture) {
  chart::Lines lines;
  const std::string name(60, 'n');
  for (int i = 0; i < 3; ++i) lines.series.push_back({name + std::to_string(i), {0, 1}, {0, 1.0 * i}});
  const std::string svg = chart::lines(lines);
  for (auto at = svg.find("<text x=\""); at != std::string::npos; at = svg.find("<text x=\"", at + 1)) {
    const std::size_t y = svg.find("y=\"", at);
    EXPECT_LT(std::stod(svg.substr(at + 9)), lines.width);
    EXPECT_LT(std::stod(svg.substr(y + 3)), lines.height);
  }
}

TEST(Chart, BarsAreAsHighAsTheirValues) {
  chart::Bars bars;
  bars.groups = {"g"};
  bars.kinds = {"a", "b"};
  bars.values = {{1, 2}};
  const std::string svg = chart::bars(bars);
  std::vector<double> heights;
  const std::string drawn = svg.substr(0, svg.find("class=\"at\""));
  for (auto at = drawn.rfind("<rect", drawn.size()); heights.size() < 2; at = drawn.rfind("<rect", at - 1))
    heights.push_back(std::stod(drawn.substr(drawn.find("height=\"", at) + 8)));
  EXPECT_NEAR(heights[0] / heights[1], 2, 0.02);
}

}  // namespace

namespace report {
namespace {

TEST(ProgressLine, FitsTheTerminal) {
  const Moment m{.done = 50, .total = 100, .rate = 1234.5, .values = {{"loss", 0.25}}, .seconds_left = 61};
  const std::string wide = progress_line(m, 120);
  EXPECT_NE(wide.find("━━━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌╌╌ 50/100"), std::string::npos) << wide;
  EXPECT_NE(wide.find("1234 steps/s  loss 0.25  1:01 left"), std::string::npos) << wide;
  EXPECT_EQ(progress_line(m, 0), "step 50/100  1234 steps/s  loss 0.25  1:01 left");
  EXPECT_EQ(progress_line(m, 20).size(), 19u);
  EXPECT_EQ(progress_line({.done = 7, .note = "a\x1b[31mb"}, 0), "step 7  a?[31mb");
  EXPECT_EQ(progress_line({.done = 7, .total = 9, .seconds_left = 5, .at_most = true}, 0),
            "step 7/9  at most 0:05 left");
}

const std::vector<Point> kPoints{{1, 0.5, {{"loss", 0.75}, {"validation loss", 1.5}}},
                                 {20, 1.25, {{"loss", 0.5}}},
                                 {30, 2, {{"loss", 0.25}, {"rate, a \"second\"", 1e6}}}};

void expect_same(const std::vector<Point>& a, const std::vector<Point>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].step, b[i].step);
    EXPECT_NEAR(a[i].seconds, b[i].seconds, 1e-3);
    EXPECT_EQ(a[i].values, b[i].values);
  }
}

TEST(Log, IsReadBackAsItWasWritten) {
  const TemporaryFolder folder;
  for (const char* name : {"run.csv", "run.jsonl", "events"}) {
    const std::string path = folder / name;
    Log log(path, {kPoints[0]});
    log.add(kPoints[1]);
    expect_same(read_log(path).points, {kPoints[0], kPoints[1]});  // while it is still open
    log.add(kPoints[2]);
    const History history = read_log(path);
    EXPECT_EQ(history.name, name == std::string("events") ? "events" : "run");
    expect_same(history.points, kPoints);
  }
}

TEST(Log, CsvIsATable) {
  const TemporaryFolder folder;
  const std::string path = folder / "run.csv";
  Log log(path, kPoints);
  log.add({31, 2.5, {{"loss", std::numeric_limits<double>::infinity()}}});
  EXPECT_EQ(read_file(path, 1000),
            "step,seconds,loss,validation loss,\"rate, a \"\"second\"\"\"\n1,0.500,0.75,1.5,\n20,1.250,0.5,,\n"
            "30,2.000,0.25,,1000000\n31,2.500,inf,,\n");
}

TEST(Log, ReadsWhatOthersWrote) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& name, const std::string& text) {
    write_file(folder / name, text);
    return read_log(folder / name).points;
  };
  expect_same(read("a.csv", "epoch,loss,note\r\n3,0.5,good\r\n4,0.25,\r\n"),
              {{3, 0, {{"loss", 0.5}}}, {4, 0, {{"loss", 0.25}}}});
  expect_same(read("d.csv", ",step,loss\n0,5,0.5\n"), {{5, 0, {{"loss", 0.5}}}});
  expect_same(read("b.csv", "loss\n1\n2\n"), {{1, 0, {{"loss", 1}}}, {2, 0, {{"loss", 2}}}});
  expect_same(read("c.jsonl", "{\"epoch\":2,\"loss\":0.5,\"text\":\"x\"}\n\n{\"done\":true}\n"),
              {{2, 0, {{"loss", 0.5}}}});
}

std::string message_of(const std::string& path) {
  return error_of([&] { read_log(path); });
}

TEST(Log, RefusesWhatIsNoLog) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& name, const std::string& text) {
    write_file(folder / name, text);
    return message_of(folder / name);
  };
  EXPECT_NE(refused("a.csv", "1,2\n3,4\n").find("line 1: no names of columns"), std::string::npos);
  EXPECT_NE(refused("b.csv", "a,b\n1,2,3\n").find("row 2: 3 fields under 2 names"), std::string::npos);
  EXPECT_NE(refused("c.jsonl", "{\"a\":1}\n{oops\n").find("line 2"), std::string::npos);
  EXPECT_NE(refused("x.tfevents.1", std::string(40, 'x')).find("byte 0: is no record"), std::string::npos);
  EXPECT_NE(message_of(folder / "absent.csv").find("absent.csv"), std::string::npos);
  std::filesystem::create_directory(folder / "empty");
  EXPECT_NE(message_of(folder / "empty").find("holds no event file"), std::string::npos);
  EXPECT_THROW(Log(folder / "absent/run.csv"), Error);
  EXPECT_THROW(Log(""), Error);
  write_file(folder / "file", "");
  EXPECT_THROW(Log(folder / "file"), Error);
}

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char b : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(b) >> 4];
    text += "0123456789abcdef"[b & 15];
  }
  return text;
}

/// Against what the tensorboard package itself writes (2.21: RecordWriter, Event.SerializeToString).
TEST(EventFile, HasTensorBoardsBytes) {
  EXPECT_EQ(masked_crc32c("123456789"), 0xc78ab0e5u);  // CRC-32C of it is e3069283
  EXPECT_EQ(hex(event_file_head(1.0)),
            "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  EXPECT_EQ(hex(event_record(1.0, 300, {{"loss", 0.5}})),
            "1b000000000000001a0d9e1309000000000000f03f10ac022a0d0a0b0a046c6f7373150000003f4e5c1fd1");
}

TEST(EventFile, WhatIsCutShortEndsAndWhatIsChangedIsRefused) {
  const std::string whole = event_file_head(1.0) + event_record(2.0, 1, {{"a", 1}}) + event_record(3.0, 2, {{"a", 2}});
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    double begin = -1;
    std::vector<Point> points;
    read_events("x", std::string_view(whole).substr(0, size), begin, points);
    EXPECT_LE(points.size(), 2u);
    if (size == whole.size()) {
      EXPECT_EQ(points[1].seconds, 2);
    }
  }
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] ^= 0x41;
    double begin = -1;
    std::vector<Point> points;
    EXPECT_THROW(read_events("x", changed, begin, points), Error) << at;
  }
}

TEST(Page, EscapesAllTextAndIsWhole) {
  const std::string evil = "<script>alert(1)</script>";
  Page page(evil, evil);
  page.heading(evil).note(evil).facts({{evil, evil}}).table({{evil, evil}}).table({evil}, {{evil}}).folded(evil, evil);
  page.figures({{"", evil}, {"<svg></svg>", evil}});
  const std::string html = page.text();
  EXPECT_EQ(html.find("<script"), std::string::npos);
  EXPECT_EQ(count(html, "<figure>"), 1u);
  EXPECT_TRUE(html.ends_with("</body>\n</html>\n"));
}

TEST(Curves, QuantitiesShareAChart) {
  const History history{"run",
                        {{1, 0, {{"loss", 1}, {"validation loss", 2}, {"accuracy", 0.5}}}, {2, 1, {{"loss", 0.5}}}}};
  const auto charts = curves(history, "epoch");
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[0].second, "loss");
  EXPECT_NE(charts[0].first.find("validation loss"), std::string::npos);
  EXPECT_EQ(charts[1].second, "accuracy");
}

TEST(Compare, HasACurveARunAndTheBestOfEach) {
  const std::string html = compare({{"slow", {{1, 1, {{"loss", 3}}}, {2, 2, {{"loss", 1}}}, {3, 3, {{"loss", 2}}}}},
                                    {"quick", {{1, 1, {{"accuracy", 0.5}}}}}},
                                   "Both")
                               .text();
  EXPECT_NE(html.find("1 at 2"), std::string::npos);
  EXPECT_NE(html.find("<td>quick</td><td>-</td><td>0.5 at 1</td>"), std::string::npos) << html;
  EXPECT_EQ(count(html, "<figure>"), 2u);
}

TEST(ReportRun, RefusesOneFileForTwoThings) {
  const TemporaryFolder folder;
  const std::string log = folder / "run.csv";
  EXPECT_NE(error_of([&] { report::Run({.logs = {log}, .page = log}); }).find("page " + log + ": is what log writes"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              report::Run({.logs = {log, log}});
            }).find("is what log writes to as well"),
            std::string::npos);
  EXPECT_NE(error_of([&] { report::Run({.logs = {folder / "no/run.csv"}}); }).find("log "), std::string::npos);
  EXPECT_EQ(folder.files().size(), 0u);
}

TEST(ReportRun, LeavesLogsAndAPage) {
  const TemporaryFolder folder;
  report::Run run({.name = "net & co",
                   .total = 3,
                   .logs = {folder / "a.csv", folder / "b"},
                   .page = folder / "p.html",
                   .settings = {{"lr", "0.1"}},
                   .form = Form::none});
  for (int i = 1; i <= 3; ++i) {
    run.step(i, {{"loss", 1.0 / i}});
    run.point(i, {{"loss", 1.0 / i}});
  }
  run.fact("test accuracy", "91 %");
  run.finish();
  EXPECT_EQ(read_log(folder / "a.csv").points.size(), 3u);
  EXPECT_EQ(read_log(folder / "b").points.size(), 3u);
  const std::string page = read_file(folder / "p.html", 1 << 20);
  for (const char* part : {"net &amp; co", "91 %", "test accuracy", "<polyline", ">0.1<"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
  EXPECT_THROW(report::Run({.page = folder / "absent/p.html", .form = Form::none}), Error);
}

}  // namespace
}  // namespace report
}  // namespace wr
