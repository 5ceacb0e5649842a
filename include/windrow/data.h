// Data for training: files (IDX, CSV, NPY, NPZ), image sets, a generator of digits, and loaders that prepare batches
// while the step computes. Files are read as if an enemy wrote them: what does not fit is refused with an Error that
// names the byte (or line) and the reason, before memory is taken for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "windrow/array.h"
#include "windrow/spec.h"

namespace wr::data {

/// A file that would need more memory than this is refused.
struct ReadLimits {
  std::uint64_t bytes = std::uint64_t{4} << 30;
};

// ---- IDX: the format of MNIST ----
/// Plain or gzip-compressed (whatever the name says). Elements: u8; i8, i16 and i32 as i32; f32; f64.
Array read_idx(const std::string& path, const ReadLimits& limits = {});

// ---- NPY and NPZ: NumPy's formats ----
/// Versions 1 to 3, either byte order, C or Fortran order. f4, f8, u1 and b1 as they are; other integers as i32 if
/// every value fits. Object arrays (pickled Python) are refused.
Array read_npy(const std::string& path, const ReadLimits& limits = {});
/// The arrays of an archive by name (without ".npy"), stored or deflated; sizes and checksums are checked.
std::map<std::string, Array> read_npz(const std::string& path, const ReadLimits& limits = {});
void write_npy(const std::string& path, const Array& array);
enum class Compress : bool { no = false, yes = true };
void write_npz(const std::string& path, const std::map<std::string, Array>& arrays, Compress compress = Compress::no);

// ---- CSV ----
struct CsvOptions {
  char delimiter = ',';
  /// automatic: the first line is a header if one of its fields is no number (and not missing).
  enum class Header { automatic, yes, no } header = Header::automatic;
  /// What an empty field, NA, N/A, null or ? means.
  enum class Missing { refuse, nan, fill } missing = Missing::refuse;
  double fill = 0;
  DType dtype = DType::f32;  // or f64, or i32
  /// Only these columns, in this order; all others may hold anything. Needs a header.
  std::vector<std::string> columns = {};
  ReadLimits limits = {};
};

/// Numbers in rows and named columns.
struct Table {
  std::vector<std::string> columns;  // empty where the file has no header
  Array values;                      // [rows, columns]
  /// One column: [rows].
  Array column(std::string_view name) const;
  /// The columns from first up to but not including last: [rows, last - first].
  Array range(std::int64_t first, std::int64_t last) const { return values.slice(1, first, last); }
};

Table read_csv(const std::string& path, const CsvOptions& options = {});
/// Shortest digits that read back as the same values.
void write_csv(const std::string& path, const Table& table, char delimiter = ',');

// ---- data sets ----
/// Examples and what is to be learnt about them: row i of x goes with row i of y.
struct Dataset {
  Array x;  // [examples, ...]
  Array y;  // [examples, ...]; labels are i32
  std::string name = {};
  std::vector<std::string> classes = {};  // names of the labels, where they have some

  std::int64_t count() const { return x.rank() ? x.shape()[0] : 0; }
  /// The examples from first up to but not including last, sharing memory.
  Dataset range(std::int64_t first, std::int64_t last) const;
};

struct Split {
  Dataset train, test;
};

/// Puts a share of the examples aside, chosen at random by the seed: .test holds round(share * count) of them.
Split split(const Dataset& all, double share, std::uint64_t seed = 0, Location where = Location::current());

/// MNIST's four files in a folder, under their usual names, plain or .gz: x u8[n,28,28], y i32[n].
Split read_mnist(const std::string& folder);
/// Where Debian's package dataset-fashion-mnist is installed, or "" if it is not.
std::string find_fashion_mnist();
/// Fashion-MNIST (or any set in MNIST's format) from a folder, or from Debian's package if the folder is "". Where
/// there is no package either, drawn digits; .name says which it is.
Split load_images(const std::string& folder = "");

struct DigitOptions {
  double shift = 2.5;     // pixels, each way
  double turn = 0.25;     // radians, each way
  double stretch = 0.2;   // share of the size, each way
  double wobble = 0.035;  // how far the points of a stroke move, as a share of the size
  double noise = 0.04;    // of full brightness, standard deviation
};
/// Draws labelled digits with a pen of varying width: x u8[n,28,28], y i32[n]. The same seed gives the same digits, and
/// digit i is the same whatever the count.
Dataset draw_digits(std::int64_t count, std::uint64_t seed = 0, const DigitOptions& options = {});

// ---- loading ----
/// Random changes to images [h, w] or [h, w, channels]; which, depends on nothing but (seed, epoch, example).
struct Augment {
  int shift = 0;      // up to this many pixels each way; what comes in is 0
  bool flip = false;  // left and right exchanged, half of the time
  float noise = 0;    // standard deviation, after scaling
};

struct LoaderOptions {
  std::int64_t batch = 64;
  std::uint64_t seed = 0;
  bool shuffle = true;
  /// What becomes of examples that do not fill a batch: they sit the epoch out; or the last batch is a short one, for
  /// steps that leave the size open, f32(wr::any, 784); or it is filled up with examples from the beginning of the
  /// epoch (Batch::count says how many are not repeated: what is computed of the others is to be left out).
  enum class Rest { drop, keep, pad } rest = Rest::drop;
  /// x of u8 or f32 becomes f32: x * scale + offset. 0: 1/255 for u8, 1 for f32. Other types stay as they are.
  float scale = 0;
  float offset = 0;
  /// The shape of one example in the batch, where it is not that of the data: {784} for images [28,28].
  Shape example = {};
  Augment augment = {};
  /// Batches prepared ahead by the loading thread. 0: no thread, the caller prepares each batch itself.
  int ahead = 2;
};

/// Some examples: `for (auto& [x, y] : loader)`. Valid until the next one is asked for; copy what is to be kept.
struct Batch {
  Array x, y;
  std::int64_t count = 0;  // rows that are not padding
  std::uint64_t epoch = 0;
  std::int64_t index = 0;  // in its epoch
};

template <std::size_t I>
auto& get(Batch& batch) {
  return std::get<I>(std::tie(batch.x, batch.y));
}
template <std::size_t I>
const Array& get(const Batch& batch) {
  return std::get<I>(std::tie(batch.x, batch.y));
}

/// Where a loader stands. Two loaders of the same data and options in the same state give the same batches from there
/// on.
struct LoaderState {
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
  std::int64_t next = 0;  // the batch that comes next
  std::int64_t examples = 0, batch = 0;
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};
/// "seed=7 epoch=3 next=12 examples=60000 batch=64", and back: for the metadata of a checkpoint.
std::string to_string(const LoaderState& state);
LoaderState parse_loader_state(std::string_view text);

/// Which examples a batch is to hold, and what random changes to them may depend on.
struct Request {
  std::span<const std::int64_t> examples;
  std::uint64_t seed, epoch;
};
/// Writes the examples to batch.x and batch.y; called on the loading thread. What it throws, Loader::next() throws. For
/// training to resume exactly, it must depend on nothing but the request.
using FillBatch = std::function<void(const Request& request, Batch& batch)>;

/// Mini-batches in an order that depends on nothing but the seed and the epoch. In steady state it allocates nothing.
class Loader {
 public:
  Loader(const Dataset& data, const LoaderOptions& options, Location where = Location::current());
  /// Examples 0..examples-1 made by a function of the user's; x and y are what its batches look like. Of the options,
  /// scale, offset, example and augment have no meaning here.
  Loader(std::int64_t examples, const Spec& x, const Spec& y, FillBatch fill, const LoaderOptions& options,
         Location where = Location::current());
  Loader(Loader&&) noexcept;
  Loader& operator=(Loader&&) noexcept;
  ~Loader();

  /// The next batch, of this epoch or the next one.
  Batch& next();
  std::int64_t batches_per_epoch() const;

  /// What comes after the batch that next() gave last.
  LoaderState state() const;
  /// Goes on from a state of a loader of the same data and options. Also the way on after an error.
  void restore(const LoaderState& state);

  /// The rest of the current epoch: `for (auto& [x, y] : loader)` goes through one epoch a time.
  class Iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    using pointer = Batch*;
    using reference = Batch&;
    Batch& operator*() const { return *batch_; }
    Batch* operator->() const { return batch_; }
    Iterator& operator++();
    friend bool operator==(const Iterator& a, std::default_sentinel_t) { return a.batch_ == nullptr; }

   private:
    friend class Loader;
    explicit Iterator(Loader& loader) : loader_(&loader), batch_(&loader.next()) {}
    Loader* loader_;
    Batch* batch_;
  };
  Iterator begin() { return Iterator(*this); }
  std::default_sentinel_t end() const { return {}; }

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace wr::data

template <>
struct std::tuple_size<wr::data::Batch> : std::integral_constant<std::size_t, 2> {};
template <std::size_t I>
struct std::tuple_element<I, wr::data::Batch> {
  using type = wr::Array;
};
