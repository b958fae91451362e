// In which order a row's elements take part in a product. Weights that are not packed are read by a
// warp's lanes in pieces that lie together; the other operand follows. An instruction sums 16
// elements, whatever their order, so it is enough that both sides agree and that all 16 share a
// block's scale.
//
// 64 elements at a time: lane t of four has, of instruction `step` (0 to 3), four: in its registers
// first and second element of the one, first and second of the other.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace microscale::cuda {

enum class FragmentOrder : std::int32_t {
  packed,       // layouts/fragment_tiles.hpp: 2 t, 2 t + 1, 2 t + 8, 2 t + 9 of 16
  plain_nvfp4,  // four neighbours of a block of 16, as shifted nibbles of two bytes
  plain_mxfp4,  // eight neighbours of a block of 32 in two instructions, likewise of four bytes
  plain_fp8,    // eight neighbours of a block of 32, in order
};

/// Position in the 64 of element i (0 to 3) that lane t has in instruction `step`.
MICROSCALE_HD constexpr int fragment_element(FragmentOrder order, int step, int t, int i) {
  constexpr int odd_first[4] = {1, 3, 0, 2};  // bits 12 to 15 of both halves, then bits 8 to 11
  constexpr int of_eight[8] = {3, 7, 2, 6, 1, 5, 0, 4};
  switch (order) {
    case FragmentOrder::plain_nvfp4:
      return 16 * step + 4 * t + odd_first[i];
    case FragmentOrder::plain_mxfp4:
      return 32 * (step / 2) + 8 * t + of_eight[4 * (step % 2) + i];
    case FragmentOrder::plain_fp8:
      return 32 * (step / 2) + 8 * t + 4 * (step % 2) + i;
    default:
      return 16 * step + 2 * t + 8 * (i / 2) + i % 2;
  }
}

}  // namespace microscale::cuda
