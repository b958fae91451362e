// How a product of many rows is cut into tiles of d, and these among blocks: the way that takes the
// fewest cycles, as predicted. For the host; args.hpp has what kernels know of it.
#pragma once

#include <cstdint>

#include "cuda/matmul/in_registers/args.hpp"

namespace microscale::cuda::in_registers {

/// Tiles of d at most: how `rows` rows are shared out among experts only the device knows.
constexpr std::int64_t most_tiles_of(TileShape shape, std::int64_t n, bool gated, std::int64_t rows,
                                     std::int64_t matrices, bool experts) {
  return column_tiles_of(shape, n, gated) *
         (experts ? rows / shape.tokens + matrices : matrices * row_tiles_of(shape, rows));
}

/// How a product is cut: into tiles of d, and some of these into ranges of k, whose sums the
/// block of the last range adds to its own.
struct Tiling {
  TileShape shape;
  TileCut cut;
  bool cut_by_kernel;       // experts: only the device knows how many tiles there are
  std::int64_t most_tiles;  // of d
  std::int64_t blocks;      // that are launched
  std::int64_t cycles;      // predicted

  std::int64_t cutting_blocks() const { return cut_by_kernel ? blocks : cut.blocks; }
  /// Of the workspace behind a: the sums of a range for each block that has ranges, then a flag of
  /// eight bytes for each of its warpgroups.
  std::int64_t sums_bytes() const { return cutting_blocks() * sum_bytes_of(shape); }
  std::int64_t flag_bytes() const { return 8 * shape.warpgroups * cutting_blocks(); }
};

/// The way to cut `tiles` of them that takes the fewest cycles.
constexpr CutChoice best_cut(const TileCosts& costs, std::int64_t tiles, std::int64_t chunks,
                             int multiprocessors) {
  CutChoice best{{}, -1};
  for (int way = 0; way < cut_ways; ++way) {
    const CutChoice choice =
        cut_choice(costs, static_cast<std::uint32_t>(tiles), static_cast<std::uint32_t>(chunks),
                   static_cast<std::uint32_t>(multiprocessors), way);
    if (choice.cycles >= 0 && (best.cycles < 0 || choice.cycles < best.cycles)) best = choice;
  }
  return best;
}

/// Experts of plain weights, whose last tiles are smaller (TileShape::token_step), all tiles taken
/// whole: a block's share, and part of the smallest tile, since the largest are dealt out first; or
/// rounds of the largest. Some have an eighth more rows than others, some an eighth fewer.
constexpr std::int64_t experts_cycles(TileShape shape, const TileCosts& costs, std::int64_t columns,
                                      std::int64_t rows, std::int64_t experts, std::int64_t chunks,
                                      int tile_bytes, int multiprocessors) {
  const auto tile = [&](std::int64_t own) {
    return stage_cycles(shape, shape.multiplied_tokens(own), tile_bytes, true) * chunks +
           costs.tile;
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
                     all = rounds(row_tiles_of(shape, rows)) *
                           tile(rows % shape.tokens > 0 ? rows % shape.tokens : shape.tokens);
  return share > whole && share > all ? share : whole > all ? whole : all;
}

/// The plan that takes the fewest cycles, as predicted. Experts are taken to have equally many
/// rows, or such that each has half a tile that is not filled, which counts as much; where they
/// have few tiles the kernel cuts what it finds, but for those of 256 rows, whose sizes differ too
/// much for equal shares. These are for plain weights alone: of packed ones they are slower, as
/// measured (docs/performance/matmul_gpu.md, 40).
constexpr Tiling tiling_of(std::int64_t n, std::int64_t k, bool gated, std::int64_t rows,
                           std::int64_t matrices, bool experts, int tile_bytes, bool plain,
                           int multiprocessors) {
  Tiling best{};
  const std::int64_t own = experts ? (rows + matrices - 1) / matrices : rows;
  for (const TileShape shape : tile_shapes) {
    const bool sized = plain && shape.token_sizes() > 1 && own > shape.token_step();
    if (experts && shape.tokens == 256 && !sized) continue;
    const TileCosts costs = tile_costs(shape, tile_bytes, plain, !experts);
    const std::int64_t columns = column_tiles_of(shape, n, gated), chunks = token_tiles::chunks(k),
                       equal = columns * row_tiles_of(shape, own) * matrices,
                       halves = columns * (rows / shape.tokens + matrices / 2);
    const CutChoice choice = best_cut(costs, equal, chunks, multiprocessors);
    Tiling plan{.shape = shape,
                .cut = choice.cut,
                .cut_by_kernel = false,
                .most_tiles = most_tiles_of(shape, n, gated, rows, matrices, experts),
                .blocks = 0,
                .cycles = choice.cycles};
    if (experts) {
      const CutChoice other =
          best_cut(costs, halves > equal ? halves : equal, chunks, multiprocessors);
      plan.cycles = (choice.cycles + other.cycles) / 2;
      plan.cut_by_kernel =
          shape.tokens < 256 && plan.most_tiles <= 4 * multiprocessors && chunks >= least_share;
      plan.cut = {};
      if (sized) {
        const std::int64_t whole = experts_cycles(shape, costs, columns, own, matrices, chunks,
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

}  // namespace microscale::cuda::in_registers
