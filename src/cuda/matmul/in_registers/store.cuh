// The end of a tile of d in the kernels for many rows: 64 rows of weights times `tokens` rows of a
// lie in a warpgroup's accumulators with the weights' rows across the lanes, and d's rows want them
// side by side. They go through shared memory, [token][row of the weights], and leave in pieces of
// eight columns.
#pragma once

#include <cstdint>

#include "cuda/matmul/in_registers/args.hpp"
#include "cuda/matmul/product_output.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/mma.cuh"

namespace microscale::cuda::in_registers {

/// Accumulators `First` to `First` + `Count` (wgmma.cuh has their places), those of a thread's
/// two rows times a factor each, to shared memory. Lanes of a store are pairs of tokens apart and
/// neighbours in rows: no bank twice.
template <int First, int Count, int All>
__device__ void stage_sums(const float (&d)[All], float factor, float factor8, std::uint32_t to) {
  const std::uint32_t thread = threadIdx.x % 128, lane = thread % 32;
  const std::uint32_t row = thread / 32 * 16 + lane / 4, token = lane % 4 * 2;
  const std::uint32_t first = to + 4 * (token * sum_pitch + row);
#pragma unroll
  for (int i = 0; i < Count; ++i) {
    const float own = i / 2 % 2 == 0 ? factor : factor8;
    ptx::st_shared_f32(first + 4 * ((i / 4 * 8 + i % 2) * sum_pitch + i / 2 % 2 * 8),
                       own == 1.0f ? d[First + i] : __fmul_rn(d[First + i], own));
  }
}

/// What is done with staged sums.
struct TileOutput {
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
                                    const TileOutput& tile, std::int64_t n, std::uint32_t from) {
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
    const std::uint32_t at = from + 4 * (token * sum_pitch + piece * (out.gated ? 16 : 8));
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

// ---
// The short end of a tile of d in the kernels for many rows, where a sum wants nothing but factors
// and 16 bits: it is rounded in its register, so that half as many bytes pass through shared
// memory, and matrices of 8 x 8 change rows for columns on their way there.

/// Whether 64 columns from the tile's on may go the short way.
__device__ inline bool is_rounded(const ProductOutput& out, const TileOutput& tile,
                                  std::int64_t n) {
  return out.gated == 0 && out.bias == nullptr && out.row_weights == nullptr && tile.vectors &&
         static_cast<DType>(out.d_type) != DType::f32 && tile.column + 64 <= n;
}

/// A warpgroup's accumulators of 64 rows of the weights (wgmma.cuh has their places), times
/// `power`, a power of two, and `factor`, to d: the bits of stage_sums and store_staged. Up to 128
/// tokens at once. `to`: 128 bytes for each of these of shared memory, of this warpgroup alone, in
/// which piece c of 16 bytes of token t is at c ^ t % 8.
template <bool F16, int Count>
__device__ void store_rounded(const ProductOutput& out, float factor, float power,
                              const TileOutput& tile, const float (&d)[Count], std::uint32_t to) {
  constexpr int at_once = Count < 64 ? Count : 64, tokens = 2 * at_once;
  const std::uint32_t thread = threadIdx.x % 128, lane = thread % 32, warp = thread / 32;
  const std::uint32_t barrier = 1 + threadIdx.x / 128;
  const auto rounded = [&](float x, float y) {
    if (power != 1.0f) x = __fmul_rn(x, power), y = __fmul_rn(y, power);
    x = __fmul_rn(x, factor), y = __fmul_rn(y, factor);
    return F16 ? ptx::cvt_rn_f16x2_f32(x, y) : ptx::cvt_rn_bf16x2_f32(x, y);
  };
  // Four matrices: eight rows of the weights and the other eight of the warp, of eight tokens, then
  // of the next eight.
  const std::uint32_t own = lane % 8, matrix = lane / 8;
  const std::uint32_t at = to + (matrix / 2 * 8 + own) * 128 + ((2 * warp + matrix % 2) ^ own) * 16;
  const std::uint32_t piece = thread % 8, first = thread / 8;
  const std::uint32_t from = to + first * 128 + (piece ^ first % 8) * 16;
  auto* row = static_cast<std::uint16_t*>(out.d) + tile.matrix * out.d_matrix +
              (tile.row + first) * out.d_stride + tile.column + 8 * piece;
#pragma unroll
  for (int begin = 0; begin < Count; begin += at_once) {
    if (begin > 0 && tile.tokens <= 2 * begin) return;
#pragma unroll
    for (int i = 0; i < at_once; i += 8) {
      const float* eight = d + begin + i;
      const std::uint32_t words[4] = {rounded(eight[0], eight[1]), rounded(eight[2], eight[3]),
                                      rounded(eight[4], eight[5]), rounded(eight[6], eight[7])};
      ptx::stmatrix_m8n8_x4_trans_b16(at + i / 8 * (16 * 128), words);
    }
    ptx::bar_sync(barrier, 128);
#pragma unroll
    for (int i = 0; i < tokens; i += 16, row += 16 * out.d_stride)
      if (static_cast<int>(first) + 2 * begin + i < tile.tokens)
        ptx::st_global_v4(row, ptx::ld_shared_v4(from + i * 128));
    ptx::bar_sync(barrier, 128);
  }
}

}  // namespace microscale::cuda::in_registers
