// What the multiplying warpgroups of the kernels for many rows (kernel.cuh) do with stage
// after stage: decode the weights of two steps of 16 elements of k into registers while the tensor
// cores multiply the two before, and free the stage before.
#pragma once

#include <cstdint>

#include "cuda/block/stage_ring.cuh"
#include "cuda/matmul/in_registers/args.hpp"
#include "cuda/matmul/in_registers/weights.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace microscale::cuda::in_registers {

template <class Weights, int Rows, int Tokens>
class GroupStages {
 public:
  static constexpr TileShape shape = tile_shape(Rows, Tokens);
  static constexpr SharedLayout shared = shared_layout(shape, Weights::tile_bytes);
  static constexpr int parts = shape.parts();  // 64 rows of the weights each, of a warpgroup
  static constexpr int stage_chunks = shape.stage_chunks();
  static constexpr int row_tile_bytes = stage_chunks * Weights::tile_bytes;
  static constexpr int a_bytes = Tokens * 128, weight_bytes = Rows / 16 * row_tile_bytes;
  using Ring = StageRing<shared.stages>;
  using Others = float[parts == 2 ? Tokens / 2 : 1];  // sums of the second 64 rows

  /// `base`: of the block's shared memory.
  __device__ explicit GroupStages(std::uint32_t base)
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

// ---
// What the multiplying warps of the kernels for many rows (kernel.cuh) do with stage after
// stage where a tile has few rows of a: each multiplies by itself, by mma.sync. What takes time
// then is reading a from shared memory, by each warp; so a warp has two row tiles of the weights,
// of one of the stage's two chunks, and its pair, half of all warps away, the same two of the other
// chunk. At the end each adds up one of the two. A stage is free when what was read of it has been
// multiplied: a warp's reads wait in line behind copies that other warps began (cp.async), and its
// arrival at a barrier does not wait with them. Freed as soon as all reads had been asked for, a
// stage was written anew under late ones.

template <class Weights, int Rows, int Tokens>
class WarpStages {
 public:
  static constexpr TileShape shape = tile_shape(Rows, Tokens);
  static constexpr SharedLayout shared = shared_layout(shape, Weights::tile_bytes);
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
  __device__ explicit WarpStages(std::uint32_t base) {
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

}  // namespace microscale::cuda::in_registers
