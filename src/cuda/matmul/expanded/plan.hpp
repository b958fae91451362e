// Shapes of the kernels that multiply expanded weights by very many rows of a (matmul_dense_...),
// for the kernels and for the host that launches them.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"
#include "cuda/matmul/in_registers/plan.hpp"
#include "layouts/fragment_tiles.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {

inline constexpr int dense_blocks = 2;  // of a cluster: neighbours down the rows of a

/// A block's tile of d: `rows` of a, half of them each of two warpgroups, by `columns` rows of the
/// weights. A stage holds 128 bytes of k of both: 64 elements of 16 bits, 128 of 8.
struct DenseShape {
  int rows, columns;
  /// The tile of a cluster, as WideWalk and the plans take it.
  constexpr WideShape cluster() const { return {columns, dense_blocks * rows}; }
};
inline constexpr DenseShape dense_16_shape{128, 256}, dense_8_shape{128, 192};

/// How a block's shared memory is laid out; offsets and sizes in bytes. A stage: rows of a, rows of
/// the weights; with FP8 a factor for each row of a.
struct DenseShared {
  int stage_bytes, stages;
  int factors;   // in a stage
  int sums;      // 16 rows x 64 FP32 sums of each of the eight warps that multiply
  int places;    // what a stage that begins a tile of d says of it: 32 bytes each
  int barriers;  // full, then empty
  int bytes;
};
inline constexpr int dense_sum_bytes = 16 * 64 * 4;

MICROSCALE_HD constexpr DenseShared dense_shared(DenseShape shape, bool with_factors) {
  DenseShared s{};
  s.factors = (shape.rows + shape.columns) * 128;
  s.stage_bytes = s.factors + (with_factors ? (shape.rows * 4 + 1023) / 1024 * 1024 : 0);
  s.stages = (most_shared_bytes - 8 * dense_sum_bytes) / (s.stage_bytes + 48);
  s.sums = s.stages * s.stage_bytes;
  s.places = s.sums + 8 * dense_sum_bytes;
  s.barriers = s.places + 32 * s.stages;
  s.bytes = s.barriers + 16 * s.stages;
  return s;
}

/// Groups of eight rows of one matrix of expanded weights: as fragment_tiles has them, a gate's and
/// up's in turn.
MICROSCALE_HD constexpr std::int64_t dense_weight_groups(std::int64_t n, bool gated) {
  return 2 * fragment_tiles::row_tiles(n, gated);
}

/// Cycles predicted, as wide_plan counts them: of a stage, an eighth (16 bits) or a half (FP8) more
/// than its products; a tile costs 1500 more; expanding moves 2.5 bytes (1.5) a weight, 21 a cycle
/// and multiprocessor. `chunk`: elements of k of a stage.
constexpr std::int64_t dense_cycles(DenseShape shape, int chunk, std::int64_t n, std::int64_t k,
                                    bool gated, std::int64_t rows, std::int64_t matrices,
                                    bool experts, int multiprocessors) {
  const std::int64_t own = experts ? (rows + matrices - 1) / matrices : rows;
  const std::int64_t tiles = wide_column_tiles(shape.cluster(), n, gated) *
                             wide_row_tiles(shape.cluster(), own) * matrices;
  const std::int64_t clusters = multiprocessors < dense_blocks ? 1 : multiprocessors / dense_blocks;
  const std::int64_t rounds = (tiles + clusters - 1) / clusters;
  const std::int64_t weights = matrices * dense_weight_groups(n, gated) * 8 * k;
  return rounds * ((k + chunk - 1) / chunk * 1152 + 1500) +
         weights / (multiprocessors < 1 ? 1 : multiprocessors) * (chunk == 64 ? 5 : 3) / 42;
}

}  // namespace microscale::cuda
