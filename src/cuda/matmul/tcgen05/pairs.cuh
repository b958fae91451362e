// Pairs of formats that tcgen05.mma multiplies with their block scales: what an instruction takes
// of each, and its descriptor (PTX ISA, "Instruction descriptor", that of block scales).
#pragma once

#include <cstdint>

#include "cuda/matmul/tcgen05/args.hpp"
#include "cuda/ptx/tcgen05.cuh"

namespace microscale::cuda::tcgen05 {

/// Bits 7-9 and 10-12 the elements, 17-22 rows of b / 8, 23 whether scales are UE8M0, 27-28 rows of
/// a / 128; 4-5 and 29-30 the byte of a scale column where an instruction's scales begin.
constexpr std::uint32_t instruction_of(std::uint32_t a, std::uint32_t b, bool ue8m0,
                                       TileShape shape) {
  return a << 7 | b << 10 | static_cast<std::uint32_t>(shape.columns / 8) << 17 |
         static_cast<std::uint32_t>(ue8m0) << 23 |
         static_cast<std::uint32_t>(shape.rows / 128) << 27;
}
__device__ inline std::uint32_t with_scale_byte(std::uint32_t instruction, std::uint32_t byte) {
  return instruction | byte << 29 | byte << 4;
}

// `elements` of k and `scales` of a row are an instruction's; four scales are a column's.

struct Nvfp4 {
  static constexpr int elements = 64, scales = 4;
  static constexpr std::uint32_t instruction(TileShape shape) {
    return instruction_of(1, 1, false, shape);
  }
  template <int Blocks>
  __device__ static void multiply(std::uint32_t d, std::uint64_t a, std::uint64_t b,
                                  std::uint32_t instruction, std::uint32_t scale_a,
                                  std::uint32_t scale_b, bool add) {
    ptx::tcgen05_mma_mxf4nvf4_block16<Blocks>(d, a, b, instruction, scale_a, scale_b, add);
  }
};

struct Mxfp4 {
  static constexpr int elements = 64, scales = 2;
  static constexpr std::uint32_t instruction(TileShape shape) {
    return instruction_of(1, 1, true, shape);
  }
  template <int Blocks>
  __device__ static void multiply(std::uint32_t d, std::uint64_t a, std::uint64_t b,
                                  std::uint32_t instruction, std::uint32_t scale_a,
                                  std::uint32_t scale_b, bool add) {
    ptx::tcgen05_mma_mxf4_block32<Blocks>(d, a, b, instruction, scale_a, scale_b, add);
  }
};

/// A, B: 0 is E4M3, 1 is E5M2.
template <std::uint32_t A, std::uint32_t B>
struct Mxfp8 {
  static constexpr int elements = 32, scales = 1;
  static constexpr std::uint32_t instruction(TileShape shape) {
    return instruction_of(A, B, true, shape);
  }
  template <int Blocks>
  __device__ static void multiply(std::uint32_t d, std::uint64_t a, std::uint64_t b,
                                  std::uint32_t instruction, std::uint32_t scale_a,
                                  std::uint32_t scale_b, bool add) {
    ptx::tcgen05_mma_mxf8f6f4_block32<Blocks>(d, a, b, instruction, scale_a, scale_b, add);
  }
};
using E4m3E4m3 = Mxfp8<0, 0>;
using E4m3E5m2 = Mxfp8<0, 1>;
using E5m2E4m3 = Mxfp8<1, 0>;
using E5m2E5m2 = Mxfp8<1, 1>;

}  // namespace microscale::cuda::tcgen05
