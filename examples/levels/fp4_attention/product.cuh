// Scores of a warp's 16 queries and 8 keys out of shared memory: rows of codes, one scale for each
// 32 elements.
#pragma once

#include "args.hpp"
#include "cuda/ptx/mma.cuh"

namespace levels {

/// 64 rows of codes, and their scales.
struct CodeTile {
  std::uint8_t *codes, *scales;
};

/// q's tile and k's in shared memory. RowBytes: of a row's codes. Alignment: what the compiler may
/// take the arrays to be aligned to; as they are written first, nothing.
template <int D, int RowBytes, int Alignment = 1>
struct CodeMemory {
  alignas(Alignment) std::uint8_t codes[2][tile_tokens * RowBytes];
  alignas(Alignment) std::uint8_t scales[2][tile_tokens * D / scale_block];
  __device__ CodeTile q() { return {codes[0], scales[0]}; }
  __device__ CodeTile k() { return {codes[1], scales[1]}; }
};

/// Four neighbouring codes, the first in the lowest byte.
__device__ inline std::uint32_t four_codes(const std::uint8_t* from) {
  const std::uint32_t codes[4] = {from[0], from[1], from[2], from[3]};
  return codes[0] | codes[1] << 8 | codes[2] << 16 | codes[3] << 24;
}

/// Lane 4 g + t of a warp.
struct Lane {
  int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
  int query = threadIdx.x / 32 * 16 + g;  // of the tile; and that one plus 8
};

/// Containers, a byte an element: 32 elements an instruction. `key` is the first of the eight.
template <int D>
__device__ inline void score(float (&s)[4], const Lane& lane, CodeTile q, CodeTile k, int key) {
  constexpr int blocks = D / scale_block;
#pragma unroll
  for (int block = 0; block < blocks; ++block) {
    const std::uint8_t* a_row = q.codes + lane.query * D + block * 32 + 4 * lane.t;
    const std::uint8_t* b_row = k.codes + (key + lane.g) * D + block * 32 + 4 * lane.t;
    const std::uint32_t a[4] = {four_codes(a_row), four_codes(a_row + 8 * D),
                                four_codes(a_row + 16), four_codes(a_row + 8 * D + 16)};
    // Of four lanes the first brings the scale of row g, the second that of row g + 8; of keys the
    // first brings it. The others' are not looked at.
    const int a_scale = q.scales[(lane.query + 8 * (lane.t % 2)) * blocks + block];
    const int b_scale = k.scales[(key + lane.g) * blocks + block];
    microscale::ptx::mma_m16n8k32_mxf8f6f4_e2m1_e2m1<0, 0>(
        s, a, four_codes(b_row), four_codes(b_row + 16), a_scale, b_scale);
  }
}

}  // namespace levels
