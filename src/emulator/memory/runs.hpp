// The bytes of 32 lanes one after the other, against rows of registers.
#pragma once

#include <cstdint>

#include "emulator/memory/access.hpp"

namespace microscale::emulator {

/// From `bytes` of each lane, lane by lane, to register rows; 1 and 2 bytes are zero-extended.
void lanes_to_words(const std::uint8_t* stage, int bytes, LaneWords& out);
void words_to_lanes(const LaneWords& in, int bytes, std::uint8_t* stage);

/// Whether lane i is at address[0] + i * bytes, for all 32.
bool consecutive(const std::uint64_t* address, int bytes);

}  // namespace microscale::emulator
