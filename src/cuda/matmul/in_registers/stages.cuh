// What the multiplying warpgroups of the kernels for many rows (wide_product.cuh) do with stage
// after stage: decode the weights of two steps of 16 elements of k into registers while the tensor
// cores multiply the two before, and free the stage before.
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/block/stage_ring.cuh"
#include "cuda/matmul/in_registers/weights.cuh"
#include "cuda/matmul/in_registers/plan.hpp"

namespace microscale::cuda {

template <class Weights, int Rows, int Tokens>
class WideStages {
 public:
  static constexpr WideShape shape = wide_shape(Rows, Tokens);
  static constexpr WideShared shared = wide_shared(shape, Weights::tile_bytes);
  static constexpr int parts = shape.parts();  // 64 rows of the weights each, of a warpgroup
  static constexpr int stage_chunks = shape.stage_chunks();
  static constexpr int row_tile_bytes = stage_chunks * Weights::tile_bytes;
  static constexpr int a_bytes = Tokens * 128, weight_bytes = Rows / 16 * row_tile_bytes;
  using Ring = StageRing<shared.stages>;
  using Others = float[parts == 2 ? Tokens / 2 : 1];  // sums of the second 64 rows

  /// `base`: of the block's shared memory.
  __device__ explicit WideStages(std::uint32_t base)
      : first_tokens_(ptx::matrix_descriptor_rows128(base)) {
    const std::uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32 % 4;
    const std::uint32_t first_row_tile = threadIdx.x / 128 * parts * 4 + warp;
    // Where this lane's codes and scales lie in the first stage. By way of its own lane: the
    // assembler makes anew in the loop what it can.
    const std::uint32_t weights = base + shared.weights + first_row_tile * row_tile_bytes;
    codes_ = __shfl_sync(0xFFFFFFFFu, weights + Weights::codes_of(lane), lane);
    scales_ = __shfl_sync(0xFFFFFFFFu, weights + Weights::scales_of(lane), lane);
  }

  /// Products of `chunks` chunks by the first `Own` rows of a, or as many as there are `rows`.
  /// Returns the last one's stage.
  template <int Own>
  __device__ int multiply(std::uint32_t rows, std::uint32_t chunks, Ring& ring,
                          float (&all)[Tokens / 2], Others& all64) const {
    // By a vote the assembler knows that all lanes go one way; or it would keep what they share in
    // registers of each.
    constexpr int fewer = Own - shape.token_step();
    if constexpr (fewer > 0)
      if (__any_sync(0xFFFFFFFFu, rows <= fewer))
        return multiply<fewer>(rows, chunks, ring, all, all64);
    constexpr int own = Own / 2;  // accumulators of these
    auto& d = reinterpret_cast<float(&)[own]>(all);
    auto& d64 = reinterpret_cast<float(&)[parts == 2 ? own : 1]>(all64);
    int before = -1;  // the stage before
#pragma unroll 1
    for (std::uint32_t chunk = 0; chunk + stage_chunks <= chunks; chunk += stage_chunks)
      multiply_stage<stage_chunks>(ring, before, d, d64);
    if (stage_chunks > 1 && __any_sync(0xFFFFFFFFu, chunks % stage_chunks > 0))
      multiply_stage<1>(ring, before, d, d64);
    return before;
  }

 private:
  // Steps of 16 elements that are one group of products. Two groups a turn of the loop: one of them
  // is multiplied while the other's registers are written.
  static constexpr int batch = 2;
  static constexpr bool quick = requires(const typename Weights::Tile& tile) {
    Weights::is_special(tile);
  };

  /// The first `Chunks` of the next stage; the one before is free when products of these have
  /// begun.
  template <int Chunks, int Own, int Own64>
  __device__ void multiply_stage(Ring& ring, int& before, float (&d)[Own],
                                 float (&d64)[Own64]) const {
    ring.wait_full();
    const std::uint64_t tokens =
        ptx::advance(first_tokens_, static_cast<std::uint32_t>(ring.stage() * shared.stage_bytes));
    const std::uint32_t further = ring.stage() * weight_bytes;
#pragma unroll
    for (int chunk = 0; chunk < Chunks; ++chunk) {
      typename Weights::Tile tiles[parts];
#pragma unroll
      for (int part = 0; part < parts; ++part) {
        const std::uint32_t tile =
            further + part * 4 * row_tile_bytes + chunk * Weights::tile_bytes;
        tiles[part] = Weights::read(codes_ + tile, scales_ + tile);
      }
      bool special = false;
      if constexpr (quick)
#pragma unroll
        for (const auto& tile : tiles) special |= Weights::is_special(tile);
#pragma unroll
      for (int first = 0; first < 4; first += batch) {
        std::uint32_t a[batch][parts][4];
#pragma unroll
        for (int i = 0; i < batch; ++i)
#pragma unroll
          for (int part = 0; part < parts; ++part)
            if constexpr (quick)
              Weights::quick_fragment(tiles[part], first + i, a[i][part]);
            else
              Weights::fragment(tiles[part], first + i, a[i][part]);
        if (quick && special)
#pragma unroll
          for (int i = 0; i < batch; ++i)
#pragma unroll
            for (int part = 0; part < parts; ++part)
              Weights::fragment(tiles[part], first + i, a[i][part]);
#pragma unroll
        for (int i = 0; i < batch; ++i)
#pragma unroll
          for (int part = 0; part < parts; ++part)
            ptx::keep_in_place(a[i][part]);  // whole before the fence
        ptx::wgmma_fence();
#pragma unroll
        for (int i = 0; i < batch; ++i) {
          const std::uint64_t at = ptx::advance(tokens, a_bytes * chunk + 32 * (first + i));
          Weights::multiply(d, a[i][0], at, true);
          if constexpr (parts == 2) Weights::multiply(d64, a[i][1], at, true);
        }
        ptx::wgmma_commit_group();
        ptx::wgmma_wait_group<1>();  // the group before has its registers no more
        if (chunk == 0 && first == 0) ring.release(before, before >= 0);
      }
    }
    before = ring.stage();
    ring.next();
  }

  const std::uint64_t first_tokens_;
  std::uint32_t codes_, scales_;
};

}  // namespace microscale::cuda
