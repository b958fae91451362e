// FP8 with one scale for each row, what compressed-tensors calls float-quantized by channel, or one
// for the whole weight, ModelOpt's FP8.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/tile_cost.hpp"
#include "microscale/format.hpp"

namespace microscale {

/// Whole rows of a matrix, finite, row by row without gaps.
struct DenseRows {
  const void* elements = nullptr;
  DType dtype = DType::f32;
  std::int64_t rows = 0, cols = 0;
};

/// scale = amax / 448 of the row, rounded to BF16 (of a row of zeros 1, and no less than the least
/// normal number); code = E4M3 of element / scale, rounded to nearest even, at most 448. `codes`:
/// rows * cols, `scales`: rows, as BF16.
void quantize_fp8_rows(const DenseRows& input, std::span<std::uint8_t> codes,
                       std::span<std::uint16_t> scales);

/// What that cost; there are no blocks, so the report has neither scale codes nor worst blocks.
TileCost measure_fp8_rows(const DenseRows& input, std::span<const std::uint8_t> codes,
                          std::span<const std::uint16_t> scales);

/// What codes stand for under one scale, as many numbers.
void restore_fp8(std::span<const std::uint8_t> codes, float scale, float* out);

/// amax / 448, of zeros 1, and no less than the least normal number.
float fp8_tensor_scale(float amax);

/// code = E4M3 of element / scale, as above.
void quantize_fp8_tensor(const DenseRows& input, float scale, std::span<std::uint8_t> codes);

/// What that cost.
TileCost measure_fp8_tensor(const DenseRows& input, std::span<const std::uint8_t> codes,
                            float scale);

}  // namespace microscale
