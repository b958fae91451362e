// The blocks of GGUF files whose codes and scales are those of our block formats.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "checkpoint/containers/gguf_type.hpp"
#include "microscale/format.hpp"

namespace microscale {

/// The format that the blocks of a type hold: of NVFP4 and MXFP4.
std::optional<Format> format_of_gguf(GgufType type);

/// Whole blocks of NVFP4 (64 elements: four scales, then 32 bytes of codes) or MXFP4 (32: the
/// scale, then 16 bytes) as BlockTensor has them: `codes` with the even element in the low nibble.
/// A byte of UE4M3 that stands for 0 (0x7F), or has a sign that is not looked at, becomes the E4M3
/// of the same value. False where a scale is 0xFF, which is NaN elsewhere, and here 2^128 (MXFP4)
/// or 480 (NVFP4).
bool unpack_gguf_blocks(GgufType type, std::span<const std::uint8_t> blocks,
                        std::span<std::uint8_t> codes, std::span<std::uint8_t> scales);

}  // namespace microscale
