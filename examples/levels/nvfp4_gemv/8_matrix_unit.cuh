// Level 8: 16 rows a warp by mma.m16n8k16, in the manner of the shipped kernels. Eight warps of a
// thread block take turns along k and add up at the end, in a fixed order.
//
// b is one vector, and the instruction has room for eight. So a column is used for a block instead:
// lane t of four loads 16 bytes of its row, blocks 2 t and 2 t + 1 of eight, and column j of the
// other operand holds block j of b where lane j / 2 multiplies it and zeros elsewhere. An
// instruction sums over what all four lanes bring, but every column gets the products of one block
// only. After eight instructions lane t has in columns 2 t and 2 t + 1 the sums of the very blocks
// it loaded, and scales them in FP32: one multiplication for 16 elements.
//
// Exact: b times its scale (FP16, at most 6 significant bits), each product, the scaling's
// operands. Rounded: FP32 additions. Bits: the same every time. Bytes: 0.5625 an element, b from
// shared memory. Instructions an element: decoding 11 for 8, and for 64 of them 8 mma, 4 loads of
// b, 2 + 2 of a.
#pragma once

#include "cuda/ptx/mma.cuh"
#include "matrix_operands.cuh"

namespace levels {

extern "C" __global__ void __launch_bounds__(32 * matrix_warps, 4)
    gemv_8_matrix_unit(GemvArgs args) {
  using namespace microscale;
  extern __shared__ uint4 vector[];
  __shared__ float sums[matrix_warps][matrix_rows];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * matrix_rows;
  decode_vector(args, gemv_row(args, first), vector);

  // Of block 2 t + s, column g has the numbers if it is its own, else zeros.
  const int k = static_cast<int>(args.k), steps = (k + step_elements - 1) / step_elements;
  const bool own[2] = {g == 2 * t, g == 2 * t + 1};
  const Line lines[2] = {Line(args, first + g), Line(args, first + g + 8)};
  const auto load = [&](int step) {
    return load_chunk(lines, step, step * step_elements + 32 * t < k);
  };
  float sum[2] = {};
  Chunk next = load(warp);
#pragma unroll 1
  for (int step = warp; step < steps; step += matrix_warps) {
    const Chunk now = next;
    next = load(step + matrix_warps);
    const std::uint32_t words[2][4] = {
        {now.codes[0].x, now.codes[0].y, now.codes[0].z, now.codes[0].w},
        {now.codes[1].x, now.codes[1].y, now.codes[1].z, now.codes[1].w}};
    float d[4] = {};
#pragma unroll
    for (int word = 0; word < 4; ++word) {  // two words a block
      // The zeros are read two places on, from other banks than the numbers.
      const uint4 b =
          vector[own[word / 2] ? step * 16 + 2 * g + word % 2 : steps * 16 + (word ^ 2)];
      std::uint32_t upper[4], lower[4];
      e2m1_to_small_pairs(upper, words[0][word]);
      e2m1_to_small_pairs(lower, words[1][word]);
      ptx::mma_m16n8k16_f32_f16(d, {upper[0], lower[0], upper[1], lower[1]}, b.x, b.y);
      ptx::mma_m16n8k16_f32_f16(d, {upper[2], lower[2], upper[3], lower[3]}, b.z, b.w);
    }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t pair = ptx::cvt_rn_f16x2_e4m3x2(now.scales[i]);
      sum[i] = __fmaf_rn(d[2 * i], ptx::cvt_f32_f16(pair), sum[i]);
      sum[i] = __fmaf_rn(d[2 * i + 1], ptx::cvt_f32_f16(pair >> 16), sum[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < 2; ++i) {  // the four lanes of a row, then the warps
    sum[i] = __fadd_rn(sum[i], __shfl_xor_sync(0xFFFFFFFFu, sum[i], 1));
    sum[i] = __fadd_rn(sum[i], __shfl_xor_sync(0xFFFFFFFFu, sum[i], 2));
    if (t == 0) sums[warp][g + 8 * i] = sum[i];
  }
  __syncthreads();
  const std::int64_t m = first + threadIdx.x;
  if (threadIdx.x >= matrix_rows || m >= args.m) return;
  float total = 0.0f;
#pragma unroll
  for (int w = 0; w < matrix_warps; ++w) total = __fadd_rn(total, sums[w][threadIdx.x]);
  store_half(args.c + blockIdx.y * args.m + m, __fmul_rn(total, codes_bias));
}

}  // namespace levels
