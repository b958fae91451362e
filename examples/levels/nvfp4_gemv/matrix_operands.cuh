// What level 8 multiplies: rows of a as a lane loads them, and b as the matrix unit wants it.
#pragma once

#include "cuda/ptx/memory.cuh"
#include "decode.cuh"
#include "layouts/tiled_128x4.hpp"
#include "row.cuh"

namespace levels {

inline constexpr int matrix_rows = 16, matrix_warps = 8;
inline constexpr int step_elements = 128, step_blocks = 8;  // of a row
inline constexpr float codes_bias = 0x1p14f;                // what e2m1_to_small_pairs leaves out

/// Eight codes as four pairs of FP16, each 2^-14 of its number: elements 3 and 7, 1 and 5, 2 and 6,
/// 0 and 4. A code's bits are put where E5M2 has them, four at a time; E5M2 is the upper byte of
/// FP16. 11 instructions.
__device__ inline void e2m1_to_small_pairs(std::uint32_t (&pairs)[4], std::uint32_t codes) {
  const std::uint32_t odd = (codes & 0x8080'8080u) | (codes >> 3 & 0x0E0E'0E0Eu);
  const std::uint32_t even = (codes << 4 & 0x8080'8080u) | (codes << 1 & 0x0E0E'0E0Eu);
  pairs[0] = odd & 0xFF00'FF00u;
  pairs[1] = __byte_perm(odd, 0, 0x2404);  // bytes 2 and 0 up, zeros below
  pairs[2] = even & 0xFF00'FF00u;
  pairs[3] = __byte_perm(even, 0, 0x2404);
}

/// The whole vector times its scales into shared memory, in the order of the pairs above; a quarter
/// of a kilobyte a step, then 64 zero bytes.
__device__ inline void decode_vector(const GemvArgs& args, const GemvRow& row, uint4* to) {
  using namespace microscale;
  const std::int64_t words = args.k / 8, filled = (args.k + step_elements - 1) / step_elements * 16;
  const auto* scales =
      args.tiled ? args.b_scales + blockIdx.y * tiled_128x4::bytes(gemv_vector_rows, row.blocks)
                 : row.b_scales;
  for (std::int64_t word = threadIdx.x; word < filled + 4; word += blockDim.x) {
    std::uint32_t pairs[4] = {};
    if (word < words) {
      const std::int64_t block = word / 2;
      const std::uint32_t code =
          scales[args.tiled ? tiled_128x4::offset(0, block, row.blocks) : block];
      const std::uint32_t scale = ptx::cvt_rn_f16x2_e4m3x2(code | code << 8);
      e2m1_to_small_pairs(pairs, reinterpret_cast<const std::uint32_t*>(row.b)[word]);
#pragma unroll
      for (std::uint32_t& pair : pairs)
        pair = ptx::mul_rn_f16x2(ptx::mul_rn_f16x2(pair, 0x7400'7400u), scale);
    }
    to[word] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
  }
  __syncthreads();
}

/// A lane's 32 neighbouring elements of a step, in one row: rows beyond the last are the last,
/// elements beyond k have the scale 0.
struct Line {
  const std::uint8_t *codes, *scales;
  int scale_step;  // bytes from step to step

  __device__ Line(const GemvArgs& args, std::int64_t wanted) {
    using namespace microscale;
    const std::int64_t m = min(wanted, args.m - 1), t = threadIdx.x % 4;
    const GemvRow row = gemv_row(args, m);
    codes = row.a + 16 * t;
    scales = args.tiled ? args.a_scales + blockIdx.y * tiled_128x4::bytes(args.m, row.blocks) +
                              tiled_128x4::offset(m, 2 * t, row.blocks)
                        : row.a_scales + 2 * t;
    scale_step = args.tiled ? 2 * tiled_128x4::tile_bytes : step_blocks;
  }
};

struct Chunk {
  uint4 codes[2];
  std::uint32_t scales[2];  // two bytes each
};

__device__ inline Chunk load_chunk(const Line (&lines)[2], int step, bool inside) {
  Chunk chunk{};
  if (inside) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      chunk.codes[i] =
          microscale::ptx::ld_global_nc_no_allocate_v4(lines[i].codes + step * (step_elements / 2));
      chunk.scales[i] = __ldg(reinterpret_cast<const std::uint16_t*>(
          lines[i].scales + static_cast<std::int64_t>(step) * lines[i].scale_step));
    }
  }
  return chunk;
}

}  // namespace levels
