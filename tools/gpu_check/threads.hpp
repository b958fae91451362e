// Calls from several host threads at once.
#pragma once

#include "equality.hpp"

namespace microscale::cuda {

/// Two threads with a stream each multiply by the same kernel, which wants more shared memory for
/// one of them than for the other: no call fails, and each gives the bytes that it gives alone.
void check_threads(Device& device, EqualityTotals& totals);

}  // namespace microscale::cuda
