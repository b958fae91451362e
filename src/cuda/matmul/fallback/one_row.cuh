// One row of a by weights that are not packed, k a multiple of 128, on every architecture. Wins
// over kernel.cuh, which takes eight rows at a time, by the count of instructions, which set the
// pace here: 157 to 180 for 16 x 128 elements of a warp on sm_90a, where the other takes 169 to 238
// at the least. Two to four blocks fit on a multiprocessor (cmake/kernels.cmake). On Hopper it
// serves what few_rows refuses (gates, experts of one row, E4M3, rows of a in MXFP8, k or addresses
// that bulk copies cannot read), on Blackwell all pairs but NVFP4 by NVFP4 (cuda/matmul/vector) and
// E5M2.
//
// Columns of mma.m16n8k16 tell parts of 16 elements apart (cuda/matmul/lane_parts.cuh), so a block
// scale of either side costs one fused multiply-add for 16 elements.
#pragma once

#include <cstdint>

#include "cuda/block/block_scale.cuh"
#include "cuda/matmul/args.hpp"
#include "cuda/matmul/fallback/kernel.cuh"
#include "cuda/matmul/fallback/weights_unpacked.cuh"
#include "cuda/matmul/fragment_order.hpp"
#include "cuda/matmul/lane_parts.cuh"
#include "cuda/ptx/mma.cuh"

namespace microscale::cuda {

// Weights for one_row.cuh, k a multiple of 128: a lane loads 16 bytes that lie together of each of
// its two rows, and the scales of just those. From one 128 columns to the next all of it is equally
// far apart, in either layout of scales.

/// Where a lane's codes and scales begin, of rows g and g + 8.
struct OneRowSource {
  const std::uint8_t *codes[2], *scales[2];
  std::int64_t scale_step[2];  // from 128 columns to the next

  template <int CodeBits>
  __device__ void advance(int chunks) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      codes[i] += chunks * (16 * CodeBits);
      scales[i] += chunks * scale_step[i];
    }
  }

  /// `column`: the lane's first of 128.
  template <int CodeBits, int Block>
  __device__ static OneRowSource of(const MatmulRowsArgs& args, std::int64_t matrix,
                                    std::int64_t row_tile, int column) {
    const auto unpacked = UnpackedSource::of<CodeBits, Block>(args, matrix, row_tile);
    constexpr int blocks = 128 / Block;
    OneRowSource source;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      source.codes[i] = unpacked.codes[i] + column * CodeBits / 8;
      const std::int64_t block = column / Block;
      source.scales[i] =
          unpacked.scales[i] + (unpacked.tiled[i]
                                    ? tiled_128x4::offset(unpacked.row[i], block, unpacked.blocks)
                                    : block);
      source.scale_step[i] =
          unpacked.tiled[i] ? blocks / tiled_128x4::tile_blocks * tiled_128x4::tile_bytes : blocks;
    }
    return source;
  }
};

/// 128 columns of 4-bit weights.
template <int Block>
struct OneRowFp4 : LaneParts {
  static constexpr int exponent_bias = e2m1_bits_bias;
  static constexpr int code_bits = 4;

  __device__ static OneRowSource source(const MatmulRowsArgs& args, std::int64_t matrix,
                                        std::int64_t row_tile) {
    return OneRowSource::of<4, Block>(args, matrix, row_tile,
                                      32 * static_cast<int>(threadIdx.x % 4));
  }
  __device__ static OneRowFp4 load(const OneRowSource& s) {
    OneRowFp4 w;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      w.codes[i] = ptx::ld_global_nc_no_allocate_v4(s.codes[i]);
      w.scales[i] = Block == 16 ? __ldg(reinterpret_cast<const std::uint16_t*>(s.scales[i]))
                                : __ldg(s.scales[i]);
    }
    return w;
  }
  /// Of row i, part 0 or 1.
  __device__ float scale(int i, int part) const {
    if constexpr (Block == 32) return decode_e8m0(static_cast<std::uint8_t>(scales[i]));
    return decode_e4m3(scales[i] >> 8 * part & 0x7Fu);
  }
  /// Which block of 32 of the 128 columns a part is in; for scales of a.
  __device__ static int block_32(int t, int) { return t; }
};

template <class Codec>
struct OneRowFp8 {
  static constexpr int exponent_bias = 0;
  static constexpr int code_bits = 8;
  uint4 codes[2][2];  // [row][part]
  std::uint32_t scales[2][2];

  __device__ static OneRowSource source(const MatmulRowsArgs& args, std::int64_t matrix,
                                        std::int64_t row_tile) {
    return OneRowSource::of<8, 32>(args, matrix, row_tile, 16 * static_cast<int>(threadIdx.x % 4));
  }
  __device__ static OneRowFp8 load(const OneRowSource& s) {
    OneRowFp8 w;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        w.codes[i][part] = ptx::ld_global_nc_no_allocate_v4(s.codes[i] + 64 * part);
        w.scales[i][part] = __ldg(s.scales[i] + 2 * part);
      }
    return w;
  }
  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint4 part = codes[i][step / 4];
      const std::uint32_t words[4] = {part.x, part.y, part.z, part.w};
      a[i] = cvt_f16x2<Codec>(words[step % 4] & 0xFFFFu);
      a[2 + i] = cvt_f16x2<Codec>(words[step % 4] >> 16);
    }
  }
  __device__ float scale(int i, int part) const {
    return decode_e8m0(static_cast<std::uint8_t>(scales[i][part]));
  }
  __device__ static int block_32(int t, int part) { return 2 * part + t / 2; }
};

/// The sum over the four lanes that share a row.
__device__ inline float sum_of_four(float sum) {
  sum = __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, 1));
  return __fadd_rn(sum, __shfl_xor_sync(0xFFFFFFFFu, sum, 2));
}

template <class Weights, bool Scaled>
struct OneRowProduct {
  struct Chunk {
    Weights weights;
    uint4 units[2][2];  // [part]: 16 elements of a where this lane's column is that part's, else 0
    float scales[2];    // of a, by part
  };

  const MatmulRowsArgs& args;
  const OneRowSource source;
  std::int64_t row = 0;  // of a
  const int lane = static_cast<int>(threadIdx.x & 31), warp = static_cast<int>(threadIdx.x >> 5);
  float sums[2] = {};  // of rows g and g + 8

  /// Where a lane reads its part of 128 columns.
  struct Place {
    OneRowSource weights;
    const unsigned char* units;
    const float* scales;

    __device__ void advance(int chunks) {
      weights.advance<Weights::code_bits>(chunks);
      units += chunks * (unit_columns * 2);
      scales += chunks * (unit_columns / 32);
    }
  };

  /// Loads units and scales of a; the weights are loaded a chunk ahead.
  __device__ Chunk load(const Place& at) const {
    Chunk c{};
    const int t = lane % 4, column = lane / 4;
#pragma unroll
    for (int part = 0; part < 2; ++part)
      if (column == 2 * t + part) {
        c.units[part][0] = *reinterpret_cast<const uint4*>(at.units + 128 * part);
        c.units[part][1] = *reinterpret_cast<const uint4*>(at.units + 128 * part + 64);
      }
    if constexpr (Scaled)
#pragma unroll
      for (int part = 0; part < 2; ++part) c.scales[part] = at.scales[Weights::block_32(t, part)];
    return c;
  }

  __device__ static void multiply(const Chunk& c, float (&sums)[2]) {
    float d[2][4] = {};
#pragma unroll
    for (int step = 0; step < 8; ++step) {
      std::uint32_t a[4];
      c.weights.fragment(step, a);
      const uint4 both = c.units[step / 4][step % 4 / 2];
      const std::uint32_t b0 = step % 2 ? both.z : both.x, b1 = step % 2 ? both.w : both.y;
      ptx::mma_m16n8k16_f32_f16(d[step % 2], a, b0, b1);
    }
#pragma unroll
    for (int part = 0; part < 2; ++part)
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        float scale = c.weights.scale(i, part);
        if constexpr (Scaled) scale = __fmul_rn(scale, c.scales[part]);
        const int at = 2 * i + part;
        sums[i] = __fmaf_rn(__fadd_rn(d[0][at], d[1][at]), scale, sums[i]);
      }
  }

  __device__ void sum_up() {
    const int chunks = static_cast<int>(args.k / unit_columns);
    Place at{source,
             static_cast<const unsigned char*>(args.units) + row * args.units_stride +
                 unit_byte(0, lane % 4),
             args.block_scales + row * (args.k / 32)};
    at.advance(warp);
    if (warp >= chunks) return;
    Weights next = Weights::load(at.weights);
#pragma unroll 1
    for (int chunk = warp;;) {
      Chunk now = load(at);
      now.weights = next;
      chunk += matmul_rows_warps;
      at.advance(matmul_rows_warps);
      if (chunk < chunks) next = Weights::load(at.weights);  // a chunk ahead
      multiply(now, sums);
      if (chunk >= chunks) return;
    }
  }

  /// Adds up the sums of four lanes, then of the warps in their order, and stores them.
  __device__ void finish(const RowsProduct<Weights, Scaled, 1>& store, std::int64_t matrix,
                         std::int64_t row_tile, std::int64_t row_of_matrix) {
    __shared__ float all[matmul_rows_warps][16];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float sum = sum_of_four(sums[i]);
      if (lane % 4 == 0) all[warp][8 * i + lane / 4] = sum;
      sums[i] = 0.0f;
    }
    __syncthreads();
    if (warp == 0 && lane % 4 == 0) {
      float low = 0.0f, high = 0.0f;
#pragma unroll
      for (int w = 0; w < matmul_rows_warps; ++w) {
        low = __fadd_rn(low, all[w][lane / 4]);
        high = __fadd_rn(high, all[w][8 + lane / 4]);
      }
      store.store(product_factors(args.output, matrix), matrix, row_tile, row_of_matrix, lane / 4,
                  low, high);
    }
    __syncthreads();
  }
};

template <class Weights, bool Scaled>
__device__ void multiply_one_row(const MatmulRowsArgs& args) {
  for (std::int64_t matrix = blockIdx.y; matrix < args.rows.matrices; matrix += gridDim.y) {
    const MatrixRows rows = rows_of_matrix(args.rows, matrix);
    OneRowProduct<Weights, Scaled> product{args, Weights::source(args, matrix, blockIdx.x)};
    const RowsProduct<Weights, Scaled, 1> end(args, rows);
    for (std::int64_t row = 0; row < rows.count; ++row) {
      product.row = rows.first + row;
      product.sum_up();
      product.finish(end, matrix, blockIdx.x, row);
    }
  }
}

}  // namespace microscale::cuda
