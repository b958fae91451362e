// Block scales between row-major and 128x4 tiles. One thread moves the four bytes of one line in
// one tile.
#pragma once

#include <cstdint>

#include "cuda/quantize/args.hpp"
#include "cuda/quantize/geometry.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

struct ScaleWord {
  std::int64_t line, block;  // of the first of the four
};

// Thread t holds the t-th word of the tiled array, so that side is coalesced.
__device__ inline ScaleWord scale_word(std::int64_t word, std::int64_t blocks) {
  const std::int64_t tiles_per_line = ceil_div(blocks, tiled_128x4::tile_blocks);
  const std::int64_t tile = word / tiled_128x4::tile_lines;
  const int inside = static_cast<int>(word % tiled_128x4::tile_lines);
  return {tile / tiles_per_line * tiled_128x4::tile_lines + inside % 4 * 32 + inside / 4,
          tile % tiles_per_line * tiled_128x4::tile_blocks};
}

__device__ inline void scales_to_tiles(const RepackArgs& args) {
  const std::int64_t word = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (word * 4 >= tiled_128x4::bytes(args.lines, args.blocks)) return;
  const ScaleWord p = scale_word(word, args.blocks);
  std::uint32_t bytes = 0;
  if (p.line < args.lines)
    for (int i = 0; i < 4; ++i)
      if (p.block + i < args.blocks)
        bytes |= static_cast<std::uint32_t>(args.input[p.line * args.blocks + p.block + i])
                 << (8 * i);
  reinterpret_cast<std::uint32_t*>(args.output)[word] = bytes;
}

__device__ inline void scales_to_rows(const RepackArgs& args) {
  const std::int64_t word = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (word * 4 >= tiled_128x4::bytes(args.lines, args.blocks)) return;
  const ScaleWord p = scale_word(word, args.blocks);
  if (p.line >= args.lines) return;
  const std::uint32_t bytes = reinterpret_cast<const std::uint32_t*>(args.input)[word];
  for (int i = 0; i < 4; ++i)
    if (p.block + i < args.blocks)
      args.output[p.line * args.blocks + p.block + i] = static_cast<std::uint8_t>(bytes >> (8 * i));
}

}  // namespace microscale::cuda
