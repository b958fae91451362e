// Which tile of d is next, for kernels whose blocks stay until all tiles are done: tile numbers run
// over the matrices, in one of them over bands of 2048 rows of a, in a band along n and,
// fastest, down the rows, so that blocks at work together share tiles of weights and few rows of a.
//
// Where products of a tile are as many as its rows want (TileShape::token_step), an expert's last
// rows are a smaller tile. All experts' largest tiles come first then, and the smallest last, so
// that blocks that are through with theirs find something small to do.
#pragma once

#include <cstdint>

#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/args.hpp"
#include "cuda/matmul/in_registers/args.hpp"
#include "cuda/ptx/control.cuh"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda::in_registers {

/// A tile of d, and what it is made from. There are fewer than 2^31 tiles and matrices.
struct TilePlace {
  std::uint32_t matrix;
  std::uint32_t tile_down, column_tile;  // in the matrix
  MatrixRows rows;                       // of the matrix
};

template <int Rows, int Tokens>
class TileWalk {
 public:
  static constexpr TileShape shape = tile_shape(Rows, Tokens);
  static constexpr std::uint32_t band = 2048 / Tokens;
  static constexpr int sizes = shape.token_sizes();

  __device__ TileWalk(const ProductRows& rows, std::int64_t n, bool gated)
      : rows_(rows), columns_(static_cast<std::uint32_t>(column_tiles_of(shape, n, gated))) {}

  /// Experts: finds how many tiles of each size they have, wanted before anything of them, once.
  /// All lanes of a warp ask.
  __device__ void count() {
#pragma unroll 4
    for (std::int64_t matrix = threadIdx.x & 31; matrix < rows_.matrices; matrix += 32) {
      const std::int64_t rows = rows_of_matrix(rows_, matrix).count;
#pragma unroll
      for (int size = 0; size < sizes; ++size) of_size_[size] += height_of(rows, size) * columns_;
    }
#pragma unroll
    for (std::uint32_t& tiles : of_size_)
#pragma unroll
      for (int apart = 1; apart < 32; apart *= 2)
        tiles += __shfl_xor_sync(0xFFFFFFFFu, tiles, apart);
  }
  /// Of all experts, as counted.
  __device__ std::uint32_t tiles() const {
    std::uint32_t sum = 0;
    for (const std::uint32_t tiles : of_size_) sum += tiles;
    return sum;
  }

  /// False behind the last tile. All lanes of a warp ask for the same number; experts passed are
  /// remembered while numbers of a size grow.
  __device__ bool find(std::uint32_t tile, TilePlace& place) {
    if (rows_.expert_rows == nullptr) {
      const std::uint32_t each = height(rows_.m) * columns_;
      if (each == 0) return false;
      place.matrix = tile / each;
      if (place.matrix >= rows_.matrices) return false;
      place.rows = rows_of_matrix(rows_, place.matrix);
      split(tile - place.matrix * each, height(rows_.m), place);
      return true;
    }
    int size = sizes == 1 ? 0 : sizes;
    if constexpr (sizes > 1) {
#pragma unroll
      for (int i = 0; i < sizes; ++i) {
        if (size < sizes) continue;
        if (tile < of_size_[i])
          size = i;
        else
          tile -= of_size_[i];
      }
      if (size == sizes) return false;
    }
    // Another size's, or nearer the beginning: a share is taken from its end.
    if (tile < before_ || size != size_) first_ = 0, before_ = 0, size_ = size;
    const int lane = static_cast<int>(threadIdx.x & 31);
    for (; first_ < rows_.matrices; first_ += 32) {  // 32 experts, one a lane
      MatrixRows own{0, 0};
      if (first_ + lane < rows_.matrices) own = rows_of_matrix(rows_, first_ + lane);
      const std::uint32_t tiles = height_of(own.count, size) * columns_;
      std::uint32_t sum = tiles;
#pragma unroll
      for (int step = 1; step < 32; step *= 2) {
        const std::uint32_t other = __shfl_up_sync(0xFFFFFFFFu, sum, step);
        if (lane >= step) sum += other;
      }
      const unsigned behind = __ballot_sync(0xFFFFFFFFu, tile < before_ + sum);
      if (behind != 0) {
        const int owner = __ffs(static_cast<int>(behind)) - 1;
        place.matrix = first_ + owner;
        place.rows = rows_of_matrix(rows_, place.matrix);
        split(tile - before_ - __shfl_sync(0xFFFFFFFFu, sum - tiles, owner),
              height_of(place.rows.count, size), place);
        if (size > 0) place.tile_down += static_cast<std::uint32_t>(place.rows.count / Tokens);
        return true;
      }
      before_ += __shfl_sync(0xFFFFFFFFu, sum, 31);
    }
    return false;
  }

 private:
  __device__ static std::uint32_t height(std::int64_t rows) {
    return static_cast<std::uint32_t>(tiles_down_of(shape, rows));
  }
  /// Of the tiles of a size: the largest are 0.
  __device__ static std::uint32_t height_of(std::int64_t rows, int size) {
    if constexpr (sizes == 1) return height(rows);
    const auto left = static_cast<int>(rows % Tokens);
    const bool last = left > 0 && (Tokens - left) / shape.token_step() == size;
    return (size == 0 ? static_cast<std::uint32_t>(rows / Tokens) : 0) + (last ? 1 : 0);
  }
  /// `height`: tiles down the matrix, or those of a size.
  __device__ void split(std::uint32_t tile, std::uint32_t height, TilePlace& place) const {
    const std::uint32_t first = tile / (band * columns_) * band;
    const std::uint32_t own = height - first < band ? height - first : band;
    const std::uint32_t rest = tile - first * columns_;
    place.column_tile = rest / own;
    place.tile_down = first + rest - place.column_tile * own;
  }

  const ProductRows& rows_;
  std::uint32_t columns_;
  std::uint32_t of_size_[sizes] = {};  // tiles
  int size_ = 0;
  std::uint32_t first_ = 0, before_ = 0;  // experts passed, and their tiles of that size
};

// ---
// Where warps that bring operands wait until the barriers in shared memory are there. They come
// when they know what they are to do, so that this is not waited for before; the warp that makes
// the barriers only tells. Each role has a number of its own: warps that share one come to it in
// the same place of the program, as tools that look for divergent threads want it.

/// `Threads` of a role wait at barrier `Number`.
template <std::uint32_t Number, int Threads>
class BlockStart {
 public:
  /// One warp, not among these.
  __device__ static void tell() { ptx::bar_arrive(Number, 32 + Threads); }
  __device__ void meet() {
    if (!met_) ptx::bar_sync(Number, 32 + Threads);
    met_ = true;
  }

 private:
  bool met_ = false;
};

// ---
// What a block of the kernels for many rows multiplies, one unit after the other: tiles of d, or
// ranges of k of tiles (args.hpp). The warps that bring operands ask for the same units.

struct TileUnit {
  TilePlace place;
  std::uint32_t first, end;             // chunks of k
  std::uint32_t range = 0, ranges = 1;  // which one of how many the tile is cut into
  std::uint32_t first_block = 0;        // that has the first of these
};

/// All lanes of a warp ask for the same.
template <class Weights, int Rows, int Tokens>
class TileUnits {
 public:
  __device__ explicit TileUnits(const Args& args)
      : walk_(args.rows, args.n, args.output.gated != 0),
        k_(args.k),
        cut_(args.cut),
        tiles_(args.tiles_of_d) {
    if (args.rows.expert_rows != nullptr) {
      follow_previous_grid();  // which may count their rows
      if (Walk::sizes > 1 || args.cut_by_kernel) walk_.count();
      turns_ = Walk::sizes > 1;
    }
    if (args.cut_by_kernel) {
      tiles_ = min(walk_.tiles(), args.tiles_of_d);
      cut_ = {};
      if (may_cut(costs(), tiles_, chunks(), gridDim.x)) cut_ = best_cut();
    }
    if (blockIdx.x < cut_.blocks) at_ = cut_.begin(blockIdx.x), end_ = cut_.begin(blockIdx.x + 1);
    whole_ = cut_.tiles;
  }

  /// False behind the last one.
  __device__ bool next(TileUnit& unit) {
    while (at_ < end_) {
      const TilePiece piece = cut_.piece(at_, end_);
      end_ = piece.from;
      if (piece.first == piece.end) continue;
      unit.first = piece.first, unit.end = piece.end;
      unit.first_block = cut_.first_block(piece.tile);
      unit.range = blockIdx.x - unit.first_block;
      unit.ranges = cut_.last_block(piece.tile) - unit.first_block + 1;
      return walk_.find(piece.tile, unit.place);
    }
    const std::uint32_t tile = whole_ + (backwards_ ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
    if (tile >= tiles_ || !walk_.find(tile, unit.place)) return false;
    whole_ += gridDim.x;
    backwards_ = turns_ && !backwards_;
    unit.first = 0, unit.end = chunks();
    unit.range = 0, unit.ranges = 1;
    return true;
  }

 private:
  using Walk = TileWalk<Rows, Tokens>;

  __device__ static constexpr TileCosts costs() {
    return tile_costs(tile_shape(Rows, Tokens), Weights::tile_bytes, Weights::unpacked);
  }
  __device__ std::uint32_t chunks() const {
    return static_cast<std::uint32_t>(token_tiles::chunks(k_));
  }
  /// A lane looks at each way.
  __device__ TileCut best_cut() const {
    static_assert(cut_ways <= 16, "ways are counted by four bits");
    const int way = min(static_cast<int>(threadIdx.x & 31), cut_ways - 1);
    const CutChoice own = cut_choice(costs(), tiles_, chunks(), gridDim.x, way);
    long long best = own.cycles < 0 ? 0x7FFFFFFFFFFFFFFF : own.cycles * 16 + way;
#pragma unroll
    for (int apart = 1; apart < 32; apart *= 2)
      best = min(best, __shfl_xor_sync(0xFFFFFFFFu, best, apart));
    const int from = static_cast<int>(best % 16);
    const auto of_best = [&](std::uint32_t x) { return __shfl_sync(0xFFFFFFFFu, x, from); };
    return {of_best(own.cut.tiles), of_best(own.cut.blocks), of_best(own.cut.passing),
            of_best(own.cut.positions)};
  }

  Walk walk_;
  const std::int64_t& k_;
  TileCut cut_;
  std::uint32_t tiles_;
  std::uint32_t at_ = 0, end_ = 0;  // what is left of this block's share
  std::uint32_t whole_;             // where the next round of whole tiles begins
  // Tiles grow smaller: every second round is dealt out backwards.
  bool turns_ = false, backwards_ = false;
};

}  // namespace microscale::cuda::in_registers
