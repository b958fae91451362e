// Blocks of a row in accumulators of wgmma, where four neighbouring lanes, a quad, have pairs of
// columns in turn (wgmma.cuh): a block's elements lie on all four, and what they tell each
// other are largest magnitudes, scales, and in the end codes, so that each lane has eight bytes of
// a row.
#pragma once

#include <cstdint>

#include "cuda/block/row_exchange.cuh"

namespace microscale::cuda::expanded {

struct QuadBlocks {
  /// part(r, b): FP32 bits of this lane's maximum of block b of row r, of two rows and eight
  /// blocks. The maxima of the quad's: lane t of it ends with those of row t / 2, blocks 4 * (t %
  /// 2) on.
  template <class Part>
  __device__ static void maxima(Part&& part, std::uint32_t (&own)[4]) {
    const bool second = threadIdx.x & 2, upper = threadIdx.x & 1;
    std::uint32_t kept[8];
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      const std::uint32_t first_row = part(0, b), second_row = part(1, b);
      const std::uint32_t given = second ? first_row : second_row;
      kept[b] = max(second ? second_row : first_row, __shfl_xor_sync(whole_warp, given, 2));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t given = upper ? kept[i] : kept[4 + i];
      own[i] = max(upper ? kept[4 + i] : kept[i], __shfl_xor_sync(whole_warp, given, 1));
    }
  }
  __device__ static int owned_row() { return static_cast<int>(threadIdx.x >> 1 & 1); }
  __device__ static int owned_block() { return static_cast<int>(threadIdx.x & 1) * 4; }

  /// What the owner of block b of row r found.
  __device__ static std::uint32_t told(const std::uint32_t (&own)[4], int r, int b) {
    return __shfl_sync(whole_warp, own[b % 4],
                       (threadIdx.x & 28u) | static_cast<unsigned>(2 * r + b / 4));
  }

  /// Byte u of lane t's result is byte t of lane u's.
  __device__ static std::uint32_t transpose(std::uint32_t bytes) {
#pragma unroll
    for (int distance = 2; distance > 0; distance /= 2) {
      const std::uint32_t other = __shfl_xor_sync(whole_warp, bytes, distance);
      bytes = __byte_perm(bytes, other, threadIdx.x & distance ? 0x3726 : 0x5140);
    }
    return bytes;
  }
  /// The same of pairs of bytes, two a register.
  __device__ static uint2 transpose(uint2 pairs) {
    const bool second = threadIdx.x & 2, odd = threadIdx.x & 1;
    const std::uint32_t half =
        __shfl_xor_sync(whole_warp, second ? pairs.x : pairs.y, 2);  // of lanes two further
    const std::uint32_t low = second ? half : pairs.x, high = second ? pairs.y : half;
    const std::uint32_t other =
        __shfl_xor_sync(whole_warp, __byte_perm(low, high, odd ? 0x5410 : 0x7632), 1);
    return make_uint2(__byte_perm(low, other, odd ? 0x3254 : 0x5410),
                      __byte_perm(high, other, odd ? 0x3276 : 0x7610));
  }
};

}  // namespace microscale::cuda::expanded
