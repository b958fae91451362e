// Which lane and column of tensor memory each register of tcgen05.ld and st holds, and which rows
// of shared memory a tcgen05.cp puts where (PTX ISA, "Data movement shape"; CUTLASS's copy traits
// say the same).
#pragma once

#include <cstdint>
#include <string_view>

namespace microscale::emulator::tensor {

enum class TensorShape : std::uint8_t {
  lanes32x32b,
  lanes16x64b,
  lanes16x128b,
  lanes16x256b,
  lanes16x32bx2
};

/// Columns of 32 bits that one repetition covers, and registers that it has.
constexpr int columns_of(TensorShape shape) {
  switch (shape) {
    case TensorShape::lanes16x64b:
      return 2;
    case TensorShape::lanes16x128b:
      return 4;
    case TensorShape::lanes16x256b:
      return 8;
    default:
      return 1;
  }
}
constexpr int registers_of(TensorShape shape) {
  return shape == TensorShape::lanes16x256b ? 4 : shape == TensorShape::lanes16x128b ? 2 : 1;
}
constexpr int lanes_of(TensorShape shape) { return shape == TensorShape::lanes32x32b ? 32 : 16; }
constexpr int most_repetitions(TensorShape shape) { return 128 / registers_of(shape); }

struct TensorPlace {
  std::uint32_t lane = 0, column = 0;  // from the address on
};

/// Of register `reg` of thread `thread`. `split`: of 16x32bx2, columns from the first half's to the
/// second's.
constexpr TensorPlace tensor_place(TensorShape shape, std::uint32_t thread, std::uint32_t reg,
                                   std::uint32_t split = 0) {
  switch (shape) {
    case TensorShape::lanes32x32b:
      return {thread, reg};
    case TensorShape::lanes16x32bx2:
      return {thread % 16, reg + thread / 16 * split};
    case TensorShape::lanes16x64b:
      return {thread % 2 * 8 + thread / 4, 2 * reg + thread / 2 % 2};
    case TensorShape::lanes16x128b:
      return {thread / 4 + reg % 2 * 8, reg / 2 * 4 + thread % 4};
    case TensorShape::lanes16x256b:
      break;
  }
  return {thread / 4 + reg / 2 % 2 * 8, reg / 4 * 8 + thread % 4 * 2 + reg % 2};
}

/// Of tcgen05.cp: rows of 16 or 32 bytes of shared memory, and the groups of 32 lanes where copies
/// of rows 32 i to 32 i + 31 go, as four bits each.
enum class CopyShape : std::uint8_t {
  r128x256b,
  r128x128b,
  r64x128b_02_13,
  r64x128b_01_23,
  r32x128b
};
constexpr int rows_of(CopyShape shape) {
  return shape == CopyShape::r32x128b ? 32 : shape >= CopyShape::r64x128b_02_13 ? 64 : 128;
}
constexpr int row_bytes_of(CopyShape shape) { return shape == CopyShape::r128x256b ? 32 : 16; }
constexpr std::uint32_t groups_of(CopyShape shape, int rows32) {
  switch (shape) {
    case CopyShape::r32x128b:
      return 0b1111;
    case CopyShape::r64x128b_02_13:
      return 0b0101u << rows32;
    case CopyShape::r64x128b_01_23:
      return 0b0011u << 2 * rows32;
    default:
      return 1u << rows32;
  }
}

/// Lane of row `m` of D, for a block's share of M rows (128 or 64).
constexpr std::uint32_t product_lane(int rows, int m) {
  return static_cast<std::uint32_t>(rows == 64 ? 32 * (m / 16) + m % 16 : m);
}

}  // namespace microscale::emulator::tensor
