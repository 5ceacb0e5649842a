// For front ends: what is traced while a SaidAt stands was said at its place, whichever code of the front end calls the
// ops. Profiles, describe() and the graph name that place.
#pragma once

#include "windrow/location.h"

namespace wr {

class SaidAt {
 public:
  explicit SaidAt(Location where);
  ~SaidAt();
  SaidAt(const SaidAt&) = delete;
  SaidAt& operator=(const SaidAt&) = delete;

  /// Of the calling thread: the innermost place, or null.
  static const Location* current();

 private:
  Location where_;
  const SaidAt* outer_;
};

}  // namespace wr
