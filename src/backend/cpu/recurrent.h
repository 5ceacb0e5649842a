// Kernels of recurrent nets over all of the time. Rows of a batch need nothing of one another: a block of them is taken
// through every moment, a product and one walk over its gates at each, while the weights stay in the cache.
#pragma once

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernel.h"

namespace wr::cpu {

/// Sequences are [rows, time, ...] and dense, states [rows, hidden].
struct RecurrentParams {
  std::int64_t rows = 0, time = 0, hidden = 0;
  std::int64_t block = 1;  // rows at a time
  bool reverse = false;    // from the last moment to the first
  bool has_lengths = false;
  bool by_c = false;  // lstm_grad: there is a gradient by c
  Gemm product;       // of a moment, for a block of rows; the weights are the same at all
  Gemm last_product;  // for the last block
};
using RecurrentKernel = void (*)(const RecurrentParams& params, void* const* ptr, std::int64_t row0);

/// [block, hidden] . w_h for lstm and gru; [block, gates] . w_h' added to [block, hidden] for their adjoints.
GemmShape recurrent_product(DType dtype, std::int64_t rows, std::int64_t hidden, std::int64_t gates, bool adjoint);

enum class RecurrentNet { lstm, lstm_grad, gru, gru_grad };

/// ptr, with lengths and by_c anything where there are none:
///   lstm:      gates i f g o, before, h, c <- gates, w_h, h, c, lengths; scratch [block, 4 hidden], [block, hidden]
///   lstm_grad: by gates, by h, by c <- g, gates i f g o, c, c before, w_h, by c, lengths; scratch [block, 4 hidden]
///   gru:       h, before, gates r z n and h . w_n + b_n <- gates, w_h, h, b_h, lengths; scratch [block, 3 hidden],
///              [block, hidden]
///   gru_grad:  by gates, by h . w_h, by h <- g, gates, before, w_h, lengths; scratch [block, 3 hidden]
/// and, last, scratch for the product. lstm's first result may stand where the gates it is given stand, lstm_grad's
/// where the gates i f g o do. f32 and f64.
RecurrentKernel find_recurrent(RecurrentNet net, DType dtype, Target target);

}  // namespace wr::cpu
