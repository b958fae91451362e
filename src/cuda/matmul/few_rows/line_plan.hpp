// Shapes of the kernels that stream plain 4-bit weights past one row of a (matmul_line_...), for
// the kernels and for the host that launches them.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"

namespace microscale::cuda {

inline constexpr int line_warps = 8;                        // that multiply
inline constexpr int line_threads = 32 * (line_warps + 2);  // one more copies, one stores
inline constexpr int line_rows = 16;                        // of the weights: a row tile
inline constexpr int half_columns = 128;               // of k, as many as a warp multiplies at once
inline constexpr int warp_columns = 2 * half_columns;  // of k, a warp and stage
inline constexpr int line_columns = line_warps * warp_columns;  // of k, a stage
inline constexpr int line_tile_parts = 8;   // row tiles of the 128 rows of a tile of scales
inline constexpr int line_slots = 2;        // row tiles whose sums wait to be added up
inline constexpr int line_bias_tiles = 32;  // row tiles whose bias is there at once

// A stage, in bytes: codes in pieces of 128 bytes a row, all rows of a piece together, then scales.
// The copy engine swizzles both (TensorBoxes::swizzle_128), but for scales of blocks of 32, whose
// rows are 64 bytes, and those in 128x4 tiles, 64 bytes for the 16 rows' scales of four blocks.
inline constexpr int line_piece_bytes = 128, line_piece_columns = 2 * line_piece_bytes;
inline constexpr int line_pieces = line_columns / line_piece_columns;
inline constexpr int line_code_bytes = line_rows * line_columns / 2;
MICROSCALE_HD constexpr int line_scale_row(int block) { return line_columns / block; }
MICROSCALE_HD constexpr int line_stage_bytes(int block) {
  return line_code_bytes + line_rows * line_scale_row(block);
}
/// The row of a row tile that is row `g` of eight in a warp's operand: lanes that read codes at
/// once have rows g and g + 1, and with these four apart no two of them meet in a bank.
MICROSCALE_HD constexpr int line_of_fragment(int g) { return g / 2 + g % 2 * 4; }
inline constexpr int line_slot_bytes = line_warps * line_rows * 4 * 4;  // a float a lane and row
inline constexpr int line_bias_bytes = line_bias_tiles * line_rows * 4;
inline constexpr int half_units_bytes = 2 * half_columns;      // of a's numbers,
inline constexpr int half_unit_scales_bytes = 32;              // and their scales
inline constexpr int line_units_bytes = 2 * half_units_bytes;  // of a warp and stage
inline constexpr int line_unit_scales_bytes = 2 * half_unit_scales_bytes;

/// How a block's shared memory is laid out; offsets and sizes in bytes. `block`: of the weights,
/// `stages` of a row tile, `depth` of the ring, `matrices` whose row of a is there at once (1 or
/// 2).
struct LineShared {
  int units, unit_scales;  // of each matrix, warp and stage
  int slots;               // sums of the warps
  int mailbox;             // pairs: those of a row tile that the other block of the cluster sends
  int bias;                // of row tiles
  int barriers;            // of stages, full ones and empty ones, of slots, of the mailbox
  int bytes;
};
MICROSCALE_HD constexpr LineShared line_shared(int block, int stages, int depth, int matrices) {
  LineShared s{};
  s.units = depth * line_stage_bytes(block);
  s.unit_scales = s.units + matrices * line_warps * stages * line_units_bytes;
  s.slots = s.unit_scales + matrices * line_warps * stages * line_unit_scales_bytes;
  s.mailbox = s.slots + line_slots * line_slot_bytes;
  s.bias = s.mailbox + line_rows * 8;
  s.barriers = s.bias + line_bias_bytes;
  s.bytes = s.barriers + 16 * (depth + line_slots + 1);
  return s;
}

}  // namespace microscale::cuda
