// Which thread and register of wgmma m64nNk holds which element: four warps, each 16 rows, each the
// map of mma.sync m16n8 repeated along the columns.
#pragma once

#include "emulator/tensor/mma_fragments.hpp"

namespace microscale::emulator::tensor {

/// A from registers, 64 x K: 4 registers of every lane. `bits`: of an element (8, 16, 32).
constexpr Coordinate wgmma_a_coordinate(int bits, int warp, Slot slot) {
  const Coordinate at = a_coordinate(bits, slot);
  return {at.row + 16 * warp, at.column};
}

/// D, 64 x N, of 32 or 16 bits: N/2 registers of every lane, or N/4.
constexpr Coordinate wgmma_d_coordinate(int bits, int warp, Slot slot) {
  const int per_tile = bits == 32 ? 4 : 2;  // registers of an m16n8 tile
  const Coordinate at = d_coordinate(bits, {slot.lane, slot.reg % per_tile, slot.item});
  return {at.row + 16 * warp, at.column + 8 * (slot.reg / per_tile)};
}

}  // namespace microscale::emulator::tensor
