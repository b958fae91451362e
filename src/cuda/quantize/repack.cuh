// Block scales between row-major and 128x4 tiles. One thread moves the four bytes of one line in
// one tile.
#pragma once

#include <cstdint>

#include "cuda/ptx/memory.cuh"
#include "cuda/quantize/args.hpp"
#include "formats/integers.hpp"
#include "layouts/container.hpp"
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

// FP4 codes between two a byte and one a byte in bits 5 to 2. A thread loads all its pieces before
// it uses one; what is left over at the end goes byte by byte.

// First packed byte of this thread's piece.
__device__ inline std::int64_t piece_at(int piece) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * container_pieces + piece;
  return (first * threads_per_block + threadIdx.x) * container_piece;
}

// Packed bytes of it that exist; 0 or less: none.
__device__ inline int bytes_of(const ContainerArgs& args, std::int64_t at) {
  const std::int64_t left = args.code_bytes - at;
  return left < container_piece ? static_cast<int>(left > 0 ? left : 0) : container_piece;
}

/// Packed codes to one a byte.
__device__ inline void pack_containers(const ContainerArgs& args) {
  uint2 codes[container_pieces];
#pragma unroll
  for (int i = 0; i < container_pieces; ++i)
    if (bytes_of(args, piece_at(i)) == container_piece)
      codes[i] = ptx::ld_global_nc_v2(args.input + piece_at(i));
#pragma unroll
  for (int i = 0; i < container_pieces; ++i) {
    const std::int64_t at = piece_at(i);
    const int bytes = bytes_of(args, at);
    if (bytes == container_piece) {
      ptx::st_global_v4(
          args.output + 2 * at,
          {container::pack4(codes[i].x & 0xFFFFu), container::pack4(codes[i].x >> 16),
           container::pack4(codes[i].y & 0xFFFFu), container::pack4(codes[i].y >> 16)});
    } else {
      for (std::int64_t k = at; k < at + bytes; ++k) {
        args.output[2 * k] = container::pack(args.input[k]);
        args.output[2 * k + 1] = container::pack(static_cast<std::uint8_t>(args.input[k] >> 4));
      }
    }
  }
}

/// The reverse.
__device__ inline void unpack_containers(const ContainerArgs& args) {
  uint4 containers[container_pieces];
#pragma unroll
  for (int i = 0; i < container_pieces; ++i)
    if (bytes_of(args, piece_at(i)) == container_piece)
      containers[i] = ptx::ld_global_nc_no_allocate_v4(args.input + 2 * piece_at(i));
#pragma unroll
  for (int i = 0; i < container_pieces; ++i) {
    const std::int64_t at = piece_at(i);
    const int bytes = bytes_of(args, at);
    if (bytes == container_piece) {
      const uint4 c = containers[i];
      ptx::st_global_v2(args.output + at, container::unpack4(c.x) | container::unpack4(c.y) << 16,
                        container::unpack4(c.z) | container::unpack4(c.w) << 16);
    } else {
      for (std::int64_t k = at; k < at + bytes; ++k)
        args.output[k] = static_cast<std::uint8_t>(container::unpack(args.input[2 * k]) |
                                                   container::unpack(args.input[2 * k + 1]) << 4);
    }
  }
}

}  // namespace microscale::cuda
