// Attention of one head after the other, in blocks of queries and keys: the scores of a block stay in cache, sums of
// exponentials go along from block to block.
#pragma once

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernel.h"

namespace wr::cpu {

/// From one sample, position and head to the next, in elements; columns lie together. Positions are queries or keys.
struct HeadStrides {
  std::int64_t batch = 0, position = 0, head = 0;
};

/// A product for each size of block that occurs. Of the queries and keys of a block, those on one side are few: a whole
/// block of them or what is left over in the end. The other side is long: some whole units, and what is left over of
/// one if it reaches the end.
struct BlockGemms {
  static constexpr std::int64_t kUnits = 8;  // at most, of a long side
  Gemm of[2][2][kUnits];
};

struct AttentionParams {
  std::int64_t batch = 0, queries = 0, keys = 0, heads = 0, width = 0;
  // Forward keys are the long side, backward queries. Where not all is seen, it ends (begins) at a whole unit.
  std::int64_t query_block = 0, key_block = 0, unit = 0;
  std::int64_t query_line = 0;  // a block of queries as whole vectors
  double scale = 1;
  bool causal = false;
  std::int64_t first = 0;     // position of the first query among the keys
  bool first_is_row = false;  // and the strip's first row is to be added to it
  bool masked = false;
  HeadStrides q, k, v, out, lse, g, dq, dk, dv;
  std::int64_t q_row = 0, k_row = 0, v_row = 0, g_row = 0;     // from one to the next as the products read them
  std::int64_t mask_batch = 0, mask_head = 0, mask_query = 0;  // in elements; keys lie together
  bool add_dk = false, add_dv = false;                         // to what stands there
  bool once = false;                   // the long side is one block: its products need not add to what stands there
  BlockGemms scores;                   // k q'
  BlockGemms values;                   // forward: p' v
  BlockGemms along, of_v, of_k, of_q;  // backward: v g', p' g, ds' q, ds k
};

/// Where what stands in a run's scratch (beside that of its products), in elements.
struct AttentionScratch {
  std::int64_t k_rows = 0, v_rows = 0, q_rows = 0, g_rows = 0;  // of a head, together
  std::int64_t lse = 0, along = 0;                              // of all queries of a head
  std::int64_t qt = 0, gt = 0;                                  // of all queries going back, else of a block
  std::int64_t scores = 0, slopes = 0, results = 0, tops = 0;   // of a block
  std::int64_t size = 0;
};
AttentionScratch scratch_of(const AttentionParams& params, bool backward);

/// Forward, ptr: out, lse, q, k, v, scratch, the products' scratch, mask (if masked).
/// Backward, ptr: dq, dk, dv, q, k, v, out, lse, g, scratch, the products' scratch, mask (if masked).
using AttentionKernel = void (*)(const AttentionParams& params, void* const* ptr, std::int64_t row0);
AttentionKernel find_attention(DType dtype, bool backward, Target target);

}  // namespace wr::cpu
