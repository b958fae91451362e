// What every level is given: c[l][m] = a[l][m][k] * b[l][k], NVFP4 codes with an E4M3 scale per 16
// elements, no global scale, FP16 out.
#pragma once

#include <cstdint>

namespace levels {

inline constexpr std::int64_t gemv_block = 16;  // elements of a scale
inline constexpr std::int64_t gemv_vector_rows =
    128;  // b is a matrix of 128 rows, the first counts

/// All device memory. k is a multiple of 64.
struct GemvArgs {
  const std::uint8_t* a;         // codes, [l][m][k / 2], the even element in the low four bits
  const std::uint8_t* b;         // [l][128][k / 2]
  const std::uint8_t* a_scales;  // [l][m][k / 16], or 128x4 tiles of each l (level 8)
  const std::uint8_t* b_scales;  // likewise of [l][128][k / 16]
  std::uint16_t* c;              // [l][m], FP16
  float* sums;                   // [l][m], zero before and after a run (level 2)
  std::int64_t m, k;
  std::int32_t tiled;  // the scales are in 128x4 tiles
};

}  // namespace levels
