// Charts as SVG that needs nothing else: ticks at round numbers, no label over another, values where the mouse is.
// Colours follow the page's --ink, --line, --a and --b where it has them.
#pragma once

#include <string>
#include <vector>

namespace wr::chart {

struct Series {
  std::string name;
  std::vector<double> x, y;  // of the same length; points that are not finite are left out
};

struct Lines {
  std::string title = {};
  std::string x_label = {}, y_label = {};
  std::vector<Series> series = {};
  bool log_x = false, log_y = false;
  bool whole_x = false;  // label only whole numbers
  double width = 640, height = 320;
};
/// An empty text where no series has a point.
std::string lines(const Lines& chart);

/// Bars in groups: `values[g][k]` is group g's bar of kind k; 0 or less: no bar.
struct Bars {
  std::string title = {}, x_label = {}, y_label = {};
  std::vector<std::string> groups = {}, kinds = {};
  std::vector<std::vector<double>> values = {};
  std::vector<std::string> texts = {};  // what stands over each group of one bar, where it fits; none: nothing
  bool log_y = false;
  double width = 760, height = 320;
};
std::string bars(const Bars& chart);

}  // namespace wr::chart
