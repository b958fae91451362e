// Which lane, register and item of mma.sync m16n8 holds which element. Lanes work in groups of
// four: the group chooses a row of A or a column of B, the place in the group a run of K.
//   item: the element in its 32-bit register, lowest bits first; `bits`: of an item (4, 8, 16, 32)
#pragma once

namespace microscale::emulator::tensor {

/// Of A: row and k; of B: k and column; of C and D: row and column.
struct Coordinate {
  int row = 0, column = 0;
  bool operator==(const Coordinate&) const = default;
};

struct Slot {
  int lane = 0, reg = 0, item = 0;
  bool operator==(const Slot&) const = default;
};

constexpr int lane_group(int lane) { return lane >> 2; }
constexpr int lane_in_group(int lane) { return lane & 3; }

/// A, 16 x K: registers go down 8 rows first, then on by the K that four lanes cover.
constexpr Coordinate a_coordinate(int bits, Slot slot) {
  const int items = 32 / bits;
  return {lane_group(slot.lane) + 8 * (slot.reg & 1),
          items * lane_in_group(slot.lane) + slot.item + 4 * items * (slot.reg >> 1)};
}
constexpr Slot a_slot(int bits, Coordinate at) {
  const int items = 32 / bits;
  return {4 * (at.row & 7) + at.column / items % 4, (at.row >> 3) + 2 * (at.column / (4 * items)),
          at.column % items};
}

/// B, K x 8: row is k.
constexpr Coordinate b_coordinate(int bits, Slot slot) {
  const int items = 32 / bits;
  return {items * lane_in_group(slot.lane) + slot.item + 4 * items * slot.reg,
          lane_group(slot.lane)};
}
constexpr Slot b_slot(int bits, Coordinate at) {
  const int items = 32 / bits;
  return {4 * at.column + at.row / items % 4, at.row / (4 * items), at.row % items};
}

/// C and D, 16 x 8, of 32 or 16 bits: two neighbours in a lane, then 8 rows on.
constexpr Coordinate d_coordinate(int bits, Slot slot) {
  const int element = slot.reg * (32 / bits) + slot.item;
  return {lane_group(slot.lane) + 8 * (element >> 1), 2 * lane_in_group(slot.lane) + (element & 1)};
}
constexpr Slot d_slot(int bits, Coordinate at) {
  const int element = 2 * (at.row >> 3) + (at.column & 1), items = 32 / bits;
  return {4 * (at.row & 7) + at.column / 2, element / items, element % items};
}

}  // namespace microscale::emulator::tensor
