// One row of a times b, both NVFP4, on Blackwell: memory bound, so a lane has 32 bytes of each of
// four rows of b on their way while it multiplies the 32 before them, and what it converts of a
// serves all four.
//
// A block of 16 products needs no scale: as FP16 pairs, of which each half sums eight products of
// at most 36 in quarters, 1152 of them, which FP16's 11 bits hold. So all are exact, and the block
// times both scales is, too (12 and 8 bits); only its addition in FP32 rounds.
#pragma once

#include <cstdint>

#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/product_output.cuh"
#include "cuda/matmul/vector/args.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/packed.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda::vector {

#if MICROSCALE_HAS_FP4_CVT

/// 64 elements of a and of four rows of b, as they lie in memory.
struct Slice {
  std::uint32_t a[8], b[rows][8];
  std::uint32_t a_scales, b_scales[rows];
};

/// Where a lane's slices are: it takes every 32nd.
struct Slices {
  const std::uint8_t* a;
  const std::uint8_t* b[rows];
  const std::uint8_t* a_scales;
  const std::uint8_t* b_scales[rows];
  int a_step, b_step;  // bytes from one slice's word of scales to the next one's

  __device__ void load(int index, int count, Slice& s) const {
    if (index < count) {
      ptx::ld_global_nc_evict_last_v8(s.a, a + index * (slice / 2));
      s.a_scales = ptx::ld_global_nc_b32(a_scales + static_cast<std::int64_t>(index) * a_step);
#pragma unroll
      for (int j = 0; j < rows; ++j) {
        ptx::ld_global_nc_no_allocate_v8(s.b[j], b[j] + index * (slice / 2));
        s.b_scales[j] =
            ptx::ld_global_nc_b32(b_scales[j] + static_cast<std::int64_t>(index) * b_step);
      }
    } else {
      s = {};
    }
  }
};

/// Four E4M3 scales.
__device__ inline void scale_values(std::uint32_t word, float (&scale)[4]) {
  const std::uint32_t low = ptx::cvt_rn_f16x2_e4m3x2(word),
                      high = ptx::cvt_rn_f16x2_e4m3x2(word >> 16);
  scale[0] = ptx::cvt_f32_f16(low);
  scale[1] = ptx::cvt_f32_f16(low >> 16);
  scale[2] = ptx::cvt_f32_f16(high);
  scale[3] = ptx::cvt_f32_f16(high >> 16);
}

__device__ inline void multiply(const Slice& s, float (&sum)[rows]) {
  float a_scale[4], b_scale[rows][4];
  scale_values(s.a_scales, a_scale);
#pragma unroll
  for (int j = 0; j < rows; ++j) scale_values(s.b_scales[j], b_scale[j]);
#pragma unroll
  for (int block = 0; block < 4; ++block) {
    std::uint32_t a[2][4];
    ptx::cvt_rn_f16x2_e2m1x2_x4(a[0], s.a[2 * block]);
    ptx::cvt_rn_f16x2_e2m1x2_x4(a[1], s.a[2 * block + 1]);
#pragma unroll
    for (int j = 0; j < rows; ++j) {
      std::uint32_t pair = 0;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        std::uint32_t b[4];
        ptx::cvt_rn_f16x2_e2m1x2_x4(b, s.b[j][2 * block + half]);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          pair = half + i == 0 ? ptx::mul_rn_f16x2(a[half][i], b[i])
                               : ptx::fma_rn_f16x2(a[half][i], b[i], pair);
      }
      const float of_block = __fadd_rn(ptx::cvt_f32_f16(pair), ptx::cvt_f32_f16(pair >> 16));
      sum[j] = __fmaf_rn(of_block, __fmul_rn(a_scale[block], b_scale[j][block]), sum[j]);
    }
  }
}

/// The rows of a warp. K: k, or 0 where it is known at run time only.
template <int K>
__device__ void multiply_rows(const MatmulVectorArgs& args) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int unit = static_cast<int>(blockIdx.x) * warps + static_cast<int>(threadIdx.x / 32);
  const std::int64_t matrix = blockIdx.y;
  const std::int64_t first = unit / 32 * std::int64_t{tiled_128x4::tile_lines} + unit % 32;
  if (first >= args.n) return;
  const int k = K > 0 ? K : static_cast<int>(args.k);
  const int count = k / slice;
  const std::int64_t scale_bytes = k / 16;

  Slices from;
  from.a = args.a + matrix * (k / 2);
  from.a_scales = args.a_scales + matrix * args.a_scale_matrix;
  from.a_step = args.a_tiled ? static_cast<int>(tiled_128x4::tile_bytes) : 4;
  from.b_step = args.b_tiled ? static_cast<int>(tiled_128x4::tile_bytes) : 4;
#pragma unroll
  for (int j = 0; j < rows; ++j) {
    const std::int64_t row = first + 32 * j < args.n ? first + 32 * j : args.n - 1;
    from.b[j] = args.b + (matrix * args.n + row) * (k / 2);
    from.b_scales[j] =
        args.b_scales + matrix * args.b_scale_matrix +
        (args.b_tiled ? tiled_128x4::offset(row, 0, scale_bytes) : row * scale_bytes);
  }

  float sum[rows] = {};
  Slice now, next;
  from.load(lane, count, now);
#pragma unroll 1
  for (int index = lane + 32; index - lane < count; index += 32) {
    from.load(index, count, next);
    multiply(now, sum);
    now = next;
  }
  multiply(now, sum);

  // The lanes' sums in pairs, 16 apart first.
#pragma unroll
  for (int apart = 16; apart > 0; apart /= 2)
#pragma unroll
    for (int j = 0; j < rows; ++j)
      sum[j] = __fadd_rn(sum[j], __shfl_xor_sync(0xffffffffu, sum[j], apart));
  const std::int64_t row = first + 32 * lane;
  if (lane >= rows || row >= args.n) return;
  const float mine = lane == 0 ? sum[0] : lane == 1 ? sum[1] : lane == 2 ? sum[2] : sum[3];
  store_product(args.output, product_factors(args.output, matrix), matrix, 0, row, mine, 0.0f);
}

#endif

}  // namespace microscale::cuda::vector
