// What the kernels that stream plain 4-bit weights past one row of a are given.
#pragma once

#include <cstdint>

#include "cuda/line_geometry.hpp"
#include "cuda/matmul_args.hpp"

namespace microscale::cuda {

enum class LineInput : std::int32_t { f16, bf16, nvfp4, mxfp4 };

/// matmul_line_<b>_<codes or dense>: sm_90a, one row of a in each matrix of a batch. line_threads
/// threads; any number of blocks or of clusters of two, which share the row tiles of all matrices.
struct LineStreamArgs {
  const std::uint8_t* b;  // rows of codes, matrix after matrix
  const std::uint8_t* b_scales;
  std::int64_t b_scale_matrix;  // bytes from matrix to matrix
  std::int32_t b_tiled;         // scales are in 128x4 tiles; then n is a multiple of 128
  const void* a;                // elements or codes, at multiples of 16 bytes
  const std::uint8_t* a_scales;
  std::int64_t a_matrix;  // bytes from matrix to matrix
  std::int64_t a_scale_matrix;
  std::int32_t a_kind;   // LineInput
  std::int32_t a_tiled;  // its scales are in 128x4 tiles
  std::int64_t n;
  std::int64_t k;           // whole blocks of scales in 16 bytes
  std::uint32_t row_tiles;  // of a matrix
  std::uint32_t tiles;      // of all
  std::int32_t stages;      // of a row tile
  std::uint32_t cluster;    // blocks of one: 1 or 2
  std::int32_t depth;       // of the ring
  std::int32_t buffers;     // matrices whose row of a is in shared memory at once
  LineShared shared;
  ProductOutput output;
};

}  // namespace microscale::cuda
