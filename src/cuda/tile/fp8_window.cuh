// MXFP4 as FP8: E2M1 x 2^s is exact in E5M2 while s is from -13 to 13, that is if block scales
// differ by at most a factor of 2^26 from the largest of those that share a power of two: of a row
// of the weights, of 128 elements of a row of a. E5M2 x 2^(largest - 140) is then the value. Blocks
// of zeros fit with any scale. What does not fit, NaN scales, and scales outside 2^-67 to 2^73,
// whose sums might leave FP32 on the way, are counted as misfits: the whole product is then
// computed in BF16.
#pragma once

#include <cstdint>

#include "cuda/ptx/permute.cuh"

namespace microscale::cuda {

/// The largest and the smallest scale byte of blocks that are not all zeros.
struct ScaleSpan {
  std::uint32_t largest = 0, smallest = 255;

  __device__ void add(std::uint32_t byte, bool counts) {
    if (counts || byte == 255) {  // NaN is NaN even where codes are zeros
      largest = max(largest, byte);
      smallest = min(smallest, byte);
    }
  }
  /// With those of the lanes whose number differs in bit `distance`.
  __device__ void join(int distance) {
    largest = max(largest, __shfl_xor_sync(0xFFFFFFFFu, largest, distance));
    smallest = min(smallest, __shfl_xor_sync(0xFFFFFFFFu, smallest, distance));
  }
  __device__ bool empty() const { return largest < smallest; }
  __device__ bool fits() const {
    return empty() || (largest - smallest <= 26 && largest >= 60 && largest <= 200);
  }
  /// What values are relative to.
  __device__ std::uint32_t reference() const { return empty() ? 140u : largest; }
};

/// 2^(reference - 140).
__device__ inline float fp8_factor(std::uint32_t reference) {
  return __uint_as_float((reference - 13) << 23);
}

/// The E5M2 codes of the eight magnitudes of E2M1 times 2^e, e = byte - reference + 13, as prmt
/// takes them: 0, 0.5, 1, 1.5, then 2, 3, 4, 6.
struct E5m2Table {
  std::uint32_t low, high;
};
/// `byte` = 0: what is added to it for other bytes is linear.
__device__ inline E5m2Table e5m2_table_base(std::uint32_t reference) {
  const std::uint32_t e = 13u - reference;
  return {0x3E3C3800u + e * 0x04040400u, 0x46444240u + e * 0x04040404u};
}
__device__ inline E5m2Table e5m2_table(E5m2Table base, std::uint32_t byte) {
  return {base.low + byte * 0x04040400u, base.high + byte * 0x04040404u};
}

}  // namespace microscale::cuda
