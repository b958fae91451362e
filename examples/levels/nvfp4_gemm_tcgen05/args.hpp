// What every level is given: d[m,n] = a[m,k] @ b[n,k]^T in NVFP4, without global scales.
#pragma once

#include <cstdint>

#include "cuda/device/kernel_types.hpp"

namespace levels {

/// A thread block makes 128 x 128 of d, 256 elements of k (a stage) at a time.
inline constexpr int gemm_tile = 128, gemm_stage = 256;
inline constexpr int gemm_threads = 128;
inline constexpr int gemm_stages = 4;  // of level 2

/// m and n are multiples of 128, k of 256. Scales lie in 128x4 tiles.
struct GemmArgs {
  microscale::cuda::TensorMap a_boxes, b_boxes;  // of 128 rows x 128 bytes
  const std::uint8_t *a, *b;                     // codes, k / 2 bytes a row
  const std::uint8_t *a_scales, *b_scales;
  float* d;
  std::int32_t m, n, k;
};

}  // namespace levels
