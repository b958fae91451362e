// FP4 codes between two a byte and one a byte in bits 5 to 2. A thread loads all its pieces before
// it uses one; what is left over at the end goes byte by byte.
#pragma once

#include <cstdint>

#include "cuda/quantize/args.hpp"
#include "cuda/quantize/geometry.hpp"
#include "cuda/ptx/memory.cuh"
#include "layouts/container.hpp"

namespace microscale::cuda {

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
