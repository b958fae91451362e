// The blocks of GGUF files as floats: the values that the `gguf` package and llama.cpp compute, bit
// for bit, by the same multiplications in the same order. Where they give a NaN (a scale that is
// none), a NaN comes out, of whatever payload.
#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/containers/gguf_type.hpp"

namespace microscale {

/// Decodes whole blocks of a type that has a decoder (GgufTypeInfo::has_decoder): `blocks` is a
/// multiple of the type's bytes, `values` as many elements as they hold.
void decode_gguf_blocks(GgufType type, std::span<const std::uint8_t> blocks,
                        std::span<float> values);

}  // namespace microscale
