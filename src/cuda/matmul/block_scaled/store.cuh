// A block-scaled product's sums, from a warp's registers to d: 32 rows at a time through shared
// memory, so that neighbouring lanes finish and store neighbouring columns, four each.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/matmul/args.hpp"
#include "cuda/matmul/block_scaled/operands.cuh"
#include "cuda/matmul/product_output.cuh"
#include "cuda/matmul/product_tile.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"

namespace microscale::cuda::block_scaled {

/// FP32 numbers from row to row: lanes 4 g + t store two at 8 g + 2 t of the 32 banks.
inline constexpr int staged_stride = 72;
inline constexpr int staged_bytes = 32 * staged_stride * 4;  // of a warp
static_assert(4 * staged_bytes <= shared_bytes, "the stages' memory holds it");

/// Finished sums as elements of d, at `at` of its elements.
__device__ inline void store_four(const ProductOutput& out, std::int64_t at, const float (&x)[4]) {
  if (static_cast<DType>(out.d_type) == DType::f32) {
    const auto bits = [](float v) { return __float_as_uint(v == v ? v : canonical_nan()); };
    ptx::st_global_v4(static_cast<float*>(out.d) + at,
                      make_uint4(bits(x[0]), bits(x[1]), bits(x[2]), bits(x[3])));
  } else if (static_cast<DType>(out.d_type) == DType::f16) {
    ptx::st_global_v2(static_cast<std::uint16_t*>(out.d) + at, ptx::cvt_rn_f16x2_f32(x[0], x[1]),
                      ptx::cvt_rn_f16x2_f32(x[2], x[3]));
  } else {
    ptx::st_global_v2(static_cast<std::uint16_t*>(out.d) + at, ptx::cvt_rn_bf16x2_f32(x[0], x[1]),
                      ptx::cvt_rn_bf16x2_f32(x[2], x[3]));
  }
}

/// Four sums at shared address `at` of this block, or those of all `Parts` blocks of the cluster
/// added up in order.
template <int Parts>
__device__ inline float4 load_sums(std::uint32_t at) {
  if constexpr (Parts == 1) {
    const uint4 v = ptx::ld_shared_v4(at);
    return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z),
                       __uint_as_float(v.w));
  } else {
    float4 sum = ptx::ld_shared_cluster_v4(ptx::mapa_shared_cluster(at, 0));
#pragma unroll
    for (int part = 1; part < Parts; ++part) {
      const float4 v =
          ptx::ld_shared_cluster_v4(ptx::mapa_shared_cluster(at, static_cast<std::uint32_t>(part)));
      sum.x = __fadd_rn(sum.x, v.x);
      sum.y = __fadd_rn(sum.y, v.y);
      sum.z = __fadd_rn(sum.z, v.z);
      sum.w = __fadd_rn(sum.w, v.w);
    }
    return sum;
  }
}

/// Of 32 rows at shared address `shared`, this part's to d: the tile's rows first_row to first_row
/// + 15, and 32 to 47 behind it.
template <bool Gated, int Parts>
__device__ inline void store_rows(const MatmulBlockScaledArgs& args, const ProductTile& tile,
                                  const ProductFactors& factors, const ProductBias (&bias)[4],
                                  int first_row, int column, int lane, int part,
                                  std::uint32_t shared) {
  constexpr int lanes_of_row = Gated ? 8 : 16, count = 32 / Parts;
  const ProductOutput& out = args.output;
  const bool whole = args.vectors && column + 4 <= args.n;
  if (column >= args.n) return;
#pragma unroll 1
  for (int i = count * part + lane / lanes_of_row; i < count * (part + 1); i += 32 / lanes_of_row) {
    const std::uint32_t from =
        shared + 4 * static_cast<std::uint32_t>(i * staged_stride + 4 * (lane % lanes_of_row));
    const float4 sums = load_sums<Parts>(from);
    const float4 ups = Gated ? load_sums<Parts>(from + 4 * 32) : sums;
    const int row = first_row + i + i / 16 * 16;
    if (row >= tile.rows) return;
    const std::int64_t stored = tile.stored + row;
    const float weight = out.row_weights == nullptr ? 1.0f : out.row_weights[stored];
    const float x[4] = {finished<Gated>(out, factors, bias[0], weight, sums.x, ups.x),
                        finished<Gated>(out, factors, bias[1], weight, sums.y, ups.y),
                        finished<Gated>(out, factors, bias[2], weight, sums.z, ups.z),
                        finished<Gated>(out, factors, bias[3], weight, sums.w, ups.w)};
    const std::int64_t first = tile.matrix * out.d_matrix + stored * out.d_stride + column;
    if (whole) {
      store_four(out, first, x);
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (column + j < args.n) store_element(out.d, out.d_type, first + j, x[j]);
    }
  }
}

/// A warp's sums, [piece of rows][piece of columns][half of its columns][register]. `shared` is
/// staged_bytes of this warp's own. Parts: blocks of a cluster that have summed parts of K; `part`
/// is this one's.
template <int Parts>
__device__ inline void store_sums(const MatmulBlockScaledArgs& args, const ProductTile& tile,
                                  int part, int first_column, const Place& place, float* shared,
                                  const float (&sum)[pieces][pieces][2][4]) {
  const ProductOutput& out = args.output;
  const ProductFactors factors = product_factors(out, tile.matrix);
  const bool gated = out.gated != 0;
  // Gated: the gate's 32 columns, then up's; else a piece's 16 in order.
  const int piece_step = gated ? 8 : 16, half_step = gated ? 32 : 8;
  const int staged = 4 * (place.lane % (gated ? 8 : 16));
  const int column =
      first_column + (gated ? gated_column(32 * (staged / 8) + 16 * place.column_warp) + staged % 8
                            : 32 * (staged / 16) + 16 * place.column_warp + staged % 16);
  ProductBias bias[4];
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if (column + j < args.n)
      bias[j] = product_bias(out, tile.matrix, column + j);
    else
      bias[j] = {};
  float* to = shared + place.group * staged_stride + 2 * place.in_group;
#pragma unroll 1
  for (int pair = 0; pair < 2; ++pair) {
    const auto stage_pieces = [&](auto first) {
#pragma unroll
      for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < pieces; ++j)
#pragma unroll
          for (int half = 0; half < 2; ++half) {
            const float(&x)[4] = sum[first.value + i][j][half];
            float* at = to + 16 * i * staged_stride + j * piece_step + half * half_step;
            *reinterpret_cast<float2*>(at) = make_float2(x[0], x[1]);
            *reinterpret_cast<float2*>(at + 8 * staged_stride) = make_float2(x[2], x[3]);
          }
    };
    if (pair == 0)
      stage_pieces(std::integral_constant<int, 0>{});
    else
      stage_pieces(std::integral_constant<int, 2>{});
    const auto meet = [] {
      __syncwarp();
      if constexpr (Parts > 1) {
        ptx::barrier_cluster_arrive_release();
        ptx::barrier_cluster_wait_acquire();
      }
    };
    meet();
    const int first_row = 64 * pair + 16 * place.row_warp;
    const auto from = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
    if (gated)
      store_rows<true, Parts>(args, tile, factors, bias, first_row, column, place.lane, part, from);
    else
      store_rows<false, Parts>(args, tile, factors, bias, first_row, column, place.lane, part,
                               from);
    meet();
  }
}

}  // namespace microscale::cuda::block_scaled
