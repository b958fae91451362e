// The part of a product's row tiles that a block of cuda/matmul/few_rows/line_kernel.cuh takes.
#pragma once

#include <cstdint>

#include "cuda/matmul/few_rows/line_args.hpp"

namespace microscale::cuda {

/// Stages of row tiles: [stage, args.stages) of tile `begin`, all of those in between, and the
/// first `last` of the one before `end`. Tiles count through all matrices.
struct LineShare {
  std::uint32_t begin, end;
  int stage, last;

  /// Two blocks of a cluster halve its row tiles; the one in the middle may be in two parts.
  __device__ static LineShare of(const LineStreamArgs& args, std::uint32_t rank) {
    const std::uint32_t cluster = args.cluster == 1 ? blockIdx.x : blockIdx.x / 2,
                        first = args.each * cluster + min(cluster, args.more),
                        tiles = args.each + (cluster < args.more ? 1 : 0);
    if (args.cluster == 1) return {first, first + tiles, 0, args.stages};
    const int stages = args.stages, all = static_cast<int>(tiles) * stages, half = (all + 1) / 2,
              from = rank == 0 ? 0 : half, to = rank == 0 ? half : all,
              tile = args.by_stages.divide(from),
              end = from == to ? tile : args.by_stages.divide(to + stages - 1);
    return {first + static_cast<std::uint32_t>(tile), first + static_cast<std::uint32_t>(end),
            from - tile * stages, to - (end - 1) * stages};
  }

  __device__ int begin_stage(std::uint32_t tile) const { return tile == begin ? stage : 0; }
  __device__ int end_stage(std::uint32_t tile, int stages) const {
    return tile + 1 == end ? last : stages;
  }
};

}  // namespace microscale::cuda
