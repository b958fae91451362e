// The 8-bit container of `mma.sync ... kind::mxf8f6f4`: one 4-bit code in bits 5-2 of its own byte.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale::container {

MICROSCALE_HD constexpr std::uint8_t pack(std::uint8_t code) {
  return static_cast<std::uint8_t>((code & 15) << 2);
}
MICROSCALE_HD constexpr std::uint8_t unpack(std::uint8_t byte) { return (byte >> 2) & 15; }

/// Four packed codes (low 16 bits, the first in the lowest) as four containers, the first in the
/// lowest byte.
MICROSCALE_HD constexpr std::uint32_t pack4(std::uint32_t codes) {
  const std::uint32_t pairs = (codes & 0xFFu) | (codes & 0xFF00u) << 8;  // a byte in each half
  return ((pairs & 0x000F000Fu) | (pairs & 0x00F000F0u) << 4) << 2;
}

/// The way back.
MICROSCALE_HD constexpr std::uint32_t unpack4(std::uint32_t containers) {
  const std::uint32_t codes = containers >> 2 & 0x0F0F0F0Fu;
  const std::uint32_t pairs = codes | codes >> 4;
  return (pairs & 0xFFu) | (pairs >> 8 & 0xFF00u);
}

}  // namespace microscale::container
