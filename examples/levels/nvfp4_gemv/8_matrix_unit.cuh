// Level 8: 16 rows a warp by mma.m16n8k16, in the manner of the shipped kernels. Eight warps of a
// thread block take turns along k and add up at the end, in a fixed order.
//
// b is one vector, and the instruction has room for eight. So a column is used for a block instead:
// lane t of four loads 16 bytes of its row, blocks 2 t and 2 t + 1 of eight, and column j of the
// other operand holds block j of b where lane j / 2 multiplies it and zeros elsewhere. An instruction
// sums over what all four lanes bring, but every column gets the products of one block only. After
// eight instructions lane t has in columns 2 t and 2 t + 1 the sums of the very blocks it loaded, and
// scales them in FP32: one multiplication for 16 elements.
//
// Exact: b times its scale (FP16, at most 6 significant bits), each product, the scaling's operands.
// Rounded: FP32 additions. Bits: the same every time. Bytes: 0.5625 an element, b from shared memory.
// Instructions an element: decoding 11 for 8, and for 64 of them 8 mma, 4 loads of b, 2 + 2 of a.
#pragma once

#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/mma.cuh"
#include "decode.cuh"
#include "layouts/tiled_128x4.hpp"
#include "row.cuh"

namespace levels {

inline constexpr int matrix_rows = 16, matrix_warps = 8;
inline constexpr int step_elements = 128, step_blocks = 8;  // of a row
inline constexpr float codes_bias = 0x1p14f;

/// Eight codes as four pairs of FP16, each 2^-14 of its number: elements 3 and 7, 1 and 5, 2 and 6,
/// 0 and 4. A code's bits are put where E5M2 has them, four at a time; E5M2 is the upper byte of
/// FP16. 11 instructions.
__device__ inline void e2m1_to_small_pairs(std::uint32_t (&pairs)[4], std::uint32_t codes) {
  const std::uint32_t odd = (codes & 0x8080'8080u) | (codes >> 3 & 0x0E0E'0E0Eu);
  const std::uint32_t even = (codes << 4 & 0x8080'8080u) | (codes << 1 & 0x0E0E'0E0Eu);
  pairs[0] = odd & 0xFF00'FF00u;
  pairs[1] = __byte_perm(odd, 0, 0x2404);  // bytes 2 and 0 up, zeros below
  pairs[2] = even & 0xFF00'FF00u;
  pairs[3] = __byte_perm(even, 0, 0x2404);
}

/// The whole vector times its scales into shared memory, in the order of the pairs above; a quarter
/// of a kilobyte a step, then 64 zero bytes.
__device__ inline void decode_vector(const GemvArgs& args, const GemvRow& row, uint4* to) {
  using namespace microscale;
  const std::int64_t words = args.k / 8, filled = (args.k + step_elements - 1) / step_elements * 16;
  const auto* scales = args.tiled ? args.b_scales + blockIdx.y * tiled_128x4::bytes(
                                                        gemv_vector_rows, row.blocks)
                                  : row.b_scales;
  for (std::int64_t word = threadIdx.x; word < filled + 4; word += blockDim.x) {
    std::uint32_t pairs[4] = {};
    if (word < words) {
      const std::int64_t block = word / 2;
      const std::uint32_t code = scales[args.tiled ? tiled_128x4::offset(0, block, row.blocks) : block];
      const std::uint32_t scale = ptx::cvt_rn_f16x2_e4m3x2(code | code << 8);
      e2m1_to_small_pairs(pairs, reinterpret_cast<const std::uint32_t*>(row.b)[word]);
#pragma unroll
      for (std::uint32_t& pair : pairs)
        pair = ptx::mul_rn_f16x2(ptx::mul_rn_f16x2(pair, 0x7400'7400u), scale);
    }
    to[word] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
  __syncthreads();
}

/// A lane's 32 neighbouring elements of a step, in one row: rows beyond the last are the last,
/// elements beyond k have the scale 0.
struct Line {
  const std::uint8_t *codes, *scales;
  int scale_step;  // bytes from step to step

  __device__ Line(const GemvArgs& args, std::int64_t wanted) {
    using namespace microscale;
    const std::int64_t m = min(wanted, args.m - 1), t = threadIdx.x % 4;
    const GemvRow row = gemv_row(args, m);
    codes = row.a + 16 * t;
    scales = args.tiled ? args.a_scales + blockIdx.y * tiled_128x4::bytes(args.m, row.blocks) +
                              tiled_128x4::offset(m, 2 * t, row.blocks)
                        : row.a_scales + 2 * t;
    scale_step = args.tiled ? 2 * tiled_128x4::tile_bytes : step_blocks;
  }
};

struct Chunk {
  uint4 codes[2];
  std::uint32_t scales[2];  // two bytes each
};

__device__ inline Chunk load_chunk(const Line (&lines)[2], int step, bool inside) {
  Chunk chunk{};
  if (inside) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      chunk.codes[i] =
          microscale::ptx::ld_global_nc_no_allocate_v4(lines[i].codes + step * (step_elements / 2));
      chunk.scales[i] = __ldg(reinterpret_cast<const std::uint16_t*>(
          lines[i].scales + static_cast<std::int64_t>(step) * lines[i].scale_step));
    }
  }
  return chunk;
}

extern "C" __global__ void __launch_bounds__(32 * matrix_warps, 4) gemv_8_matrix_unit(GemvArgs args) {
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
      const uint4 b = vector[own[word / 2] ? step * 16 + 2 * g + word % 2 : steps * 16 + (word ^ 2)];
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
