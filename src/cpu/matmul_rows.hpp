// The rows of a as the vector kernels take them: exact FP32, whatever they came in, and which rows
// are outside the range in which the kernels' sums are what docs/matmul.md promises.
#pragma once

#include <cstdint>

#include "core/matmul_kernels.hpp"

namespace microscale::cpu {

/// Pairs that the vector kernels multiply: dense, MXFP4, NVFP4 or MXFP8 by MXFP4, NVFP4 or MXFP8.
bool covers_matmul(const MatmulProduct& product);

/// Elements [first, first + count) of a row, exact, without any global scale; `first` and `count`
/// are multiples of the block. False if a finite number is so large (2^100) that a block's sum
/// before its scale could overflow.
bool row_to_floats(const MatmulRows& rows, std::int64_t row, std::int64_t first, std::int64_t count,
                   float* output);

/// The FP32 number of each scale byte of NVFP4 or an MX format.
const float* scale_values(Format format);

/// Whether all block scales of a row of codes are so small that row_to_floats is true.
bool scales_inside(const MatmulRows& rows, std::int64_t row, std::int64_t count);

}  // namespace microscale::cpu
