// MXFP4 as FP8: E2M1 x 2^s is exact in E5M2 while s is from -13 to 13, that is if block scales
// differ by at most a factor of 2^26 from the largest of those that share a power of two: of a row
// of the weights, of 128 elements of a row of a. E5M2 x 2^(largest - 140) is then the value. Blocks
// of zeros fit with any scale. What does not fit, NaN scales, and scales outside 2^-67 to 2^73,
// whose sums might leave FP32 on the way, are counted as misfits: the whole product is then
// computed in BF16.
#pragma once

#include <cstdint>

#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"

namespace microscale::cuda {

inline constexpr int fp8_span = 26;             // from the largest scale byte to the smallest
inline constexpr std::uint32_t fp8_least = 60;  // of the largest

/// The largest and the smallest scale byte of blocks that are not all zeros.
class ScaleSpan {
 public:
  __device__ void add(std::uint32_t byte, bool counts) {
    if (counts || byte == 255)  // NaN is NaN even where codes are zeros
      join(ScaleSpan(byte * 0x10001u ^ 0xFFu));
  }
  __device__ void join(ScaleSpan other) { both_ = ptx::max_s16x2(both_, other.both_); }
  /// With those of the lanes whose number differs in bit `distance`.
  __device__ void join_lanes(int distance) {
    join(ScaleSpan(__shfl_xor_sync(0xFFFFFFFFu, both_, distance)));
  }
  /// Without a branch: it is asked often.
  __device__ bool fits() const {
    const auto spread = static_cast<int>((both_ >> 16) + (both_ & 0xFFFFu)) - 255;
    return (spread <= fp8_span) & (reference() - fp8_least <= 200 - fp8_least);
  }
  /// Of all blocks, whatever some of them, which are zeros, would be left out.
  __device__ bool fits_without_any() const {
    return fits() && (both_ & 0xFFFFu) <= 255 - fp8_least;
  }
  /// What values are relative to.
  __device__ std::uint32_t reference() const { return both_ == 0 ? 140u : both_ >> 16; }

  ScaleSpan() = default;
  /// Of two scales in the halves of `largest`; `inverse`: 255 less these.
  __device__ static ScaleSpan of_pairs(std::uint32_t largest, std::uint32_t inverse) {
    ScaleSpan span(ptx::prmt_b32(inverse, largest, 0x5410));
    span.join(ScaleSpan(ptx::prmt_b32(inverse, largest, 0x7632)));
    return span;
  }

 private:
  __device__ explicit ScaleSpan(std::uint32_t both) : both_(both) {}

  // The largest in the upper half, 255 less the smallest in the lower; of none 0.
  std::uint32_t both_ = 0;
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
__device__ inline E5m2Table e5m2_table(std::uint32_t byte, std::uint32_t reference) {
  const std::uint32_t e = byte + 13 - reference;
  return {0x3E3C3800u + e * 0x04040400u, 0x46444240u + e * 0x04040404u};
}

/// Eight E2M1 codes, the first in the lowest bits, as E5M2: four, then four.
__device__ inline uint2 e5m2_of_e2m1(std::uint32_t codes, E5m2Table table) {
  const std::uint32_t index = codes & 0x77777777u, even = codes << 4;
  const std::uint32_t signs = ptx::prmt_b32(even, codes, 0x5140) & 0x80808080u;
  const std::uint32_t signs4 = ptx::prmt_b32(even, codes, 0x7362) & 0x80808080u;
  return make_uint2(ptx::prmt_b32(table.low, table.high, index) | signs,
                    ptx::prmt_b32(table.low, table.high, index >> 16) | signs4);
}

}  // namespace microscale::cuda
