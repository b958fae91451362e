// Shapes of the kernels that stream packed weights past few rows of a (matmul_stream_...), for the
// kernels and for the host that launches them.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda {

inline constexpr int stream_warps_shift = 4, stream_warps = 1 << stream_warps_shift;
inline constexpr int stream_threads = 32 * stream_warps;
inline constexpr int stream_most_parts = 1024;      // matrices with rows of a, each as often
                                                    // as it has as many as are taken at a time
inline constexpr int stream_most_rows = 16;         // of a, in shared memory at a time
inline constexpr int stream_powers_bytes = 4 * 4 * stream_most_rows;  // of rows of BF16
inline constexpr int stream_shared_bytes = 232448;  // that a block of sm_90 may have

/// What kind of weights flows through the rings.
struct StreamKind {
  int columns;                    // of k in a chunk of 16 rows
  int stage_bytes, stage_chunks;  // one copy, or several that arrive together
  int units_bytes;                // of a row of a, for a chunk
  int slot_bytes, slot_sums;      // a warp's sums of a row tile; threads that add them up
  int rounds;                     // row tiles whose sums a warp keeps before they are added up
};

/// Packed tiles of 64 columns, about 4608 bytes at a time, half of that beside many rows of a, whatever
/// the format; and `token_tiles` times eight rows.
MICROSCALE_HD constexpr StreamKind stream_packed(int tile_bytes, int token_tiles) {
  const int chunks = (token_tiles == 1 ? 4608 : 2304) / tile_bytes;
  return {
      64, chunks * tile_bytes, chunks, 128, 512 * token_tiles, 64 * token_tiles, 4 / token_tiles};
}
/// How a block's shared memory is laid out; offsets and sizes in bytes. `rows` of a, `chunks` of k
/// (of this block's part, at most), `depth` stages a warp.
struct StreamShared {
  int units, pitch;  // rows of a, this far apart: eight, 16 bytes of each, are in all banks
  int partial;       // sums of each warp
  int sums;          // those of a block, for the other blocks of the cluster
  int parts;         // which matrices have rows, 8 bytes each
  int powers;        // of rows of a, stream_powers_bytes
  int barriers;      // of stages, then one of the rows of a
  int bytes;
};
MICROSCALE_HD constexpr StreamShared stream_shared(StreamKind kind, int k_shift, int rows,
                                                   int chunks, int depth, bool experts) {
  StreamShared s{};
  s.pitch = chunks * kind.units_bytes + 16;
  s.units = stream_warps * depth * kind.stage_bytes;
  s.partial = s.units + (rows * s.pitch + 127) / 128 * 128;
  s.sums = s.partial + stream_warps * kind.rounds * kind.slot_bytes;
  s.parts = s.sums + kind.rounds * (stream_warps >> k_shift) * kind.slot_sums * 8;
  s.powers = s.parts + (experts ? stream_most_parts * 8 : 0);
  s.barriers = s.powers + stream_powers_bytes;
  s.bytes = s.barriers + stream_warps * depth * 8 + 8;
  return s;
}

/// Where the part of `count` that belongs to `index` of 2^shift begins; `count` is below 2^24.
MICROSCALE_HD constexpr int stream_share(int count, int index, int shift) {
  return count * index >> shift;
}

}  // namespace microscale::cuda
