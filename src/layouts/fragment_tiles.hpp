// What pack_weights writes for a GPU: tiles of 16 rows x 64 elements in the order in which a warp's
// lanes hold the first operand of a matrix instruction (mma.m16n8k16; wgmma with A in registers),
// so that 16 bytes a lane, read side by side, are its part of four instructions. A tile is its
// codes, then its scales; tiles follow each other along k, then along the rows; rows and k are
// filled up with zeros.
//
// Instruction `step` = k / 16 of the tile takes of lane 4 g + t, in register v: row g + 8 (v % 2),
// elements 16 step + 2 t + 8 (v / 2), and the next.
//
// 4-bit codes: a lane's 32-bit word `step` has the first element of every register in its low half
// and the second in its high half, with bits where BF16 has them 2^-126 times the code's value:
// those of register 0 as they are, of 1 and 2 after a rotation by 3 and 6, and a mask; those of 3
// after a mask, a multiplication and a mask (code_word).
//
//   bit        15   14 13 12   11 10 9   8 7 6   5      4     3      2      1 0
//   register   0    2          1         0       2      3     3      1      3
//              sign magnitudes                   sign*  m0    sign   sign*  m2 m1
//
// * of the element in the other half.
//
// 8-bit codes: [step / 2][lane][step % 2][register][first, second].
// Scales: [g][block of the tile][row g, row g + 8]. UE4M3, whose sign means nothing, gets a fifth
// bit of exponent instead (placed_scale), and four share a word such that a mask, or a rotation and
// a mask, makes FP16 or BF16 of two (scale_word), subnormals too. There is no zero then: where a
// block's scale is zero, its codes are. A gate and an up matrix share tiles: rows 0 to 7 are eight
// of the gate, 8 to 15 the same of up.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale::fragment_tiles {

inline constexpr std::int64_t tile_rows = 16;
inline constexpr std::int64_t tile_cols = 64;

/// Sizes in bytes of one tile's parts. `code_bits` 4 or 8, `block` 16 or 32 elements a scale.
MICROSCALE_HD constexpr std::int64_t code_bytes(int code_bits) {
  return tile_rows * tile_cols * code_bits / 8;
}
MICROSCALE_HD constexpr std::int64_t tile_bytes(int code_bits, int block) {
  return code_bytes(code_bits) + tile_rows * (tile_cols / block);
}

/// Tiles down the rows of one matrix (where gated: of two of `rows` rows), and along k.
MICROSCALE_HD constexpr std::int64_t row_tiles(std::int64_t rows, bool gated) {
  const std::int64_t own = gated ? tile_rows / 2 : tile_rows;
  return (rows + own - 1) / own;
}
MICROSCALE_HD constexpr std::int64_t col_tiles(std::int64_t cols) {
  return (cols + tile_cols - 1) / tile_cols;
}
MICROSCALE_HD constexpr std::int64_t matrix_bytes(std::int64_t rows, std::int64_t cols, bool gated,
                                                  int code_bits, int block) {
  return row_tiles(rows, gated) * col_tiles(cols) * tile_bytes(code_bits, block);
}

/// One element in the order of a lane's registers.
struct Element {
  int row, col;  // in the tile
};
/// Element `half` (0, 1) of register `v` (0 to 3) of `lane` in instruction `step` (0 to 3).
MICROSCALE_HD constexpr Element element(int lane, int step, int v, int half) {
  return {lane / 4 + 8 * (v % 2), 16 * step + 2 * (lane % 4) + 8 * (v / 2) + half};
}

/// Where that element's 4-bit code goes, before its word's code_word: byte of the tile; `low`: the
/// lower half of that byte.
struct Nibble {
  int byte;
  bool low;
};
MICROSCALE_HD constexpr Nibble nibble(int lane, int step, int v, int half) {
  return {16 * lane + 4 * step + v % 2 + 2 * half, v < 2};
}
/// Codes, each where nibble() has it, to a word as it is packed; and back.
MICROSCALE_HD constexpr std::uint32_t code_word(std::uint32_t nibbles) {
  const auto moved = [&](std::uint32_t bits, int left) {
    bits &= nibbles;
    return left < 0 ? bits >> -left : bits << left;
  };
  const std::uint32_t first = moved(0x08000800u, 4) | moved(0x07000700u, -2),
                      second = moved(0x00080008u << 4, 8) | moved(0x00070007u << 4, 2);
  return moved(0x00080008u, 12) | moved(0x00070007u, 6) | first << 3 | first >> 29 | second << 6 |
         second >> 26 | moved(0x80008000u, -12) | moved(0x60006000u, -13) | moved(0x10001000u, -8);
}
MICROSCALE_HD constexpr std::uint32_t nibbles_of(std::uint32_t word) {
  const std::uint32_t first = word >> 3 | word << 29, second = word >> 6 | word << 26;
  return (word & 0x80008000u) >> 12 | (word & 0x01C001C0u) >> 6 | (first & 0x80008000u) >> 4 |
         (first & 0x01C001C0u) << 2 | (second & 0x80008000u) >> 8 | (second & 0x01C001C0u) >> 2 |
         (word & 0x00080008u) << 12 | (word & 0x00030003u) << 13 | (word & 0x00100010u) << 8;
}
/// A UE4M3 scale there: 2^(e - 22) (1 + m / 8), m the lowest three bits; where e is 31, NaN. Zero
/// is 0, like any scale beside zeros.
MICROSCALE_HD constexpr std::uint8_t placed_scale(std::uint8_t ue4m3) {
  const int scale = ue4m3 & 0x7F;
  if (scale == 0) return 0;
  if (scale == 0x7F) return 31 << 3 | 1;
  if (scale >= 8) return static_cast<std::uint8_t>(scale + (15 << 3));
  const int shift = scale >= 4 ? 1 : scale >= 2 ? 2 : 3;  // to where a leading one is not written
  return static_cast<std::uint8_t>((16 - shift) << 3 | (scale << shift & 7));
}
/// Four of them, the first in the lowest byte: of rows g and g + 8 in one block and in the next.
/// The word has those of the first block at bits 4 and 20, of the second eight bits further, around
/// its end. So they are where BF16 has them, but for its three highest bits, which are ones.
MICROSCALE_HD constexpr std::uint32_t scale_word(std::uint32_t placed) {
  const auto halves = [](std::uint32_t two) { return (two & 0xFF) << 4 | (two >> 8 & 0xFF) << 20; };
  const std::uint32_t second = halves(placed >> 16);
  return halves(placed) | second << 8 | second >> 24;
}
/// The byte of an 8-bit code.
MICROSCALE_HD constexpr int byte_of(int lane, int step, int v, int half) {
  return 512 * (step / 2) + 16 * lane + 8 * (step % 2) + 2 * v + half;
}
/// The scale of block `b` of row `row` of the tile, counted from the first scale, UE4M3 before its
/// scale_word.
MICROSCALE_HD constexpr int scale_of(int row, int b, int block) {
  return row % 8 * 2 * (static_cast<int>(tile_cols) / block) + 2 * b + row / 8;
}

}  // namespace microscale::fragment_tiles
