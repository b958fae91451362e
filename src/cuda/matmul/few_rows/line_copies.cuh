// The warp of cuda/matmul/few_rows/line_kernel.cuh that copies: two boxes a stage, one of codes,
// one of scales. A copy of each row by itself, 32 a stage, takes longer than the memory does.
#pragma once

#include <cstdint>

#include "cuda/matmul/few_rows/line_args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/matmul/few_rows/ring.cuh"
#include "cuda/matmul/few_rows/line_share.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

using few_rows::HandedRing;

/// One warp calls all of it together.
template <int Block>
class LineCopies {
 public:
  /// The ring begins at `base`; `matrix`: that of the first row tile.
  __device__ LineCopies(const LineStreamArgs& args, std::uint32_t base, const LineShare& share,
                        std::uint32_t matrix, HandedRing& ring)
      : args_(args),
        base_(base),
        share_(share),
        ring_(ring),
        tile_(share.begin),
        of_matrix_(share.begin - matrix * args.row_tiles),
        stage_(share.stage),
        row_(static_cast<std::int32_t>(matrix * args.n + of_matrix_ * line_rows)) {}

  /// Before the others pass a barrier of the block.
  __device__ void init() const {
    ptx::prefetch_tensormap(args_.codes);
    ptx::prefetch_tensormap(args_.scales);
    ring_.init(1, 32 * line_warps);
    ptx::fence_mbarrier_init();
    __syncwarp();
  }

  /// The next `stages` of them, or as many as are left.
  __device__ void start(int stages) {
    constexpr int groups = line_columns / (4 * Block), scale_row = line_scale_row(Block);
    const bool tiled = args_.b_tiled != 0;
#pragma unroll 1
    for (; stages > 0 && tile_ < share_.end; --stages) {
      ring_.wait_empty();
      if (ptx::elect_sync()) {
        const std::uint32_t to = base_ + ring_.offset<line_stage_bytes(Block)>(),
                            full = ring_.full();
        const auto high = static_cast<std::int32_t>(tile_ / line_tile_parts),
                   part = static_cast<std::int32_t>(tile_ % line_tile_parts);
        ptx::mbarrier_arrive_expect_tx(full, line_stage_bytes(Block));
        ptx::cp_async_bulk_tensor_4d_shared_cluster_global_mbarrier(
            to, args_.codes, 0, tiled ? 4 * high : row_, tiled ? 4 * part : 0, stage_ * line_pieces,
            full);
        ptx::cp_async_bulk_tensor_4d_shared_cluster_global_mbarrier(
            to + line_code_bytes, args_.scales, tiled ? 4 * line_rows * part : stage_ * scale_row,
            tiled ? stage_ * groups : row_, tiled ? high : 0, 0, full);
      }
      ring_.next();
      if (++stage_ == share_.end_stage(tile_, args_.stages)) next_tile();
    }
  }

 private:
  __device__ void next_tile() {
    ++tile_;
    stage_ = 0;
    row_ += line_rows;
    if (++of_matrix_ < args_.row_tiles) return;
    of_matrix_ = 0;
    row_ -= static_cast<std::int32_t>(args_.row_tiles * line_rows - args_.n);
  }

  const LineStreamArgs& args_;
  const std::uint32_t base_;
  const LineShare share_;
  HandedRing& ring_;
  std::uint32_t tile_, of_matrix_;  // of all matrices, of its own
  int stage_;
  std::int32_t row_;  // of all matrices: the tile's first
};

}  // namespace microscale::cuda
