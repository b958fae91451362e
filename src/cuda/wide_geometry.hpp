// Shapes of the kernels for many rows of a (matmul_wide_...), for the kernels and for the host that
// launches them: tiles of d, shared memory, and which tile serves a product.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"
#include "layouts/fragment_tiles.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {

inline constexpr int wide_threads = 384;  // two warpgroups that multiply, and one with a warp that
                                          // copies, which gives the other two its registers
inline constexpr int wide_shared_bytes = 232448;  // that a block of sm_90 may have
inline constexpr int wide_pitch = 68;          // floats from token to token of staged sums

/// A tile of d: `rows` of the weights by `tokens` rows of a.
struct WideShape {
  int rows, tokens;
};
inline constexpr WideShape wide_shapes[] = {{256, 128}, {128, 128}, {128, 64}};

/// How a block's shared memory is laid out; offsets and sizes in bytes. A stage holds `tokens` rows
/// of 64 elements of a, then the packed tiles of the weights.
struct WideShared {
  int stage_bytes, stages;
  int sums;      // staged sums, one part for each of the two warpgroups
  int sum_bytes;
  int places;    // what a stage that begins a tile of d says of it: 32 bytes each
  int barriers;  // full, then empty
  int bytes;
};
MICROSCALE_HD constexpr WideShared wide_shared(WideShape shape, int tile_bytes) {
  WideShared s{};
  s.stage_bytes = (shape.tokens * 128 + shape.rows / 16 * tile_bytes + 1023) / 1024 * 1024;
  s.sum_bytes = shape.tokens * wide_pitch * 4;
  s.stages = (wide_shared_bytes - 2048 - 2 * s.sum_bytes) / s.stage_bytes;
  if (s.stages > 12) s.stages = 12;
  s.sums = s.stages * s.stage_bytes;
  s.places = s.sums + 2 * s.sum_bytes;
  s.barriers = s.places + 32 * s.stages;
  s.bytes = s.barriers + 16 * s.stages;
  return s;
}

/// Tiles of d along n, and down `rows` rows of one matrix.
MICROSCALE_HD constexpr std::int64_t wide_column_tiles(WideShape shape, std::int64_t n, bool gated) {
  const std::int64_t each = shape.rows / fragment_tiles::tile_rows;
  return (fragment_tiles::row_tiles(n, gated) + each - 1) / each;
}
MICROSCALE_HD constexpr std::int64_t wide_row_tiles(WideShape shape, std::int64_t rows) {
  return (rows + shape.tokens - 1) / shape.tokens;
}

/// Tiles of d at most: how `rows` rows are shared out among experts only the device knows.
constexpr std::int64_t wide_most_tiles(WideShape shape, std::int64_t n, bool gated,
                                       std::int64_t rows, std::int64_t matrices, bool experts) {
  return wide_column_tiles(shape, n, gated) *
         (experts ? rows / shape.tokens + matrices : matrices * wide_row_tiles(shape, rows));
}

/// Cycles of a multiprocessor for 64 elements of k of a tile, predicted: products at 4096 operations
/// a cycle, or its two operands at 30 bytes a cycle from the second-level cache.
constexpr std::int64_t wide_cycles(WideShape shape, int tile_bytes) {
  const std::int64_t products = std::int64_t{shape.rows} * shape.tokens / 32;
  const std::int64_t bytes = (shape.tokens * 128 + shape.rows / 16 * tile_bytes) / 30;
  return products > bytes ? products : bytes;
}

/// The shape whose rounds over the multiprocessors take the fewest cycles; experts are taken to have
/// equally many rows.
constexpr WideShape wide_shape(std::int64_t n, bool gated, std::int64_t rows, std::int64_t matrices,
                               bool experts, int tile_bytes, int multiprocessors) {
  WideShape best = wide_shapes[0];
  std::int64_t least = -1;
  const std::int64_t own = experts ? (rows + matrices - 1) / matrices : rows;
  for (const WideShape shape : wide_shapes) {
    const std::int64_t tiles =
        wide_column_tiles(shape, n, gated) * wide_row_tiles(shape, own) * matrices;
    const std::int64_t cycles =
        (tiles + multiprocessors - 1) / multiprocessors * wide_cycles(shape, tile_bytes);
    if (least < 0 || cycles < least) best = shape, least = cycles;
  }
  return best;
}

}  // namespace microscale::cuda
