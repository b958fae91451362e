// Shapes of the kernels for many rows of a (matmul_in_registers_...), for the kernels and for the
// host that launches them: tiles of d, shared memory, and how a product is cut.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "cuda/device/kernel_types.hpp"
#include "cuda/matmul/args.hpp"
#include "formats/host_device.hpp"
#include "layouts/fragment_tiles.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda::in_registers {

inline constexpr int block_threads = 384;  // of a block with two warpgroups that multiply
inline constexpr int sum_pitch = 68;       // floats from token to token of staged sums

/// A tile of d, `rows` of the weights by `tokens` rows of a, and how many warpgroups multiply, each
/// with its part of the rows. One more has a warp that copies, and gives the others registers.
/// Four are for tiles of so few tokens that decoding, not products, takes the time: with two, a
/// scheduler has two warps, and waits for both half of the time.
struct TileShape {
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
  /// Whether each warp multiplies by itself (cuda/matmul/in_registers/stages.cuh).
  MICROSCALE_HD constexpr bool by_warps() const { return warpgroups == 4 && tokens <= 16; }
  /// Whether two blocks of a cluster may have ranges of one tile
  /// (cuda/matmul/in_registers/sums.cuh).
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
inline constexpr TileShape tile_shapes[] = {{128, 256},   {256, 128},   {128, 128}, {256, 16, 4},
                                            {256, 32, 4}, {256, 64, 4}, {128, 64}};

/// Of one of tile_shapes.
MICROSCALE_HD constexpr TileShape tile_shape(int rows, int tokens) {
  return {rows, tokens, rows == 256 && tokens <= 64 ? 4 : 2};
}

/// How a block's shared memory is laid out; offsets and sizes in bytes. A stage holds `tokens` rows
/// of 64 elements of a, chunk after chunk. Behind all stages are the tiles of their weights, those
/// of a row tile side by side.
struct SharedLayout {
  int stage_bytes, stages;
  int weights;
  int sums;  // staged sums, one part for each warpgroup that multiplies
  int sum_bytes;
  int places;    // what a stage that begins a tile of d says of it: 32 bytes each
  int barriers;  // full, then empty
  int pairs;     // barriers, one for each warpgroup
  int bytes;
};
MICROSCALE_HD constexpr SharedLayout shared_layout(TileShape shape, int tile_bytes) {
  SharedLayout s{};
  s.stage_bytes = shape.stage_chunks() * shape.tokens * 128;
  const int weights = shape.rows / 16 * shape.stage_chunks() * tile_bytes;
  s.sum_bytes = shape.staged_tokens() * sum_pitch * 4;
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
MICROSCALE_HD constexpr std::int64_t column_tiles_of(TileShape shape, std::int64_t n, bool gated) {
  const std::int64_t each = shape.rows / fragment_tiles::tile_rows;
  return (fragment_tiles::row_tiles(n, gated) + each - 1) / each;
}
MICROSCALE_HD constexpr std::int64_t tiles_down_of(TileShape shape, std::int64_t rows) {
  return (rows + shape.tokens - 1) / shape.tokens;
}

// How the tiles of d of a product of many rows are shared out to blocks, where there are so few
// that whole ones would leave multiprocessors idle: ranges of k that begin anywhere.
//
// The first tiles lie in a row, each as so many positions: one for each chunk of 64 elements of k,
// and before them `passing`, which stand for what a block spends on passing from one tile to
// another. Blocks share the row evenly, so that one has the tail of a tile, perhaps whole ones, and
// the head of another; a share that would begin among the positions of passing begins with the
// tile. It is taken from its end: first the head that others go on with, at last the tail that adds
// what they had. The other tiles are taken whole, one by each block in a round.

/// Ranges that a tile is cut into, at most; and chunks that a block takes, at least.
inline constexpr int most_ranges = 8;
inline constexpr std::uint32_t least_share = 8;

/// A part of a tile.
struct TilePiece {
  std::uint32_t tile;
  std::uint32_t first, end;  // chunks; none, where a share ends among the positions of passing
  std::uint32_t from;        // its first position
};

struct TileCut {
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
  MICROSCALE_HD constexpr TilePiece piece(std::uint32_t from, std::uint32_t until) const {
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
struct TileCosts {
  std::int64_t chunk;     // of a tile
  std::int64_t tile;      // its beginning and end
  std::int64_t cut;       // what a tile that is cut costs more: waits, fences
  std::int64_t sums;      // of a tile's sums, put to memory or read from it
  std::int64_t pair = 0;  // two blocks of a cluster exchange halves of sums; 0: they cannot
};

struct CutChoice {
  TileCut cut;
  std::int64_t cycles;  // of the block that takes longest; less than 0: cannot be
};

/// Way 0: all tiles whole. Way 1: shared out to all blocks, in front of whole rounds, so that one
/// or two tiles a block are cut, where there are more than blocks. Others: each tile into `way`
/// equal ranges, a block each; of an even number two by two in clusters, where that can be.
inline constexpr int cut_ways = most_ranges + 1;
MICROSCALE_HD constexpr CutChoice cut_choice(const TileCosts& costs, std::uint32_t tiles,
                                             std::uint32_t chunks, std::uint32_t blocks, int way) {
  const std::int64_t whole = chunks * costs.chunk + costs.tile;
  if (way == 0) return {{}, (tiles + blocks - 1) / blocks * whole};
  constexpr CutChoice none{{}, -1};
  if (tiles == 0 || tiles > 4 * blocks) return none;
  std::int64_t rounds = 0;
  auto ranges = static_cast<std::uint32_t>(way);
  TileCut cut{tiles, tiles * ranges, 0, chunks};
  if (way == 1) {
    if (tiles % blocks == 0 || chunks < least_share) return none;
    rounds = tiles < 2 * blocks ? 0 : tiles / blocks - 1;
    cut.tiles = tiles - static_cast<std::uint32_t>(rounds) * blocks;
    cut.blocks = blocks;
    cut.passing =
        static_cast<std::uint32_t>((costs.tile + costs.sums + costs.chunk - 1) / costs.chunk);
    cut.positions = chunks + cut.passing;
  } else if (cut.blocks > blocks || chunks / ranges < least_share / 2) {
    return none;
  }
  const std::int64_t all = std::int64_t{cut.tiles} * cut.positions;
  if (all * cut.blocks >> 32 != 0) return none;
  const std::uint32_t share = static_cast<std::uint32_t>(all) / cut.blocks;
  if (way == 1) {
    if (share < least_share) return none;
    ranges = (chunks - 2) / share + 2;  // one more than cuts that find room in a tile
    if (ranges > most_ranges) return none;
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
MICROSCALE_HD constexpr bool may_cut(const TileCosts& costs, std::uint32_t tiles,
                                     std::uint32_t chunks, std::uint32_t blocks) {
  if (tiles == 0 || tiles > 4 * blocks) return false;
  std::uint32_t last = tiles;
  while (last > blocks) last -= blocks;
  const std::int64_t idle = std::int64_t{blocks - last} * chunks * costs.chunk;
  return idle > blocks * (costs.cut + 3 * costs.sums + (tiles > blocks ? costs.sums : -costs.tile));
}

/// Cycles of a multiprocessor for 64 elements of k of a tile with so many tokens, predicted,
/// whichever is most: its two operands at 30 bytes a cycle from the second-level cache; the
/// weights at 20 from memory; its products, at 4096 operations a cycle; or what a scheduler issues:
/// 40 instructions of a warp, its share of those that copy among them, and 110 for each 64 rows of
/// the weights that it decodes, of one warp of each warpgroup; and the products, which take 25 of
/// 32 of their cycles from others (docs/performance/matmul_gpu.md). Two warpgroups take no more
/// than six sevenths of instructions and products one after the other, four take seven ninths, as
/// measured, and unpacked weights of 256 rows a sixteenth more.
constexpr std::int64_t stage_cycles(TileShape shape, std::int64_t tokens, int tile_bytes,
                                    bool unpacked) {
  const std::int64_t weights = std::int64_t{shape.rows} / 16 * tile_bytes,
                     products = shape.rows * tokens / 32,
                     instructions = shape.warpgroups * (40 + 110 * shape.parts()),
                     slots = instructions + products * 25 / 32, both = instructions + products;
  std::int64_t most = shape.warpgroups == 4  ? both * 7 / 9
                      : slots < both * 6 / 7 ? slots
                                             : both * 6 / 7;
  if (unpacked && shape.rows == 256) most += most / 16;
  for (const std::int64_t cycles : {products, (tokens * 128 + weights) / 30, weights / 20})
    if (cycles > most) most = cycles;
  return most;
}

/// Bytes of one tile's sums.
MICROSCALE_HD constexpr std::int64_t sum_bytes_of(TileShape shape) {
  return std::int64_t{shape.rows} * shape.tokens * 4;
}

/// A tile costs 1500 cycles more than its products, one that is cut 5000 more, and the time its
/// sums take, 60 bytes a cycle. Two ranges in a cluster exchange halves in 1200 and the time that
/// 32 bytes a cycle take, where the host may launch clusters: `pairs`.
constexpr TileCosts tile_costs(TileShape shape, int tile_bytes, bool unpacked, bool pairs = false) {
  return {.chunk = stage_cycles(shape, shape.tokens, tile_bytes, unpacked),
          .tile = 1500,
          .cut = 5000,
          .sums = sum_bytes_of(shape) / 60,
          .pair = pairs && shape.has_pairs() ? 1200 + sum_bytes_of(shape) / 64 : 0};
}

/// NVFP4 weights that are not packed: codes at multiples of 16 bytes, scales at multiples of 4; k
/// is a multiple of 64.
struct UnpackedArgs {
  const std::uint8_t *codes, *scales;
  std::int64_t codes_matrix, scales_matrix;  // bytes from matrix to matrix
  std::int32_t tiled;                        // scales are in 128x4 tiles
};

/// matmul_in_registers_<b>_<bf16 or f16>_<rows>x<tokens>: sm_90a, many rows of a. As many threads
/// as the shape says (TileShape::threads); as many thread blocks as the device has multiprocessors,
/// which share the tiles of d among them.
struct Args {
  TensorMap dense;    // rows of a, elements of 16 bits: [all rows][k], a box 64 of k of a tile
  TensorMap weights;  // packed tiles (layouts/fragment_tiles.hpp): [matrix][row tile][chunk of
                      // k][8 bytes], a box a chunk of a tile of d
  const void* tiles;  // PrepareTilesArgs::tiles; null: `dense`
  UnpackedArgs unpacked[2];  // matmul_in_registers_nvfp4_plain_...: in place of b, and a gate's up
  std::int64_t n;
  std::int64_t k;
  std::uint32_t tiles_of_d;    // of experts at most
  TileCut cut;                 // which of them are cut, and how
  std::int32_t cut_by_kernel;  // experts: of so many tiles as there are, instead
  float* sums;                 // where tiles are cut: of each block, rows x tokens
  std::uint64_t* flags;        // whether they are there: of each block, one for each warpgroup
  std::uint64_t ticket;        // what a flag says then: a number that no other call has
  std::int32_t vectors;        // pieces of d's rows of 16 bytes begin at multiples of 16
  std::int32_t constant;       // no kernel in flight writes the weights (constant_weights)
  std::int32_t partial;        // `tiles`: some tile of d may have fewer rows than `tokens`
  ProductRows rows;
  ProductOutput output;
};

}  // namespace microscale::cuda::in_registers
