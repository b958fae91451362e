// The levels of this ladder: how each is launched, and how long it would take, modelled.
#pragma once

#include <cstdint>
#include <vector>

#include "microscale/tensor.hpp"
#include "cuda/device/device.hpp"

namespace levels {

struct GemmLevel {
  const char* name;
  const char* entry;  // of levels.cu; null: the library's kernel
  bool persistent;    // the library's: as many clusters as the device holds, else one a tile
  int rows, columns;  // of a tile of d
  int stage_cycles;   // what a stage of 256 of k takes: the larger of products and bytes; 1: all
  int tile_cycles;    // what a tile takes beside its stages
  int at_once;        // tiles on a B200
};

// Products: 4 * 64 cycles of 128 x 128, 4 * 128 of 128 x 256 and of a pair's 256 x 256. Bytes: at
// 64 a cycle and multiprocessor. Beside: 1 us until the first stage is there, the sums' way to d.
inline constexpr GemmLevel gemm_levels[] = {
    {"1 one block, one thing at a time", "gemm_1_one_block", false, 128, 128, 2900, 2000, 2 * 148},
    {"2 tensor copies, a ring of stages", "gemm_2_tensor_copies", false, 128, 128, 576, 4000, 148},
    {"3 pairs of blocks (shipped), a tile each", nullptr, false, 256, 256, 608, 4900, 74},
    {"4 pairs that stay (shipped)", nullptr, true, 256, 256, 608, 500, 74}};

/// Microseconds of m x n x k on a B200 at 1.9 GHz.
inline double modelled_us(const GemmLevel& level, std::int64_t m, std::int64_t n, std::int64_t k) {
  const std::int64_t tiles = m / level.rows * (n / level.columns),
                     turns = (tiles + level.at_once - 1) / level.at_once;
  return static_cast<double>(turns * (k / 256 * level.stage_cycles + level.tile_cycles)) / 1900;
}

/// d[m,n], FP32, of NVFP4 operands with scales in 128x4 tiles, by a level. `image`: of levels.cu,
/// as the device takes it. m and n are multiples of 128, k of 256.
std::vector<float> run_gemm(microscale::cuda::Device& device,
                            const std::vector<std::uint8_t>& image, const GemmLevel& level,
                            const microscale::BlockTensor& a, const microscale::BlockTensor& b);

}  // namespace levels
