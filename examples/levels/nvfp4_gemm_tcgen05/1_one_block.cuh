// Level 1: one thing after the other. All threads bring a stage to shared memory, one multiplies
// it, all wait.
#pragma once

#include "cuda/ptx/async_copy.cuh"
#include "tile.cuh"

namespace levels {

/// 128 rows x 128 bytes, in the swizzle that the instruction reads: 16-byte piece p of row r lies
/// at piece p ^ (r % 8).
__device__ inline void bring_codes(std::uint32_t to, const std::uint8_t* from, int row_bytes) {
  const auto row = static_cast<std::uint32_t>(threadIdx.x);
  for (std::uint32_t piece = 0; piece < 8; ++piece)
    ptx::st_shared_v4(to + row * 128 + ((piece ^ row % 8) << 4),
                      ptx::ld_global_nc_v4(from + std::int64_t{row} * row_bytes + piece * 16));
}

extern "C" __global__ void __launch_bounds__(gemm_threads)
    gemm_1_one_block(const __grid_constant__ GemmArgs args) {
  __shared__ __align__(1024) std::uint8_t stage[stage_bytes];
  __shared__ __align__(8) std::uint64_t done;
  __shared__ std::uint32_t address;
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(stage)),
             barrier = static_cast<std::uint32_t>(__cvta_generic_to_shared(&done));
  if (threadIdx.x == 0) {
    ptx::mbarrier_init_shared(barrier, 1);
    ptx::fence_mbarrier_init();
  }
  if (threadIdx.x < 32)
    ptx::tcgen05_alloc<1, tensor_columns>(
        static_cast<std::uint32_t>(__cvta_generic_to_shared(&address)));
  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  ptx::tcgen05_fence_after_thread_sync();

  const int row_bytes = args.k / 2, row_scales = args.k / 64 * 512;  // of 128 rows
  const std::uint8_t* a = args.a + std::int64_t{blockIdx.y} * gemm_tile * row_bytes;
  const std::uint8_t* b = args.b + std::int64_t{blockIdx.x} * gemm_tile * row_bytes;
  const std::uint8_t* a_scales = args.a_scales + std::int64_t{blockIdx.y} * row_scales;
  const std::uint8_t* b_scales = args.b_scales + std::int64_t{blockIdx.x} * row_scales;
  for (int k = 0; k < args.k; k += gemm_stage) {
    bring_codes(to, a + k / 2, row_bytes);
    bring_codes(to + codes_bytes, b + k / 2, row_bytes);
    const std::uint32_t scale = 16 * threadIdx.x, scales = to + 2 * codes_bytes + scale;
    ptx::st_shared_v4(scales, ptx::ld_global_nc_v4(a_scales + k / 64 * 512 + scale));
    ptx::st_shared_v4(scales + scales_bytes, ptx::ld_global_nc_v4(b_scales + k / 64 * 512 + scale));
    ptx::fence_proxy_async_shared();  // products read by another way than these stores went
    __syncthreads();
    if (threadIdx.x == 0) {
      multiply_stage(to, 0, address, k > 0);
      ptx::tcgen05_commit<1>(barrier);
    }
    ptx::mbarrier_wait_parity(barrier, k / gemm_stage % 2);
  }
  ptx::tcgen05_fence_after_thread_sync();
  store_tile(args, address);
  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  ptx::tcgen05_fence_after_thread_sync();
  if (threadIdx.x < 32) ptx::tcgen05_dealloc<1, tensor_columns>(address);
}

}  // namespace levels
