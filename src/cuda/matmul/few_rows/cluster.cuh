// Blocks of a cluster together: which row tiles a cluster takes, and of these which stages a block
// of the unpacked kernel; and sums that they send to one another's shared memory. What is sent ends
// at a barrier of the block that receives it, so nothing is fenced: a release to the cluster would
// wait for all that the sending warp has under way.
#pragma once

#include <cstdint>

#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"

namespace microscale::cuda::few_rows {

/// [begin, end), counted through all matrices.
struct TileRange {
  std::uint32_t begin, end;
};
/// Those of `cluster`, where each takes `each` and the first `more` one more.
__device__ inline TileRange tiles_of_cluster(std::uint32_t cluster, std::uint32_t each,
                                             std::uint32_t more) {
  const std::uint32_t begin = each * cluster + min(cluster, more);
  return {begin, begin + each + (cluster < more ? 1 : 0)};
}

/// Stages of row tiles: [stage, args.stages) of tile `begin`, all of those in between, and the
/// first `last` of the one before `end`.
struct Share {
  std::uint32_t begin, end;
  int stage, last;

  /// Two blocks of a cluster halve its row tiles; the one in the middle may be in two parts.
  __device__ static Share of(const UnpackedArgs& args, std::uint32_t rank) {
    const TileRange all =
        tiles_of_cluster(args.cluster == 1 ? blockIdx.x : blockIdx.x / 2, args.each, args.more);
    if (args.cluster == 1) return {all.begin, all.end, 0, args.stages};
    const int stages = args.stages, count = static_cast<int>(all.end - all.begin) * stages,
              half = (count + 1) / 2, from = rank == 0 ? 0 : half, to = rank == 0 ? half : count,
              tile = args.by_stages.divide(from),
              end = from == to ? tile : args.by_stages.divide(to + stages - 1);
    return {all.begin + static_cast<std::uint32_t>(tile),
            all.begin + static_cast<std::uint32_t>(end), from - tile * stages,
            to - (end - 1) * stages};
  }

  __device__ int end_stage(std::uint32_t tile, int stages) const {
    return tile + 1 == end ? last : stages;
  }
};

/// Every block of the cluster has the same one at the same addresses.
struct Mailbox {
  std::uint32_t memory, barrier;  // shared addresses, at multiples of 8

  /// One thread, before a fence and a barrier of the block.
  __device__ void init() const { ptx::mbarrier_init_shared(barrier, 1); }
  /// One thread, once a turn: so many bytes are to come.
  __device__ void expect(std::uint32_t bytes) const {
    ptx::mbarrier_arrive_expect_tx(barrier, bytes);
  }
  /// Two numbers to `offset` bytes into the mailbox of block `to` of the cluster, which has begun.
  __device__ void send(std::uint32_t to, std::uint32_t offset, float x, float y) const {
    ptx::st_async_shared_cluster_v2_f32(ptx::mapa_shared_cluster(memory + offset, to), x, y,
                                        ptx::mapa_shared_cluster(barrier, to));
  }
  /// Until all bytes of a turn have come; parities alternate, the first is 0. wait_acquire also
  /// orders what else the senders wrote, and so empties the first-level cache: not for a loop.
  __device__ void wait(std::uint32_t parity) const { ptx::mbarrier_wait_parity(barrier, parity); }
  __device__ void wait_acquire(std::uint32_t parity) const {
    ptx::mbarrier_wait_parity_cluster(barrier, parity);
  }
};

}  // namespace microscale::cuda::few_rows
