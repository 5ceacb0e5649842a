// Draws digits: each is a few strokes (polylines through points on a unit square), moved, turned, stretched and wobbled
// at random, then inked pixel by pixel by the distance to the nearest stroke. Only + - * / and sqrt are used, so that
// the same seed gives the same bytes everywhere.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "data/random.h"
#include "windrow/data.h"
#include "windrow/error.h"

namespace wr::data {

namespace {

constexpr int kSide = 28;

struct Point {
  double x, y;
};
struct Segment {
  Point from, to;
};

// x goes right and y down, both 0..1. A stroke ends where x is negative.
constexpr Point kLift{-1, -1};
using Strokes = std::vector<Point>;

// clang-format off
const std::array<std::vector<Strokes>, 10>& glyphs() {
  static const std::array<std::vector<Strokes>, 10> all{{
      {{{.5, 0}, {.78, .1}, {.9, .35}, {.9, .65}, {.78, .9}, {.5, 1}, {.22, .9}, {.1, .65}, {.1, .35}, {.22, .1},
        {.5, 0}}},
      {{{.5, 0}, {.5, 1}}, {{.25, .22}, {.5, 0}, {.5, 1}}, {{.25, .22}, {.5, 0}, {.5, 1}, kLift, {.25, 1}, {.75, 1}}},
      {{{.12, .25}, {.25, .06}, {.5, 0}, {.78, .08}, {.86, .28}, {.75, .48}, {.4, .75}, {.1, 1}, {.9, 1}}},
      {{{.12, .1}, {.45, 0}, {.78, .08}, {.84, .27}, {.7, .43}, {.42, .48}, {.75, .54}, {.9, .74}, {.78, .94},
        {.45, 1}, {.1, .9}}},
      {{{.68, 1}, {.68, 0}, {.08, .66}, {.92, .66}}, {{.15, 0}, {.1, .5}, {.88, .5}, kLift, {.75, .05}, {.7, 1}}},
      {{{.85, 0}, {.2, 0}, {.15, .42}, {.5, .36}, {.8, .46}, {.9, .7}, {.76, .93}, {.45, 1}, {.1, .9}}},
      {{{.75, .03}, {.42, .15}, {.18, .45}, {.12, .72}, {.28, .96}, {.55, 1}, {.82, .9}, {.88, .68}, {.72, .5},
        {.45, .48}, {.18, .62}}},
      {{{.1, 0}, {.9, 0}, {.6, .45}, {.4, 1}}, {{.1, 0}, {.9, 0}, {.6, .45}, {.4, 1}, kLift, {.3, .5}, {.78, .5}}},
      {{{.5, .47}, {.22, .36}, {.18, .15}, {.5, 0}, {.82, .15}, {.78, .36}, {.5, .47}, {.16, .62}, {.12, .86},
        {.5, 1}, {.88, .86}, {.84, .62}, {.5, .47}}},
      {{{.86, .36}, {.7, .52}, {.4, .54}, {.16, .4}, {.16, .16}, {.4, 0}, {.7, .02}, {.86, .2}, {.86, .36}, {.8, .7},
        {.6, 1}}, {{.86, .36}, {.7, .52}, {.4, .54}, {.16, .4}, {.16, .16}, {.4, 0}, {.7, .02}, {.86, .2}, {.84, 1}}},
  }};
  return all;
}
// clang-format on

double squared_distance(Point p, const Segment& s) {
  const double dx = s.to.x - s.from.x, dy = s.to.y - s.from.y;
  const double length = dx * dx + dy * dy;
  double along = length > 0 ? ((p.x - s.from.x) * dx + (p.y - s.from.y) * dy) / length : 0;
  along = std::clamp(along, 0.0, 1.0);
  const double ex = p.x - s.from.x - along * dx, ey = p.y - s.from.y - along * dy;
  return ex * ex + ey * ey;
}

/// The strokes of one digit, in pixels.
void place(int digit, Draw& draw, const DigitOptions& options, std::vector<Segment>& segments) {
  const auto& variants = glyphs()[digit];
  const Strokes& points = variants[draw.below(variants.size())];
  // A turn by the angle whose tangent is t needs no sine.
  const double t = draw.signed_unit() * options.turn, cosine = 1 / std::sqrt(1 + t * t), sine = t * cosine;
  const double width = 13 * (1 + draw.signed_unit() * options.stretch);
  const double height = 18 * (1 + draw.signed_unit() * options.stretch);
  const double slant = draw.signed_unit() * options.turn;
  const double x0 = kSide / 2.0 + draw.signed_unit() * options.shift,
               y0 = kSide / 2.0 + draw.signed_unit() * options.shift;
  segments.clear();
  bool pen_down = false;
  Point last{};
  for (const Point& point : points) {
    if (point.x < 0) {
      pen_down = false;
      continue;
    }
    const double x = (point.x - 0.5 + draw.signed_unit() * options.wobble) * width;
    const double y = (point.y - 0.5 + draw.signed_unit() * options.wobble) * height;
    const double slanted = x - slant * y;
    const Point here{x0 + cosine * slanted - sine * y, y0 + sine * slanted + cosine * y};
    if (pen_down) segments.push_back({last, here});
    last = here;
    pen_down = true;
  }
}

void ink(std::span<const Segment> segments, Draw& draw, const DigitOptions& options, std::uint8_t* image) {
  const double pen = 1.3 + 0.6 * draw.signed_unit();  // half the width of the line
  const double brightness = 0.85 + 0.15 * draw.signed_unit();
  for (int row = 0; row < kSide; ++row) {
    for (int column = 0; column < kSide; ++column) {
      const Point pixel{column + 0.5, row + 0.5};
      double nearest = std::numeric_limits<double>::max();
      for (const Segment& segment : segments) nearest = std::min(nearest, squared_distance(pixel, segment));
      const double cover = std::clamp(pen + 0.5 - std::sqrt(nearest), 0.0, 1.0);
      const double value = 255 * (cover * brightness + options.noise * static_cast<double>(draw.quick_normal()));
      image[row * kSide + column] = static_cast<std::uint8_t>(std::lround(std::clamp(value, 0.0, 255.0)));
    }
  }
}

}  // namespace

Dataset draw_digits(std::int64_t count, std::uint64_t seed, const DigitOptions& options) {
  if (count < 0) throw Error("draw_digits: the count is " + std::to_string(count));
  Dataset data{Array::empty({count, kSide, kSide}, DType::u8),
               Array::empty({count}, DType::i32),
               "digits",
               {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}};
  std::uint8_t* image = data.x.mutable_data<std::uint8_t>();
  std::int32_t* label = data.y.mutable_data<std::int32_t>();
  std::vector<Segment> segments;
  for (std::int64_t i = 0; i < count; ++i, image += kSide * kSide) {
    Draw draw(seed, 0xd191, static_cast<std::uint64_t>(i));
    label[i] = static_cast<std::int32_t>(draw.below(10));
    place(label[i], draw, options, segments);
    ink(segments, draw, options, image);
  }
  return data;
}

}  // namespace wr::data
