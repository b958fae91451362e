// The end of a tile of d in the kernels for many rows: 64 rows of weights times `tokens` rows of a
// lie in a warpgroup's accumulators with the weights' rows across the lanes, and d's rows want them
// side by side. They go through shared memory, [token][row of the weights], and leave in pieces of
// eight columns.
#pragma once

#include <cstdint>

#include "cuda/ptx/memory.cuh"
#include "cuda/matmul/product_output.cuh"
#include "cuda/matmul/in_registers/plan.hpp"

namespace microscale::cuda {

/// Accumulators `First` to `First` + `Count` (wgmma.cuh has their places), those of a thread's
/// two rows times a factor each, to shared memory. Lanes of a store are pairs of tokens apart and
/// neighbours in rows: no bank twice.
template <int First, int Count, int All>
__device__ void stage_sums(const float (&d)[All], float factor, float factor8, std::uint32_t to) {
  const std::uint32_t thread = threadIdx.x % 128, lane = thread % 32;
  const std::uint32_t row = thread / 32 * 16 + lane / 4, token = lane % 4 * 2;
  const std::uint32_t first = to + 4 * (token * wide_pitch + row);
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    const float own = i / 2 % 2 == 0 ? factor : factor8;
    ptx::st_shared_f32(first + 4 * ((i / 4 * 8 + i % 2) * wide_pitch + i / 2 % 2 * 8),
                       own == 1.0f ? d[First + i] : __fmul_rn(d[First + i], own));
  }
}

/// What is done with staged sums.
struct WideTileOutput {
  std::int64_t matrix;
  std::int64_t row;     // of d, of the first token
  std::int64_t column;  // of d, of the first row of the weights
  int tokens;           // that there are
  bool vectors;
};

__device__ inline void load_eight(std::uint32_t from, float (&v)[8]) {
  const uint4 low = ptx::ld_shared_v4(from), high = ptx::ld_shared_v4(from + 16);
  v[0] = __uint_as_float(low.x), v[1] = __uint_as_float(low.y);
  v[2] = __uint_as_float(low.z), v[3] = __uint_as_float(low.w);
  v[4] = __uint_as_float(high.x), v[5] = __uint_as_float(high.y);
  v[6] = __uint_as_float(high.z), v[7] = __uint_as_float(high.w);
}

/// Eight neighbours in d, all inside it and at a multiple of 16 bytes; as store_element rounds.
__device__ inline void store_eight(const ProductOutput& out, std::int64_t index,
                                   const float (&v)[8]) {
  std::uint32_t w[8];
  if (static_cast<DType>(out.d_type) == DType::f32) {
    float* to = static_cast<float*>(out.d) + index;
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = __float_as_uint(v[i] == v[i] ? v[i] : canonical_nan());
    ptx::st_global_v4(to, make_uint4(w[0], w[1], w[2], w[3]));
    ptx::st_global_v4(to + 4, make_uint4(w[4], w[5], w[6], w[7]));
    return;
  }
  const bool f16 = static_cast<DType>(out.d_type) == DType::f16;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    w[i] = f16 ? ptx::cvt_rn_f16x2_f32(v[2 * i], v[2 * i + 1])
               : ptx::cvt_rn_bf16x2_f32(v[2 * i], v[2 * i + 1]);
  ptx::st_global_v4(static_cast<std::uint16_t*>(out.d) + index, make_uint4(w[0], w[1], w[2], w[3]));
}

/// finished() of eight neighbours: what all of them share is asked once.
__device__ inline void finish_eight(const ProductOutput& out, const ProductFactors& factors,
                                    std::int64_t matrix, std::int64_t row, std::int64_t column,
                                    float (&sums)[8], float (&ups)[8]) {
  const auto biased = [&](float factor, float(&v)[8], const void* bias, std::int32_t type) {
    if (bias == nullptr) {
#pragma unroll
      for (float& x : v) x = __fmul_rn(x, factor);
      return;
    }
    const std::int64_t first = matrix * out.bias_matrix + column;
#pragma unroll
    for (int j = 0; j < 8; ++j) v[j] = __fmaf_rn(v[j], factor, load_element(bias, type, first + j));
  };
  biased(factors.sum, sums, out.bias, out.bias_type);
  if (out.gated) {
    biased(factors.up, ups, out.up_bias, out.up_bias_type);
    if (out.gelu) {
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[j] = gelu_tanh_mul(sums[j], ups[j]);
    } else {
#pragma unroll
      for (int j = 0; j < 8; ++j) sums[j] = silu_mul(clamp_gate(sums[j]), 0.0f, ups[j], 0.0f).first;
    }
  }
  if (out.row_weights == nullptr) return;
  const float weight = out.row_weights[row];
#pragma unroll
  for (float& x : sums) x = __fmul_rn(x, weight);
}

/// The 128 threads of a warpgroup store what stage_sums left at `from`, of n columns of d.
__device__ inline void store_staged(const ProductOutput& out, const ProductFactors& factors,
                                    const WideTileOutput& tile, std::int64_t n,
                                    std::uint32_t from) {
  const std::uint32_t thread = threadIdx.x % 128;
  const std::uint32_t shift = out.gated ? 2 : 3;  // pieces of a token: 4 or 8
  const std::uint32_t count = static_cast<std::uint32_t>(tile.tokens) << shift;
#pragma unroll 1
  for (std::uint32_t i = thread; i < count; i += 128) {
    const std::uint32_t token = i >> shift, piece = i & ((1u << shift) - 1);
    const std::int64_t column = tile.column + 8 * piece;
    if (column >= n) continue;
    const std::int64_t row = tile.row + token;
    // Gated: 16 rows of the weights are eight of the gate, then the same of up.
    const std::uint32_t at = from + 4 * (token * wide_pitch + piece * (out.gated ? 16 : 8));
    float sums[8], ups[8];
    load_eight(at, sums);
    if (out.gated) {
      load_eight(at + 32, ups);
    } else {
#pragma unroll
      for (float& up : ups) up = 0.0f;
    }
    const std::int64_t index = tile.matrix * out.d_matrix + row * out.d_stride + column;
    if (n - column >= 8) {
      finish_eight(out, factors, tile.matrix, row, column, sums, ups);
      if (tile.vectors) {
        store_eight(out, index, sums);
      } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) store_element(out.d, out.d_type, index + j, sums[j]);
      }
    } else {
#pragma unroll 1
      for (int j = 0; j < static_cast<int>(n - column); ++j)
        store_product(out, factors, tile.matrix, row, column + j,
                      __uint_as_float(ptx::ld_shared_b32(at + 4 * j)),
                      out.gated ? __uint_as_float(ptx::ld_shared_b32(at + 32 + 4 * j)) : 0.0f);
    }
  }
}

}  // namespace microscale::cuda
