// Block-scaled rows of a as the vector kernels take them, in exact FP32, and which of them are
// outside the range in which the kernels' sums are what docs/matmul.md promises.
#pragma once

#include <cstdint>

#include "seam/matmul_kernels.hpp"

namespace microscale::cpu {

/// Pairs that the vector kernels multiply: dense, MXFP4, NVFP4 or MXFP8 by MXFP4, NVFP4 or MXFP8.
bool covers_matmul(const MatmulProduct& product);

/// Elements [first, first + count) of a row of codes, exact, without any global scale; `first` and
/// `count` are multiples of the block. False if a block scale is so large (2^84) that a sum of
/// products before b's scale could overflow.
bool blocks_to_floats(const MatmulRows& rows, std::int64_t row, std::int64_t first,
                      std::int64_t count, float* output);

/// The FP32 number of each scale byte of NVFP4 or an MX format.
const float* scale_values(Format format);

/// Whether all block scales of a row of codes are so small that blocks_to_floats is true.
bool scales_inside(const MatmulRows& rows, std::int64_t row, std::int64_t count);

}  // namespace microscale::cpu
