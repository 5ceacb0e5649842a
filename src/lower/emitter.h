// Emitting the calls of one Code: scratch memory by lifetime, in-place reuse, lists of calls.
#pragma once

#include <vector>

#include "lower/program.h"

namespace wr::lower {

class Emitter {
 public:
  /// A scratch buffer that lives from its first to its last use; inside a loop it is for one turn.
  View scratch(DType dtype, const Shape& shape);
  /// The same, but inside a loop for all its turns.
  View lasting_scratch(DType dtype, const Shape& shape);
  View scratch_bytes(std::size_t bytes);

  /// A call of the device's kernel; bit k of `in_place` says that the destination, operand 0, may be operand k's memory
  /// if nobody reads it later.
  void call(int kernel, const std::vector<View>& operands, const char* name, unsigned in_place = 0);

  /// The node that the calls to come belong to, and where that has a body, the node of the body.
  int node = -1, inside = -1;

  /// The calls to come are a list of their own; returns its number.
  int begin_list();
  /// The lists between these two are run in turns, in any number. A loop may stand in another.
  void begin_loop();
  void end_loop();

  struct Memory {
    std::size_t bytes = 0, lower_bound = 0;  // of scratch
  };
  /// Gives the buffers their places behind `reserved` bytes of scratch and hands the lists of calls over.
  std::vector<CallList> finish(std::size_t reserved, Memory& memory);

 private:
  struct Buffer {
    std::size_t bytes;
    int first = -1, last = -1;
    int same_as = -1;  // shares its memory with another buffer
    int loop = -1;     // the innermost whose single turn it is for
  };
  struct Loop {
    int begin, end;  // calls
    int outer;       // the loop it stands in, or -1
  };
  struct Pending {
    Call call;
    CallCost cost;
    std::size_t first_operand;  // in operands_
    unsigned in_place;
  };
  int root(int buffer) const;
  void merge_in_place();
  void keep_through_loops();
  bool is_within(int loop, int outer) const;

  std::vector<Buffer> buffers_;
  std::vector<Pending> calls_;
  std::vector<Operand> operands_;
  std::vector<int> operand_buffers_;  // by operand; -1 where it is no buffer
  std::vector<Loop> loops_;
  int loop_ = -1;           // the innermost that is open
  std::vector<int> lists_;  // first call of each
};

}  // namespace wr::lower
