// Which lane and byte supplies which scale of a block-scaled mma.sync. A scale covers 64 / size or
// 32 elements along K: `chunk` counts them.
#pragma once

#include "emulator/tensor/mma_fragments.hpp"

namespace microscale::emulator::tensor {

/// {byte-id, thread-id} of a scale operand: which byte of the register comes first, and which lanes
/// of a group of four supply it.
struct ScaleSelector {
  int byte = 0, thread = 0;
  bool operator==(const ScaleSelector&) const = default;
};

/// Where a scale comes from: slot.reg is 0 and slot.item the byte of the 32-bit register.
constexpr Slot a_scale_slot(ScaleSelector select, int row, int chunk) {
  return {4 * (row % 8) + 2 * select.thread + row / 8, 0, select.byte + chunk};
}
constexpr Slot b_scale_slot(ScaleSelector select, int column, int chunk) {
  return {4 * column + select.thread, 0, select.byte + chunk};
}

/// The row whose scale a lane supplies; -1: the lane's register is ignored.
constexpr int a_scale_row(ScaleSelector select, int lane) {
  return lane_in_group(lane) / 2 == select.thread ? lane_group(lane) + 8 * (lane & 1) : -1;
}
constexpr int b_scale_column(ScaleSelector select, int lane) {
  return lane_in_group(lane) == select.thread ? lane_group(lane) : -1;
}

/// Whether PTX defines the selector: `scales` (1, 2, 4) must fit aligned into the four bytes, A's
/// thread-id is 0 or 1, B's 0 to 3.
constexpr bool valid_a_selector(ScaleSelector select, int scales) {
  return select.thread >= 0 && select.thread <= 1 && select.byte >= 0 &&
         select.byte <= 4 - scales && select.byte % scales == 0;
}
constexpr bool valid_b_selector(ScaleSelector select, int scales) {
  return select.thread >= 0 && select.thread <= 3 && select.byte >= 0 &&
         select.byte <= 4 - scales && select.byte % scales == 0;
}

}  // namespace microscale::emulator::tensor
