// What the multiplying warps of the kernels for many rows (wide_product.cuh) do with stage after
// stage where a tile has few rows of a: each multiplies by itself, by mma.sync. What takes time
// then is reading a from shared memory, by each warp; so a warp has two row tiles of the weights,
// of one of the stage's two chunks, and its pair, half of all warps away, the same two of the other
// chunk. At the end each adds up one of the two. A stage is free when what was read of it has been
// multiplied: a warp's reads wait in line behind copies that other warps began (cp.async), and its
// arrival at a barrier does not wait with them. Freed as soon as all reads had been asked for, a
// stage was written anew under late ones.
#pragma once

#include <cstdint>

#include "cuda/ptx/control.cuh"
#include "cuda/ptx/ldmatrix.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/block/stage_ring.cuh"
#include "cuda/matmul/in_registers/weights.cuh"
#include "cuda/matmul/in_registers/plan.hpp"

namespace microscale::cuda {

template <class Weights, int Rows, int Tokens>
class WideWarpStages {
 public:
  static constexpr WideShape shape = wide_shape(Rows, Tokens);
  static constexpr WideShared shared = wide_shared(shape, Weights::tile_bytes);
  static constexpr int parts = shape.parts();
  static constexpr int stage_chunks = shape.stage_chunks();
  static constexpr int row_tile_bytes = stage_chunks * Weights::tile_bytes;
  static constexpr int a_bytes = Tokens * 128, weight_bytes = Rows / 16 * row_tile_bytes;
  static constexpr int pairs = Rows / 32;  // of warps
  static_assert(parts == 1 && Tokens % 16 == 0 && stage_chunks == 2 &&
                    shared.sum_bytes >= 128 * Tokens * 2,
                "a pair of warps has two tiles of two chunks, and room to exchange sums");
  using Ring = StageRing<shared.stages>;
  using Others = float[1];

  /// `base`: of the block's shared memory.
  __device__ explicit WideWarpStages(std::uint32_t base) {
    const std::uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    const std::uint32_t weights =
        base + shared.weights + warp % pairs * row_tile_bytes + warp / pairs * Weights::tile_bytes;
    // By way of its own lane: the assembler makes anew in the loop what it can.
    codes_ = __shfl_sync(0xFFFFFFFFu, weights + Weights::codes_of(lane), lane);
    scales_ = __shfl_sync(0xFFFFFFFFu, weights + Weights::scales_of(lane), lane);
    // Eight lanes name the rows of a matrix: rows 0 to 7, elements 0 to 7 and 8 to 15 of a step,
    // then rows 8 to 15. Piece p of row r is swizzled to p ^ r % 8.
    const std::uint32_t row = lane / 16 * 8 + lane % 8;
    tokens_ = __shfl_sync(
        0xFFFFFFFFu, base + warp / pairs * a_bytes + 128 * row + 16 * (lane / 8 % 2 ^ lane % 8),
        lane);
    sums_ = base + shared.sums;
  }

  /// Products of `chunks` chunks by the rows of a. Returns the last stage that is not free: none.
  template <int>
  __device__ int multiply(std::uint32_t, std::uint32_t chunks, Ring& ring, float (&d)[Tokens / 2],
                          Others&) const {
    float other[Tokens / 2] = {};  // of the second row tile
#pragma unroll 1
    for (std::uint32_t chunk = 0; chunk + 2 <= chunks; chunk += 2) multiply_stage(ring, d, other);
    if (__any_sync(0xFFFFFFFFu, chunks % 2 > 0)) {
      if (threadIdx.x / 32 < pairs) {
        multiply_stage(ring, d, other);
      } else {
        ring.wait_full();
        ring.release(ring.stage(), true);
        ring.next();
      }
    }
    exchange(d, other);
    return -1;
  }

 private:
  static constexpr bool quick = requires(const typename Weights::Tile& tile) {
    Weights::is_special(tile);
  };

  __device__ void multiply_stage(Ring& ring, float (&d)[Tokens / 2],
                                 float (&other)[Tokens / 2]) const {
    ring.wait_full();
    const std::uint32_t further = ring.stage() * weight_bytes,
                        further_other = further + pairs * row_tile_bytes,
                        tokens = tokens_ + ring.stage() * shared.stage_bytes;
    const typename Weights::Tile tiles[2] = {
        Weights::read(codes_ + further, scales_ + further),
        Weights::read(codes_ + further_other, scales_ + further_other)};
    std::uint32_t b[4][Tokens / 16][4];
#pragma unroll
    for (int step = 0; step < 4; ++step)
#pragma unroll
      for (int i = 0; i < Tokens / 16; ++i)
        ptx::ldmatrix_m8n8_x4_b16(b[step][i], (tokens ^ 32 * step) + 2048 * i);
    bool special = false;
    if constexpr (quick) special = Weights::is_special(tiles[0]) || Weights::is_special(tiles[1]);
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      std::uint32_t a[2][4];
#pragma unroll
      for (int tile = 0; tile < 2; ++tile) {
        if constexpr (quick)
          Weights::quick_fragment(tiles[tile], step, a[tile]);
        else
          Weights::fragment(tiles[tile], step, a[tile]);
        if (quick && special) Weights::fragment(tiles[tile], step, a[tile]);
      }
#pragma unroll
      for (int i = 0; i < Tokens / 16; ++i) {
        multiply(d, 8 * i, a[0], b[step][i]);
        multiply(other, 8 * i, a[1], b[step][i]);
      }
    }
    std::uint32_t read = 0;
#pragma unroll
    for (int step = 0; step < 4; ++step) read |= b[step][Tokens / 16 - 1][0];
    ring.release_behind(ring.stage(), read);
    ring.next();
  }
  __device__ static void multiply(float (&d)[Tokens / 2], int at, const std::uint32_t (&a)[4],
                                  const std::uint32_t (&b)[4]) {
    Weights::multiply(reinterpret_cast<float(&)[4]>(d[at]), a, b[0], b[1]);
    Weights::multiply(reinterpret_cast<float(&)[4]>(d[at + 4]), a, b[2], b[3]);
  }

  /// What a warp has of its pair's tile to that, through where its warpgroup stages sums.
  __device__ void exchange(float (&d)[Tokens / 2], float (&other)[Tokens / 2]) const {
    const auto place = [&](std::uint32_t thread) {
      return sums_ + thread / 128 * shared.sum_bytes + thread % 128 * 16;
    };
    const bool second = threadIdx.x / 32 >= pairs;
    const std::uint32_t here = place(threadIdx.x), there = place(threadIdx.x ^ 32 * pairs),
                        barrier = 5 + threadIdx.x / 128 % (pairs / 4);
#pragma unroll
    for (int i = 0; i < Tokens / 2; i += 4) {
      const auto word = [&](int j) { return __float_as_uint(second ? d[i + j] : other[i + j]); };
      ptx::st_shared_v4(here + 512 * i, make_uint4(word(0), word(1), word(2), word(3)));
    }
    ptx::bar_sync(barrier, 256);
#pragma unroll
    for (int i = 0; i < Tokens / 2; i += 4) {
      const uint4 more = ptx::ld_shared_v4(there + 512 * i);
#pragma unroll
      for (int j = 0; j < 4; ++j)
        d[i + j] = __fadd_rn(second ? other[i + j] : d[i + j], __uint_as_float(word_of(more, j)));
    }
    ptx::bar_sync(barrier, 256);
  }

  std::uint32_t codes_, scales_, tokens_, sums_;
};

}  // namespace microscale::cuda
