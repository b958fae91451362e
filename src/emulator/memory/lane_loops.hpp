// The loops over 32 lanes and their cells, as the host's vectors do them best.
#pragma once

#include <cstdint>

#include "emulator/memory/shadow.hpp"

namespace microscale::emulator {

/// What the addresses of 32 lanes have in common.
struct Survey {
  std::uint64_t bits = 0;    // all offsets, or-ed: which are multiples of what
  std::uint64_t beyond = 0;  // top bit: some offset is larger than `last`
  std::uint64_t differ = 0;  // bits in which some offset is not like the first
  std::uint64_t step = 0;    // 0: lane i is at the first offset + i * bytes
};

struct LaneLoops {
  /// Writes offset[i] = address[i] - begin; `last` < 2^63.
  Survey (*survey)(const std::uint64_t* address, std::uint64_t begin, std::uint64_t last,
                   std::uint64_t bytes, std::uint64_t* offset);
  /// The end of the run of cells, from `from`, that name record `id`.
  std::uint32_t (*run_end)(const Cell* cells, std::uint32_t from, std::uint32_t count,
                           std::uint32_t id);
  /// cells[i] = cell_of(id, lanes[i]).
  void (*fill)(Cell* cells, const Cell* lanes, std::uint32_t count, std::uint32_t id);
  /// Whether cells[i] names lane lanes[i], for all.
  bool (*same_lanes)(const Cell* cells, const Cell* lanes, std::uint32_t count);
};

/// The fastest this CPU has, and those that every CPU has.
const LaneLoops& lane_loops();
const LaneLoops& portable_lane_loops();

}  // namespace microscale::emulator
