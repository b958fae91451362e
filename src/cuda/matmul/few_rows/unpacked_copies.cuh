// The warp of unpacked_kernel.cuh that copies weights: two boxes of tensor maps a stage, one of
// codes, one of scales. To start a copy for each row, 32 a stage, would take longer than memory
// does.
#pragma once

#include <cstdint>

#include "cuda/matmul/few_rows/cluster.cuh"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/matmul/few_rows/ring.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda::few_rows {

/// All lanes of one warp call its functions together.
template <int Block>
class UnpackedCopies {
 public:
  /// `base`: where the ring's stages begin; `matrix`: of the first row tile.
  __device__ UnpackedCopies(const UnpackedArgs& args, std::uint32_t base, const Share& share,
                            std::uint32_t matrix, HandedRing& ring)
      : args_(args),
        base_(base),
        share_(share),
        ring_(ring),
        tile_(share.begin),
        of_matrix_(share.begin - matrix * args.row_tiles),
        stage_(share.stage),
        row_(static_cast<std::int32_t>(matrix * args.n + of_matrix_ * tile_rows)) {}

  /// Makes the ring's barriers; a barrier of the block follows.
  __device__ void init() const {
    ptx::prefetch_tensormap(args_.codes);
    ptx::prefetch_tensormap(args_.scales);
    ring_.init(1, 32 * unpacked_warps);
    ptx::fence_mbarrier_init();
    __syncwarp();
  }

  /// Starts copies of the next `stages` stages, or of as many as are left.
  __device__ void start(int stages) {
    constexpr int groups = stage_columns / (4 * Block), scale_row = stage_scale_row(Block);
    const bool tiled = args_.b_tiled != 0;
#pragma unroll 1
    for (; stages > 0 && tile_ < share_.end; --stages) {
      ring_.wait_empty();
      if (ptx::elect_sync()) {
        const std::uint32_t to = base_ + ring_.offset<unpacked_stage_bytes(Block)>(),
                            full = ring_.full();
        const auto high = static_cast<std::int32_t>(tile_ / tiles_of_scale_tile),
                   part = static_cast<std::int32_t>(tile_ % tiles_of_scale_tile);
        // Read once: it leaves the second-level cache first (packed_weights.cuh).
        const std::uint64_t policy = ptx::createpolicy_fractional_l2_evict_first();
        ptx::mbarrier_arrive_expect_tx(full, unpacked_stage_bytes(Block));
        ptx::cp_async_bulk_tensor_4d_shared_cluster_global_mbarrier_l2_cache_hint(
            to, args_.codes, 0, tiled ? 4 * high : row_, tiled ? 4 * part : 0,
            stage_ * stage_pieces, full, policy);
        ptx::cp_async_bulk_tensor_4d_shared_cluster_global_mbarrier_l2_cache_hint(
            to + stage_code_bytes, args_.scales, tiled ? 4 * tile_rows * part : stage_ * scale_row,
            tiled ? stage_ * groups : row_, tiled ? high : 0, 0, full, policy);
      }
      ring_.next();
      if (++stage_ == share_.end_stage(tile_, args_.stages)) next_tile();
    }
  }

 private:
  __device__ void next_tile() {
    ++tile_;
    stage_ = 0;
    row_ += tile_rows;
    if (++of_matrix_ < args_.row_tiles) return;
    of_matrix_ = 0;
    row_ -= static_cast<std::int32_t>(args_.row_tiles * tile_rows - args_.n);
  }

  const UnpackedArgs& args_;
  const std::uint32_t base_;
  const Share share_;
  HandedRing& ring_;
  std::uint32_t tile_, of_matrix_;  // of all matrices, of its own
  int stage_;
  std::int32_t row_;  // of all matrices: the tile's first
};

}  // namespace microscale::cuda::few_rows
