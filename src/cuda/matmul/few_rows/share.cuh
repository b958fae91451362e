// Which row tiles a cluster takes, and of these which stages a block of the unpacked kernel.
#pragma once

#include <cstdint>

#include "cuda/matmul/few_rows/plan.hpp"

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

}  // namespace microscale::cuda::few_rows
