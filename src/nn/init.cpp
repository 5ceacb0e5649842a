// Initial values. They are drawn here, on the host, in double: the same wherever the C library computes log and cos
// alike.
#include <cmath>
#include <numbers>

#include "windrow/nn.h"
#include "windrow/random.h"

namespace wr::nn {
namespace {

thread_local std::uint64_t current_seed = 0;
thread_local std::uint64_t streams = 0;

/// Numbers of one stream, from a counter.
class Draw : public Rng {
 public:
  explicit Draw(std::uint64_t seed) : Rng(mix(seed + 0x632be59bd9b4e019u)) {}
  /// In (0, 1).
  double uniform() { return (static_cast<double>(bits() >> 12) + 0.5) * 0x1p-52; }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(uniform()));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }
};

template <class Next>
Array fill(const Shape& shape, std::uint64_t seed, Next next) {
  Array values = Array::empty(shape, DType::f64);
  Draw draw(seed);
  double* v = values.mutable_data<double>();
  for (std::int64_t i = 0; i < values.count(); ++i) v[i] = next(draw);
  return values;
}

Array normal_values(const Shape& shape, std::uint64_t seed, double deviation) {
  return fill(shape, seed, [=](Draw& draw) { return deviation * draw.normal(); });
}
Array uniform_values(const Shape& shape, std::uint64_t seed, double bound) {
  return fill(shape, seed, [=](Draw& draw) { return bound * (2 * draw.uniform() - 1); });
}

/// Makes each of n vectors of a given length, at `stride` apart, orthogonal to those before it, and of length 1.
void orthonormalise(double* v, std::int64_t n, std::int64_t length, std::int64_t step, std::int64_t stride) {
  const auto at = [&](std::int64_t vector, std::int64_t i) -> double& { return v[vector * step + i * stride]; };
  for (std::int64_t a = 0; a < n; ++a) {
    for (int pass = 0; pass < 2; ++pass)  // the second takes away what rounding left
      for (std::int64_t b = 0; b < a; ++b) {
        double dot = 0;
        for (std::int64_t i = 0; i < length; ++i) dot += at(a, i) * at(b, i);
        for (std::int64_t i = 0; i < length; ++i) at(a, i) -= dot * at(b, i);
      }
    double norm = 0;
    for (std::int64_t i = 0; i < length; ++i) norm += at(a, i) * at(a, i);
    for (std::int64_t i = 0; i < length; ++i) at(a, i) /= std::sqrt(norm);
  }
}

double over(double numerator, std::int64_t fan) {
  return numerator / static_cast<double>(std::max<std::int64_t>(fan, 1));
}

}  // namespace

void seed(std::uint64_t seed) {
  current_seed = seed;
  streams = 0;
}
std::uint64_t next_seed() { return Rng::mix(current_seed) + ++streams; }

namespace init {

Initialiser zeros() { return constant(0); }
Initialiser constant(double value) {
  return [=](const Shape& shape, const Fans&, std::uint64_t) { return Array::full(shape, value, DType::f64); };
}
Initialiser uniform(double low, double high) {
  return [=](const Shape& shape, const Fans&, std::uint64_t seed) {
    return fill(shape, seed, [=](Draw& draw) { return low + (high - low) * draw.uniform(); });
  };
}
Initialiser normal(double deviation, double mean) {
  return [=](const Shape& shape, const Fans&, std::uint64_t seed) {
    return fill(shape, seed, [=](Draw& draw) { return mean + deviation * draw.normal(); });
  };
}
Initialiser truncated_normal(double deviation, double mean) {
  return [=](const Shape& shape, const Fans&, std::uint64_t seed) {
    return fill(shape, seed, [=](Draw& draw) {
      double z = draw.normal();
      while (std::abs(z) > 2) z = draw.normal();
      return mean + deviation * z;
    });
  };
}
Initialiser he_normal() {
  return [](const Shape& shape, const Fans& fans, std::uint64_t seed) {
    return normal_values(shape, seed, std::sqrt(over(2, fans.in)));
  };
}
Initialiser he_uniform() {
  return [](const Shape& shape, const Fans& fans, std::uint64_t seed) {
    return uniform_values(shape, seed, std::sqrt(over(6, fans.in)));
  };
}
Initialiser xavier_normal(double gain) {
  return [=](const Shape& shape, const Fans& fans, std::uint64_t seed) {
    return normal_values(shape, seed, gain * std::sqrt(over(2, fans.in + fans.out)));
  };
}
Initialiser xavier_uniform(double gain) {
  return [=](const Shape& shape, const Fans& fans, std::uint64_t seed) {
    return uniform_values(shape, seed, gain * std::sqrt(over(6, fans.in + fans.out)));
  };
}
Initialiser fan_in_uniform() {
  return [](const Shape& shape, const Fans& fans, std::uint64_t seed) {
    return uniform_values(shape, seed, std::sqrt(over(1, fans.in)));
  };
}
Initialiser orthogonal(double gain) {
  return [=](const Shape& shape, const Fans&, std::uint64_t seed) {
    if (shape.rank() < 2) throw Error("orthogonal: needs at least two axes, the shape is " + to_string(shape));
    Array values = normal_values(shape, seed, 1);
    const std::int64_t columns = shape.back(), rows = columns ? shape.count() / columns : 0;
    double* v = values.mutable_data<double>();
    if (rows >= columns)
      orthonormalise(v, columns, rows, 1, columns);
    else
      orthonormalise(v, rows, columns, columns, 1);
    for (std::int64_t i = 0; i < values.count(); ++i) v[i] *= gain;
    return values;
  };
}

}  // namespace init
}  // namespace wr::nn
