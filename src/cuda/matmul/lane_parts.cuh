// A lane's share of 16 rows x 128 columns of 4-bit weights as they lie in a checkpoint, for
// products of one row of a (cuda/matmul/few_rows, cuda/matmul/fallback/one_row.cuh): lane 4 g + t
// has 32 neighbours, from column 32 t on, of rows g and g + 8; in two parts of 16.
//
// An instruction, mma.m16n8k16 or k32, has eight columns for rows of a, and one row needs one. So
// columns tell parts apart: column 2 t + p of the second operand has the elements of a that meet
// part p of lane t, and zeros where other lanes' parts are. After all instructions lane t has the
// sums of its own two parts, for both its rows, and multiplies them by their block scales: one
// fused multiply-add for 16 elements. No part is in two blocks, and products are exact. An infinite
// weight would meet the zeros, so this is not for E5M2.
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"

namespace microscale::cuda {

struct LaneParts {
  uint4 codes[2];           // of both rows
  std::uint32_t scales[2];  // bytes of the parts' blocks in order; one where a block has 32

  /// Eight codes of row i: word 2 p and 2 p + 1 are part p.
  __device__ std::uint32_t word(int i, int word) const {
    return word == 0 ? codes[i].x : word == 1 ? codes[i].y : word == 2 ? codes[i].z : codes[i].w;
  }
  /// First operand of m16n8k16 in FP16, instruction `step` of 8, the first four of part 0.
  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const NibblePairs pairs = e2m1_of_word(word(i, step / 2), step % 2 != 0);
      a[i] = pairs.first;
      a[2 + i] = pairs.second;
    }
  }
};

}  // namespace microscale::cuda
