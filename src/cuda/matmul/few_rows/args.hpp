// Products of few rows of a with 4-bit weights on Hopper, at the speed of memory: shapes, layouts
// of shared memory and arguments of the two kernels, for the device and for the host. A row tile is
// 16 rows of the weights. Both kernels keep their blocks on the multiprocessors, share the row
// tiles of all matrices out among clusters, and bring weights through rings in shared memory.
//
// packed    weights of pack_weights, up to 8 rows of a at a time (FP16 by MXFP4 also 16), gates,
//           experts (packed_kernel.cuh)
// unpacked  weights as they lie in a checkpoint, one row of a in each matrix (unpacked_kernel.cuh)
#pragma once

#include <cstdint>

#include "cuda/device/kernel_types.hpp"
#include "cuda/matmul/args.hpp"
#include "formats/host_device.hpp"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda::few_rows {

inline constexpr int tile_rows = 16;               // of the weights
inline constexpr int block_shared_bytes = 232448;  // that a block of sm_90 may have

enum class RowKind : std::int32_t { f16, bf16, nvfp4, mxfp4 };

/// Rows of a, of all matrices one after the other.
struct RowsOfA {
  const void* data;            // elements or codes
  const std::uint8_t* scales;  // null: elements
  std::int64_t stride;         // bytes from row to row
  std::int64_t scale_matrix;   // bytes of scales from matrix to matrix; unpacked
  std::int32_t kind;           // RowKind
  std::int32_t tiled;          // scales are in 128x4 tiles, those of each matrix by themselves
};

/// What both kernels are told.
struct Args {
  RowsOfA a;
  std::int64_t n;
  std::int64_t k;
  std::uint32_t row_tiles;   // of a matrix
  std::uint32_t each, more;  // of all, what every cluster takes; so many first ones take one more
  std::int32_t early;  // stages copied while the grid in front ends: no kernel writes the weights
  Divisor by_row_tiles;
  ProductOutput output;
};

// --- packed ---

inline constexpr int packed_warps_shift = 4, packed_warps = 1 << packed_warps_shift;
inline constexpr int packed_threads = 32 * packed_warps;
inline constexpr int most_parts = 1024;  // matrices with rows of a, each as often as it has as many
                                         // as are taken at a time

/// What flows through the rings.
struct PackedShape {
  int columns;                    // of k in a chunk of 16 rows
  int stage_bytes, stage_chunks;  // one copy
  int units_bytes;                // of a row of a, for a chunk
  int slot_bytes, sums_shift;     // a warp's sums of a row tile; pairs of them, 2^sums_shift
  int most_rounds_shift;          // row tiles whose sums a warp keeps before they are added up

  MICROSCALE_HD constexpr int slot_sums() const { return 1 << sums_shift; }
};

/// Packed tiles of 64 columns, about 2304 bytes at a time, whatever the format; and `row_groups`
/// times eight rows of a.
MICROSCALE_HD constexpr PackedShape packed_shape(int tile_bytes, int row_groups) {
  const int chunks = 2304 / tile_bytes;
  return {.columns = 64,
          .stage_bytes = chunks * tile_bytes,
          .stage_chunks = chunks,
          .units_bytes = 128,
          .slot_bytes = 512 * row_groups,
          .sums_shift = row_groups == 1 ? 6 : 7,
          .most_rounds_shift = row_groups == 1 ? 2 : 1};
}

/// How work is cut: 2^cluster_shift blocks and 2^k_shift warps of a block share a row tile along k,
/// each warp keeps the sums of 2^rounds_shift row tiles before they are added up, and has a ring of
/// `depth` stages.
struct PackedCut {
  int cluster_shift, k_shift, rounds_shift, depth;

  /// Row tiles that a block multiplies at a time, as a power of two.
  MICROSCALE_HD constexpr int groups_shift() const { return packed_warps_shift - k_shift; }
};

/// How a block's shared memory is laid out; offsets and sizes in bytes. `rows` of a, `chunks` of k
/// (of this block's part, at most).
struct PackedShared {
  int units, pitch;  // rows of a, this far apart: eight, 16 bytes of each, are in all banks
  int partial;       // sums of each warp
  int sums;          // two mailboxes of sums that the blocks of a cluster send
  int parts;         // which matrices have rows, 8 bytes each
  int barriers;      // of stages, then one of the rows of a and two of mailboxes
  int bytes;
};
MICROSCALE_HD constexpr PackedShared packed_shared(PackedShape shape, PackedCut cut, int rows,
                                                   int chunks, bool experts) {
  PackedShared s{};
  s.pitch = chunks * shape.units_bytes + 16;
  s.units = packed_warps * cut.depth * shape.stage_bytes;
  s.partial = s.units + (rows * s.pitch + 127) / 128 * 128;
  s.sums = s.partial + (packed_warps << cut.rounds_shift) * shape.slot_bytes;
  s.parts = s.sums + (cut.cluster_shift > 0 ? 2 : 0) *
                         (shape.slot_sums() << (cut.rounds_shift + cut.groups_shift())) * 8;
  s.barriers = s.parts + (experts ? most_parts * 8 : 0);
  s.bytes = s.barriers + packed_warps * cut.depth * 8 + 3 * 8;
  return s;
}

/// Stages of a warp's ring, at most, where it has `stages` to bring in all. What is asked for comes
/// in no order: the deeper the rings, the later the first stages, rows of a and sums of other
/// blocks (as measured, docs/performance/matmul_gpu.md).
MICROSCALE_HD constexpr int packed_depth(std::int64_t stages) { return stages < 20 ? 2 : 4; }

/// Where the part of `count` that belongs to `index` of 2^shift begins; `count` is below 2^24.
MICROSCALE_HD constexpr int share_of_k(int count, int index, int shift) {
  return count * index >> shift;
}

/// Cycles that a block takes for `row_tiles`, predicted: of each row tile so many chunks a warp,
/// four warps a scheduler, as measured; adding sums up, and blocks meeting; bringing rows of a.
MICROSCALE_HD constexpr std::int64_t packed_cycles(PackedShape shape, PackedCut cut, int rows,
                                                   int chunks, std::int64_t row_tiles) {
  const std::int64_t groups = std::int64_t{1} << cut.groups_shift(),
                     own = (row_tiles + groups - 1) / groups,
                     times = (own + (1 << cut.rounds_shift) - 1) >> cut.rounds_shift,
                     own_chunks = (chunks + (1 << cut.k_shift) - 1) >> cut.k_shift;
  const int of_chunk = shape.sums_shift == 6 ? 480 : 600;
  return own * (own_chunks * of_chunk + 390) + times * (cut.cluster_shift > 0 ? 2100 : 1200) +
         std::int64_t{3} * rows * chunks;
}

/// matmul_few_rows_<b>_packed_<f16 or bf16>_<8 or 16>: sm_90a; rows of FP16, or of BF16 and NVFP4,
/// multiplied in that type. packed_threads threads; as many clusters as the device holds at once.
struct PackedArgs : Args {
  ProductRows rows;
  const std::uint8_t* b;        // layouts/fragment_tiles.hpp
  std::int64_t b_matrix;        // bytes from matrix to matrix
  PackedShared shared;          // where a block has what
  PackedCut cut;                // blocks of a cluster: 1, 2, 4 or 8; warps along k: 4, 8 or 16
  std::int32_t units_rows;      // rows of a in shared memory at a time, at most
  std::int32_t chunks;          // of k
  std::uint32_t parts_of_each;  // how often a matrix has units_rows rows of a; of a batch, as each
  Divisor by_parts_of_each;     // and more are: the kernel counts experts' itself
};

// --- unpacked ---

inline constexpr int unpacked_warps = 8;                            // that multiply
inline constexpr int unpacked_threads = 32 * (unpacked_warps + 2);  // one more copies, one stores
inline constexpr int half_columns = 128;               // of k, as many as a warp multiplies at once
inline constexpr int warp_columns = 2 * half_columns;  // of k, a warp and stage
inline constexpr int stage_columns = unpacked_warps * warp_columns;
inline constexpr int tiles_of_scale_tile = 8;  // row tiles of the 128 rows of a tile of scales
inline constexpr int sum_slots = 2;            // row tiles whose sums wait to be added up
inline constexpr int bias_tiles = 32;          // row tiles whose bias is there at once

// A stage, in bytes: codes in pieces of 128 bytes a row, all rows of a piece together, then scales.
// The copy engine swizzles both (TensorBoxes::swizzle_128), but for scales of blocks of 32, whose
// rows are 64 bytes, and those in 128x4 tiles, 64 bytes for the 16 rows' scales of four blocks.
inline constexpr int piece_bytes = 128, piece_columns = 2 * piece_bytes;
inline constexpr int stage_pieces = stage_columns / piece_columns;
inline constexpr int stage_code_bytes = tile_rows * stage_columns / 2;
MICROSCALE_HD constexpr int stage_scale_row(int block) { return stage_columns / block; }
MICROSCALE_HD constexpr int unpacked_stage_bytes(int block) {
  return stage_code_bytes + tile_rows * stage_scale_row(block);
}
/// The row of a row tile that is row `g` of eight in a warp's operand: lanes that read codes at
/// once have rows g and g + 1, and with these four apart no two of them meet in a bank.
MICROSCALE_HD constexpr int row_of_fragment(int g) { return g / 2 + g % 2 * 4; }
inline constexpr int sum_slot_bytes = unpacked_warps * tile_rows * 4 * 4;  // a float a lane and row
inline constexpr int bias_bytes = bias_tiles * tile_rows * 4;
inline constexpr int half_units_bytes = 2 * half_columns;       // of a's numbers,
inline constexpr int half_unit_scales_bytes = 32;               // and their scales
inline constexpr int stage_units_bytes = 2 * half_units_bytes;  // of a warp and stage
inline constexpr int stage_unit_scales_bytes = 2 * half_unit_scales_bytes;

/// How a block's shared memory is laid out; offsets and sizes in bytes. `block`: of the weights,
/// `stages` of a row tile, `depth` of the ring, `matrices` whose row of a is there at once (1 or
/// 2).
struct UnpackedShared {
  int units, unit_scales;  // of each matrix, warp and stage
  int slots;               // sums of the warps
  int mailbox;             // pairs: those of a row tile that the other block of the cluster sends
  int bias;                // of row tiles
  int barriers;            // of stages, full ones and empty ones, of slots, of the mailbox
  int bytes;
};
MICROSCALE_HD constexpr UnpackedShared unpacked_shared(int block, int stages, int depth,
                                                       int matrices) {
  UnpackedShared s{};
  s.units = depth * unpacked_stage_bytes(block);
  s.unit_scales = s.units + matrices * unpacked_warps * stages * stage_units_bytes;
  s.slots = s.unit_scales + matrices * unpacked_warps * stages * stage_unit_scales_bytes;
  s.mailbox = s.slots + sum_slots * sum_slot_bytes;
  s.bias = s.mailbox + tile_rows * 8;
  s.barriers = s.bias + bias_bytes;
  s.bytes = s.barriers + 16 * (depth + sum_slots + 1);
  return s;
}

/// matmul_few_rows_<b>_unpacked_<f16 or fp4>_1: sm_90a, one row of a in each matrix of a batch, of
/// 16-bit elements or of FP4 codes, at multiples of 16 bytes; k a multiple of 16 blocks.
/// unpacked_threads threads; any number of blocks or of clusters of two.
struct UnpackedArgs : Args {
  /// Boxes that are a row tile's part of a stage. Codes: {128 bytes, rows of all matrices, 1,
  /// pieces of a row}, scales: {bytes of a row, rows of all matrices, 1, 1}; of b_tiled codes: {128
  /// bytes, rows / 32, rows % 32, pieces}, scales: {bytes of a tile, tiles of four blocks, of 128
  /// rows, 1}.
  TensorMap codes, scales;
  std::int32_t stages;    // of a row tile
  std::uint32_t cluster;  // blocks of one: 1 or 2
  Divisor by_stages;
  std::int32_t depth;    // of the ring
  std::int32_t buffers;  // matrices whose row of a is in shared memory at once
  UnpackedShared shared;
  std::int32_t b_tiled;  // scales are in 128x4 tiles; then n is a multiple of 128
};

}  // namespace microscale::cuda::few_rows
