// Shapes of the kernels that multiply expanded weights by very many rows of a
// (matmul_expanded_...), for the kernels and for the host that launches them.
#pragma once

#include <cstdint>

#include "cuda/block/quantize_args.hpp"
#include "cuda/device/kernel_types.hpp"
#include "cuda/matmul/args.hpp"
#include "cuda/matmul/in_registers/args.hpp"
#include "formats/host_device.hpp"
#include "layouts/fragment_tiles.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda::expanded {

inline constexpr int cluster_blocks = 2;  // of a cluster: neighbours down the rows of a

/// A block's tile of d: `rows` of a, half of them each of two warpgroups, by `columns` rows of the
/// weights. A stage holds 128 bytes of k of both: 64 elements of 16 bits, 128 of 8.
struct TileShape {
  int rows, columns;
  /// The tile of a cluster, as in_registers::TileWalk and the plans take it.
  constexpr in_registers::TileShape cluster() const { return {columns, cluster_blocks * rows}; }
};
inline constexpr TileShape shape_16{128, 256}, shape_8{128, 192};

/// How a block's shared memory is laid out; offsets and sizes in bytes. A stage: rows of a, rows of
/// the weights; with FP8 a factor for each row of a.
struct SharedLayout {
  int stage_bytes, stages;
  int factors;   // in a stage
  int sums;      // 16 rows x 64 FP32 sums of each of the eight warps that multiply
  int places;    // what a stage that begins a tile of d says of it: 32 bytes each
  int barriers;  // full, then empty
  int bytes;
};
inline constexpr int warp_sum_bytes = 16 * 64 * 4;

MICROSCALE_HD constexpr SharedLayout shared_layout(TileShape shape, bool with_factors) {
  SharedLayout s{};
  s.factors = (shape.rows + shape.columns) * 128;
  s.stage_bytes = s.factors + (with_factors ? (shape.rows * 4 + 1023) / 1024 * 1024 : 0);
  s.stages = (most_shared_bytes - 8 * warp_sum_bytes) / (s.stage_bytes + 48);
  s.sums = s.stages * s.stage_bytes;
  s.places = s.sums + 8 * warp_sum_bytes;
  s.barriers = s.places + 32 * s.stages;
  s.bytes = s.barriers + 16 * s.stages;
  return s;
}

/// Groups of eight rows of one matrix of expanded weights: as fragment_tiles has them, a gate's and
/// up's in turn.
MICROSCALE_HD constexpr std::int64_t padded_weight_groups(std::int64_t n, bool gated) {
  return 2 * fragment_tiles::row_tiles(n, gated);
}

/// Cycles predicted, as in_registers::tiling_of counts them: of a stage, an eighth (16 bits) or a
/// half (FP8) more than its products; a tile costs 1500 more; expanding moves 2.5 bytes (1.5) a
/// weight, 21 a cycle and multiprocessor. `chunk`: elements of k of a stage.
constexpr std::int64_t predicted_cycles(TileShape shape, int chunk, std::int64_t n, std::int64_t k,
                                        bool gated, std::int64_t rows, std::int64_t matrices,
                                        bool experts, int multiprocessors) {
  const std::int64_t own = experts ? (rows + matrices - 1) / matrices : rows;
  const std::int64_t tiles = in_registers::column_tiles_of(shape.cluster(), n, gated) *
                             in_registers::tiles_down_of(shape.cluster(), own) * matrices;
  const std::int64_t clusters =
      multiprocessors < cluster_blocks ? 1 : multiprocessors / cluster_blocks;
  const std::int64_t rounds = (tiles + clusters - 1) / clusters;
  const std::int64_t weights = matrices * padded_weight_groups(n, gated) * 8 * k;
  return rounds * ((k + chunk - 1) / chunk * 1152 + 1500) +
         weights / (multiprocessors < 1 ? 1 : multiprocessors) * (chunk == 64 ? 5 : 3) / 42;
}

inline constexpr int fp8_pairs = 4;   // of tiles of weights, a warp
inline constexpr int fp8_pieces = 8;  // of 16 elements of a, a lane

/// Packed MXFP4 weights as E5M2, each row relative to one power of two, in tiles
/// (layouts/token_tiles.hpp) whose chunks are 128 elements. A thread block takes one of `parts` of
/// a tile of 16 rows, fp8_pairs times 1024 elements of k.
struct ExpandFp8Args {
  const std::uint8_t* b;   // as in_registers::Args has it, matrix after matrix
  std::int64_t row_tiles;  // of a matrix
  std::int64_t chunks;     // of 64 elements
  void* expanded;
  std::uint8_t* references;  // of each matrix 16 bytes a row tile: the row's largest scale that
                             // counts, at least; of zeros alone any
  std::uint32_t parts;
  Divisor by_parts;
};

/// MXFP4 rows of a as E5M2, each 128 elements relative to a power of two of their own, in tiles
/// (layouts/token_tiles.hpp) whose chunks are 128 elements. A thread block takes one of `parts` of
/// eight rows, fp8_pieces times 512 elements of k; of these groups every groups_at_once-th.
struct PrepareFp8Args {
  PrepareTilesArgs a;  // f16 and only_if do not count
  float* factors;      // of each chunk of each group of rows: eight
  std::uint32_t parts;
  Divisor by_parts;
  std::uint32_t groups_at_once;
};

/// Whether scales do not fit FP8: `word` holds `ticket` then (cuda/block/grid_order.cuh). The
/// kernel that multiplies in FP8 says so in `verdict`, 1 or 0, and the one in 16 bits behind it
/// forgets.
struct Fp8Misfit {
  std::uint64_t* word;
  std::uint64_t ticket;
  std::uint32_t* verdict;
};

/// matmul_ready_fp8: both operands. 256 threads; blocks 0, 2, ... expand weights, 1, 3, ... prepare
/// rows, while there are of both: `expanding` and `preparing` all in all.
struct ReadyFp8Args {
  ExpandFp8Args weights;
  PrepareFp8Args rows;
  Fp8Misfit misfit;
  std::uint32_t expanding, preparing;
};

/// matmul_expand_<b>_<bf16 or f16>: packed weights in 16 bits an element, in tiles
/// (layouts/token_tiles.hpp). 256 threads; a warp takes expand_tiles tiles of 16 rows x 64, of
/// 8-bit codes two.
struct ExpandWeightsArgs {
  const std::uint8_t* b;   // as in_registers::Args has it, matrix after matrix
  std::int64_t tiles;      // of all matrices
  std::int64_t row_tiles;  // of a matrix
  std::int64_t chunks;     // of 64 elements of k
  void* expanded;
  const std::uint32_t* only_if;  // as in PrepareTilesArgs
};
inline constexpr int expand_tiles = 4;

/// matmul_expanded_<bf16, f16 or fp8>: sm_90a, very many rows of a, in clusters of cluster_blocks
/// blocks of in_registers::block_threads threads; as many blocks as the device has multiprocessors.
struct ProductArgs {
  const void* a;               // of PrepareTilesArgs or PrepareFp8Args
  const void* b;               // of ExpandWeightsArgs, or of PrepareTilesArgs
  std::int64_t weight_groups;  // of eight rows of a matrix of them
  std::int64_t n;
  std::int64_t k;
  std::int32_t vectors;            // as in in_registers::Args
  std::int32_t partial;            // some tile of d may be smaller than a block's
  const std::uint32_t* only_if;    // as in PrepareTilesArgs
  Fp8Misfit misfit;                // fp8; and where there is only_if
  const float* factors;            // fp8: of PrepareFp8Args
  const std::uint8_t* references;  // fp8: of ExpandFp8Args
  ProductRows rows;
  ProductOutput output;
};

/// A quantized d, blocks along its rows. The scales' padding is written where they leave four at a
/// time (quantize.tiles.scale_words), else it has to be there before.
struct ProductBlocks {
  QuantizeArgs quantize;      // rows, cols, codes and scales of the first matrix; there is no input
  std::int64_t codes_matrix;  // bytes from matrix to matrix
  std::int64_t scales_matrix;
  std::int32_t tiled;  // scales are in 128x4 tiles, those of each matrix by themselves
};

/// matmul_expanded_<bf16, f16 or fp8>_to_<format>: the same, d quantized by a rule that is a
/// function of a block's largest magnitude.
struct QuantizedArgs {
  ProductArgs product;  // a batch; output.d, its strides and its type do not count
  ProductBlocks blocks;
};

}  // namespace microscale::cuda::expanded
