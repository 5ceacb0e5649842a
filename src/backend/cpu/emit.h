// Emitting the kernel calls of one Code: values as strided views, scratch memory by lifetime, parameters kept with the
// program.
#pragma once

#include <map>
#include <new>
#include <type_traits>
#include <vector>

#include "backend/cpu/program.h"
#include "plan/memory.h"

namespace wr::cpu {

/// Elements in memory as a kernel sees them: somewhere behind a base, or in a scratch buffer that has no place yet.
struct View {
  int base = kScratch;
  int buffer = -1;           // of the emitter, when base is kScratch and the place is still open
  std::int64_t offset = 0;   // bytes
  std::int64_t advance = 0;  // bytes a row of the region
  std::int64_t inner = 0;    // bytes a row of the strip
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;

  std::int64_t elem() const { return static_cast<std::int64_t>(size_of(dtype)); }
  std::int64_t count() const { return shape.count(); }
  bool dense() const;
};

View dense_view(int base, std::int64_t offset, DType dtype, const Shape& shape);

/// Can the elements be addressed in another shape without moving them?
bool can_reshape(const View& v, const Shape& shape);
/// What a view op (reshape, permute, broadcast, slice) makes of a view; `shape` is its result's, perhaps of a strip.
View view_through(const ir::Node& op, View v, const Shape& shape);

/// Tables of numbers that kernels read. They live as long as the program; equal ones are one.
class Tables {
 public:
  explicit Tables(Program& program) : program_(program) {}
  const std::int32_t* keep(const std::vector<std::int32_t>& numbers);

 private:
  Program& program_;
  std::map<std::vector<std::int32_t>, const std::int32_t*> kept_;
};

struct CallList {
  std::vector<Instr> instrs;
  std::vector<CallCost> costs;  // by instr
};

class Emitter {
 public:
  Emitter(Program& program, Tables& tables, Target target) : program_(program), tables_(tables), target_(target) {}
  Target target() const { return target_; }
  Tables& tables() { return tables_; }

  /// A scratch buffer that lives from its first to its last use; inside a loop it is for one turn.
  View scratch(DType dtype, const Shape& shape);
  /// The same, but inside a loop for all its turns.
  View lasting_scratch(DType dtype, const Shape& shape);
  View scratch_bytes(std::size_t bytes);

  /// A kernel call; bit k of `in_place` says that the destination may be operand k's memory if nobody reads it later.
  template <class Params>
  void call(void (*kernel)(const Params&, void* const*, std::int64_t), const Params& params,
            const std::vector<View>& operands, const char* name, unsigned in_place = 0) {
    struct Bound {
      void (*kernel)(const Params&, void* const*, std::int64_t);
      Params params;
    };
    static_assert(std::is_trivially_destructible_v<Bound>);
    auto* bound = new (program_.params->allocate(sizeof(Bound), alignof(Bound))) Bound{kernel, params};
    add(
        [](const void* p, void* const* ptr, std::int64_t row0) {
          const auto& b = *static_cast<const Bound*>(p);
          b.kernel(b.params, ptr, row0);
        },
        bound, operands, name, in_place);
  }

  /// The node that the calls to come belong to.
  int node = -1;
  /// A second node whose value the calls to come make as well, or -1.
  int also = -1;

  /// The calls to come are a list of their own; returns its number.
  int begin_list();
  /// The lists between these two are run in turns, in any number.
  void begin_loop();
  void end_loop();

  /// Gives the buffers their places behind `reserved` bytes of scratch and hands the lists of calls over, with their
  /// costs.
  std::vector<CallList> finish(std::size_t reserved);

 private:
  struct Buffer {
    std::size_t bytes;
    int first = -1, last = -1;
    int same_as = -1;  // shares its memory with another buffer
    int loop = -1;     // whose single turn it is for
  };
  struct Loop {
    int begin, end;  // calls
  };
  void add(Instr::Fn fn, const void* params, const std::vector<View>& operands, const char* name, unsigned in_place);
  int root(int buffer) const;
  void merge_in_place();
  void keep_through_loops();

  struct Pending {
    Instr instr;
    CallCost cost;
    int buffer[kMaxOperands];
    unsigned in_place;
  };
  Program& program_;
  Tables& tables_;
  Target target_;
  std::vector<Buffer> buffers_;
  std::vector<Pending> calls_;
  std::vector<Loop> loops_;
  bool in_loop_ = false;
  std::vector<int> lists_;  // first call of each
};

}  // namespace wr::cpu
