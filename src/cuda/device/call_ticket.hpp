// Numbers by which blocks of one call tell each other through memory what they have done.
#pragma once

#include <cstdint>

namespace microscale::cuda {

/// A number that no other call has, and memory by no chance, of whatever process; never 0, as which
/// flags are forgotten.
std::uint64_t next_ticket();

}  // namespace microscale::cuda
