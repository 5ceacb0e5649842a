// Writes the body of one device function. A function is a sequence of stages; a stage is a set of independent turns
// that the items of a work-group share, and a barrier follows it. Loops round stages are the same for every item.
//
// Two forms: groups of many items (GPUs), and groups of one item whose loops become vectors (CPUs as OpenCL devices).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "backend/device/text.h"
#include "lower/view.h"

namespace wr::device {

enum class Dialect : std::uint8_t { opencl, cuda, cpp };

/// What the text depends on beside the program.
struct Form {
  Dialect dialect = Dialect::opencl;
  int items = 1;                // of a work-group
  std::size_t local_bytes = 0;  // for scratch; 0: scratch stands in global memory
  int vector_bytes = 32;        // of a CPU's registers

  /// Groups that share a unit of a GPU: the planner has so many lanes a unit, and registers are shared out by it.
  static constexpr int kGroupsOfAUnit = 2;

  bool vectors() const { return items == 1; }
  /// Elements of a vector in the form for CPUs, be that one register or two.
  static int lanes(DType dtype) { return dtype == DType::f64 ? 8 : 16; }
  /// Such vectors that a CPU's registers hold: AVX-512 has twice as many, twice as long.
  int registers() const { return vector_bytes >= 64 ? 32 : 8; }
};

/// An index and how far it runs.
struct Axis {
  std::string name;
  std::int64_t size;
};

class Writer {
 public:
  explicit Writer(const Form& form) : form_(form) {}
  const Form& form() const { return form_; }

  template <class... Parts>
  void line(const Parts&... parts) {
    text_ += std::string(static_cast<std::size_t>(2 * depth_), ' ') + cat(parts...) + "\n";
  }
  template <class... Parts>
  void open(const Parts&... parts) {
    line(parts..., " {");
    ++depth_;
  }
  void close() {
    --depth_;
    line("}");
  }

  using Body = std::function<void()>;
  /// A loop of one item, or round stages.
  void loop(const std::string& index, std::int64_t size, const Body& body);
  /// A stage: one turn a combination of indices. `light` turns touch only elements of their own, so that a compiler may
  /// make vectors of the innermost.
  void each(const std::vector<Axis>& axes, const Body& body, bool light = false);

  const std::string& text() const { return text_; }

 private:
  Form form_;
  std::string text_;
  int depth_ = 1;
  int stages_ = 0;
};

/// "i * 12 + j", by strides in elements; "0" where nothing moves.
std::string place(const std::vector<std::string>& index, const Strides& strides);
std::string place(const lower::View& view, const std::vector<std::string>& index);

/// Axes that several views walk through together, outermost first; merged where all of them allow it.
struct Walk {
  std::vector<Axis> axes;
  std::vector<std::string> index;  // their names
  std::vector<Strides> strides;    // by view; 0 along axes that a view does not have

  std::string place(std::size_t view) const { return device::place(index, strides[view]); }
};
Walk walk(const Shape& shape, const std::vector<lower::View>& views);

/// How a run of elements is gone through in vectors: whole ones, then ever shorter.
struct Run {
  std::int64_t begin, count;  // count vectors of `width`, one after the other
  int width;
};
std::vector<Run> runs(std::int64_t size, int widest);

}  // namespace wr::device
