// The error of a layer's output, as far as the mean squares of its inputs tell: each squared error
// of a weight times the mean square of the input that the weight multiplies.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/fp8_rows.hpp"
#include "checkpoint/tile_cost.hpp"
#include "report/error_metrics.hpp"

namespace microscale {

/// `weights`: m of the tile's columns, finite and not negative; empty: all 1. The same bits on
/// every processor: eight partial sums in double for a piece of a row, added up as error_run adds
/// them.
WeightedSums weighted_error(const QuantizedTile& tile, std::span<const float> weights);

/// The same of FP8 with one scale for each row, as BF16.
WeightedSums weighted_error(const DenseRows& input, std::span<const std::uint8_t> codes,
                            std::span<const std::uint16_t> scales, std::span<const float> weights);

}  // namespace microscale
