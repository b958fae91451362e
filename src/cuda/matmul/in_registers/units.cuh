// What a block of the kernels for many rows multiplies, one unit after the other: tiles of d, or
// ranges of k of tiles (wide_cut.hpp). Whoever brings operands asks for the same units.
#pragma once

#include <cstdint>

#include "cuda/matmul/args.hpp"
#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/in_registers/walk.cuh"
#include "cuda/matmul/in_registers/cut.hpp"
#include "layouts/token_tiles.hpp"

namespace microscale::cuda {

struct WideUnit {
  WidePlace place;
  std::uint32_t first, end;             // chunks of k
  std::uint32_t range = 0, ranges = 1;  // which one of how many the tile is cut into
  std::uint32_t first_block = 0;        // that has the first of these
};

/// All lanes of a warp ask for the same.
template <class Weights, int Rows, int Tokens>
class WideUnits {
 public:
  __device__ explicit WideUnits(const MatmulWideArgs& args)
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
      if (wide_may_cut(costs(), tiles_, chunks(), gridDim.x)) cut_ = best_cut();
    }
    if (blockIdx.x < cut_.blocks) at_ = cut_.begin(blockIdx.x), end_ = cut_.begin(blockIdx.x + 1);
    whole_ = cut_.tiles;
  }

  /// False behind the last one.
  __device__ bool next(WideUnit& unit) {
    while (at_ < end_) {
      const WidePiece piece = cut_.piece(at_, end_);
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
  using Walk = WideWalk<Rows, Tokens>;

  __device__ static constexpr WideCosts costs() {
    return wide_costs(wide_shape(Rows, Tokens), Weights::tile_bytes, Weights::plain);
  }
  __device__ std::uint32_t chunks() const {
    return static_cast<std::uint32_t>(token_tiles::chunks(k_));
  }
  /// A lane looks at each way.
  __device__ WideCut best_cut() const {
    static_assert(wide_ways <= 16, "ways are counted by four bits");
    const int way = min(static_cast<int>(threadIdx.x & 31), wide_ways - 1);
    const WideChoice own = wide_choice(costs(), tiles_, chunks(), gridDim.x, way);
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
  WideCut cut_;
  std::uint32_t tiles_;
  std::uint32_t at_ = 0, end_ = 0;  // what is left of this block's share
  std::uint32_t whole_;             // where the next round of whole tiles begins
  // Tiles grow smaller: every second round is dealt out backwards.
  bool turns_ = false, backwards_ = false;
};

}  // namespace microscale::cuda
