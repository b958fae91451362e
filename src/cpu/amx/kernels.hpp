// Matrix products with AMX, by what they do; matmul.cpp chooses among them. And attention.
#pragma once

#include <cstdint>

#include "seam/attention_kernels.hpp"
#include "seam/matmul_kernels.hpp"

namespace microscale {
extern const MatmulKernels amx_matmul;
extern const AttentionKernels amx_attention;
}  // namespace microscale

namespace microscale::amx {

/// Up to so many rows of a are AVX-512's, beyond it those of tiles: there four cost what sixteen
/// do.
inline constexpr std::int64_t most_vector_rows = 3;

/// The largest tile of d that is computed at once.
inline constexpr std::int64_t most_tile_rows = 512, most_tile_columns = 256;

/// What a row of prepared a holds: k filled up with zeros to a multiple of this, in BF16.
inline constexpr std::int64_t row_elements = 128;

inline std::int64_t padded(std::int64_t k) {
  return (k + row_elements - 1) / row_elements * row_elements;
}

// A tile: 16 rows of 64 bytes, for a step of 32 elements in BF16.
inline constexpr std::int64_t tile_bytes = 1024, tile_side = 16, step = 32;
/// Steps of a chunk of k, which is multiplied with all rows of a before the next. With up to 16
/// rows the weights, expanded, are all that the first-level cache has to hold: two panels.
inline constexpr std::int64_t most_chunk_steps = 16;
inline std::int64_t chunk_steps(std::int64_t m) { return m <= tile_side ? 8 : most_chunk_steps; }

/// Prepared rows lie chunk by chunk, so that what is multiplied together is in one piece: the chunk
/// of k that begins at `at` holds all groups of 16 rows, each with the chunk's steps after each
/// other, so many bytes.
inline std::int64_t chunk_offset(std::int64_t m, std::int64_t at) {
  return (m + tile_side - 1) / tile_side * (at / step * tile_bytes);
}
inline std::int64_t chunk_group_bytes(std::int64_t m, std::int64_t k, std::int64_t at) {
  const std::int64_t left = (padded(k) - at) / step, most = chunk_steps(m);
  return (left < most ? left : most) * tile_bytes;
}

/// What each prepared row's results are multiplied by, behind the rows: 1, but with NVFP4 weights,
/// which are expanded to 2^-112 of their values, a power of two that makes up for it and for the
/// one that the row was multiplied by.
inline std::int64_t prepared_bytes_of_row(std::int64_t k) { return padded(k) * 2 + 4; }
inline std::int64_t factor_offset(std::int64_t m, std::int64_t k) {
  return (m + tile_side - 1) / tile_side * tile_side * padded(k) * 2;
}

// Tiles: any m, b in FP4 or FP8.
void prepare_tiles(const MatmulProduct& product, std::int64_t first, std::int64_t count,
                   void* prepared, std::uint8_t* odd);
void multiply_tiles(const MatmulProduct& product, const MatmulTile& tile);
std::int64_t tile_workspace(const MatmulProduct& product);
/// No value of b with its scale is outside the normal numbers of BF16, but for zeros and NaN.
bool fits_bf16(const MatmulRows& b, std::int64_t n, std::int64_t k);

}  // namespace microscale::amx
