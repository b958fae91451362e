// The 8-bit container of FP4 codes: what `mma.sync ... kind::mxf8f6f4` reads instead of packed
// codes. One code a byte, in bits 5 to 2, the other bits zero.
#pragma once

#include <cstdint>
#include <span>

#include "microscale/context.hpp"

namespace microscale {

/// Packed codes (two a byte, even element in the low nibble, as in BlockTensor) to containers:
/// element i in byte i. `containers` has twice the bytes of `codes`; they must not overlap. Throws
/// Error. Backend::cuda: device memory from multiples of 16 bytes; nothing waited for.
void repack_to_containers(std::span<const std::uint8_t> codes, std::span<std::uint8_t> containers,
                          const Context& context = {});

/// The way back. Bits of a container outside 5 to 2 are ignored.
void repack_from_containers(std::span<const std::uint8_t> containers, std::span<std::uint8_t> codes,
                            const Context& context = {});

}  // namespace microscale
