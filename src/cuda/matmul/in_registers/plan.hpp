// Shapes of the kernels for many rows of a (matmul_wide_...), for the kernels and for the host that
// launches them: tiles of d, shared memory, and how a product is cut.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "formats/host_device.hpp"
#include "cuda/device/launch_shape.hpp"
#include "cuda/matmul/in_registers/cut.hpp"
#include "layouts/fragment_tiles.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {

inline constexpr int wide_threads = 384;  // of a block with two warpgroups that multiply
inline constexpr int wide_pitch = 68;     // floats from token to token of staged sums

/// A tile of d, `rows` of the weights by `tokens` rows of a, and how many warpgroups multiply, each
/// with its part of the rows. One more has a warp that copies, and gives the others registers.
/// Four are for tiles of so few tokens that decoding, not products, takes the time: with two, a
/// scheduler has two warps, and waits for both half of the time.
struct WideShape {
  int rows, tokens, warpgroups = 2;

  MICROSCALE_HD constexpr int threads() const { return 128 * (warpgroups + 1); }
  /// Of 64 elements of k, in a stage. Two save a tenth of the instructions; but beginning and
  /// ending take longer, which with 32 tokens is more (as measured). With 16, pairs of warps share
  /// them.
  MICROSCALE_HD constexpr int stage_chunks() const {
    return warpgroups == 4 && tokens != 32 ? 2 : 1;
  }
  /// Accumulators of a thread for 64 rows of the weights each.
  MICROSCALE_HD constexpr int parts() const { return rows / 64 / warpgroups; }
  /// Products of a tile have as many tokens as it has rows of a, in these steps, in the shapes that
  /// experts mostly have. (Steps of 32 are no faster; of 16, more sizes of accumulators than the
  /// assembler finds registers for.)
  MICROSCALE_HD constexpr int token_step() const {
    return warpgroups == 2 && rows * tokens == 256 * 128 ? 64 : tokens;
  }
  MICROSCALE_HD constexpr int token_sizes() const { return tokens / token_step(); }
  MICROSCALE_HD constexpr std::int64_t multiplied_tokens(std::int64_t rows_of_a) const {
    return (rows_of_a + token_step() - 1) / token_step() * token_step();
  }
  /// Whether each warp multiplies by itself (cuda/matmul/in_registers/warp_stages.cuh).
  MICROSCALE_HD constexpr bool by_warps() const { return warpgroups == 4 && tokens <= 16; }
  /// Whether two blocks of a cluster may have ranges of one tile
  /// (cuda/matmul/in_registers/pair.cuh).
  MICROSCALE_HD constexpr bool has_pairs() const {
    return (rows == 128 && tokens == 128) || (rows == 256 && tokens == 64);
  }
  /// Registers a thread, which add up to what a block of so many threads is started with.
  MICROSCALE_HD constexpr int multiplying_registers() const { return warpgroups == 2 ? 224 : 104; }
  MICROSCALE_HD constexpr int copying_registers() const { return warpgroups == 2 ? 56 : 64; }
  /// Rows of a whose sums a warpgroup stages at once.
  MICROSCALE_HD constexpr int staged_tokens() const {
    return tokens < 64 || (warpgroups == 2 && tokens <= 128) ? tokens : 64;
  }
};
inline constexpr WideShape wide_shapes[] = {{128, 256},   {256, 128},   {128, 128}, {256, 16, 4},
                                            {256, 32, 4}, {256, 64, 4}, {128, 64}};

/// Of one of wide_shapes.
MICROSCALE_HD constexpr WideShape wide_shape(int rows, int tokens) {
  return {rows, tokens, rows == 256 && tokens <= 64 ? 4 : 2};
}

/// How a block's shared memory is laid out; offsets and sizes in bytes. A stage holds `tokens` rows
/// of 64 elements of a, chunk after chunk. Behind all stages are the tiles of their weights, those
/// of a row tile side by side.
struct WideShared {
  int stage_bytes, stages;
  int weights;
  int sums;  // staged sums, one part for each warpgroup that multiplies
  int sum_bytes;
  int places;    // what a stage that begins a tile of d says of it: 32 bytes each
  int barriers;  // full, then empty
  int pairs;     // barriers, one for each warpgroup
  int bytes;
};
MICROSCALE_HD constexpr WideShared wide_shared(WideShape shape, int tile_bytes) {
  WideShared s{};
  s.stage_bytes = shape.stage_chunks() * shape.tokens * 128;
  const int weights = shape.rows / 16 * shape.stage_chunks() * tile_bytes;
  s.sum_bytes = shape.staged_tokens() * wide_pitch * 4;
  s.stages =
      (most_shared_bytes - 2048 - shape.warpgroups * s.sum_bytes) / (s.stage_bytes + weights);
  const int most = shape.by_warps() ? 4 : 12;
  if (s.stages > most) s.stages = most;
  s.weights = s.stages * s.stage_bytes;
  s.sums = (s.weights + s.stages * weights + 1023) / 1024 * 1024;
  s.places = s.sums + shape.warpgroups * s.sum_bytes;
  s.barriers = s.places + 32 * s.stages;
  s.pairs = s.barriers + 16 * s.stages;
  s.bytes = s.pairs + (shape.has_pairs() ? 8 * shape.warpgroups : 0);
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

/// Cycles of a multiprocessor for 64 elements of k of a tile with so many tokens, predicted,
/// whichever is most: its two operands at 30 bytes a cycle from the second-level cache; the
/// weights at 20 from memory; its products, at 4096 operations a cycle; or what a scheduler issues:
/// 40 instructions of a warp, its share of those that copy among them, and 110 for each 64 rows of
/// the weights that it decodes, of one warp of each warpgroup; and the products, which take 25 of
/// 32 of their cycles from others (docs/performance/matmul_gpu.md). Two warpgroups take no more
/// than six sevenths of instructions and products one after the other, four take seven ninths, as
/// measured, and plain weights of 256 rows a sixteenth more.
constexpr std::int64_t wide_cycles(WideShape shape, std::int64_t tokens, int tile_bytes,
                                   bool plain) {
  const std::int64_t weights = std::int64_t{shape.rows} / 16 * tile_bytes,
                     products = shape.rows * tokens / 32,
                     instructions = shape.warpgroups * (40 + 110 * shape.parts()),
                     slots = instructions + products * 25 / 32, both = instructions + products;
  std::int64_t most = shape.warpgroups == 4  ? both * 7 / 9
                      : slots < both * 6 / 7 ? slots
                                             : both * 6 / 7;
  if (plain && shape.rows == 256) most += most / 16;
  for (const std::int64_t cycles : {products, (tokens * 128 + weights) / 30, weights / 20})
    if (cycles > most) most = cycles;
  return most;
}

/// Bytes of one tile's sums.
MICROSCALE_HD constexpr std::int64_t wide_sum_bytes(WideShape shape) {
  return std::int64_t{shape.rows} * shape.tokens * 4;
}

/// A tile costs 1500 cycles more than its products, one that is cut 5000 more, and the time its
/// sums take, 60 bytes a cycle. Two ranges in a cluster exchange halves in 1200 and the time that
/// 32 bytes a cycle take, where the host may launch clusters: `pairs`.
constexpr WideCosts wide_costs(WideShape shape, int tile_bytes, bool plain, bool pairs = false) {
  return {.chunk = wide_cycles(shape, shape.tokens, tile_bytes, plain),
          .tile = 1500,
          .cut = 5000,
          .sums = wide_sum_bytes(shape) / 60,
          .pair = pairs && shape.has_pairs() ? 1200 + wide_sum_bytes(shape) / 64 : 0};
}

/// How a product is cut: into tiles of d, and some of these into ranges of k, whose sums the
/// block of the last range adds to its own.
struct WidePlan {
  WideShape shape;
  WideCut cut;
  bool cut_by_kernel;       // experts: only the device knows how many tiles there are
  std::int64_t most_tiles;  // of d
  std::int64_t blocks;      // that are launched
  std::int64_t cycles;      // predicted

  std::int64_t cutting_blocks() const { return cut_by_kernel ? blocks : cut.blocks; }
  /// Of the workspace behind a: the sums of a range for each block that has ranges, then a flag of
  /// eight bytes for each of its warpgroups.
  std::int64_t sums_bytes() const { return cutting_blocks() * wide_sum_bytes(shape); }
  std::int64_t flag_bytes() const { return 8 * shape.warpgroups * cutting_blocks(); }
};

/// The way to cut `tiles` of them that takes the fewest cycles.
constexpr WideChoice wide_best_choice(const WideCosts& costs, std::int64_t tiles,
                                      std::int64_t chunks, int multiprocessors) {
  WideChoice best{{}, -1};
  for (int way = 0; way < wide_ways; ++way) {
    const WideChoice choice =
        wide_choice(costs, static_cast<std::uint32_t>(tiles), static_cast<std::uint32_t>(chunks),
                    static_cast<std::uint32_t>(multiprocessors), way);
    if (choice.cycles >= 0 && (best.cycles < 0 || choice.cycles < best.cycles)) best = choice;
  }
  return best;
}

/// Experts of plain weights, whose last tiles are smaller (WideShape::token_step), all tiles taken
/// whole: a block's share, and part of the smallest tile, since the largest are dealt out first; or
/// rounds of the largest. Some have an eighth more rows than others, some an eighth fewer.
constexpr std::int64_t wide_experts_cycles(WideShape shape, const WideCosts& costs,
                                           std::int64_t columns, std::int64_t rows,
                                           std::int64_t experts, std::int64_t chunks,
                                           int tile_bytes, int multiprocessors) {
  const auto tile = [&](std::int64_t own) {
    return wide_cycles(shape, shape.multiplied_tokens(own), tile_bytes, true) * chunks + costs.tile;
  };
  const auto column = [&](std::int64_t own) {
    const std::int64_t last = own % shape.tokens;
    return own / shape.tokens * tile(shape.tokens) + (last > 0 ? tile(last) : 0);
  };
  const auto rounds = [&](std::int64_t tiles) {
    return (columns * experts * tiles + multiprocessors - 1) / multiprocessors;
  };
  const std::int64_t three = column(rows - rows / 8) + column(rows) + column(rows + rows / 8 + 1),
                     share = columns * experts * three / 3 / multiprocessors + tile(1) / 4,
                     whole = rounds(rows / shape.tokens) * tile(shape.tokens),
                     all = rounds(wide_row_tiles(shape, rows)) *
                           tile(rows % shape.tokens > 0 ? rows % shape.tokens : shape.tokens);
  return share > whole && share > all ? share : whole > all ? whole : all;
}

/// The plan that takes the fewest cycles, as predicted. Experts are taken to have equally many
/// rows, or such that each has half a tile that is not filled, which counts as much; where they
/// have few tiles the kernel cuts what it finds, but for those of 256 rows, whose sizes differ too
/// much for equal shares. These are for plain weights alone: of packed ones they are slower, as
/// measured (docs/performance/matmul_gpu.md, 40).
constexpr WidePlan wide_plan(std::int64_t n, std::int64_t k, bool gated, std::int64_t rows,
                             std::int64_t matrices, bool experts, int tile_bytes, bool plain,
                             int multiprocessors) {
  WidePlan best{};
  const std::int64_t own = experts ? (rows + matrices - 1) / matrices : rows;
  for (const WideShape shape : wide_shapes) {
    const bool sized = plain && shape.token_sizes() > 1 && own > shape.token_step();
    if (experts && shape.tokens == 256 && !sized) continue;
    const WideCosts costs = wide_costs(shape, tile_bytes, plain, !experts);
    const std::int64_t columns = wide_column_tiles(shape, n, gated),
                       chunks = token_tiles::chunks(k),
                       equal = columns * wide_row_tiles(shape, own) * matrices,
                       halves = columns * (rows / shape.tokens + matrices / 2);
    const WideChoice choice = wide_best_choice(costs, equal, chunks, multiprocessors);
    WidePlan plan{.shape = shape,
                  .cut = choice.cut,
                  .cut_by_kernel = false,
                  .most_tiles = wide_most_tiles(shape, n, gated, rows, matrices, experts),
                  .blocks = 0,
                  .cycles = choice.cycles};
    if (experts) {
      const WideChoice other =
          wide_best_choice(costs, halves > equal ? halves : equal, chunks, multiprocessors);
      plan.cycles = (choice.cycles + other.cycles) / 2;
      plan.cut_by_kernel = shape.tokens < 256 && plan.most_tiles <= 4 * multiprocessors &&
                           chunks >= wide_least_share;
      plan.cut = {};
      if (sized) {
        const std::int64_t whole = wide_experts_cycles(shape, costs, columns, own, matrices, chunks,
                                                       tile_bytes, multiprocessors);
        if (whole < plan.cycles || !plan.cut_by_kernel) plan.cycles = whole;
      }
    }
    if (best.most_tiles > 0 && plan.cycles >= best.cycles) continue;
    const std::int64_t whole = plan.most_tiles - plan.cut.tiles;
    plan.blocks = plan.cut_by_kernel || whole > multiprocessors ? multiprocessors : whole;
    if (plan.cut.blocks > plan.blocks) plan.blocks = plan.cut.blocks;
    best = plan;
  }
  return best;
}

}  // namespace microscale::cuda
