// Rows of a as FP16 units in shared memory, in the order of packed weights (fragment_order.hpp):
// what matmul_prepare.cuh makes in device memory, made by each block for its part of k. A thread
// takes 16 neighbouring elements, one instruction's, at a time.
#pragma once

#include <cstdint>

#include "cuda/fragment_order.hpp"
#include "cuda/matmul_args.hpp"
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

/// A thread's 16 units, given in pairs: two of each eight go to each lane of four.
__device__ inline void store_units(const UnitsSlice& slice, int row, int step,
                                   const std::uint32_t (&pairs)[8]) {
  const std::uint32_t line = slice.base + row * slice.pitch;
  const std::uint32_t to = line + static_cast<std::uint32_t>(unit_byte(step, 0));
#pragma unroll
  for (int t = 0; t < 4; ++t) ptx::st_shared_v2(to + 16 * t, pairs[t], pairs[t + 4]);
}

/// 16 elements of 16 bits; behind k: zeros.
__device__ inline void load_dense(const std::uint16_t* row, std::int64_t column, std::int64_t k,
                                  std::uint32_t (&pairs)[8]) {
  const std::uint16_t* from = row + column;
  if (reinterpret_cast<std::uintptr_t>(from) % 16 == 0 && k - column >= 16) {
    const uint4 low = *reinterpret_cast<const uint4*>(from),
                high = *reinterpret_cast<const uint4*>(from + 8);
    pairs[0] = low.x, pairs[1] = low.y, pairs[2] = low.z, pairs[3] = low.w;
    pairs[4] = high.x, pairs[5] = high.y, pairs[6] = high.z, pairs[7] = high.w;
    return;
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const std::int64_t left = k - column - 2 * i;
    pairs[i] = (left > 0 ? from[2 * i] : 0u) | (left > 1 ? from[2 * i + 1] : 0u) << 16;
  }
}

__device__ inline const std::uint16_t* dense_row(const PrepareRowsArgs& a, std::int64_t row) {
  return reinterpret_cast<const std::uint16_t*>(static_cast<const char*>(a.a) + row * a.a_stride);
}

/// Calls take(row, step) for all of the slice, shared out among the block's threads.
template <class Take>
__device__ void for_each_step(const UnitsSlice& slice, Take&& take) {
  const auto steps = static_cast<std::uint32_t>(slice.steps), all = slice.count * steps;
#pragma unroll 2
  for (std::uint32_t i = threadIdx.x; i < all; i += blockDim.x) {
    const std::uint32_t row = i / steps;
    take(static_cast<int>(row), static_cast<int>(i - row * steps));
  }
}

__device__ inline void f16_units(const PrepareRowsArgs& a, const UnitsSlice& slice) {
  for_each_step(slice, [&](int row, int step) {
    std::uint32_t pairs[8];
    load_dense(dense_row(a, slice.first + row), slice.column + 16 * step, a.k, pairs);
    store_units(slice, row, step, pairs);
  });
}

inline constexpr unsigned most_stream_rows = 16;

/// `factors`: of most_stream_rows rows, the power of two that its sums are to be multiplied by;
/// `largest`: memory for as many words. All threads of the block call it, and none reads factors
/// before a barrier.
__device__ inline void bf16_units(const PrepareRowsArgs& a, const UnitsSlice& slice, float* factors,
                                  unsigned int* largest) {
  if (threadIdx.x < most_stream_rows) largest[threadIdx.x] = 0, factors[threadIdx.x] = 1.0f;
  __syncthreads();
  for_each_step(slice, [&](int row, int step) {
    std::uint32_t pairs[8];
    load_dense(dense_row(a, slice.first + row), slice.column + 16 * step, a.k, pairs);
    unsigned int mine = 0;
#pragma unroll
    for (const std::uint32_t pair : pairs)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const unsigned int magnitude = pair >> 16 * half & 0x7FFFu;
        if (magnitude < 0x7F80u) mine = max(mine, magnitude);
      }
    atomicMax(&largest[row], mine);
  });
  __syncthreads();
  for_each_step(slice, [&](int row, int step) {
    const int power = power_to_f16(largest[row]);
    const float first = power_of_two(power / 2), second = power_of_two(power - power / 2);
    if (step == 0)
      factors[row] = __fmul_rn(power_of_two(-(power / 2)), power_of_two(power / 2 - power));
    std::uint32_t pairs[8];
    load_dense(dense_row(a, slice.first + row), slice.column + 16 * step, a.k, pairs);
#pragma unroll
    for (std::uint32_t& pair : pairs) {
      const float low = __uint_as_float(pair << 16), high = __uint_as_float(pair & 0xFFFF0000u);
      pair = ptx::cvt_rn_f16x2_f32(__fmul_rn(__fmul_rn(low, first), second),
                                   __fmul_rn(__fmul_rn(high, first), second));
    }
    store_units(slice, row, step, pairs);
  });
}

__device__ inline void nvfp4_units(const PrepareRowsArgs& a, const UnitsSlice& slice) {
  const std::int64_t blocks = a.k / 16;
  for_each_step(slice, [&](int row, int step) {
    const std::int64_t column = slice.column + 16 * step, block = column / 16;
    std::uint32_t pairs[8] = {};
    if (column < a.k) {
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
          pairs[4 * half + i] = ptx::cvt_rn_f16x2_f32(__fmul_rn(values[2 * i], factor),
                                                      __fmul_rn(values[2 * i + 1], factor));
      }
    }
    store_units(slice, row, step, pairs);
  });
}

}  // namespace microscale::cuda
