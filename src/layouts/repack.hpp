// Block scales from one layout to another.
#pragma once

#include <cstdint>
#include <span>

#include "microscale/tensor.hpp"

namespace microscale {

/// Writes the scales of `shape` (in shape.layout) to `output` in `layout`; padding is zeroed.
/// `output` has the size of that layout.
void repack_scale_bytes(const BlockShape& shape, std::span<const std::uint8_t> scales,
                        Layout layout, std::span<std::uint8_t> output);

}  // namespace microscale
