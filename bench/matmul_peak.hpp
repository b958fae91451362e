// The limit that products on Hopper are measured against: matrix instructions and nothing else
// (matmul_peak.cu), for `microscale bench matmul`.
#pragma once

#include <cstdint>
#include <span>

namespace microscale::cuda {

struct KernelImage;
/// matmul_peak_f16 and matmul_peak_e4m3 for sm_90a; empty in a build without nvcc.
std::span<const KernelImage> bench_images();

struct MatmulPeakArgs {
  float* output;  // one per thread of the grid, so that the sums are of use to somebody
  int rounds;     // each two warpgroups of a block times four products of 64 x 128
};

inline constexpr int matmul_peak_threads = 256;

/// Operations of a block: two for each multiplication. `depth`: K of an instruction, 16 for
/// matmul_peak_f16, 32 for matmul_peak_e4m3.
constexpr double matmul_peak_operations(int rounds, int depth) {
  return 2.0 * 64 * 128 * depth * 4 * (matmul_peak_threads / 128) * rounds;
}

}  // namespace microscale::cuda
