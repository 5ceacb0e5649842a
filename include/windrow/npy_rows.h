// A .npy file read some rows at a time: for data that are larger than memory, or wanted before all of them are read.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "windrow/array.h"
#include "windrow/spec.h"

namespace wr::data {

class NpyRows {
 public:
  /// Reads the header. Refuses what read_npy refuses, files in Fortran order, and arrays without axes.
  explicit NpyRows(const std::string& path);
  NpyRows(NpyRows&&) noexcept;
  ~NpyRows();

  /// Of the whole array.
  const Spec& spec() const;
  /// `count` rows from `first` on; may be called from any thread.
  Array read(std::int64_t first, std::int64_t count) const;

 private:
  struct Inside;
  std::unique_ptr<Inside> inside_;
};

}  // namespace wr::data
