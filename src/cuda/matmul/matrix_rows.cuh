// Which rows of a and d a matrix of a product has, and where its 128x4 scales are among those of
// all experts.
#pragma once

#include <cstdint>

#include "cuda/matmul/args.hpp"
#include "layouts/grouped.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

/// Rows [first, first + count) of a and d, of one matrix.
using MatrixRows = grouped::RowSpan;

/// Whatever memory holds for experts, the rows lie within a.
__device__ inline MatrixRows rows_of_matrix(const ProductRows& rows, std::int64_t matrix) {
  if (rows.expert_rows == nullptr) return {matrix * rows.m, rows.m};
  return grouped::rows_of_expert({rows.expert_rows, rows.wide_numbers != 0, rows.capacity, rows.m},
                                 matrix);
}

/// 128x4 tiles down the region of scales of an expert with these rows.
__device__ inline std::int64_t scale_tile_rows(const ProductRows& rows, const MatrixRows& own) {
  return grouped::tile_rows(grouped::region_rows(rows.capacity, own.count),
                            tiled_128x4::tile_lines);
}

/// The sum of scale_tile_rows over the experts in front, kept within the buffer whatever memory
/// holds.
__device__ inline std::int64_t scale_tiles_before(const ProductRows& rows, const MatrixRows& own,
                                                  std::int64_t sum) {
  return grouped::tile_rows_before(sum, own.count, rows.m, rows.matrices, tiled_128x4::tile_lines);
}

}  // namespace microscale::cuda
