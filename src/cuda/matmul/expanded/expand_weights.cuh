// Packed weights (layouts/fragment_tiles.hpp) made ready for matmul_expanded_...: elements with
// their block scales inside, exact as in_registers/weights.cuh has them, in the tiles of
// layouts/token_tiles.hpp; rows in the order of the packed tiles, so a gate and up in turn, eight
// of each. Read and written once, at memory's pace.
//
// A warp copies a few tiles of 16 rows, neighbours along k, to shared memory at once, and decodes
// them one after the other. A tile is 2 KB of both sides in one piece.
#pragma once

#include <cstdint>

#include "cuda/matmul/expanded/args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/in_registers/weights.cuh"

namespace microscale::cuda::expanded {

/// What in_registers::Nvfp4Weights leaves, times 2^7.
struct ExpandedNvfp4 : in_registers::Nvfp4Weights {
  static constexpr float sum_factor = 1.0f;
  __device__ static void fragment(const Tile& t, int step, std::uint32_t (&a)[4]) {
    in_registers::Nvfp4Weights::fragment(t, step, a);
    in_registers::scale_fragment(a, 0x43004300u, 0x43004300u);
  }
};
/// FP16 holds NVFP4 with its scale as it is: what in_registers::Nvfp4F16Weights leaves, times 2^7.
struct ExpandedNvfp4F16 : in_registers::Nvfp4F16Weights {
  static constexpr float sum_factor = 1.0f;
  __device__ static void fragment(const Tile& t, int step, std::uint32_t (&a)[4]) {
    in_registers::Nvfp4F16Weights::fragment(t, step, a);
#pragma unroll
    for (std::uint32_t& pair : a) pair = ptx::mul_rn_f16x2(pair, 0x58005800u);
  }
};

/// A fragment of step `step` to its places: registers 0 and 2 are pieces 2 step and 2 step + 1 of
/// row g, 1 and 3 of row g + 8, a quarter of 16 bytes a lane. No bank twice.
__device__ inline void put_fragment(std::uint32_t tile, int step, const std::uint32_t (&a)[4]) {
  const std::uint32_t lane = threadIdx.x % 32, row = lane / 4;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t to = tile + row * 128 + ((2 * step + i) ^ row) * 16 + lane % 4 * 4;
    ptx::st_shared_b32(to, a[2 * i]);
    ptx::st_shared_b32(to + 1024, a[2 * i + 1]);
  }
}

template <class Weights>
__device__ void expand_weights(const ExpandWeightsArgs& args) {
  static_assert(Weights::sum_factor == 1.0f, "sums are taken as they are");
  constexpr int tiles = Weights::tile_bytes > 600 ? 2 : expand_tiles, out = 2048;
  __shared__ __align__(128) unsigned char memory[8][tiles * Weights::tile_bytes + out];
  __shared__ __align__(8) std::uint64_t barriers[8];
  const std::uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const auto packed = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory[warp]));
  const auto barrier = static_cast<std::uint32_t>(__cvta_generic_to_shared(&barriers[warp]));
  const std::uint32_t expanded = packed + tiles * Weights::tile_bytes;
  if (lane == 0) {
    ptx::mbarrier_init_shared(barrier, 1);
    ptx::fence_mbarrier_init();
  }
  __syncwarp();
  follow_previous_grid();
  if (args.only_if != nullptr && *args.only_if == 0) return;
  std::uint32_t parity = 0;
#pragma unroll 1
  for (std::int64_t first = (std::int64_t{blockIdx.x} * 8 + warp) * tiles; first < args.tiles;
       first += std::int64_t{gridDim.x} * 8 * tiles, parity ^= 1) {
    const int count = static_cast<int>(args.tiles - first < tiles ? args.tiles - first : tiles);
    if (lane == 0) {
      ptx::mbarrier_arrive_expect_tx(barrier, count * Weights::tile_bytes);
      ptx::cp_async_bulk_shared_cluster_global_mbarrier(
          packed, args.b + first * Weights::tile_bytes, count * Weights::tile_bytes, barrier);
    }
    std::int64_t row_tile = first / args.chunks, chunk = first - row_tile * args.chunks;
    ptx::mbarrier_wait_parity(barrier, parity);
#pragma unroll 1
    for (int i = 0; i < count; ++i) {
      const typename Weights::Tile tile =
          Weights::read(packed + i * Weights::tile_bytes + 16 * lane,
                        packed + i * Weights::tile_bytes + Weights::scales_of(lane));
#pragma unroll
      for (int step = 0; step < 4; ++step) {
        std::uint32_t a[4];
        Weights::fragment(tile, step, a);
        put_fragment(expanded, step, a);
      }
      __syncwarp();
      const std::int64_t matrix = row_tile / args.row_tiles;
      const std::int64_t place = matrix * args.row_tiles * args.chunks + chunk * args.row_tiles +
                                 row_tile - matrix * args.row_tiles;
      char* to = static_cast<char*>(args.expanded) + place * out + 16 * lane;
#pragma unroll
      for (int j = 0; j < out; j += 512)
        ptx::st_global_v4(to + j, ptx::ld_shared_v4(expanded + j + 16 * lane));
      __syncwarp();
      if (++chunk == args.chunks) chunk = 0, ++row_tile;
    }
  }
}

}  // namespace microscale::cuda::expanded
