// Which lane and register of ldmatrix and stmatrix holds which element of which row in shared
// memory. Every row is 16 bytes at an address that one lane supplies; matrices are counted by
// registers.
#pragma once

#include <cstdint>

namespace microscale::emulator::tensor {

/// m8n8: 8 rows of 8 b16. m8n16: 8 rows of 16 small elements, widened to bytes. m16n16: 16 rows of
/// 16 bytes or small elements, transposed.
enum class MatrixShape : std::uint8_t { m8n8, m8n16, m16n16 };
/// What a row holds: 8 of 16 bits, 16 of 8 bits, 16 of 4 bits then 8 bytes of padding, 16 of 6 bits
/// then 4 bytes of padding.
enum class RowFormat : std::uint8_t { b16, b8, b4x16_p64, b6x16_p32 };

struct MatrixMove {
  MatrixShape shape = MatrixShape::m8n8;
  RowFormat format = RowFormat::b16;
  int count = 1;            // .x1, .x2, .x4
  bool transposed = false;  // .trans
};

/// An element in shared memory: the lane whose address names its row, and its number in the row.
struct RowElement {
  int lane = 0, element = 0;
  bool operator==(const RowElement&) const = default;
};

constexpr int registers_of(const MatrixMove& move) {
  return move.shape == MatrixShape::m16n16 ? 2 * move.count : move.count;
}
/// Lanes 0 to this many supply addresses.
constexpr int address_lanes(const MatrixMove& move) {
  return (move.shape == MatrixShape::m16n16 ? 16 : 8) * move.count;
}
/// Elements in a 32-bit register.
constexpr int items_of(const MatrixMove& move) { return move.format == RowFormat::b16 ? 2 : 4; }

/// What `item` (low bits first) of register `reg` of `lane` is.
constexpr RowElement matrix_element(const MatrixMove& move, int lane, int reg, int item) {
  const int group = lane >> 2, place = lane & 3;
  switch (move.shape) {
    case MatrixShape::m8n8:
      return move.transposed ? RowElement{8 * reg + 2 * place + item, group}
                             : RowElement{8 * reg + group, 2 * place + item};
    case MatrixShape::m8n16:
      return {8 * reg + group, 4 * place + item};
    case MatrixShape::m16n16:
      break;
  }
  return {16 * (reg >> 1) + 4 * place + item, group + 8 * (reg & 1)};
}

/// Element `index` of a row as it stands in a register: a small one in the low bits of its byte.
constexpr std::uint32_t row_element(RowFormat format, const std::uint8_t* row, int index) {
  switch (format) {
    case RowFormat::b16:
      return static_cast<std::uint32_t>(row[2 * index] | row[2 * index + 1] << 8);
    case RowFormat::b8:
      return row[index];
    case RowFormat::b4x16_p64:
      return row[index / 2] >> (index % 2 * 4) & 15u;
    case RowFormat::b6x16_p32:
      break;
  }
  const int bit = 6 * index;
  const int low = row[bit / 8], high = bit / 8 + 1 < 16 ? row[bit / 8 + 1] : 0;
  return static_cast<std::uint32_t>((low | high << 8) >> (bit % 8)) & 63u;
}

}  // namespace microscale::emulator::tensor
