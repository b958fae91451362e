// What the lanes of a block of elements tell each other. A thread holds four rows of a chunk, so a
// block of each row lies on the same `Lanes` neighbouring lanes (MX 4, NVFP4 2), and scale bytes
// leave four at a time: one row's bytes of four neighbouring blocks.
//
//   Lanes 2   every lane finds all four rows' maxima and scales (two exchanges for four blocks)
//   Lanes 4   lane i finds those of row i (three exchanges for four blocks) and tells the others
#pragma once

#include <cstdint>

#include "cuda/block/quantize_args.hpp"
#include "cuda/block/input_chunk.cuh"

namespace microscale::cuda {

inline constexpr unsigned whole_warp = 0xFFFFFFFFu;

template <int Lanes>
struct RowExchange;

template <>
struct RowExchange<2> {
  static constexpr int owned = 4;  // rows whose maxima a lane ends with

  /// Row of own[i].
  __device__ static int owned_row(int i) { return i; }

  /// part[j]: FP32 bits of this lane's maximum of row j.
  __device__ static void maxima(const std::uint32_t (&part)[4], std::uint32_t (&own)[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) own[j] = max(part[j], __shfl_xor_sync(whole_warp, part[j], 1));
  }

  /// The same from two rows' 16-bit maxima a register, rows 0 and 1, 2 and 3.
  template <class Packed>
  __device__ static void maxima_packed(const std::uint32_t (&part)[2], std::uint32_t (&own)[4]) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t both =
          Packed::max_abs(part[i], __shfl_xor_sync(whole_warp, part[i], 1)) & 0x7FFF7FFFu;
      own[2 * i] = __float_as_uint(Packed::widen(both & 0xFFFFu));
      own[2 * i + 1] = __float_as_uint(Packed::widen_high(both));
    }
  }

  /// What the owner of row j's block found.
  __device__ static std::uint32_t told(const std::uint32_t (&own)[4], int j) { return own[j]; }

  /// Four scale bytes of row word_row(): this block's and three neighbours', in order; in the lanes
  /// that has_word(). A transpose of 4 x 4 bytes over four pairs of lanes.
  __device__ static std::uint32_t word(const std::uint32_t (&own)[4]) {
    std::uint32_t bytes = __byte_perm(__byte_perm(own[0], own[1], 0x0040),
                                      __byte_perm(own[2], own[3], 0x0040), 0x5410);
#pragma unroll
    for (int distance = 4; distance >= 2; distance /= 2) {
      const std::uint32_t other = __shfl_xor_sync(whole_warp, bytes, distance);
      bytes = __byte_perm(bytes, other, threadIdx.x & distance ? 0x3726 : 0x5140);
    }
    return bytes;
  }
  __device__ static int word_row() { return static_cast<int>(threadIdx.x >> 1 & 3); }
  __device__ static bool has_word() { return (threadIdx.x & 1) == 0; }

  /// Whether this lane writes own[i] where scale bytes are written one by one.
  __device__ static bool writes() { return (threadIdx.x & 1) == 0; }
};

template <>
struct RowExchange<4> {
  static constexpr int owned = 1;

  __device__ static int owned_row(int) { return static_cast<int>(threadIdx.x & 3); }

  __device__ static void maxima(const std::uint32_t (&part)[4], std::uint32_t (&own)[1]) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
    std::uint32_t kept[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t other = __shfl_xor_sync(whole_warp, upper ? part[i] : part[2 + i], 2);
      kept[i] = max(upper ? part[2 + i] : part[i], other);
    }
    const std::uint32_t other = __shfl_xor_sync(whole_warp, odd ? kept[0] : kept[1], 1);
    own[0] = max(odd ? kept[1] : kept[0], other);
  }

  template <class Packed>
  __device__ static void maxima_packed(const std::uint32_t (&part)[2], std::uint32_t (&own)[1]) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
    const std::uint32_t other = __shfl_xor_sync(whole_warp, upper ? part[0] : part[1], 2);
    const std::uint32_t rows = Packed::max_abs(upper ? part[1] : part[0], other);
    const std::uint32_t both =
        Packed::max_abs(rows, __shfl_xor_sync(whole_warp, rows, 1)) & 0x7FFF7FFFu;
    own[0] = __float_as_uint(Packed::widen(odd ? both >> 16 : both & 0xFFFFu));
  }

  /// Sum of this lane's row: neighbouring chunks' first, as block_sum adds.
  __device__ static float total(const float (&part)[4]) {
    const bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
    float kept[2];
#pragma unroll
    for (int i = 0; i < 2; ++i)
      kept[i] = __fadd_rn(odd ? part[2 * i + 1] : part[2 * i],
                          __shfl_xor_sync(whole_warp, odd ? part[2 * i] : part[2 * i + 1], 1));
    return __fadd_rn(upper ? kept[1] : kept[0],
                     __shfl_xor_sync(whole_warp, upper ? kept[0] : kept[1], 2));
  }

  /// Bit j: whether the owner of row j's block says so.
  __device__ static std::uint32_t said(bool own) {
    return __ballot_sync(whole_warp, own) >> (threadIdx.x & 28u);
  }

  __device__ static std::uint32_t told(const std::uint32_t (&own)[1], int j) {
    return __shfl_sync(whole_warp, own[0], (threadIdx.x & 28u) | static_cast<unsigned>(j));
  }

  __device__ static std::uint32_t word(const std::uint32_t (&own)[1]) {
    std::uint32_t bytes = own[0] & 0xFFu;
    bytes |= __shfl_down_sync(whole_warp, bytes, 4) << 8;
    bytes |= __shfl_down_sync(whole_warp, bytes, 8) << 16;
    return bytes;
  }
  __device__ static int word_row() { return static_cast<int>(threadIdx.x & 3); }
  __device__ static bool has_word() { return (threadIdx.x & 12) == 0; }

  __device__ static bool writes() { return true; }
};

}  // namespace microscale::cuda
