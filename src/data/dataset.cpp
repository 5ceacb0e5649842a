// Data sets: MNIST's files, what to train on where nothing is given, and splitting.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <numeric>

#include "data/random.h"
#include "windrow/data.h"
#include "windrow/error.h"

namespace wr::data {

namespace {

constexpr const char* kFashionFolder = "/usr/share/datasets/fashion-mnist";

/// "folder/stem", as it is or with .gz, under either of the two spellings in use; "" if there is none.
std::string find_file(const std::string& folder, const std::string& part, const std::string& kind) {
  for (const char* separator : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      std::error_code ignored;
      std::filesystem::path path(folder);
      path /= part;
      path.concat(separator).concat(kind).concat(suffix);
      if (std::filesystem::exists(path, ignored)) return path.string();
    }
  }
  return "";
}

Dataset read_part(const std::string& folder, const std::string& part) {
  const std::string images = find_file(folder, part + "-images", "idx3-ubyte");
  const std::string labels = find_file(folder, part + "-labels", "idx1-ubyte");
  if (images.empty() || labels.empty()) {
    throw Error(folder + ": has no " + part + (images.empty() ? "-images-idx3-ubyte" : "-labels-idx1-ubyte") +
                " (or .gz)");
  }
  Dataset data{read_idx(images), read_idx(labels)};
  if (data.x.dtype() != DType::u8 || data.x.rank() != 3) {
    throw Error(images + ": byte 2: holds " + to_string(Spec{data.x.dtype(), data.x.shape()}) +
                ", not images u8[n,height,width]");
  }
  if (data.y.dtype() != DType::u8 || data.y.rank() != 1) {
    throw Error(labels + ": byte 2: holds " + to_string(Spec{data.y.dtype(), data.y.shape()}) + ", not labels u8[n]");
  }
  if (data.x.size(0) != data.y.size(0)) {
    throw Error(labels + ": byte 4: has " + std::to_string(data.y.size(0)) + " labels for the " +
                std::to_string(data.x.size(0)) + " images of " + images);
  }
  data.y = data.y.astype(DType::i32);
  return data;
}

/// The given rows, in this order, in memory of their own.
Array gather(const Array& from, std::span<const std::int64_t> rows) {
  const Array dense = from.contiguous();
  Shape shape = dense.shape();
  shape[0] = std::ssize(rows);
  Array to = Array::empty(shape, dense.dtype());
  const std::size_t bytes = rows.empty() ? 0 : to.bytes() / rows.size();
  if (bytes == 0) return to;
  const auto* source = static_cast<const std::byte*>(detail::ArrayAccess::read(dense));
  auto* target = static_cast<std::byte*>(detail::ArrayAccess::write(to, "split", Location::current()));
  for (const std::int64_t row : rows) {
    std::memcpy(target, source + static_cast<std::size_t>(row) * bytes, bytes);
    target += bytes;
  }
  return to;
}

}  // namespace

Dataset Dataset::range(std::int64_t first, std::int64_t last) const {
  return {x.slice(0, first, last), y.slice(0, first, last), name, classes};
}

Split split(const Dataset& all, double share, std::uint64_t seed, Location where) {
  if (!(share >= 0 && share <= 1)) fail(where, "split: the share must be from 0 to 1, is " + std::to_string(share));
  if (all.x.rank() == 0 || all.y.rank() == 0 || all.x.shape()[0] != all.y.shape()[0]) {
    fail(where, "split: x is " + to_string(all.x.shape()) + ", y is " + to_string(all.y.shape()) +
                    "; their first axes should be the examples");
  }
  std::vector<std::int64_t> order(static_cast<std::size_t>(all.count()));
  std::iota(order.begin(), order.end(), 0);
  shuffle(order, Draw(seed, 0x5917));
  const auto aside = static_cast<std::size_t>(std::llround(share * static_cast<double>(all.count())));
  const std::span rows(order);
  const auto part = [&](std::span<const std::int64_t> some) {
    return Dataset{gather(all.x, some), gather(all.y, some), all.name, all.classes};
  };
  return {part(rows.subspan(aside)), part(rows.first(aside))};
}

Split read_mnist(const std::string& folder) {
  Split sets{read_part(folder, "train"), read_part(folder, "t10k")};
  sets.train.name = sets.test.name = std::filesystem::path(folder).lexically_normal().string();
  return sets;
}

std::string find_fashion_mnist() {
  return find_file(kFashionFolder, "train-images", "idx3-ubyte").empty() ? "" : kFashionFolder;
}

Split load_images(const std::string& folder) {
  const std::string found = folder.empty() ? find_fashion_mnist() : folder;
  if (found.empty()) {
    Split digits{draw_digits(20000, 1), draw_digits(4000, 2)};
    return digits;
  }
  Split sets = read_mnist(found);
  if (found == kFashionFolder) {
    sets.train.name = sets.test.name = "Fashion-MNIST";
    sets.train.classes = sets.test.classes = {"T-shirt", "trouser", "pullover", "dress", "coat",
                                              "sandal",  "shirt",   "sneaker",  "bag",   "boot"};
  }
  return sets;
}

}  // namespace wr::data
