// A tile's sums, from tensor memory to d: warp w has the tile's rows 32 w to 32 w + 31, lane l row
// 32 w + l, 32 columns at a time; gated, 16 of each.
#pragma once

#include <cstdint>

#include "cuda/matmul/product_output.cuh"
#include "cuda/matmul/product_tile.cuh"
#include "cuda/matmul/tcgen05/args.hpp"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/tcgen05.cuh"

namespace microscale::cuda::tcgen05 {

template <bool Gated>
inline constexpr int chunk = Gated ? 16 : 32;  // columns of d at a time

__device__ inline void load_sums(std::uint32_t (&v)[32], std::uint32_t from) {
  ptx::tcgen05_ld_32x32b_x32(v, from);
}
__device__ inline void load_sums(std::uint32_t (&v)[16], std::uint32_t from) {
  ptx::tcgen05_ld_32x32b_x16(v, from);
}

/// Finished elements of a row to d, at `at` of its elements, a multiple of 32 bytes.
template <int Count>
__device__ inline void store_chunk(const ProductOutput& out, std::int64_t at,
                                   const float (&x)[Count]) {
  if (static_cast<DType>(out.d_type) == DType::f32) {
#pragma unroll
    for (int i = 0; i < Count; i += 8) {
      std::uint32_t v[8];
#pragma unroll
      for (int j = 0; j < 8; ++j)
        v[j] = __float_as_uint(x[i + j] == x[i + j] ? x[i + j] : canonical_nan());
      ptx::st_global_v8(static_cast<float*>(out.d) + at + i, v);
    }
    return;
  }
  const bool f16 = static_cast<DType>(out.d_type) == DType::f16;
#pragma unroll
  for (int i = 0; i < Count; i += 16) {
    std::uint32_t v[8];
#pragma unroll
    for (int j = 0; j < 8; ++j)
      v[j] = f16 ? ptx::cvt_rn_f16x2_f32(x[i + 2 * j], x[i + 2 * j + 1])
                 : ptx::cvt_rn_bf16x2_f32(x[i + 2 * j], x[i + 2 * j + 1]);
    ptx::st_global_v8(static_cast<std::uint16_t*>(out.d) + at + i, v);
  }
}

/// Columns of one matrix's d that a warp finishes: `Gated`, sums of the gate and of up.
template <bool Gated>
class ChunkStore {
 public:
  static constexpr int count = chunk<Gated>;
  /// `row`: the lane's, of the tile.
  __device__ ChunkStore(const MatmulTcgen05Args& args, const ProductTile& tile, int row)
      : args_(args), tile_(tile), row_(row), factors_(product_factors(args.output, tile.matrix)) {
    const ProductOutput& out = args.output;
    stored_ = tile.stored + (row < tile.rows ? row : 0);
    weight_ = out.row_weights == nullptr ? 1.0f : out.row_weights[stored_];
  }

  /// Columns from `column` on, of d.
  __device__ void store(std::int64_t column, const std::uint32_t (&sums)[count],
                        const std::uint32_t (&ups)[count]) const {
    const ProductOutput& out = args_.output;
    if (__all_sync(0xFFFFFFFFu, column >= args_.n)) return;
    // A lane loads the bias of one column, and tells the others.
    const int lane = static_cast<int>(threadIdx.x) % count;
    const std::int64_t own = column + lane;
    ProductBias bias{-0.0f, -0.0f};
    if (own < args_.n) bias = product_bias(out, tile_.matrix, own);
    float x[count];
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const ProductBias of_column{__shfl_sync(0xFFFFFFFFu, bias.sum, i),
                                  Gated ? __shfl_sync(0xFFFFFFFFu, bias.up, i) : -0.0f};
      x[i] = finished<Gated>(out, factors_, of_column, weight_, __uint_as_float(sums[i]),
                             __uint_as_float(ups[i]));
    }
    if (row_ >= tile_.rows) return;
    const std::int64_t first = tile_.matrix * out.d_matrix + stored_ * out.d_stride + column;
    if (args_.vectors && column + count <= args_.n) {
      store_chunk(out, first, x);
    } else {
#pragma unroll
      for (int i = 0; i < count; ++i)
        if (column + i < args_.n) store_element(out.d, out.d_type, first + i, x[i]);
    }
  }

 private:
  const MatmulTcgen05Args& args_;
  const ProductTile& tile_;
  int row_;
  std::int64_t stored_;  // the lane's row as store_product counts it
  float weight_;
  ProductFactors factors_;
};

/// A tile's sums of `Columns` columns at `sums` of tensor memory. `backwards`: the last columns
/// first. left(): the last `Overlap` columns, or the first if not backwards, have been taken from
/// tensor memory; without an overlap, all have been.
template <int Columns, bool Gated, int Overlap, class Left>
__device__ void store_sums(const MatmulTcgen05Args& args, const ProductTile& tile,
                           std::int64_t first_column, std::uint32_t sums, bool backwards,
                           Left&& left) {
  constexpr int columns = Gated ? Columns / 2 : Columns, step = chunk<Gated>,
                count = columns / step, held_count = Overlap / step;
  static_assert(Overlap % step == 0 && held_count < count);
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const ChunkStore<Gated> to(args, tile, 32 * warp + lane);
  const std::uint32_t lanes = sums + (static_cast<std::uint32_t>(32 * warp) << 16);
  const auto column_of = [&](int i) { return (backwards ? count - 1 - i : i) * step; };

  // What is in the way of the next tile's products comes first; gated, it is up's columns alone, or
  // the gate's.
  std::uint32_t held[held_count > 0 ? held_count : 1][step];
  if constexpr (held_count > 0) {
    const std::uint32_t from = lanes + (Gated && backwards ? columns : 0);
#pragma unroll
    for (int i = 0; i < held_count; ++i) load_sums(held[i], from + column_of(i));
    ptx::tcgen05_wait_ld();
#pragma unroll
    for (int i = 0; i < held_count; ++i) ptx::keep_in_place(held[i]);
    left();
  }
#pragma unroll 1
  for (int i = 0; i < count; ++i) {
    const int column = column_of(i);
    const bool is_held = i < held_count;
    std::uint32_t own[step], ups[step];
    __syncwarp();
    if (!is_held || (Gated && backwards)) load_sums(own, lanes + column);
    if (Gated && !(is_held && backwards)) load_sums(ups, lanes + columns + column);
    ptx::tcgen05_wait_ld();
    ptx::keep_in_place(own);
    if constexpr (Gated) ptx::keep_in_place(ups);
#pragma unroll
    for (int h = 0; h < held_count; ++h)
      if (i == h) {
#pragma unroll
        for (int j = 0; j < step; ++j) (Gated && backwards ? ups : own)[j] = held[h][j];
      }
    if (held_count == 0 && i == count - 1) left();
    if constexpr (Gated)
      to.store(first_column + column, own, ups);
    else
      to.store(first_column + column, own, own);
  }
}

}  // namespace microscale::cuda::tcgen05
