// Codes and scales of our block formats as the blocks of GGUF files.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "checkpoint/containers/gguf_type.hpp"
#include "checkpoint/weight_format.hpp"

namespace microscale {

/// The type whose blocks hold the format's codes and scales as they are: NVFP4 or MXFP4.
std::optional<GgufType> gguf_type_of(WeightFormat format);

/// Bytes of `elements` elements, a whole number of blocks.
std::uint64_t gguf_block_bytes(GgufType type, std::int64_t elements);

/// Whole blocks of NVFP4 (64 elements: four scales, then 32 bytes of codes) or MXFP4 (32: the
/// scale, then 16 bytes). `codes`: low nibble the even element; `out` holds gguf_block_bytes.
void pack_gguf_blocks(GgufType type, std::span<const std::uint8_t> codes,
                      std::span<const std::uint8_t> scales, std::span<std::uint8_t> out);

}  // namespace microscale
