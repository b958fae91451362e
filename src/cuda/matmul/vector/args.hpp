// What the kernels of a product with one row of a are given (NVFP4 on Blackwell), and how they
// share the rows of b out.
#pragma once

#include <cstdint>

#include "cuda/matmul/args.hpp"

namespace microscale::cuda::vector {

/// A warp makes `rows` neighbours 32 apart among 128 of d, whose scales lie side by side in a 128x4
/// tile; a lane takes 64 elements of each at a time.
inline constexpr int rows = 4;
inline constexpr int warps = 4;
inline constexpr int threads = 32 * warps;
inline constexpr int resident_blocks = 4;  // of a multiprocessor: what bounds registers, to 128
inline constexpr int slice = 64;           // elements: 32 bytes of codes, a word of scales
inline constexpr int pass = 32 * slice;    // elements that a warp takes at a time

/// k that kernels are made for; they take any multiple of `slice` besides.
inline constexpr int made_for[] = {2048, 7168, 16384};

/// matmul_vector_nvfp4_<k>, or _any: thread block (x, y) makes units warps x to warps x + warps - 1
/// of matrix y; unit i is rows 128 (i / 32) + i % 32 + 32 j.
struct MatmulVectorArgs {
  const std::uint8_t* a;  // k codes a matrix
  const std::uint8_t* a_scales;
  const std::uint8_t* b;  // n x k
  const std::uint8_t* b_scales;
  std::int64_t a_scale_matrix;  // bytes from matrix to matrix
  std::int64_t b_scale_matrix;
  std::int32_t a_tiled;  // scales are in 128x4 tiles
  std::int32_t b_tiled;
  std::int64_t n;
  std::int64_t k;
  ProductOutput output;
};

}  // namespace microscale::cuda::vector
