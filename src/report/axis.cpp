#include "report/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace wr::chart {
namespace {

constexpr double kLetter = 6.2;  // mean width of a sans-serif letter of 11 pixels
constexpr int kFewestSteps = 4;

/// The least of 1, 2, 5 times a power of ten that is not below `size`.
double round_step(double size) {
  const double power = std::pow(10, std::floor(std::log10(size)));
  const double ratio = size / power;
  return power * (ratio > 5 ? 10 : ratio > 2 ? 5 : ratio > 1 ? 2 : 1);
}

/// All marks of an axis in one form, as exact as their distance asks for.
std::string mark_text(double value, double step, double largest) {
  if (value == 0) return "0";
  if (largest >= 1e15 || step < 1e-6) return fmt::format("{:.3g}", value);
  const bool mega = largest >= 1e6 && step >= 1e4, kilo = !mega && largest >= 1e4 && step >= 1e1;
  const double unit = mega ? 1e6 : kilo ? 1e3 : 1;
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step / unit) + 1e-9)));
  return fmt::format("{:.{}f}{}", value / unit, digits, mega ? "M" : kilo ? "k" : "");
}

std::string power_text(double value) {
  if (value >= 1e6) return fmt::format("{:g}M", value / 1e6);
  if (value >= 1e3) return fmt::format("{:g}k", value / 1e3);
  return fmt::format("{:g}", value);
}

}  // namespace

double text_width(const std::string& text) {
  const auto letters =
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; });
  return kLetter * static_cast<double>(letters);
}

std::string value_text(double value) { return fmt::format("{:.4g}", value); }

Axis::Axis(std::vector<double> values, const Form& form, double from, double to)
    : logarithmic_(form.logarithmic), from_(from), to_(to) {
  std::erase_if(values, [&](double v) { return !shows(v); });
  if (values.empty()) values = {1};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  range_ = {*low, *high};
  logarithmic_ ? power_marks() : round_marks(form.whole, form.ends);
}

double Axis::at(double value) const {
  const double part = logarithmic_
                          ? (std::log(value) - std::log(range_.low)) / (std::log(range_.high) - std::log(range_.low))
                          : (value - range_.low) / (range_.high - range_.low);
  return from_ + part * (to_ - from_);
}

bool Axis::shows(double value) const { return std::isfinite(value) && (!logarithmic_ || value > 0); }

void Axis::round_marks(bool whole, Ends ends) {
  // A range too small to divide would give the same number at every mark.
  const double size = std::max({std::abs(range_.low), std::abs(range_.high), 1e-300});
  if (!(range_.high - range_.low > size * 1e-9)) {
    const double room = whole ? 1 : size * 0.1;
    if (ends == Ends::at_marks) range_.low -= room;
    range_.high += room;
  }
  double step = round_step((range_.high - range_.low) / kFewestSteps);
  if (whole) step = std::max(1.0, std::round(step));
  const double first = ends == Ends::at_marks ? std::floor(range_.low / step) : std::ceil(range_.low / step - 1e-9);
  const double last = ends == Ends::at_marks ? std::ceil(range_.high / step) : std::floor(range_.high / step + 1e-9);
  if (ends == Ends::at_marks) range_ = {first * step, last * step};
  const double largest = std::max(std::abs(first), std::abs(last)) * step;
  for (double i = first; i <= last; ++i) marks_.push_back({i * step, mark_text(i * step, step, largest)});
}

void Axis::power_marks() {
  if (!(range_.high > range_.low * (1 + 1e-9))) range_.high = range_.low * 2;  // too near to be told apart
  const double decades = std::log10(range_.high / range_.low);
  for (double p = std::pow(10, std::floor(std::log10(range_.low))); p <= range_.high * 1.0001; p *= 10)
    for (const double f : {1.0, 2.0, 5.0}) {
      const double v = p * f;
      if (v >= range_.low * 0.9999 && v <= range_.high * 1.0001 && (f == 1 || decades < 2.2))
        marks_.push_back({v, power_text(v)});
    }
  if (marks_.size() >= 3) return;
  // Within a decade hardly any of these occur: marks at even distances instead.
  marks_.clear();
  const double step = round_step((range_.high - range_.low) / kFewestSteps);
  for (double i = std::ceil(range_.low / step - 1e-9); i * step <= range_.high * (1 + 1e-9); ++i)
    if (i > 0) marks_.push_back({i * step, mark_text(i * step, step, range_.high)});
}

void Axis::thin_out() {
  const auto overlap = [&](std::size_t every) {
    double end = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < marks_.size(); i += every) {
      const double half = text_width(marks_[i].text) / 2, middle = at(marks_[i].value);
      if (middle - half < end + kLetter) return true;
      end = middle + half;
    }
    return false;
  };
  std::size_t every = 1;
  while (every < marks_.size() && overlap(every)) ++every;
  std::vector<Mark> kept;
  for (std::size_t i = 0; i < marks_.size(); i += every) kept.push_back(marks_[i]);
  marks_ = std::move(kept);
}

double Axis::widest() const {
  double width = 0;
  for (const Mark& m : marks_) width = std::max(width, text_width(m.text));
  return width;
}

}  // namespace wr::chart
