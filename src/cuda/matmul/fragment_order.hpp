// In which order a row's elements take part in a product. Weights that are not packed are read by a
// warp's lanes in pieces that lie together; the other operand follows. An instruction sums 16
// elements, whatever their order, so it is enough that both sides agree and that all 16 share a
// block's scale, or have it multiplied in before.
//
// 128 elements at a time in eight instructions, or 64 in four: lane t of four has, of instruction
// `step`, four: in its registers first and second element of the one, first and second of the
// other.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale::cuda {

enum class FragmentOrder : std::int32_t {
  packed,      // layouts/fragment_tiles.hpp: 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of 16
  fp4_blocks,  // 4-bit: a lane has 8 neighbours of 32, as shifted nibbles of four bytes
  fp4_lines,   // 4-bit: a lane has 32 neighbours of 128, so that instructions mix blocks
  fp8_blocks,  // 8-bit: a lane has 8 neighbours of 32, in order
  fp8_lines,   // 8-bit: a lane has 16 neighbours of 64, in order
};

/// Units of a row are filled up to a multiple of this.
inline constexpr int unit_columns = 128;

/// Position in the 128 of element i (0 to 3) that lane t has in instruction `step` (0 to 7).
MICROSCALE_HD constexpr int fragment_element(FragmentOrder order, int step, int t, int i) {
  // Nibbles of a word in pairs 16 bits apart, from the topmost of each half down.
  constexpr int of_eight[8] = {3, 7, 2, 6, 1, 5, 0, 4};
  const int within = 4 * (step % 2) + i;
  switch (order) {
    case FragmentOrder::fp4_blocks:
      return 32 * (step / 2) + 8 * t + of_eight[within];
    case FragmentOrder::fp4_lines:
      return 32 * t + 8 * (step / 2) + of_eight[within];
    case FragmentOrder::fp8_blocks:
      return 32 * (step / 2) + 8 * t + within;
    case FragmentOrder::fp8_lines:
      return 64 * (step / 4) + 16 * t + 4 * (step % 4) + i;
    default:
      return 16 * step + 2 * t + 8 * (i / 2) + i % 2;
  }
}

/// Byte of the FP16 units of a row at which those four lie: a lane reads 16 bytes of two
/// instructions at once, four lanes 64 bytes that lie together. `step` counts from the row's start.
MICROSCALE_HD constexpr std::int64_t unit_byte(std::int64_t step, int t) {
  return step / 2 * 64 + 16 * t + step % 2 * 8;
}

}  // namespace microscale::cuda
