// What pack_weights writes for a GPU: tiles of 16 rows x 64 elements in the order in which a warp's
// lanes hold the first operand of a matrix instruction (mma.m16n8k16; wgmma with A in registers),
// so that 16 bytes a lane, read side by side, are its part of four instructions. A tile is its
// codes, then its scales; tiles follow each other along k, then along the rows; rows and k are
// filled up with zeros.
//
// Instruction `step` = k / 16 of the tile takes of lane 4 g + t, in register v: row g + 8 (v % 2),
// elements 16 step + 2 t + 8 (v / 2), and the next.
//
// 4-bit codes: a lane's 32-bit word `step` has registers 0 and 1 in the one and 2 and 3 in the
// other half of every byte, each half with its bits where a mask, or two shifts and a mask, makes
// FP8 E5M2 of them. That is the upper byte of FP16, values 2^-14 times their own: registers 1 and 3
// are where they should be, 0 and 2 a byte below.
//
//   byte       0         1         2         3        bit   7    6 5 4       3 2 1       0
//   register   0 | 2     1 | 3     0 | 2     1 | 3          sign  magnitude  magnitude   sign
//   element    first     first     second    second         of 0, 1   of 2, 3   of 0, 1     of 2, 3
//
// 8-bit codes: [step / 2][lane][step % 2][register][first, second].
// Scales: [g][block of the tile][row g, row g + 8]. UE4M3, whose sign means nothing, gets a fifth
// bit of exponent instead (placed_scale), and four share a word such that a mask, or a rotation and
// a mask, makes FP16 or BF16 of two (scale_word), subnormals too. There is no zero then: where a
// block's scale is zero, its codes are. A gate and an up matrix share tiles: rows 0 to 7 are eight
// of the gate, 8 to 15 the same of up.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

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

/// Where that element's 4-bit code goes: byte of the tile; `low`: the lower half of that byte.
struct Nibble {
  int byte;
  bool low;
};
MICROSCALE_HD constexpr Nibble nibble(int lane, int step, int v, int half) {
  return {16 * lane + 4 * step + v % 2 + 2 * half, v < 2};
}
/// The code's bits there.
MICROSCALE_HD constexpr std::uint8_t placed(std::uint8_t code, bool low) {
  const int sign = code >> 3, magnitude = code & 7;
  return static_cast<std::uint8_t>(low ? sign << 7 | magnitude << 1 : magnitude << 4 | sign);
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
/// The word has those of the first block at bits 7 and 23, of the second eight bits further, around
/// its end. So they are where FP16 has them, and three above BF16's place.
MICROSCALE_HD constexpr std::uint32_t scale_word(std::uint32_t placed) {
  const auto halves = [](std::uint32_t two) { return (two & 0xFF) << 7 | (two >> 8 & 0xFF) << 23; };
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
