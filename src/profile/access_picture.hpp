// Where the lanes of a warp go in one access, drawn: 32-byte sectors of global memory, banks of
// shared memory.
#pragma once

#include <string>
#include <vector>

#include "profile/kernel_profile.hpp"

namespace microscale {

/// "in + 0x80" where a buffer holds it, else the plain hexadecimal address.
std::string address_text(const std::vector<NamedBuffer>& buffers, std::uint64_t address);

/// Global memory, a row of four sectors for each 128 bytes touched, the first 32 of them: which
/// bytes each lane uses, which sectors come along for it. Shared memory: a column for each bank, a
/// row for each turn it takes, pass by pass (a warp of accesses up to 4 bytes is one pass, of 8
/// two, of 16 four). Nothing for a sample without lanes.
std::string access_picture(const emulator::AccessSample& sample,
                           const std::vector<NamedBuffer>& buffers);

/// "32 sectors, where 4 would do", "31 extra turns in 1 pass".
std::string access_words(const emulator::AccessSample& sample);

}  // namespace microscale
