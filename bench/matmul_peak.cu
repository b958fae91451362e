// How many operations the matrix units do when nothing else has to be done: warpgroups multiply the
// same 64 x 128-byte and 128 x 128-byte matrices in shared memory over and over. The matrices hold
// random finite values, because units that multiply zeros clock higher.
#include <cstdint>

#include "matmul_peak.hpp"
#include "cuda/block/grid_order.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "formats/random.hpp"

namespace microscale::cuda {

constexpr int a_words = 64 * 128 / 4, b_words = 128 * 128 / 4;
constexpr std::uint32_t instruction_bytes = 32;  // of a row: K of one product, either type

struct PeakF16 {
  __device__ static void multiply(float (&d)[64], std::uint64_t a, std::uint64_t b, bool more) {
    ptx::wgmma_m64n128k16_f32_f16_f16(d, a, b, more);
  }
};

struct PeakE4m3 {
  __device__ static void multiply(float (&d)[64], std::uint64_t a, std::uint64_t b, bool more) {
    ptx::wgmma_m64n128k32_f32_e4m3_e4m3(d, a, b, more);
  }
};

template <class Type>
__device__ void multiply_over_and_over(const MatmulPeakArgs& args) {
  __shared__ __align__(1024) std::uint32_t matrices[a_words + b_words];
  // Without its upper exponent bit either type is below 2 and never NaN.
  for (unsigned i = threadIdx.x; i < a_words + b_words; i += matmul_peak_threads)
    matrices[i] = mix32(i) & 0xBFBFBFBFu;
  ptx::fence_proxy_async_shared();
  __syncthreads();
  const auto start = static_cast<std::uint32_t>(__cvta_generic_to_shared(matrices));
  const std::uint64_t a = ptx::matrix_descriptor_rows128(start),
                      b = ptx::matrix_descriptor_rows128(start + a_words * 4);
  float d[64];
  ptx::wgmma_fence();
  for (int round = 0; round < args.rounds; ++round) {
#pragma unroll
    for (std::uint32_t i = 0; i < 4; ++i)
      Type::multiply(d, ptx::advance(a, i * instruction_bytes),
                     ptx::advance(b, i * instruction_bytes), round > 0 || i > 0);
    ptx::wgmma_commit_group();
    ptx::wgmma_wait_group<1>();
  }
  ptx::wgmma_wait_group<0>();
  ptx::keep_in_place(d);
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 64; ++i) sum = __fadd_rn(sum, d[i]);
  args.output[blockIdx.x * matmul_peak_threads + threadIdx.x] = sum;
}

}  // namespace microscale::cuda

extern "C" __global__ void __launch_bounds__(microscale::cuda::matmul_peak_threads, 1)
    matmul_peak_f16(const __grid_constant__ microscale::cuda::MatmulPeakArgs args) {
  microscale::cuda::follow_previous_grid();
  microscale::cuda::multiply_over_and_over<microscale::cuda::PeakF16>(args);
}

extern "C" __global__ void __launch_bounds__(microscale::cuda::matmul_peak_threads, 1)
    matmul_peak_e4m3(const __grid_constant__ microscale::cuda::MatmulPeakArgs args) {
  microscale::cuda::follow_previous_grid();
  microscale::cuda::multiply_over_and_over<microscale::cuda::PeakE4m3>(args);
}
