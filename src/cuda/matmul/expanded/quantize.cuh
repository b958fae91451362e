// The end of a tile of d that is quantized, in the kernels for very many rows. Where there are only
// factors and a warp's part of the tile is whole, 16-bit elements' sums are quantized where they
// are, in the accumulators. All else takes the long way: 128 columns of eight rows at a time go
// through a warp's own 4 KB of shared memory, so that whole blocks lie on neighbouring lanes, are
// finished as everywhere (in_registers::finish_eight), and leave as codes and scales. Both give the
// same bytes.
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"
#include "cuda/matmul/expanded/store.cuh"
#include "cuda/matmul/expanded/quantized_store.cuh"

namespace microscale::cuda::expanded {

/// Where eight neighbouring sums lie: columns 8 * piece to 8 * piece + 7 of 128, of one of eight
/// rows; the other half of the 32 bytes is at this ^ 16. Neither stores nor loads meet in a bank.
__device__ inline std::uint32_t long_piece(std::uint32_t row, std::uint32_t piece) {
  const std::uint32_t place = piece ^ row;
  return row * 512 + place * 32 + (place & 4) * 4;
}

/// Accumulators `First` to `First` + 64, those that there are, of the first or second eight rows of
/// a warp.
template <int First, int Half, int All>
__device__ void stage_long_rows(const float (&d)[All], std::uint32_t lane, std::uint32_t to) {
#pragma unroll
  for (int j = 0; j < 16 && First + 4 * j < All; ++j)
    ptx::st_shared_v2((to + long_piece(lane / 4, j)) ^ lane % 4 * 8,
                      __float_as_uint(d[First + 4 * j + 2 * Half]),
                      __float_as_uint(d[First + 4 * j + 2 * Half + 1]));
}

__device__ inline void load_long_piece(std::uint32_t at, float (&v)[8]) {
  const uint4 low = ptx::ld_shared_v4(at), high = ptx::ld_shared_v4(at ^ 16);
  v[0] = __uint_as_float(low.x), v[1] = __uint_as_float(low.y);
  v[2] = __uint_as_float(low.z), v[3] = __uint_as_float(low.w);
  v[4] = __uint_as_float(high.x), v[5] = __uint_as_float(high.y);
  v[6] = __uint_as_float(high.z), v[7] = __uint_as_float(high.w);
}
__device__ inline void store_long_piece(std::uint32_t at, const float (&v)[8]) {
  ptx::st_shared_v4(at, make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]),
                                   __float_as_uint(v[2]), __float_as_uint(v[3])));
  ptx::st_shared_v4(at ^ 16, make_uint4(__float_as_uint(v[4]), __float_as_uint(v[5]),
                                        __float_as_uint(v[6]), __float_as_uint(v[7])));
}

/// d as blocks of `Format`.
template <class Element, class Format>
class ToBlocks {
 public:
  using Args = QuantizedArgs;
  __device__ static const ProductArgs& product(const Args& args) { return args.product; }
  __device__ explicit ToBlocks(const Args& args) : args_(args.product), store_(args.blocks) {}

  /// As ToDense::store. What a warp's lanes agree on is asked by votes, so that the assembler
  /// keeps the ring in uniform registers behind it.
  template <int Count>
  __device__ void store(std::uint32_t sums, uint4 where, std::int64_t row,
                        float (&d)[Count]) const {
    if (__all_sync(0xFFFFFFFFu, where.z == 0))
      return;  // the block's rows lie behind the last of d and of its padding
    const ProductOutput& out = args_.output;
    const bool gated = out.gated != 0;
    const ProductFactors factors = product_factors(out, where.x);
    Part at{.tile = tile_rows<Element>(args_, where, row)};
    at.column = gated ? at.tile.column / 2 : at.tile.column;
    const bool unpacked = !gated && out.bias == nullptr && out.row_weights == nullptr;
    if constexpr (!Element::fp8) {
      if (unpacked) {
        if (__any_sync(0xFFFFFFFFu, factors.sum != 1.0f)) {
#pragma unroll
          for (float& x : d) x = __fmul_rn(x, factors.sum);
        }
        const bool whole = at.tile.rows >= 16 && at.column + Element::shape.columns <= args_.n &&
                           store_.writes_words();
        if (__all_sync(0xFFFFFFFFu, whole) &&
            store_.store_accumulators(at.tile.matrix, at.tile.row, at.column, d))
          return;
      }
    }
#pragma unroll 1
    for (int half = 0; half < 2; ++half) {
      if (__all_sync(0xFFFFFFFFu, at.tile.rows <= 0 && !store_.writes_padding())) return;
      typename Store::Tile::Chunk w[4] = {};
#pragma unroll 1
      for (int part = 0; part < 2; ++part) {  // 128 rows of the weights, or what there is of them
        std::uint32_t opaque[1] = {threadIdx.x % 32};  // what follows from it is made anew
        ptx::keep_in_place(opaque);
        const int lane = static_cast<int>(opaque[0]), piece = lane % 16;
        at.columns = gated ? Element::shape.columns / 2 : Element::shape.columns - 128 * part;
        __syncwarp();  // the part before has been read
        if (half == 0)
          part == 0 ? stage_long_rows<0, 0>(d, lane, sums) : stage_long_rows<64, 0>(d, lane, sums);
        else
          part == 0 ? stage_long_rows<0, 1>(d, lane, sums) : stage_long_rows<64, 1>(d, lane, sums);
        __syncwarp();
        if (!unpacked) {
          finish_staged(at, factors, lane, gated ? 64 * part : 0, sums);
          __syncwarp();
        }
        // A gate and its up: 64 columns of d a part, which half of the lanes have.
        if (!gated || part == piece / 8) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const int own = Store::row_of(lane, j);
            float v[8] = {};
            if (is_here(at, own, piece)) {
              load_long_piece(sums + long_piece(own, gated ? 2 * piece % 16 : piece), v);
              if (Element::fp8 && unpacked) {
                apply_references(at.tile.references + 8 * piece, v);
#pragma unroll
                for (float& x : v) x = __fmul_rn(x, factors.sum);
              }
            }
#pragma unroll
            for (int i = 0; i < 8; ++i) w[j][i] = __float_as_uint(v[i]);
          }
        }
        if (!gated || part == 1) {
          __syncwarp();
          store_.store(lane, at.tile.matrix, at.tile.row, at.column, at.tile.rows, at.columns, w);
        }
        if (!gated) at.column += 128;
        if constexpr (Element::fp8) at.tile.references += 128;
      }
      at.tile.row += Store::rows, at.tile.rows -= Store::rows;
      if (!gated) at.column -= 256;
      if constexpr (Element::fp8) at.tile.references -= 256;
    }
  }

 private:
  using Store = QuantizedStore<Format>;

  /// Eight rows and up to 128 columns of d of a warp's tile.
  struct Part {
    TileRows tile;  // its rows begin at these; references at the staged rows of the weights
    std::int64_t column;
    int columns;  // of the tile, from `column` on
  };
  __device__ bool is_here(const Part& at, int row, int piece) const {
    return row < at.tile.rows && 8 * piece < at.columns && at.column + 8 * piece < args_.n;
  }

  /// Finishes what has been staged, in its place; of a gate and up in the gate's. `first`: of the
  /// columns of d, those staged.
  __device__ void finish_staged(const Part& at, const ProductFactors& factors, int lane, int first,
                                std::uint32_t sums) const {
    const ProductOutput& out = args_.output;
    const int shift = out.gated ? 3 : 4;  // pieces of a row: 8 or 16
#pragma unroll 1
    for (int i = lane; i < Store::rows << shift; i += 32) {
      const int row = i >> shift, piece = i & ((1 << shift) - 1);
      if (!is_here(at, row, first / 8 + piece)) continue;
      // Gated: eight rows of the weights are the gate's, the next eight up's.
      const int staged = out.gated ? 2 * piece : piece;
      const std::uint32_t place = sums + long_piece(row, staged);
      float values[8], ups[8] = {};
      load_long_piece(place, values);
      if constexpr (Element::fp8) apply_references(at.tile.references + 8 * staged, values);
      if (out.gated) {
        load_long_piece(sums + long_piece(row, staged + 1), ups);
        if constexpr (Element::fp8) apply_references(at.tile.references + 8 * staged + 8, ups);
      }
      in_registers::finish_eight(out, factors, at.tile.matrix, at.tile.row + row,
                                 at.column + first + 8 * piece, values, ups);
      store_long_piece(place, values);
    }
  }

  const ProductArgs& args_;
  Store store_;
};

template <class Element>
using ToNvfp4 = ToBlocks<Element, ProductNvfp4>;
template <class Element>
using ToMxfp4 = ToBlocks<Element, ProductMx<E2M1>>;
template <class Element>
using ToMxfp8E4m3 = ToBlocks<Element, ProductMx<E4M3>>;
template <class Element>
using ToMxfp8E5m2 = ToBlocks<Element, ProductMx<E5M2>>;

}  // namespace microscale::cuda::expanded
