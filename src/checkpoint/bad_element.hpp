// Elements that no format holds: found in a tile before it is quantized.
#pragma once

#include <cstdint>
#include <span>

#include "microscale/format.hpp"

namespace microscale {

/// Of an element that is not finite: whether it is a NaN.
bool is_nan(const std::uint8_t* element, DType dtype);

/// The first element of 2^127 or more, or -1. Finite ones below it stay finite in every format:
/// rounding up to a code makes them at most a third larger.
std::int64_t find_huge(std::span<const std::uint8_t> bytes, DType dtype);

}  // namespace microscale
