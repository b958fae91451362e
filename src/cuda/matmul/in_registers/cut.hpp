// How the tiles of d of a product of many rows are shared out to blocks, where there are so few
// that whole ones would leave multiprocessors idle: ranges of k that begin anywhere. For the host,
// and for kernels that alone know how many tiles experts have.
//
// The first tiles lie in a row, each as so many positions: one for each chunk of 64 elements of k,
// and before them `passing`, which stand for what a block spends on passing from one tile to
// another. Blocks share the row evenly, so that one has the tail of a tile, perhaps whole ones, and
// the head of another; a share that would begin among the positions of passing begins with the
// tile. It is taken from its end: first the head that others go on with, at last the tail that adds
// what they had. The other tiles are taken whole, one by each block in a round.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale::cuda {

/// Ranges that a tile is cut into, at most; and chunks that a block takes, at least.
inline constexpr int wide_most_ranges = 8;
inline constexpr std::uint32_t wide_least_share = 8;

/// A part of a tile.
struct WidePiece {
  std::uint32_t tile;
  std::uint32_t first, end;  // chunks; none, where a share ends among the positions of passing
  std::uint32_t from;        // its first position
};

struct WideCut {
  std::uint32_t tiles = 0;      // that are cut: the first ones
  std::uint32_t blocks = 0;     // that share them: the first ones
  std::uint32_t passing = 0;    // positions
  std::uint32_t positions = 0;  // of a tile, `passing` included; tiles * positions * blocks < 2^32
  bool paired = false;          // each tile has 2, 4, ... ranges, two by two of a cluster

  /// Where the share of `block` begins: at the end of that of the block before.
  MICROSCALE_HD constexpr std::uint32_t begin(std::uint32_t block) const {
    return block * (tiles * positions) / blocks;
  }
  /// The last part of [from, until).
  MICROSCALE_HD constexpr WidePiece piece(std::uint32_t from, std::uint32_t until) const {
    const std::uint32_t tile = (until - 1) / positions, before = tile * positions;
    if (from < before) from = before;
    return {tile, chunk(from - before), chunk(until - before), from};
  }
  /// The blocks that have the first and the last chunk of a tile; those between have a range of it
  /// each.
  MICROSCALE_HD constexpr std::uint32_t first_block(std::uint32_t tile) const {
    return ((tile * positions + passing + 1) * blocks - 1) / (tiles * positions);
  }
  MICROSCALE_HD constexpr std::uint32_t last_block(std::uint32_t tile) const {
    return ((tile + 1) * positions * blocks - 1) / (tiles * positions);
  }

 private:
  MICROSCALE_HD constexpr std::uint32_t chunk(std::uint32_t position) const {
    return position < passing ? 0 : position - passing;
  }
};

/// Cycles of a multiprocessor, predicted.
struct WideCosts {
  std::int64_t chunk;     // of a tile
  std::int64_t tile;      // its beginning and end
  std::int64_t cut;       // what a tile that is cut costs more: waits, fences
  std::int64_t sums;      // of a tile's sums, put to memory or read from it
  std::int64_t pair = 0;  // two blocks of a cluster exchange halves of sums; 0: they cannot
};

struct WideChoice {
  WideCut cut;
  std::int64_t cycles;  // of the block that takes longest; less than 0: cannot be
};

/// Way 0: all tiles whole. Way 1: shared out to all blocks, in front of whole rounds, so that one
/// or two tiles a block are cut, where there are more than blocks. Others: each tile into `way`
/// equal ranges, a block each; of an even number two by two in clusters, where that can be.
inline constexpr int wide_ways = wide_most_ranges + 1;
MICROSCALE_HD constexpr WideChoice wide_choice(const WideCosts& costs, std::uint32_t tiles,
                                               std::uint32_t chunks, std::uint32_t blocks,
                                               int way) {
  const std::int64_t whole = chunks * costs.chunk + costs.tile;
  if (way == 0) return {{}, (tiles + blocks - 1) / blocks * whole};
  constexpr WideChoice none{{}, -1};
  if (tiles == 0 || tiles > 4 * blocks) return none;
  std::int64_t rounds = 0;
  auto ranges = static_cast<std::uint32_t>(way);
  WideCut cut{tiles, tiles * ranges, 0, chunks};
  if (way == 1) {
    if (tiles % blocks == 0 || chunks < wide_least_share) return none;
    rounds = tiles < 2 * blocks ? 0 : tiles / blocks - 1;
    cut.tiles = tiles - static_cast<std::uint32_t>(rounds) * blocks;
    cut.blocks = blocks;
    cut.passing =
        static_cast<std::uint32_t>((costs.tile + costs.sums + costs.chunk - 1) / costs.chunk);
    cut.positions = chunks + cut.passing;
  } else if (cut.blocks > blocks || chunks / ranges < wide_least_share / 2) {
    return none;
  }
  const std::int64_t all = std::int64_t{cut.tiles} * cut.positions;
  if (all * cut.blocks >> 32 != 0) return none;
  const std::uint32_t share = static_cast<std::uint32_t>(all) / cut.blocks;
  if (way == 1) {
    if (share < wide_least_share) return none;
    ranges = (chunks - 2) / share + 2;  // one more than cuts that find room in a tile
    if (ranges > wide_most_ranges) return none;
  }
  cut.paired = way > 1 && costs.pair > 0 && way % 2 == 0;
  const std::int64_t longest = share + (share * cut.blocks < all);
  std::int64_t more = costs.cut + (1 + ranges) * costs.sums;
  if (cut.paired)  // half as many ranges pass through memory, half a tile each
    more = costs.pair + (ranges > 2 ? costs.cut + (1 + ranges / 2) * costs.sums / 2 : 0);
  return {cut, rounds * whole + longest * costs.chunk + costs.tile + more};
}

/// Whether some way may be better than whole tiles: without the divisions that telling for certain
/// takes. Whole ones leave blocks idle in the last round; no cut can win more than that, and it
/// costs two ranges and, where there are more tiles than blocks, passing.
MICROSCALE_HD constexpr bool wide_may_cut(const WideCosts& costs, std::uint32_t tiles,
                                          std::uint32_t chunks, std::uint32_t blocks) {
  if (tiles == 0 || tiles > 4 * blocks) return false;
  std::uint32_t last = tiles;
  while (last > blocks) last -= blocks;
  const std::int64_t idle = std::int64_t{blocks - last} * chunks * costs.chunk;
  return idle > blocks * (costs.cut + 3 * costs.sums + (tiles > blocks ? costs.sums : -costs.tile));
}

}  // namespace microscale::cuda
