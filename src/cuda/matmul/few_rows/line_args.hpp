// What the kernels that stream plain 4-bit weights past one row of a are given.
#pragma once

#include <cstdint>

#include "cuda/device/divisor.hpp"
#include "cuda/matmul/few_rows/line_plan.hpp"
#include "cuda/matmul/args.hpp"
#include "cuda/device/tensor_map.hpp"

namespace microscale::cuda {

enum class LineInput : std::int32_t { f16, bf16, nvfp4, mxfp4 };

/// matmul_line_<b>_<codes or dense>: sm_90a, one row of a in each matrix of a batch.
/// line_threads threads; any number of blocks or of clusters of two, which share the row
/// tiles of all matrices.
struct LineStreamArgs {
  /// Boxes that are a row tile's part of a stage. Codes: {128 bytes, rows of all matrices, 1,
  /// pieces of a row}, scales: {bytes of a row, rows of all matrices, 1, 1}; of b_tiled codes: {128
  /// bytes, rows / 32, rows % 32, pieces}, scales: {bytes of a tile, tiles of four blocks, of 128
  /// rows, 1}.
  TensorMap codes, scales;
  std::int32_t b_tiled;  // scales are in 128x4 tiles; then n is a multiple of 128
  const void* a;         // elements or codes, at multiples of 16 bytes
  const std::uint8_t* a_scales;
  std::int64_t a_matrix;  // bytes from matrix to matrix
  std::int64_t a_scale_matrix;
  std::int32_t a_kind;   // LineInput
  std::int32_t a_tiled;  // its scales are in 128x4 tiles
  std::int64_t n;
  std::int64_t k;            // whole blocks of scales in 16 bytes
  std::uint32_t row_tiles;   // of a matrix
  std::uint32_t each, more;  // of all, what every cluster takes; so many first ones take one more
  std::int32_t stages;       // of a row tile
  std::uint32_t cluster;     // blocks of one: 1 or 2
  Divisor by_row_tiles, by_stages;
  std::int32_t depth;    // of the ring
  std::int32_t early;    // stages copied while the grid in front ends: nobody writes the weights
  std::int32_t buffers;  // matrices whose row of a is in shared memory at once
  LineShared shared;
  ProductOutput output;
};

}  // namespace microscale::cuda
