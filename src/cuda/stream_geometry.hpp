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
inline constexpr int stream_shared_bytes = 232448;  // that a block of sm_90 may have

/// Tiles of the weights that come in one copy: about 2304 bytes, whatever the format.
MICROSCALE_HD constexpr int stream_stage_tiles(int tile_bytes) { return 2304 / tile_bytes; }

/// Row tiles whose sums a warp keeps before they are added to those of other warps.
MICROSCALE_HD constexpr int stream_rounds(int token_tiles) { return 4 / token_tiles; }

/// How a block's shared memory is laid out; offsets and sizes in bytes. `rows` of a, `chunks` tiles
/// of 64 along k (of this block's part of k, at most), `depth` stages a warp.
struct StreamShared {
  int units, pitch;  // rows of a, this far apart: no two of a quarter warp in the same banks
  int partial;       // a warp's sums, of `stream_rounds` row tiles
  int sums;          // those of a block, for the other blocks of the cluster
  int parts;         // which matrices have rows, 8 bytes each
  int factors;       // of rows of a, and words to find them by: 128 bytes
  int barriers;      // of stages
  int bytes;
};
MICROSCALE_HD constexpr StreamShared stream_shared(int tile_bytes, int token_tiles, int k_warps,
                                                   int rows, int chunks, int depth, bool experts) {
  StreamShared s{};
  const int slot = token_tiles * 512;  // sums of a row tile
  s.pitch = chunks * 128 + 64;
  s.units = stream_warps * depth * (stream_stage_tiles(tile_bytes) * tile_bytes);
  s.partial = s.units + (rows * s.pitch + 127) / 128 * 128;
  s.sums = s.partial + stream_warps * stream_rounds(token_tiles) * slot;
  s.parts = s.sums + stream_rounds(token_tiles) * (stream_warps / k_warps) * slot;
  s.factors = s.parts + (experts ? stream_most_parts * 8 : 0);
  s.barriers = s.factors + 128;
  s.bytes = s.barriers + stream_warps * depth * 8;
  return s;
}

/// Where the part of `count` that belongs to `index` of 2^shift begins; `count` is below 2^24.
MICROSCALE_HD constexpr int stream_share(int count, int index, int shift) {
  return count * index >> shift;
}

}  // namespace microscale::cuda
