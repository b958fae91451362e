// Shapes of the kernels that stream packed weights past few rows of a (matmul_stream_...), for the
// kernels and for the host that launches them.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda {

inline constexpr int stream_warps_shift = 4, stream_warps = 1 << stream_warps_shift;
inline constexpr int stream_threads = 32 * stream_warps;
inline constexpr int stream_most_parts = 1024;  // matrices with rows of a, each as often
                                                // as it has as many as are taken at a time

/// What kind of weights flows through the rings.
struct StreamKind {
  int columns;                    // of k in a chunk of 16 rows
  int stage_bytes, stage_chunks;  // one copy, or several that arrive together
  int units_bytes;                // of a row of a, for a chunk
  int slot_bytes, sums_shift;     // a warp's sums of a row tile; pairs of them, 2^sums_shift
  int most_rounds_shift;          // row tiles whose sums a warp keeps before they are added up

  MICROSCALE_HD constexpr int slot_sums() const { return 1 << sums_shift; }
};

/// Packed tiles of 64 columns, about 2304 bytes at a time, whatever the format; and `token_tiles`
/// times eight rows.
MICROSCALE_HD constexpr StreamKind stream_packed(int tile_bytes, int token_tiles) {
  const int chunks = 2304 / tile_bytes;
  return {.columns = 64,
          .stage_bytes = chunks * tile_bytes,
          .stage_chunks = chunks,
          .units_bytes = 128,
          .slot_bytes = 512 * token_tiles,
          .sums_shift = token_tiles == 1 ? 6 : 7,
          .most_rounds_shift = token_tiles == 1 ? 2 : 1};
}

/// How work is cut: 2^cluster_shift blocks and 2^k_shift warps of a block share a row tile along k,
/// each warp keeps the sums of 2^rounds_shift row tiles before they are added up, and has a ring of
/// `depth` stages.
struct StreamCut {
  int cluster_shift, k_shift, rounds_shift, depth;

  /// Row tiles that a block multiplies at a time.
  MICROSCALE_HD constexpr int groups_shift() const { return stream_warps_shift - k_shift; }
};

/// How a block's shared memory is laid out; offsets and sizes in bytes. `rows` of a, `chunks` of k
/// (of this block's part, at most).
struct StreamShared {
  int units, pitch;  // rows of a, this far apart: eight, 16 bytes of each, are in all banks
  int partial;       // sums of each warp
  int sums;          // those that the blocks of a cluster send, twice
  int parts;         // which matrices have rows, 8 bytes each
  int barriers;      // of stages, then one of the rows of a and two of sums
  int bytes;
};
MICROSCALE_HD constexpr StreamShared stream_shared(StreamKind kind, StreamCut cut, int rows,
                                                   int chunks, bool experts) {
  StreamShared s{};
  s.pitch = chunks * kind.units_bytes + 16;
  s.units = stream_warps * cut.depth * kind.stage_bytes;
  s.partial = s.units + (rows * s.pitch + 127) / 128 * 128;
  s.sums = s.partial + (stream_warps << cut.rounds_shift) * kind.slot_bytes;
  s.parts = s.sums + (cut.cluster_shift > 0 ? 2 : 0) *
                         (kind.slot_sums() << (cut.rounds_shift + cut.groups_shift())) * 8;
  s.barriers = s.parts + (experts ? stream_most_parts * 8 : 0);
  s.bytes = s.barriers + stream_warps * cut.depth * 8 + 3 * 8;
  return s;
}

/// Stages of a warp's ring, at most, where it has `stages` to bring in all. What is asked for comes
/// in no order: the deeper the rings, the later the first stages, rows of a and sums of other
/// blocks (as measured, docs/performance/matmul_gpu.md).
MICROSCALE_HD constexpr int stream_depth(std::int64_t stages) { return stages < 20 ? 2 : 4; }

/// Where the part of `count` that belongs to `index` of 2^shift begins; `count` is below 2^24.
MICROSCALE_HD constexpr int stream_share(int count, int index, int shift) {
  return count * index >> shift;
}

/// Cycles that a block takes for `row_tiles`, predicted: of each row tile so many chunks a warp,
/// four warps a scheduler, as measured; adding sums up, and blocks meeting; bringing rows of a.
MICROSCALE_HD constexpr std::int64_t stream_cycles(StreamKind kind, StreamCut cut, int rows,
                                                   int chunks, std::int64_t row_tiles) {
  const std::int64_t groups = std::int64_t{1} << cut.groups_shift(),
                     own = (row_tiles + groups - 1) / groups,
                     times = (own + (1 << cut.rounds_shift) - 1) >> cut.rounds_shift,
                     own_chunks = (chunks + (1 << cut.k_shift) - 1) >> cut.k_shift;
  const int of_chunk = kind.sums_shift == 6 ? 480 : 600;
  return own * (own_chunks * of_chunk + 390) + times * (cut.cluster_shift > 0 ? 2100 : 1200) +
         std::int64_t{3} * rows * chunks;
}

}  // namespace microscale::cuda
