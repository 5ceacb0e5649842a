// What a checkpoint says about itself, read as if an enemy wrote it: a field is there, whole, finite and in range, or
// an Error names the file, the field, its value and what is allowed.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "windrow/checkpoint.h"

namespace wr::apps {

class MetadataReader {
 public:
  static constexpr std::int64_t kManyTimes = std::int64_t{1} << 53;  // no counter of ours gets there
  static constexpr double kLarge = std::numeric_limits<double>::max();

  MetadataReader(const Metadata& metadata, std::string path) : metadata_(metadata), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  const std::string& text(const std::string& name) const;
  std::int64_t whole(const std::string& name, std::int64_t low, std::int64_t high = kManyTimes) const;
  double number(const std::string& name, double low = -kLarge, double high = kLarge) const;
  std::uint64_t bits(const std::string& name) const;
  /// `count` finite numbers separated by blanks, in a field or in a part of it.
  std::vector<double> numbers(const std::string& name, std::size_t count) const;
  std::vector<double> numbers(const std::string& name, const std::string& part, std::size_t count) const;
  /// Parts that end (or are separated) by semicolons, of `count` numbers each.
  std::vector<std::vector<double>> rows(const std::string& name, std::size_t count) const;
  [[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& expected) const;

 private:
  const Metadata& metadata_;
  std::string path_;
};

/// Refuses weights that are not finite: nothing good comes of them.
void expect_finite(const std::string& path, const std::string& name, const Array& values);
void expect_finite(const std::string& path, const CheckpointStates& states);

}  // namespace wr::apps
