// Shapes of the kernels that stream plain 4-bit weights past one row of a (matmul_line_...), for
// the kernels and for the host that launches them.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace microscale::cuda {

inline constexpr int line_warps = 16;      // that multiply
inline constexpr int line_copy_warps = 2;  // each half the rows of a stage
inline constexpr int line_threads = 32 * (line_warps + line_copy_warps + 1);  // the last stores
inline constexpr int line_rows = 16;                            // of the weights: a row tile
inline constexpr int warp_columns = 128;                        // of k, a warp and stage
inline constexpr int line_columns = line_warps * warp_columns;  // of k, a stage
inline constexpr int line_tile_parts = 8;   // row tiles of the 128 rows of a tile of scales
inline constexpr int line_slots = 2;        // row tiles whose sums wait to be added up
inline constexpr int line_bias_tiles = 32;  // row tiles whose bias is there at once

// Bytes. Rows of a stage lie so far apart that no two lanes that read at once meet in a bank.
inline constexpr int line_code_bytes = line_columns / 2, line_code_pitch = line_code_bytes + 64;
MICROSCALE_HD constexpr int line_scale_pitch(int block) { return line_columns / block + 16; }
MICROSCALE_HD constexpr int line_stage_bytes(int block) {
  return line_rows * (line_code_pitch + line_scale_pitch(block));
}
inline constexpr int line_slot_bytes = line_warps * line_rows * 4 * 4;  // a float a lane and row
inline constexpr int line_bias_bytes = line_bias_tiles * line_rows * 4;
inline constexpr int line_units_bytes = 2 * warp_columns;  // a warp and stage: a's numbers,
inline constexpr int line_unit_scales_bytes = 32;          // and its scales

/// How a block's shared memory is laid out; offsets and sizes in bytes. `block`: of the weights,
/// `stages` of a row tile, `depth` of the ring, `matrices` whose row of a is there at once (1 or
/// 2).
struct LineShared {
  int units, unit_scales;  // of each matrix, warp and stage
  int slots;               // sums of the warps
  int mailbox;             // those of a row tile that the other block of the cluster sends
  int bias;                // of row tiles
  int barriers;            // of stages, full ones and empty ones, then of slots
  int bytes;
};
MICROSCALE_HD constexpr LineShared line_shared(int block, int stages, int depth, int matrices) {
  LineShared s{};
  s.units = depth * line_stage_bytes(block);
  s.unit_scales = s.units + matrices * line_warps * stages * line_units_bytes;
  s.slots = s.unit_scales + matrices * line_warps * stages * line_unit_scales_bytes;
  s.mailbox = s.slots + line_slots * line_slot_bytes;
  s.bias = s.mailbox + line_rows * 4;
  s.barriers = s.bias + line_bias_bytes;
  s.bytes = s.barriers + 16 * (depth + line_slots);
  return s;
}

/// The part of `count` row tiles that belongs to `index` of `parts` begins here.
MICROSCALE_HD constexpr std::uint32_t line_share(std::uint32_t count, std::uint32_t index,
                                                 std::uint32_t parts) {
  const std::uint32_t each = count / parts, more = count % parts;
  return each * index + (index < more ? index : more);
}

}  // namespace microscale::cuda
