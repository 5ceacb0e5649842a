// An axis of a chart: from data to picture, with round numbers to write at it.
#pragma once

#include <string>
#include <vector>

namespace wr::chart {

struct Mark {
  double value;
  std::string text;
};

struct Range {
  double low, high;
};

class Axis {
 public:
  enum class Ends { at_marks, at_data };  // whether there is room up to the next mark, or none
  struct Form {
    bool logarithmic = false, whole = false;
    Ends ends = Ends::at_marks;
  };
  /// Values that cannot be shown (not finite, or none above 0 on a logarithmic axis) are left out. The picture has
  /// `from` at the low end and `to` at the high one.
  Axis(std::vector<double> values, const Form& form, double from, double to);

  double at(double value) const;
  bool shows(double value) const;
  const std::vector<Mark>& marks() const { return marks_; }
  /// Leaves out marks, evenly, until no text is over its neighbour's.
  void thin_out();
  /// Of the widest mark's text.
  double widest() const;

 private:
  void round_marks(bool whole, Ends ends);
  void power_marks();

  bool logarithmic_;
  double from_, to_;
  Range range_{0, 1};
  std::vector<Mark> marks_;
};

/// About what a text takes, at the charts' size of letters.
double text_width(const std::string& text);
/// A value as it is shown beside a curve.
std::string value_text(double value);

}  // namespace wr::chart
