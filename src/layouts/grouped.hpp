// Where the block scales of many experts lie in one buffer: 128x4 tiles expert by expert, each padded to
// whole tiles; the same sums on a host and in a kernel.
#pragma once

#include <cstdint>

#include "core/host_device.hpp"

namespace microscale::grouped {

/// Rows of tiles of an expert with `rows` rows, a tile row being `height` rows.
MICROSCALE_HD constexpr std::int64_t tile_rows(std::int64_t rows, std::int64_t height) {
  return (rows + height - 1) / height;
}

/// The most there can be over all experts, however `rows` rows are shared out: each that has a row
/// has a tile row begun, and every `height` rows more fill another.
MICROSCALE_HD constexpr std::int64_t most_tile_rows(std::int64_t rows, std::int64_t experts,
                                                    std::int64_t height) {
  const std::int64_t begun = rows < experts ? rows : experts;
  return begun + (begun > 0 ? (rows - begun) / height : 0);
}

}  // namespace microscale::grouped
