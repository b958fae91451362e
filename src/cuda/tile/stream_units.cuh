// Rows of a as FP16 units in shared memory, in the order of packed weights (fragment_order.hpp):
// what matmul_prepare.cuh makes in device memory, made by each block for its part of k. A thread
// takes 32 neighbouring elements, two instructions', at a time.
#pragma once

#include <cstdint>

#include "cuda/fragment_order.hpp"
#include "cuda/matmul_args.hpp"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/tile/dequantize_tile.cuh"
#include "cuda/tile/matmul_prepare.cuh"

namespace microscale::cuda {

/// Rows [first, first + count) of a, `row` that number in its matrix, elements [column, column + 16
/// steps) of each; row i at base + i * pitch.
struct UnitsSlice {
  std::int64_t first, row;
  std::int64_t scale_tiles_before;  // rows of 128x4 tiles of the matrices in front
  int count, column, steps;
  std::uint32_t base, pitch;
};

/// Where a slot of a warp's sums has the two that a thread adds to those of other warps: weight
/// rows g and g + 8, of row `row` of a. Bytes.
struct StreamSum {
  std::uint32_t low, high, row, g;
};

/// 32 neighbouring elements of a row, those of two instructions, 16 bits each.
struct UnitPair {
  std::uint32_t steps[2][8];
};

/// A thread's 32 units: four of each instruction's go to each lane of four.
__device__ inline void store_units(const UnitsSlice& slice, int row, int pair, const UnitPair& u) {
  const std::uint32_t to = slice.base + row * slice.pitch + 64 * pair;
#pragma unroll
  for (int t = 0; t < 4; ++t)
    ptx::st_shared_v4(
        to + 16 * t, make_uint4(u.steps[0][t], u.steps[0][t + 4], u.steps[1][t], u.steps[1][t + 4]));
}

__device__ inline const std::uint16_t* dense_row(const PrepareRowsArgs& a, std::int64_t row) {
  return reinterpret_cast<const std::uint16_t*>(static_cast<const char*>(a.a) + row * a.a_stride);
}

/// Dense rows, read where they are, element by element: they may lie anywhere.
struct ScatteredRows {
  const PrepareRowsArgs& a;
  const UnitsSlice& slice;

  __device__ UnitPair operator()(int row, int pair) const {
    const std::int64_t column = slice.column + 32 * pair;
    const std::uint16_t* from = dense_row(a, slice.first + row) + column;
    UnitPair u;
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const std::int64_t left = a.k - column - 2 * i;
      u.steps[i / 8][i % 8] = (left > 0 ? from[2 * i] : 0u) | (left > 1 ? from[2 * i + 1] : 0u) << 16;
    }
    return u;
  }
};

/// Dense rows that begin at multiples of 16 bytes come to where their units will be by bulk copies,
/// and a thread turns 64 bytes of them into units in their place.
struct CopiedRows {
  const UnitsSlice& slice;
  std::int64_t k;

  __device__ static bool serve(const PrepareRowsArgs& a) {
    return (reinterpret_cast<std::uintptr_t>(a.a) | static_cast<std::uint64_t>(a.a_stride)) % 16 == 0;
  }
  /// One warp: starts the copies, which end in `barrier`.
  __device__ static void start(const PrepareRowsArgs& a, const UnitsSlice& slice,
                               std::uint32_t barrier) {
    const int lane = static_cast<int>(threadIdx.x & 31);
    const std::int64_t left = a.k - slice.column, own = 16 * std::int64_t{slice.steps};
    const auto bytes = static_cast<std::uint32_t>(2 * (left < own ? left : own));
    if (lane == 0) ptx::mbarrier_arrive_expect_tx(barrier, slice.count * bytes);
    __syncwarp();
    if (lane < slice.count && bytes > 0)
      ptx::cp_async_bulk_shared_cluster_global_mbarrier(
          slice.base + lane * slice.pitch, dense_row(a, slice.first + lane) + slice.column, bytes,
          barrier);
  }
  __device__ UnitPair operator()(int row, int pair) const {
    const std::uint32_t from = slice.base + row * slice.pitch + 64 * pair;
    UnitPair u{};
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      if (slice.column + 32 * pair + 16 * step >= k) break;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint4 four = ptx::ld_shared_v4(from + 32 * step + 16 * half);
        u.steps[step][4 * half] = four.x, u.steps[step][4 * half + 1] = four.y;
        u.steps[step][4 * half + 2] = four.z, u.steps[step][4 * half + 3] = four.w;
      }
    }
    return u;
  }
};

/// Calls take(row, pair) for all of the slice, shared out among the block's threads.
template <class Take>
__device__ void for_each_pair(const UnitsSlice& slice, Take&& take) {
  const auto pairs = static_cast<std::uint32_t>(slice.steps) / 2, all = slice.count * pairs;
#pragma unroll 2
  for (std::uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
    const std::uint32_t row = i / pairs;
    take(static_cast<int>(row), static_cast<int>(i - row * pairs));
  }
}

template <class Rows>
__device__ void f16_units(const Rows& rows, const UnitsSlice& slice) {
  for_each_pair(slice, [&](int row, int pair) { store_units(slice, row, pair, rows(row, pair)); });
}

inline constexpr unsigned most_stream_rows = 16;

/// `factors`: of most_stream_rows rows, the power of two that its sums are to be multiplied by;
/// `largest`: memory for as many words. All threads of the block call it, and none reads factors
/// before a barrier.
template <class Rows>
__device__ void bf16_units(const Rows& rows, const UnitsSlice& slice, float* factors,
                           unsigned int* largest) {
  if (threadIdx.x < most_stream_rows) largest[threadIdx.x] = 0, factors[threadIdx.x] = 1.0f;
  __syncthreads();
  const bool warp_in_row = slice.steps % 64 == 0;  // its 32 pairs are neighbours
  for_each_pair(slice, [&](int row, int pair) {
    const UnitPair u = rows(row, pair);
    unsigned int mine = 0;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
      const unsigned int magnitude = u.steps[i / 16][i / 2 % 8] >> 16 * (i % 2) & 0x7FFFu;
      if (magnitude < 0x7F80u) mine = max(mine, magnitude);
    }
    if (warp_in_row) mine = __reduce_max_sync(0xFFFFFFFFu, mine);
    if (!warp_in_row || threadIdx.x % 32 == 0) atomicMax(&largest[row], mine);
  });
  __syncthreads();
  for_each_pair(slice, [&](int row, int pair) {
    const int power = power_to_f16(largest[row]);
    const float first = power_of_two(power / 2), second = power_of_two(power - power / 2);
    if (pair == 0)
      factors[row] = __fmul_rn(power_of_two(-(power / 2)), power_of_two(power / 2 - power));
    UnitPair u = rows(row, pair);
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      std::uint32_t& two = u.steps[i / 8][i % 8];
      const float low = __uint_as_float(two << 16), high = __uint_as_float(two & 0xFFFF0000u);
      two = ptx::cvt_rn_f16x2_f32(__fmul_rn(__fmul_rn(low, first), second),
                                  __fmul_rn(__fmul_rn(high, first), second));
    }
    store_units(slice, row, pair, u);
  });
}

__device__ inline void nvfp4_units(const PrepareRowsArgs& a, const UnitsSlice& slice) {
  const std::int64_t blocks = a.k / 16;
  for_each_pair(slice, [&](int row, int pair) {
    UnitPair u{};
#pragma unroll
    for (int step = 0; step < 2; ++step) {
      const std::int64_t column = slice.column + 32 * pair + 16 * step, block = column / 16;
      if (column >= a.k) break;
      const auto* codes =
          static_cast<const std::uint8_t*>(a.a) + (slice.first + row) * a.a_stride + column / 2;
      const std::uint8_t* scale =
          a.scales + (a.tiled ? slice.scale_tiles_before *
                                        tiled_128x4::bytes(tiled_128x4::tile_lines, blocks) +
                                    tiled_128x4::offset(slice.row + row, block, blocks)
                              : (slice.first + row) * blocks + block);
      const uint2 words = *reinterpret_cast<const uint2*>(codes);
      const float factor = decode_e4m3(*scale & 0x7Fu);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float values[8];
        decode_e2m1(half == 0 ? words.x : words.y, values);
#pragma unroll
        for (int i = 0; i < 4; ++i)
          u.steps[step][4 * half + i] = ptx::cvt_rn_f16x2_f32(
              __fmul_rn(values[2 * i], factor), __fmul_rn(values[2 * i + 1], factor));
      }
    }
    store_units(slice, row, pair, u);
  });
}

}  // namespace microscale::cuda
