// Parts of the keys, whose sums other blocks left, into results.
#pragma once

#include "cuda/tile/attention_rows.cuh"
#include "cuda/tile/grid_order.cuh"

namespace microscale::cuda {

/// Merges the parts of every row in their order; a block has one item.
template <int D, int Rows>
__device__ void attention_decode_merge(const AttentionDecodeArgs& args) {
  follow_previous_grid();
  const DecodeItem item(args, static_cast<int>(blockIdx.x), Rows);
  const std::int64_t first = static_cast<std::int64_t>(item.index) * args.splits;
  const float* const marks =
      args.partial + static_cast<std::int64_t>(gridDim.x) * args.splits * Rows * D;
  for (int i = threadIdx.x; i < item.count * D; i += blockDim.x) {
    const int row = i / D, element = i % D;
    float reference = decode_no_reference, weight = 0.0f, sum = 0.0f;
    for (int s = 0; s < args.splits; ++s)
      reference = fmaxf(reference, marks[((first + s) * Rows + row) * 2]);
    for (int s = 0; s < args.splits; ++s) {
      const float* const mark = marks + ((first + s) * Rows + row) * 2;
      const float share = ptx::ex2_approx_ftz_f32(__fsub_rn(mark[0], reference));
      weight = __fadd_rn(weight, __fmul_rn(mark[1], share));
      sum =
          __fadd_rn(sum, __fmul_rn(args.partial[((first + s) * Rows + row) * D + element], share));
    }
    decode_store(args, item, row, element, reference, weight, sum);
  }
}

}  // namespace microscale::cuda
