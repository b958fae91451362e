// The loops over 32 lanes and their cells, as the host's vectors do them best.
#pragma once

#include <cstdint>

#include "emulator/memory/shadow.hpp"

namespace microscale::emulator {

/// What the addresses of 32 lanes have in common.
struct Survey {
  bool fits = false;      // every offset is at most `last` and a multiple of `bytes`
  bool one_page = false;  // all offsets are in the page of shadow that the first is in
};

struct LaneLoops {
  /// Whether lane i is at address[0] + i * bytes, for all 32.
  bool (*consecutive)(const std::uint64_t* address, std::uint64_t bytes);
  /// Writes offset[i] = address[i] - begin. `last` < 2^63; `bytes`: a power of two.
  Survey (*survey)(const std::uint64_t* address, std::uint64_t begin, std::uint64_t last,
                   std::uint64_t bytes, std::uint64_t* offset);
  /// index[i] = the cell of 1 << shift bytes, in its page, that offset[i] is in; of 32 lanes.
  void (*cells_at)(const std::uint64_t* offset, std::uint32_t shift, std::uint32_t* index);
  /// into[i] = cells[index[i]].
  void (*gather)(const Cell* cells, const std::uint32_t* index, std::uint32_t count, Cell* into);
  /// cells[index[i]] = from[i]. False if that put different things into one cell.
  bool (*scatter)(Cell* cells, const std::uint32_t* index, std::uint32_t count, const Cell* from);
  /// The end of the run of cells, from `from`, that name record `id`.
  std::uint32_t (*run_end)(const Cell* cells, std::uint32_t from, std::uint32_t count,
                           std::uint32_t id);
  /// Whether each of two rows of 32 cells names one record in all its cells.
  bool (*uniform)(const Cell* one, const Cell* other);
  /// cells[i] = cell_of(id, lanes[i]).
  void (*fill)(Cell* cells, const Cell* lanes, std::uint32_t count, std::uint32_t id);
  /// Whether cells[i] names lane lanes[i], for all.
  bool (*same_lanes)(const Cell* cells, const Cell* lanes, std::uint32_t count);
};

/// The fastest this CPU has, and those that every CPU has.
const LaneLoops& lane_loops();
const LaneLoops& portable_lane_loops();

}  // namespace microscale::emulator
