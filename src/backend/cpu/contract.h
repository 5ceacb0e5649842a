// Contractions in semirings on one core: blocked and in registers like matrix products, with other operations in the
// tile. A plan makes a Contraction once and runs it every step; lanes call it on their own rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backend/cpu/target.h"
#include "windrow/contract.h"
#include "windrow/dtype.h"

namespace wr {
struct Machine;
}

namespace wr::cpu {

enum class ContractJob { result, share, gradient };

/// Strides in elements of something with rows, columns and batches of them.
struct MatrixStrides {
  std::int64_t batch = 0, row = 0, column = 0;
};

/// out[rows, columns] of first[rows, depth] and panel[depth, columns], which runs along vectors. A gradient also has
/// second[rows, depth]; a share or a gradient has own[rows, columns]. Columns of out and own are contiguous.
struct ContractShape {
  ContractJob job = ContractJob::result;
  Semiring semiring = Semiring::max_product;
  DType dtype = DType::f32;  // f32 or f64
  std::int64_t batch = 1, rows = 0, columns = 0, depth = 0;
  MatrixStrides out, first, second, panel, own;
  bool accumulate = false;  // added to what stands there; only of `gradient`
};

/// Ready to run: a plain value. Running neither allocates, locks nor throws, and gives the same bits every time and for
/// every division into rows and columns, but for sums over parts of the depth.
struct Contraction {
  struct Operands {
    void* out;
    const void *first, *second, *panel, *own;
    void* scratch;
  };
  using Run = void (*)(const Contraction&, const Operands&);
  void operator()(const Operands& operands) const { run(*this, operands); }

  Run run = nullptr;
  std::size_t scratch_bytes = 0;  // of 64-byte aligned memory the caller gives each run
  ContractShape shape;
  std::int64_t depth_block = 0, column_block = 0;
};

/// Throws Error if the dtype is not f32 or f64.
Contraction make_contraction(const ContractShape& shape, Target target, const Machine& machine);
/// Columns that a vector holds.
std::int64_t contraction_lanes(DType dtype, Target target);

/// What each target has of its own.
struct ContractKernel {
  Contraction::Run run = nullptr;
  std::int64_t lanes = 0, panel = 0;  // columns of a vector, and of the widest tile
  std::int64_t spare = 0;             // elements of scratch for each step of the depth, behind the panels
};
template <class T>
ContractKernel contract_kernel(ContractJob job, Semiring semiring, Target target);

}  // namespace wr::cpu
