// What a load got that nobody wrote.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "emulator/memory/access.hpp"

namespace microscale::emulator {

struct UndefinedBytes {
  std::uint32_t lanes = 0;                      // that got such bytes
  std::array<std::uint32_t, warp_lanes> bytes;  // of each of them: bit i for byte i
  int lane = 0;                                 // of the first, and what is said about it
  std::string message;
  std::uint64_t address = 0;  // of the byte that this is about

  void add(int lane_of_byte, std::uint32_t byte) {
    auto& mask = bytes[static_cast<std::size_t>(lane_of_byte)];
    if (!(lanes >> lane_of_byte & 1)) mask = 0;
    lanes |= 1u << lane_of_byte;
    mask |= 1u << (byte & 31);
  }
  /// Lanes that got such bytes among those of `mask`.
  std::uint32_t among(std::uint32_t mask) const {
    std::uint32_t found = 0;
    for (std::uint32_t lane_number = 0; lane_number < warp_lanes; ++lane_number)
      if (lanes >> lane_number & 1)
        found |= static_cast<std::uint32_t>((bytes[lane_number] & mask) != 0) << lane_number;
    return found;
  }
};

}  // namespace microscale::emulator
