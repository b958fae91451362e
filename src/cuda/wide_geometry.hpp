// Shapes of the kernels for many rows of a (matmul_wide_...), for the kernels and for the host that
// launches them: tiles of d, shared memory, and how a product is cut.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "core/host_device.hpp"
#include "cuda/wide_cut.hpp"
#include "layouts/fragment_tiles.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {

inline constexpr int wide_threads = 384;          // of a block with two warpgroups that multiply
inline constexpr int wide_shared_bytes = 232448;  // that a block of sm_90 may have
inline constexpr int wide_pitch = 68;             // floats from token to token of staged sums

/// A tile of d, `rows` of the weights by `tokens` rows of a, and how many warpgroups multiply, each
/// with its part of the rows. One more has a warp that copies, and gives the others registers.
/// Four are for tiles of so few tokens that decoding, not products, takes the time: with two, a
/// scheduler has two warps, and waits for both half of the time.
struct WideShape {
  int rows, tokens, warpgroups = 2;

  MICROSCALE_HD constexpr int threads() const { return 128 * (warpgroups + 1); }
  /// Accumulators of a thread for 64 rows of the weights each.
  MICROSCALE_HD constexpr int parts() const { return rows / 64 / warpgroups; }
  /// Registers a thread, which add up to what a block of so many threads is started with.
  MICROSCALE_HD constexpr int multiplying_registers() const { return warpgroups == 2 ? 224 : 104; }
  MICROSCALE_HD constexpr int copying_registers() const { return warpgroups == 2 ? 56 : 64; }
  /// Rows of a whose sums a warpgroup stages at once.
  MICROSCALE_HD constexpr int staged_tokens() const {
    return warpgroups == 2 || tokens < 64 ? tokens : 64;
  }
};
inline constexpr WideShape wide_shapes[] = {
    {256, 128}, {128, 128}, {256, 32, 4}, {256, 64, 4}, {128, 64}};

/// Of one of wide_shapes.
MICROSCALE_HD constexpr WideShape wide_shape(int rows, int tokens) {
  return {rows, tokens, rows == 256 && tokens <= 64 ? 4 : 2};
}

/// Stages whose weights are copied together where there are as many left, from one that is a
/// multiple of it on: copies of a tile of each chunk alone are so small that they set the pace.
inline constexpr int wide_together = 2;

/// How a block's shared memory is laid out; offsets and sizes in bytes. A stage holds `tokens` rows
/// of 64 elements of a. Behind all stages are the packed tiles of the weights, of wide_together
/// stages those of one row of tiles side by side.
struct WideShared {
  int stage_bytes, stages;
  int weights;
  int sums;  // staged sums, one part for each warpgroup that multiplies
  int sum_bytes;
  int places;    // what a stage that begins a tile of d says of it: 32 bytes each
  int words;     // one for each warpgroup, 16 bytes
  int barriers;  // full, then empty
  int bytes;
};
/// From WideShared::weights on: the first tile of a stage that has `tiles`; the next is
/// wide_together * tile_bytes further.
MICROSCALE_HD constexpr int wide_tiles_of(int stage, int tiles, int tile_bytes) {
  return (stage / wide_together * tiles * wide_together + stage % wide_together) * tile_bytes;
}
MICROSCALE_HD constexpr WideShared wide_shared(WideShape shape, int tile_bytes) {
  WideShared s{};
  s.stage_bytes = shape.tokens * 128;
  const int weights = shape.rows / 16 * tile_bytes;
  s.sum_bytes = shape.staged_tokens() * wide_pitch * 4;
  s.stages =
      (wide_shared_bytes - 2048 - shape.warpgroups * s.sum_bytes) / (s.stage_bytes + weights);
  if (s.stages > 12) s.stages = 12;
  s.stages -= s.stages % wide_together;
  s.weights = s.stages * s.stage_bytes;
  s.sums = (s.weights + s.stages * weights + 1023) / 1024 * 1024;
  s.places = s.sums + shape.warpgroups * s.sum_bytes;
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

/// Cycles of a multiprocessor for 64 elements of k of a tile, predicted, whichever is most: its two
/// operands at 30 bytes a cycle from the second-level cache; the weights at 20 from memory; or half
/// of the products, at 4096 operations a cycle, beside issuing instructions: 40 of a warp, its
/// share of those that copy among them, and 110 for each 64 rows of the weights that it decodes, of
/// one warp of each warpgroup. Four of them keep a scheduler at work for five sixths of the time,
/// two for half of it. That is what was measured, 1024 cycles of 256 x 64, 1600 of 256 x 128.
constexpr std::int64_t wide_cycles(WideShape shape, int tile_bytes) {
  const std::int64_t weights = std::int64_t{shape.rows} / 16 * tile_bytes;
  const std::int64_t issued = shape.warpgroups * (40 + 110 * shape.parts());
  std::int64_t most = (shape.warpgroups == 2 ? 2 * issued : issued * 6 / 5) +
                      std::int64_t{shape.rows} * shape.tokens / 64;
  for (const std::int64_t cycles : {(shape.tokens * 128 + weights) / 30, weights / 20})
    if (cycles > most) most = cycles;
  return most;
}

/// Bytes of one tile's sums.
MICROSCALE_HD constexpr std::int64_t wide_sum_bytes(WideShape shape) {
  return std::int64_t{shape.rows} * shape.tokens * 4;
}

/// A tile costs 1500 cycles more than its products, one that is cut 5000 more, and the time its
/// sums take, 60 bytes a cycle.
constexpr WideCosts wide_costs(WideShape shape, int tile_bytes) {
  return {.chunk = wide_cycles(shape, tile_bytes),
          .tile = 1500,
          .cut = 5000,
          .sums = wide_sum_bytes(shape) / 60};
}

/// How a product is cut: into tiles of d, and some of these into ranges of k, whose sums are added
/// in order by whichever block ends last.
struct WidePlan {
  WideShape shape;
  WideCut cut;
  bool cut_by_kernel;       // experts: only the device knows how many tiles there are
  std::int64_t most_tiles;  // of d
  std::int64_t blocks;      // that are launched
  std::int64_t cycles;      // predicted

  std::int64_t cutting_blocks() const { return cut_by_kernel ? blocks : cut.blocks; }
  /// Of the workspace behind a: the sums of two ranges for each block that has ranges, then a
  /// counter for each of its warpgroups.
  std::int64_t sums_bytes() const { return 2 * cutting_blocks() * wide_sum_bytes(shape); }
  std::int64_t counters() const { return shape.warpgroups * cutting_blocks(); }
};

/// The plan that takes the fewest cycles, as predicted; experts are taken to have equally many
/// rows, and cut as many tiles as they have, where that are few.
constexpr WidePlan wide_plan(std::int64_t n, std::int64_t k, bool gated, std::int64_t rows,
                             std::int64_t matrices, bool experts, int tile_bytes,
                             int multiprocessors) {
  WidePlan best{};
  std::int64_t least = -1;
  const std::int64_t own = experts ? (rows + matrices - 1) / matrices : rows;
  const auto chunks = static_cast<std::uint32_t>(token_tiles::chunks(k));
  for (const WideShape shape : wide_shapes) {
    const std::int64_t tiles =
        wide_column_tiles(shape, n, gated) * wide_row_tiles(shape, own) * matrices;
    const std::int64_t most = wide_most_tiles(shape, n, gated, rows, matrices, experts);
    const bool few = most <= 4 * multiprocessors && chunks >= wide_least_share;
    for (int way = 0; way < (few || !experts ? wide_ways : 1); ++way) {
      const auto [cut, cycles] =
          wide_choice(wide_costs(shape, tile_bytes), static_cast<std::uint32_t>(tiles), chunks,
                      static_cast<std::uint32_t>(multiprocessors), way);
      if (cycles < 0 || (least >= 0 && cycles >= least)) continue;
      least = cycles;
      const bool by_kernel = experts && few;
      const std::int64_t whole = most - cut.tiles;
      std::int64_t blocks = whole < multiprocessors ? whole : multiprocessors;
      if (cut.blocks > blocks) blocks = cut.blocks;
      if (by_kernel) blocks = multiprocessors;
      best = {shape, by_kernel ? WideCut{} : cut, by_kernel, most, blocks, cycles};
    }
  }
  return best;
}

}  // namespace microscale::cuda
