// What one atomic operation makes of the value in memory.
#pragma once

#include <array>
#include <cstdint>

#include "emulator/memory/access.hpp"

namespace microscale::emulator {

/// Up to 128 bits, low half first.
using AtomicValue = std::array<std::uint64_t, 2>;

/// The new value. `flush`: FP32 sums treat subnormals as zeros, as hardware does in global memory.
/// Sums round to nearest even; a NaN result is the canonical one; min and max ignore one NaN.
AtomicValue apply(AtomicOp op, AtomicType type, AtomicValue old, AtomicValue operand,
                  AtomicValue compare, bool flush);

}  // namespace microscale::emulator
