// The 8-bit container of FP4 codes: what `mma.sync ... kind::mxf8f6f4` reads instead of packed
// codes. One code a byte, in bits 5 to 2, the other bits zero.
#pragma once

#include <cstdint>
#include <span>

#include "microscale/context.hpp"
#include "microscale/memory.hpp"

namespace microscale {

/// From `input` to `output`, both in `memory`, which must not overlap. Backend::cuda: from
/// multiples of 16 bytes on.
struct ContainerOptions {
  std::span<const std::uint8_t> input{};
  std::span<std::uint8_t> output{};
  Memory memory = Memory::host;
};

/// Writes the container of element i to byte i of the output, which has twice the bytes of the
/// input: packed codes, two a byte, the even element in the low nibble, as in BlockTensor. Throws
/// Error. Backend::cuda: waits for nothing.
void repack_to_containers(const ContainerOptions& options, const Context& context = {});

/// The way back. Ignores bits of a container outside 5 to 2.
void repack_from_containers(const ContainerOptions& options, const Context& context = {});

}  // namespace microscale
