// Products of few rows of a: what counts is reading the weights once, at the speed of memory, with
// as few instructions as can be. The weights are the first operand of mma.m16n8k16, 16 rows of them
// a thread block; its warps take turns along k and add up at the end, in a fixed order. a comes in
// FP16 units (prepare.cuh), 8 or 16 of its rows at a time.
//
// An instruction's products are exact and summed in FP32. MX scales, of either side, are multiplied
// into sums of 32; NVFP4's are in the operands.
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/matmul/args.hpp"
#include "cuda/matmul/fragment_order.hpp"
#include "cuda/matmul/product_output.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/mma.cuh"

namespace microscale::cuda {

inline constexpr int matmul_rows_warps = 8;
inline constexpr int matmul_rows_threads = 32 * matmul_rows_warps;

/// A lane's units of 64 columns of one row of a, and of two blocks the scales of rows 2 t, 2 t + 1.
template <bool Scaled>
struct LaneUnits {
  uint4 halves[2];
  float scales[2][2];  // [block][row]
};

/// Whether operands are BF16 instead.
template <class Weights>
inline constexpr bool multiplies_bf16 = requires {
  requires Weights::bf16;
};

/// Args: MatmulRowsArgs, or what another kernel has in its place, with `n`, `rows` and `output`;
/// its rows of a have no factors then.
template <class Weights, bool Scaled, int Tiles, class Args = MatmulRowsArgs>
struct RowsProduct {
  static constexpr int parts = Weights::columns / 64;
  static constexpr bool by_block = Weights::scales_follow || Scaled;
  using Units = LaneUnits<Scaled>;

  const Args& args;
  const int lane = static_cast<int>(threadIdx.x & 31), warp = static_cast<int>(threadIdx.x >> 5);
  MatrixRows rows;        // those of the matrix
  std::int64_t done = 0;  // the first of them in hand
  float sums[Tiles][4] = {};

  __device__ RowsProduct(const Args& a, MatrixRows r) : args(a), rows(r) {}

  __device__ Units units(int tile, std::int64_t columns64) const {
    Units u{};
    const std::int64_t row = done + 8 * tile + lane / 4;
    if (row < rows.count) {
      const auto* at = static_cast<const unsigned char*>(args.units) +
                       (rows.first + row) * args.units_stride + columns64 * 128 + 16 * (lane % 4);
      u.halves[0] = *reinterpret_cast<const uint4*>(at);
      u.halves[1] = *reinterpret_cast<const uint4*>(at + 64);
    }
    if constexpr (Scaled) {
      const std::int64_t blocks = args.k / 32;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int64_t of = done + 8 * tile + 2 * (lane % 4) + i % 2, b = 2 * columns64 + i / 2;
        if (of < rows.count && b < blocks)
          u.scales[i / 2][i % 2] = args.block_scales[(rows.first + of) * blocks + b];
      }
    }
    return u;
  }

  __device__ static void add_products(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                      std::uint32_t b1) {
    if constexpr (multiplies_bf16<Weights>)
      ptx::mma_m16n8k16_f32_bf16(d, a, b0, b1);
    else
      ptx::mma_m16n8k16_f32_f16(d, a, b0, b1);
  }
  /// 32 columns of one part.
  __device__ void multiply(const Weights& weights, const Units (&u)[Tiles], int part, int block) {
    std::uint32_t a[2][4];
    const int first = 4 * part + 2 * block;
    if constexpr (requires { weights.fragments(first, a); }) {
      weights.fragments(first, a);
    } else {
      weights.fragment(first, a[0]);
      weights.fragment(first + 1, a[1]);
    }
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
      const uint4 b = u[tile].halves[block];
      if constexpr (!by_block) {
        add_products(sums[tile], a[0], b.x, b.y);
        add_products(sums[tile], a[1], b.z, b.w);
      } else {
        float d[4] = {};
        add_products(d, a[0], b.x, b.y);
        add_products(d, a[1], b.z, b.w);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float scale = 1.0f;
          if constexpr (Weights::scales_follow) {
            const RowScales own = weights.row_scales(block);
            scale = i < 2 ? own.row : own.row_8;
            if constexpr (Scaled) scale = __fmul_rn(scale, u[tile].scales[block][i % 2]);
          } else {
            scale = u[tile].scales[block][i % 2];
          }
          sums[tile][i] = __fmaf_rn(d[i], scale, sums[tile][i]);
        }
      }
    }
  }

  struct Chunk {
    Weights weights;
    Units units[parts][Tiles];
  };
  template <class Source>
  __device__ Chunk load(const Source& source, std::int64_t chunk) const {
    Chunk c;
    c.weights = Weights::load(source, chunk);
#pragma unroll
    for (int part = 0; part < parts; ++part)
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile)
        c.units[part][tile] = units(tile, chunk * parts + part);
    return c;
  }

  template <class Source>
  __device__ void sum_up(const Source& source) {
    const std::int64_t chunks = (args.k + Weights::columns - 1) / Weights::columns;
    std::int64_t chunk = warp;
    if (chunk >= chunks) return;
    Chunk ahead = load(source, chunk);
    while (true) {
      const Chunk now = ahead;
      chunk += matmul_rows_warps;
      if (chunk < chunks) ahead = load(source, chunk);
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        multiply(now.weights, now.units[part], part, 0);
        multiply(now.weights, now.units[part], part, 1);
      }
      if (chunk >= chunks) return;
    }
  }

  /// The warps' sums, first to last, then the epilogue.
  __device__ void finish(std::int64_t matrix, std::int64_t row_tile) {
    __shared__ float all[matmul_rows_warps][Tiles * 4][32];
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) all[warp][4 * tile + i][lane] = sums[tile][i];
    __syncthreads();
    if (threadIdx.x < 64 * Tiles) {
      const int tile = warp / 2, i = warp % 2;
      float low = 0.0f, high = 0.0f;  // of weight rows g and g + 8
#pragma unroll
      for (int w = 0; w < matmul_rows_warps; ++w) {
        low = __fadd_rn(low, all[w][4 * tile + i][lane]);
        high = __fadd_rn(high, all[w][4 * tile + i + 2][lane]);
      }
      store(product_factors(args.output, matrix), matrix, row_tile,
            done + 8 * tile + 2 * (lane % 4) + i, lane / 4, low, high);
    }
    __syncthreads();
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[tile][i] = 0.0f;
  }

  /// Of weight rows g and g + 8 of a row tile.
  __device__ void store(const ProductFactors& factors, std::int64_t matrix, std::int64_t row_tile,
                        std::int64_t row, int g, float low, float high) const {
    if (row >= rows.count) return;
    const ProductOutput& out = args.output;
    const bool grouped = args.rows.expert_rows != nullptr;
    float factor = static_cast<float>(1 << Weights::exponent_bias);
    if constexpr (requires { args.row_factors; })
      if (args.row_factors != nullptr)
        factor = __fmul_rn(factor, args.row_factors[rows.first + row]);
    low = __fmul_rn(low, factor);
    high = __fmul_rn(high, factor);
    const std::int64_t of = grouped ? rows.first + row : row;
    const std::int64_t col = row_tile * (out.gated ? 8 : 16) + g;
    if (col >= args.n) return;
    store_product(out, factors, matrix, of, col, low, high);
    if (!out.gated && col + 8 < args.n)
      store_product(out, factors, matrix, of, col + 8, high, 0.0f);
  }
};

template <class Weights, bool Scaled, int Tiles>
__device__ void matmul_rows(const MatmulRowsArgs& args) {
  for (std::int64_t matrix = blockIdx.y; matrix < args.rows.matrices; matrix += gridDim.y) {
    const MatrixRows rows = rows_of_matrix(args.rows, matrix);
    RowsProduct<Weights, Scaled, Tiles> product(args, rows);
    const auto source = [&] {
      if constexpr (requires { Weights::source(args, matrix, std::int64_t{}); })
        return Weights::source(args, matrix, std::int64_t{blockIdx.x});
      else
        return typename Weights::Source(args, matrix, blockIdx.x);
    }();
    for (product.done = 0; product.done < rows.count; product.done += 8 * Tiles) {
      product.sum_up(source);
      product.finish(matrix, blockIdx.x);
    }
  }
}

}  // namespace microscale::cuda
