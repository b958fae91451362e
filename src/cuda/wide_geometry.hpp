// Shapes of the kernels for many rows of a (matmul_wide_...), for the kernels and for the host that
// launches them: tiles of d, shared memory, and how a product is cut.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/host_device.hpp"
#include "layouts/fragment_tiles.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {

inline constexpr int wide_threads = 384;  // two warpgroups that multiply, and one with a warp that
                                          // copies, which gives the other two its registers
inline constexpr int wide_shared_bytes = 232448;  // that a block of sm_90 may have
inline constexpr int wide_pitch = 68;             // floats from token to token of staged sums

/// A tile of d: `rows` of the weights by `tokens` rows of a.
struct WideShape {
  int rows, tokens;
};
inline constexpr WideShape wide_shapes[] = {{256, 128}, {128, 128}, {128, 64}};

/// How a block's shared memory is laid out; offsets and sizes in bytes. A stage holds `tokens` rows
/// of 64 elements of a, then the packed tiles of the weights.
struct WideShared {
  int stage_bytes, stages;
  int sums;  // staged sums, one part for each of the two warpgroups
  int sum_bytes;
  int places;    // what a stage that begins a tile of d says of it: 32 bytes each
  int words;     // one for each warpgroup, 16 bytes
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
  s.words = s.places + 32 * s.stages;
  s.barriers = s.words + 16;
  s.bytes = s.barriers + 16 * s.stages;
  return s;
}

/// Tiles of d along n, and down `rows` rows of one matrix.
MICROSCALE_HD constexpr std::int64_t wide_column_tiles(WideShape shape, std::int64_t n,
                                                       bool gated) {
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

/// Cycles of a multiprocessor for 64 elements of k of a tile, predicted: products at 4096
/// operations a cycle, or its two operands at 30 bytes a cycle from the second-level cache.
constexpr std::int64_t wide_cycles(WideShape shape, int tile_bytes) {
  const std::int64_t products = std::int64_t{shape.rows} * shape.tokens / 32;
  const std::int64_t bytes = (shape.tokens * 128 + shape.rows / 16 * tile_bytes) / 30;
  return products > bytes ? products : bytes;
}

/// Bytes of one tile's sums.
MICROSCALE_HD constexpr std::int64_t wide_sum_bytes(WideShape shape) {
  return std::int64_t{shape.rows} * shape.tokens * 4;
}

/// How a product is cut: into tiles of d, and each of these, where there are few, into `splits`
/// ranges of k, whose sums are added in order by whichever block ends last.
struct WidePlan {
  WideShape shape;
  int splits;
  std::int64_t most_tiles;  // of d
  std::int64_t cycles;      // predicted

  std::int64_t units() const { return most_tiles * splits; }
  /// Of the workspace behind a: the sums of all units, then a counter for each half of a tile.
  std::int64_t sums_bytes() const { return splits > 1 ? units() * wide_sum_bytes(shape) : 0; }
  std::int64_t counters() const { return splits > 1 ? 2 * most_tiles : 0; }
};

/// The plan whose rounds over the multiprocessors take the fewest cycles, as predicted; experts are
/// taken to have equally many rows. A tile costs 1500 cycles more than its products; a split one
/// 4000, and the time its sums take there and back.
constexpr WidePlan wide_plan(std::int64_t n, std::int64_t k, bool gated, std::int64_t rows,
                             std::int64_t matrices, bool experts, int tile_bytes,
                             int multiprocessors) {
  WidePlan best{};
  std::int64_t least = -1;
  const std::int64_t own = experts ? (rows + matrices - 1) / matrices : rows;
  const std::int64_t chunks = token_tiles::chunks(k);
  for (const WideShape shape : wide_shapes) {
    const std::int64_t tiles =
        wide_column_tiles(shape, n, gated) * wide_row_tiles(shape, own) * matrices;
    for (const int splits : {1, 2, 3, 4, 5, 6, 8}) {
      if (splits > 1 && (splits > chunks / 4 || tiles > 4 * multiprocessors)) break;
      const std::int64_t rounds = (tiles * splits + multiprocessors - 1) / multiprocessors;
      const std::int64_t more = splits > 1 ? 4000 + 2 * wide_sum_bytes(shape) / 30 : 0;
      const std::int64_t cycles =
          rounds * ((chunks + splits - 1) / splits * wide_cycles(shape, tile_bytes) + 1500 + more);
      if (least >= 0 && cycles >= least) continue;
      least = cycles;
      best = {shape, splits, wide_most_tiles(shape, n, gated, rows, matrices, experts), cycles};
    }
  }
  return best;
}

}  // namespace microscale::cuda
