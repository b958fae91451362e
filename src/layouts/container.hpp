// The 8-bit container of `mma.sync ... kind::mxf8f6f4`: one 4-bit code in bits 5-2 of its own byte.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace microscale::container {

MICROSCALE_HD constexpr std::uint8_t pack(std::uint8_t code) {
  return static_cast<std::uint8_t>((code & 15) << 2);
}
MICROSCALE_HD constexpr std::uint8_t unpack(std::uint8_t byte) { return (byte >> 2) & 15; }

}  // namespace microscale::container
