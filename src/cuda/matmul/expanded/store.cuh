// The end of a tile of d in the kernels for very many rows: a warp has 16 rows of d in its
// accumulators, pairs of neighbouring columns a lane. 64 columns at a time go through its own 4 KB
// of shared memory and leave in pieces of eight columns, side by side: whole lines of d.
#pragma once

#include <cstdint>

#include "cuda/matmul/fp8_window.cuh"
#include "cuda/matmul/in_registers/store.cuh"

namespace microscale::cuda::expanded {

/// Where eight neighbouring sums lie: columns 8 * piece to 8 * piece + 7 of the 64, of one of 16
/// rows. Pieces change places with the row, so that neither stores nor loads meet in a bank.
__device__ inline std::uint32_t sum_piece(std::uint32_t row, std::uint32_t piece) {
  return row * 256 + (piece ^ row % 8) * 32;
}

/// Accumulators `First` to `First` + 32 of a warp (wgmma.cuh has their places).
template <int First, int All>
__device__ void stage_rows(const float (&d)[All], std::uint32_t to) {
  const std::uint32_t lane = threadIdx.x % 32, row = lane / 4;
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    const std::uint32_t at = to + sum_piece(row, j) + lane % 4 * 8;
    const float* own = d + First + 4 * j;
    ptx::st_shared_v2(at, __float_as_uint(own[0]), __float_as_uint(own[1]));
    ptx::st_shared_v2(at + 8 * 256, __float_as_uint(own[2]), __float_as_uint(own[3]));
  }
}

/// What is done with a warp's staged sums.
struct TileRows {
  std::int64_t matrix;
  std::int64_t row;     // of d, of the warp's first
  std::int64_t column;  // of the weights' rows (of a gate's and up's in turn), of the first
  int rows;             // that there are, of 16; may be negative
  bool vectors;
  const std::uint8_t* references;  // FP8: of the weights' rows from `column` on; else null
};

/// `where`: the matrix, the column tile, the rows of d that the block has; `row`: its first.
template <class Element>
__device__ TileRows tile_rows(const ProductArgs& args, uint4 where, std::int64_t row) {
  const std::uint32_t warp = threadIdx.x / 32;
  TileRows tile{.matrix = where.x,
                .row = row + warp * 16,
                .column = std::int64_t{where.y} * Element::shape.columns,
                .rows = static_cast<int>(where.z) - static_cast<int>(warp) * 16,
                .vectors = args.vectors != 0,
                .references = nullptr};
  if constexpr (Element::fp8)
    tile.references = args.references + tile.column + where.x * args.weight_groups * 8;
  return tile;
}

/// Times the powers of two that eight rows of weights are relative to.
__device__ inline void apply_references(const std::uint8_t* references, float (&v)[8]) {
  const uint2 bytes = ptx::ld_global_nc_v2(references);
#pragma unroll
  for (int i = 0; i < 8; ++i)
    v[i] = __fmul_rn(v[i], fp8_factor((i < 4 ? bytes.x : bytes.y) >> (8 * (i % 4)) & 0xFFu));
}

/// A warp stores what stage_rows left at `from`, of n columns of d.
template <bool Fp8>
__device__ inline void store_rows(const ProductOutput& out, const ProductFactors& factors,
                                  const TileRows& tile, std::int64_t n, std::uint32_t from) {
  const std::uint32_t shift = out.gated ? 2 : 3;  // pieces of a row: 4 or 8
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x % 32; i < 16u << shift; i += 32) {
    const std::uint32_t own = i >> shift, piece = i & ((1u << shift) - 1);
    const std::int64_t column = (out.gated ? tile.column / 2 : tile.column) + 8 * piece;
    if (static_cast<int>(own) >= tile.rows || column >= n) continue;
    // Gated: eight rows of the weights are the gate's, the next eight up's.
    const std::uint32_t first = out.gated ? 2 * piece : piece;
    const std::uint32_t at = from + sum_piece(own, first), up_at = from + sum_piece(own, first + 1);
    const std::int64_t row = tile.row + own;
    const std::int64_t index = tile.matrix * out.d_matrix + row * out.d_stride + column;
    if (n - column >= 8) {
      float sums[8], ups[8];
      in_registers::load_eight(at, sums);
      if constexpr (Fp8) apply_references(tile.references + 8 * first, sums);
      if (out.gated) {
        in_registers::load_eight(up_at, ups);
        if constexpr (Fp8) apply_references(tile.references + 8 * first + 8, ups);
      } else {
#pragma unroll
        for (float& up : ups) up = 0.0f;
      }
      in_registers::finish_eight(out, factors, tile.matrix, row, column, sums, ups);
      if (tile.vectors) {
        in_registers::store_eight(out, index, sums);
      } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) store_element(out.d, out.d_type, index + j, sums[j]);
      }
    } else {
#pragma unroll 1
      for (int j = 0; j < static_cast<int>(n - column); ++j) {
        float sum = __uint_as_float(ptx::ld_shared_b32(at + 4 * j));
        float up = out.gated ? __uint_as_float(ptx::ld_shared_b32(up_at + 4 * j)) : 0.0f;
        if constexpr (Fp8) {
          const std::uint8_t* reference = tile.references + 8 * first + j;
          sum = __fmul_rn(sum, fp8_factor(*reference));
          if (out.gated) up = __fmul_rn(up, fp8_factor(reference[8]));
        }
        store_product(out, factors, tile.matrix, row, column + j, sum, up);
      }
    }
  }
}

/// Whether a tile may go the short way: nothing but factors, all `Columns` to 16-bit elements.
template <int Columns>
__device__ inline bool is_plain(const ProductOutput& out, const TileRows& tile, std::int64_t n) {
  return out.gated == 0 && out.bias == nullptr && out.row_weights == nullptr && tile.vectors &&
         static_cast<DType>(out.d_type) != DType::f32 && tile.column + Columns <= n;
}

/// The short way of all columns of a warp: sums are rounded where they are, so that half as many
/// bytes pass through shared memory at `to`, two halves of it in turn. The other way's bits.
template <bool Fp8, bool F16, int Count>
__device__ void store_plain(const ProductOutput& out, float factor, const TileRows& tile,
                            const float (&d)[Count], std::uint32_t to) {
  const std::uint32_t lane = threadIdx.x % 32, row = lane / 4;
  const std::uint32_t first_row = lane / 8, piece = lane % 8;
  const auto rounded = [](float x, float y) {
    return F16 ? ptx::cvt_rn_f16x2_f32(x, y) : ptx::cvt_rn_bf16x2_f32(x, y);
  };
  auto* at = static_cast<std::uint16_t*>(out.d) + tile.matrix * out.d_matrix +
             (tile.row + first_row) * out.d_stride + tile.column + 8 * piece;
#pragma unroll
  for (int first = 0; first < Count; first += 32, at += 64) {  // 64 columns
    const std::uint32_t half = to + first / 32 % 2 * 2048;
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      const float* own = d + first + 4 * j;
      float v[4] = {own[0], own[1], own[2], own[3]};
      if constexpr (Fp8) {
        const std::uint32_t pair =
            reinterpret_cast<const std::uint16_t*>(tile.references)[first + 4 * j + lane % 4];
        const float even = fp8_factor(pair & 0xFFu), odd = fp8_factor(pair >> 8);
        v[0] = __fmul_rn(v[0], even), v[1] = __fmul_rn(v[1], odd);
        v[2] = __fmul_rn(v[2], even), v[3] = __fmul_rn(v[3], odd);
      }
#pragma unroll
      for (float& x : v) x = __fmul_rn(x, factor);
      const std::uint32_t place = half + row * 128 + (j ^ row) * 16 + lane % 4 * 4;
      ptx::st_shared_b32(place, rounded(v[0], v[1]));
      ptx::st_shared_b32(place + 8 * 128, rounded(v[2], v[3]));
    }
    __syncwarp();  // and the half before the next one has been read
#pragma unroll
    for (int i = 0; i < 16; i += 4) {
      const std::uint32_t own = first_row + i;
      if (static_cast<int>(own) < tile.rows)
        ptx::st_global_v4(at + i * out.d_stride,
                          ptx::ld_shared_v4(half + own * 128 + (piece ^ own % 8) * 16));
    }
  }
  __syncwarp();
}

/// d as elements of a dense matrix.
template <class Element>
class ToDense {
 public:
  using Args = ProductArgs;
  __device__ static const ProductArgs& product(const Args& args) { return args; }
  __device__ explicit ToDense(const Args& args) : args_(args) {}

  /// The sums of a warp's 16 rows of a tile; `sums`: warp_sum_bytes of shared memory of its own.
  template <int Count>
  __device__ void store(std::uint32_t sums, uint4 where, std::int64_t row,
                        const float (&d)[Count]) const {
    constexpr int columns = Element::shape.columns;
    const ProductOutput& out = args_.output;
    const ProductFactors factors = product_factors(out, where.x);
    TileRows tile = tile_rows<Element>(args_, where, row);
    if (is_plain<columns>(out, tile, args_.n)) {
      if (static_cast<DType>(out.d_type) == DType::f16)
        store_plain<Element::fp8, true>(out, factors.sum, tile, d, sums);
      else
        store_plain<Element::fp8, false>(out, factors.sum, tile, d, sums);
      return;
    }
#pragma unroll 1
    for (int part = 0; part < columns / 64; ++part) {
      __syncwarp();  // the last part has been read
      if (part == 0) stage_rows<0>(d, sums);
      if (part == 1) stage_rows<32>(d, sums);
      if (part == 2) stage_rows<64>(d, sums);
      if constexpr (columns == 256)
        if (part == 3) stage_rows<96>(d, sums);
      __syncwarp();
      store_rows<Element::fp8>(out, factors, tile, args_.n, sums);
      tile.column += 64;
      if constexpr (Element::fp8) tile.references += 64;
    }
  }

 private:
  const ProductArgs& args_;
};

}  // namespace microscale::cuda::expanded
