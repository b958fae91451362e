// What the kernels of a matrix product are given. d[m,n] = f * a[m,k] @ b[n,k]^T + bias, for each
// of `matrices` of a batch or experts of a group.
#pragma once

#include <cstdint>

#include "cuda/device/kernel_types.hpp"
#include "layouts/grouped.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

/// Whose rows of a and d a matrix has: m each, one matrix after the other; or experts' of the m
/// there are, as grouped::ExpertTable has it.
struct ProductRows {
  std::int64_t m;
  std::int64_t matrices;
  const void* expert_rows;    // offsets, or counts, in device memory; null: a batch
  std::int32_t wide_numbers;  // they are of 8 bytes each, else of 4
  std::int64_t capacity = grouped::no_capacity;  // with counts: rows from expert to expert
};

/// What becomes of a sum, in this order: times the factor, plus the bias; gated: activation, times
/// the other sum; times the row's weight; to d's type.
struct ProductOutput {
  void* d;
  std::int64_t d_stride;     // elements from row to row
  std::int64_t d_matrix;     // elements from matrix to matrix of a batch; 0 where grouped
  std::int32_t d_type;       // DType
  std::int32_t bias_type;    // DType, as is up_bias_type
  const void* bias;          // n elements a matrix; null: none
  const void* up_bias;       // gated
  std::int64_t bias_matrix;  // elements from matrix to matrix
  const float* a_global;     // NVFP4 decode multipliers in device memory; null: 1
  const float* b_global;     // gated: of the gate
  const float* up_global;
  std::int32_t a_global_step;  // from matrix to matrix: 0 or 1
  std::int32_t b_global_step;
  const float* row_weights;  // one a row of d; null: 1
  float alpha;
  std::int32_t up_bias_type;
  std::int32_t gated;
  std::int32_t gelu;  // the activation is GELU's tanh form, else SiLU
};

inline constexpr int pack_threads = 256;
inline constexpr int pack_parts = 4;  // of 32 bytes of each of 16 rows, a warp

/// pack_weights_<nvfp4, mxfp4 or mxfp8>: unpacked weights to layouts/fragment_tiles.hpp. A warp
/// takes pack_parts neighbours along k; warps count along k, then the row tiles of all matrices.
/// Matrices lie one after the other on both sides.
struct PackWeightsArgs {
  const std::uint8_t* codes;  // gated: of the gate
  const std::uint8_t* scales;
  const std::uint8_t* up_codes;  // null: not gated
  const std::uint8_t* up_scales;
  std::int64_t rows;  // of a matrix
  std::int64_t cols;
  std::int64_t matrices;
  std::int64_t scale_matrix;  // bytes from matrix to matrix
  std::int64_t up_scale_matrix;
  std::int32_t tiled;  // scales are in 128x4 tiles
  std::int32_t up_tiled;
  std::uint8_t* packed;
};

/// The kernels that make a ready for a product (matmul_prepare_rows_<kind>): FP16 units, whose
/// scales, if they have any, go with the sums. Row r of a, all matrices counted, is at r *
/// units_stride.
struct PrepareRowsArgs {
  const void* a;          // elements, or codes
  std::int64_t a_stride;  // bytes from row to row
  const std::uint8_t* scales;
  ProductRows rows;
  std::int64_t k;
  std::int32_t tiled;         // scales are in 128x4 tiles, those of each matrix by themselves
  std::int32_t order;         // FragmentOrder
  void* units;                // FP16 in that order, filled up with zeros (fragment_order.hpp)
  std::int64_t units_stride;  // bytes: k rounded up to unit_columns, times 2
  float* block_scales;        // MX: [row][k / 32]
  float* row_factors;         // BF16: the power of two that a row's sums are multiplied by
};

/// matmul_fallback_<b>_<packed or plain>_<unit or scaled>_<1, 8 or 16>: few rows of a (so many at a
/// time). 256 threads; thread block (x, y) makes 16 columns of d (gated: 8) from row tile x of b,
/// of matrices y, y + gridDim.y, ...
struct MatmulRowsArgs {
  const void* units;  // of PrepareRowsArgs
  std::int64_t units_stride;
  const float* block_scales;
  const float* row_factors;      // null: 1
  const std::uint8_t* b;         // packed tiles (layouts/fragment_tiles.hpp), or codes
  const std::uint8_t* b_scales;  // unpacked
  const std::uint8_t* up;        // unpacked and gated
  const std::uint8_t* up_scales;
  std::int64_t b_matrix;  // bytes from matrix to matrix
  std::int64_t b_scale_matrix;
  std::int64_t up_scale_matrix;
  std::int32_t tiled;  // unpacked: scales are in 128x4 tiles
  std::int32_t up_tiled;
  std::int32_t wide;  // unpacked: rows of codes begin at multiples of 16 bytes, of scales at 4
  std::int64_t n;
  std::int64_t k;
  ProductRows rows;
  ProductOutput output;
};

inline constexpr int prepare_pieces = 4;  // of eight elements, a thread and group

/// matmul_prepare_tiles_<kind>: a as 16-bit elements with their block scales inside, in the tiles
/// that matmul_in_registers_... copies (layouts/token_tiles.hpp). 256 threads; thread block (x, y)
/// takes eight rows, groups y, y + gridDim.y, ... of them, and prepare_pieces times 256 elements of
/// k. matmul_prepare_blocks_nvfp4: the same where by_blocks says so, for few.
struct PrepareTilesArgs {
  const void* a;          // elements, or codes
  std::int64_t a_stride;  // bytes from row to row
  const std::uint8_t* scales;
  ProductRows rows;
  std::int64_t k;
  std::int32_t tiled;  // scales are in 128x4 tiles, those of each matrix by themselves
  std::int32_t f16;    // the tiles are FP16, else BF16; of NVFP4 and dense a alone
  void* tiles;
  std::int32_t group_step;   // where groups lie side by side, every so many: 1, or 2 for a gate's
  std::int32_t group_first;  // and up's in turn, the former's first
  std::int32_t by_blocks;  // FP16 of NVFP4 alone: cuda/matmul/in_registers/unpacked.cuh's order of
                           // 64 elements
  const std::uint32_t* only_if;  // null, or a word: where it is 0, nothing is done
};

// Which rows of a and d a matrix of a product has, and where its 128x4 scales are among those of
// all experts.

/// Rows [first, first + count) of a and d, of one matrix.
using MatrixRows = grouped::RowSpan;

/// Whatever memory holds for experts, the rows lie within a.
MICROSCALE_HD inline MatrixRows rows_of_matrix(const ProductRows& rows, std::int64_t matrix) {
  if (rows.expert_rows == nullptr) return {matrix * rows.m, rows.m};
  return grouped::rows_of_expert({rows.expert_rows, rows.wide_numbers != 0, rows.capacity, rows.m},
                                 matrix);
}

/// 128x4 tiles down the region of scales of an expert with these rows.
MICROSCALE_HD inline std::int64_t scale_tile_rows(const ProductRows& rows, const MatrixRows& own) {
  return grouped::tile_rows(grouped::region_rows(rows.capacity, own.count),
                            tiled_128x4::tile_lines);
}

/// The sum of scale_tile_rows over the experts in front, kept within the buffer whatever memory
/// holds.
MICROSCALE_HD inline std::int64_t scale_tiles_before(const ProductRows& rows, const MatrixRows& own,
                                                     std::int64_t sum) {
  return grouped::tile_rows_before(sum, own.count, rows.m, rows.matrices, tiled_128x4::tile_lines);
}

}  // namespace microscale::cuda
