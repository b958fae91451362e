// What both levels share: where a stage lies in shared memory, its products, and the way of sums
// from tensor memory to d.
#pragma once

#include <cstdint>

#include "args.hpp"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/tcgen05.cuh"

namespace levels {

namespace ptx = microscale::ptx;

// A stage: 128 rows x 128 bytes of a, then of b, then their scales: four 128x4 tiles of 512 bytes
// of each, one for each instruction.
inline constexpr int codes_bytes = 128 * 128, scales_bytes = 4 * 512;
inline constexpr int stage_bytes = 2 * (codes_bytes + scales_bytes);

// Tensor memory: sums in columns 0 to 127, behind them scales of up to four stages, each of a and
// then of b.
inline constexpr int tensor_columns = 256, first_scales = 128, stage_scales = 32;

/// E2M1 by E2M1 with UE4M3 scales, 128 x 128 (PTX ISA, "Instruction descriptor").
inline constexpr std::uint32_t instruction = 1u << 7 | 1u << 10 | (128u / 8) << 17 | 1u << 27;

/// One thread: the scales of the stage at shared address `stage`, number `which` of those there
/// are, to tensor memory, and its four products, 64 of k each.
__device__ inline void multiply_stage(std::uint32_t stage, int which, std::uint32_t tensor,
                                      bool add) {
  const std::uint64_t a = ptx::tcgen05_descriptor_rows128(stage),
                      b = ptx::tcgen05_descriptor_rows128(stage + codes_bytes);
  const std::uint32_t scales = stage + 2 * codes_bytes,
                      a_columns = tensor + first_scales + which * stage_scales,
                      b_columns = a_columns + stage_scales / 2;
  for (int i = 0; i < 4; ++i) {
    ptx::tcgen05_cp_32x128b_warpx4<1>(a_columns + 4 * i,
                                      ptx::tcgen05_descriptor_rows16(scales + 512 * i));
    ptx::tcgen05_cp_32x128b_warpx4<1>(
        b_columns + 4 * i, ptx::tcgen05_descriptor_rows16(scales + scales_bytes + 512 * i));
  }
  for (int i = 0; i < 4; ++i)  // 32 bytes of each row further: 2 in the descriptor
    ptx::tcgen05_mma_mxf4nvf4_block16<1>(tensor, a + 2 * i, b + 2 * i, instruction,
                                         a_columns + 4 * i, b_columns + 4 * i, add || i > 0);
}

/// All 128 threads: thread t has row t of the tile.
__device__ inline void store_tile(const GemmArgs& args, std::uint32_t tensor) {
  const int row = static_cast<int>(blockIdx.y * gemm_tile + threadIdx.x);
  float* to = args.d + std::int64_t{row} * args.n + blockIdx.x * gemm_tile;
  const std::uint32_t lanes = tensor + (threadIdx.x / 32 * 32 << 16);
  for (int column = 0; column < gemm_tile; column += 32) {
    std::uint32_t sums[32];
    ptx::tcgen05_ld_32x32b_x32(sums, lanes + column);
    ptx::tcgen05_wait_ld();
    ptx::keep_in_place(sums);
#pragma unroll
    for (int i = 0; i < 32; i += 4)
      ptx::st_global_v4(to + column + i,
                        make_uint4(sums[i], sums[i + 1], sums[i + 2], sums[i + 3]));
  }
}

}  // namespace levels
