// Scales in 512-byte tiles of 128 lines x 4 blocks, as block-scaled matrix instructions read them
// (cuBLAS "1D block scaling factors layout", tcgen05). Inside a tile, lines 0, 32, 64, 96 lie side
// by side, four scale bytes each:
//
//   byte   0..3      4..7      8..11     12..15    16..19 ...
//   line   0         32        64        96        1      ...   (blocks 0..3 each)
//
// Lines and blocks beyond the tensor are padding and must be zero.
#pragma once

#include <cstdint>
#include <cstring>

#include "formats/host_device.hpp"

namespace microscale::tiled_128x4 {

inline constexpr std::int64_t tile_lines = 128;
inline constexpr std::int64_t tile_blocks = 4;
inline constexpr std::int64_t tile_bytes = tile_lines * tile_blocks;

MICROSCALE_HD constexpr std::int64_t offset(std::int64_t line, std::int64_t block,
                                            std::int64_t blocks_per_line) {
  const std::int64_t tiles_per_line = (blocks_per_line + tile_blocks - 1) / tile_blocks;
  const std::int64_t tile = (line / tile_lines) * tiles_per_line + block / tile_blocks;
  return tile * tile_bytes + (line % 32) * 16 + (line / 32 % 4) * 4 + block % tile_blocks;
}

MICROSCALE_HD constexpr std::int64_t bytes(std::int64_t lines, std::int64_t blocks_per_line) {
  return (lines + tile_lines - 1) / tile_lines *
         ((blocks_per_line + tile_blocks - 1) / tile_blocks) * tile_bytes;
}

/// The scales of a line, side by side.
inline void copy_line(const std::uint8_t* tiled, std::int64_t line, std::int64_t blocks_per_line,
                      std::uint8_t* output) {
  const std::uint8_t* from = tiled + offset(line, 0, blocks_per_line);
  const std::int64_t whole = blocks_per_line / tile_blocks * tile_blocks;
  for (std::int64_t b = 0; b < whole; b += tile_blocks, from += tile_bytes)
    std::memcpy(output + b, from, tile_blocks);
  for (std::int64_t b = whole; b < blocks_per_line; ++b) output[b] = from[b - whole];
}

/// The same back: what is padding stays.
inline void put_line(const std::uint8_t* scales, std::int64_t line, std::int64_t blocks_per_line,
                     std::uint8_t* tiled) {
  std::uint8_t* to = tiled + offset(line, 0, blocks_per_line);
  const std::int64_t whole = blocks_per_line / tile_blocks * tile_blocks;
  for (std::int64_t b = 0; b < whole; b += tile_blocks, to += tile_bytes)
    std::memcpy(to, scales + b, tile_blocks);
  for (std::int64_t b = whole; b < blocks_per_line; ++b) to[b - whole] = scales[b];
}

}  // namespace microscale::tiled_128x4
