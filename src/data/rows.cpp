// The work of the loading thread for data in memory.
#include "data/rows.h"

#include <algorithm>
#include <cstring>

#include "data/random.h"
#include "windrow/error.h"

namespace wr::data {

namespace {

bool is_scaled(DType dtype) { return dtype == DType::u8 || dtype == DType::f32; }

struct Image {
  std::int64_t height = 1, width = 1, channels = 1;
  std::int64_t row() const { return width * channels; }
  std::int64_t count() const { return height * row(); }
};

struct Change {
  std::int64_t down = 0, right = 0;
  bool flip = false;
};

template <class From>
class Converter {
 public:
  Converter(const Image& image, float scale, float offset) : image_(image), scale_(scale), offset_(offset) {}

  void plain(const From* from, float* to, std::int64_t count) const {
    for (std::int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(from[i]) * scale_ + offset_;
  }

  /// Flipped, then shifted.
  void changed(const From* from, float* to, const Change& change) const {
    const std::int64_t row = image_.row();
    for (std::int64_t r = 0; r < image_.height; ++r) {
      const std::int64_t source = r - change.down;
      if (source < 0 || source >= image_.height) {
        std::fill_n(to + r * row, row, offset_);
      } else {
        line(from + source * row, to + r * row, change);
      }
    }
  }

 private:
  void line(const From* from, float* to, const Change& change) const {
    const std::int64_t c = image_.channels, w = image_.width;
    const std::int64_t first = std::clamp<std::int64_t>(change.right, 0, w);
    const std::int64_t last = std::clamp<std::int64_t>(w + change.right, 0, w);
    std::fill(to, to + first * c, offset_);
    std::fill(to + last * c, to + w * c, offset_);
    if (!change.flip) {
      plain(from + (first - change.right) * c, to + first * c, (last - first) * c);
    } else {
      for (std::int64_t p = first; p < last; ++p) plain(from + (w - 1 - (p - change.right)) * c, to + p * c, c);
    }
  }

  Image image_;
  float scale_, offset_;
};

class Rows {
 public:
  Rows(const Dataset& data, const LoaderOptions& options)
      : x_(data.x.contiguous()), y_(data.y.contiguous()), options_(options) {
    if (options_.scale == 0) options_.scale = x_.dtype() == DType::u8 ? 1.f / 255 : 1.f;
    if (x_.rank() >= 3) image_ = {x_.shape()[1], x_.shape()[2], x_.rank() == 4 ? x_.shape()[3] : 1};
    example_ = x_.count() / x_.shape()[0];
  }

  void operator()(const Request& request, Batch& batch) const {
    if (x_.dtype() == DType::u8) {
      convert<std::uint8_t>(request, batch.x);
    } else if (x_.dtype() == DType::f32) {
      convert<float>(request, batch.x);
    } else {
      copy(x_, request.examples, batch.x);
    }
    copy(y_, request.examples, batch.y);
  }

 private:
  template <class From>
  void convert(const Request& request, Array& into) const {
    const Converter<From> converter(image_, options_.scale, options_.offset);
    const From* from = x_.data<From>();
    float* to = into.mutable_data<float>();
    const Augment& augment = options_.augment;
    const bool moves = augment.shift > 0 || augment.flip;
    for (const std::int64_t example : request.examples) {
      Draw draw(request.seed + 0xa09, request.epoch, static_cast<std::uint64_t>(example));
      if (moves) {
        converter.changed(from + example * example_, to, choose(draw));
      } else {
        converter.plain(from + example * example_, to, example_);
      }
      if (augment.noise > 0)
        for (std::int64_t i = 0; i < example_; ++i) to[i] += augment.noise * draw.quick_normal();
      to += example_;
    }
  }

  Change choose(Draw& draw) const {
    const std::int64_t most = options_.augment.shift;
    const auto offset = [&] {
      return static_cast<std::int64_t>(draw.below(static_cast<std::uint64_t>(2 * most + 1))) - most;
    };
    const std::int64_t down = offset(), right = offset();
    return {down, right, options_.augment.flip && draw.below(2) == 1};
  }

  static void copy(const Array& all, std::span<const std::int64_t> examples, Array& into) {
    const std::size_t bytes = all.bytes() / static_cast<std::size_t>(all.shape()[0]);
    const auto* from = static_cast<const std::byte*>(detail::ArrayAccess::read(all));
    auto* to = static_cast<std::byte*>(detail::ArrayAccess::write(into, "loader", Location::current()));
    if (bytes == 0) return;
    for (const std::int64_t example : examples) {
      std::memcpy(to, from + static_cast<std::size_t>(example) * bytes, bytes);
      to += bytes;
    }
  }

  Array x_, y_;
  LoaderOptions options_;
  Image image_;
  std::int64_t example_ = 0;
};

}  // namespace

std::pair<Spec, Spec> batch_specs(const Dataset& data, const LoaderOptions& options) {
  const Shape &x = data.x.shape(), &y = data.y.shape();
  if (x.rank() == 0 || y.rank() == 0 || x[0] != y[0]) {
    throw Error("loader: x is " + to_string(x) + ", y is " + to_string(y) +
                "; their first axes should be the examples");
  }
  const Augment& augment = options.augment;
  const bool moves = augment.shift != 0 || augment.flip;
  if (augment.shift < 0 || augment.noise < 0)
    throw Error("loader: augment.shift and augment.noise must not be negative");
  if (moves && x.rank() != 3 && x.rank() != 4) {
    throw Error("loader: images to shift or flip are [n,height,width] or [n,height,width,channels], these are " +
                to_string(x));
  }
  const DType dtype = data.x.dtype();
  if (!is_scaled(dtype) && (moves || augment.noise > 0 || options.scale != 0 || options.offset != 0)) {
    throw Error("loader: x of type " + std::string(name_of(dtype)) + " is not scaled or augmented; u8 and f32 are");
  }
  const auto batched = [&](Shape shape) {
    shape[0] = options.batch;
    return shape;
  };
  Spec batch_x{is_scaled(dtype) ? DType::f32 : dtype, batched(x)};
  if (!options.example.empty()) {
    Shape shape{options.batch};
    for (const std::int64_t size : options.example) shape.push_back(size);
    if (detail::checked_count("loader", shape, Location::current()) != batch_x.shape.count()) {
      throw Error("loader: an example of " + to_string(x) + " does not have the shape " + to_string(options.example));
    }
    batch_x.shape = shape;
  }
  return {batch_x, Spec{data.y.dtype(), batched(y)}};
}

FillBatch fill_from(const Dataset& data, const LoaderOptions& options) { return Rows(data, options); }

}  // namespace wr::data
