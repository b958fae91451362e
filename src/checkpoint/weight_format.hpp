// What a linear layer's weight becomes, and what of it does not depend on the container.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "microscale/checkpoint.hpp"

namespace microscale {

/// In the order of the enumeration.
std::span<const WeightFormat> all_weight_formats();

/// The block-scaled format that it is; nothing for FP8 with one scale for each row or weight.
std::optional<Format> blocks_of(WeightFormat format);

/// The weight format that is those blocks; nothing where no container holds them.
std::optional<WeightFormat> weight_format_of(Format format);

/// What layers get that no pattern but "*" names.
WeightFormat main_format(const QuantizeModelOptions& options);

/// Whether weights that engines fuse share one scale, which is known once all are measured.
bool has_tensor_scale(WeightFormat format);

/// Bits of a code: 4 or 8.
int code_bits(WeightFormat format);

/// "K = 30 is no multiple of 32" or empty; K is the length of a row.
std::string block_problem(std::int64_t row_length, WeightFormat format);

/// The numerics of layers that get `format` where the options' own is another.
Numerics numerics_of(const QuantizeModelOptions& options, Format format);

}  // namespace microscale
