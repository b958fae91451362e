// Level 2: a ring of stages. One thread asks the copy engine for boxes, which come swizzled, one
// multiplies what has come; neither waits for the other while there are stages. Each stage has
// scale columns of its own: where they are written again, its products are done.
#pragma once

#include "cuda/block/stage_ring.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "tile.cuh"

namespace levels {

extern "C" __global__ void __launch_bounds__(gemm_threads)
    gemm_2_tensor_copies(const __grid_constant__ GemmArgs args) {
  extern __shared__ __align__(1024) unsigned char stages[];
  __shared__ __align__(8) std::uint64_t barriers[2 * gemm_stages], done;
  __shared__ std::uint32_t address;
  const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(stages)),
             barrier = static_cast<std::uint32_t>(__cvta_generic_to_shared(&done));
  microscale::cuda::StageRing<gemm_stages> ring(
      static_cast<std::uint32_t>(__cvta_generic_to_shared(barriers)));
  if (threadIdx.x == 0) {
    ptx::mbarrier_init_shared(barrier, 1);
    ring.init_arrivals(1, 1);
  }
  if (threadIdx.x < 32)
    ptx::tcgen05_alloc<1, tensor_columns>(
        static_cast<std::uint32_t>(__cvta_generic_to_shared(&address)));
  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  ptx::tcgen05_fence_after_thread_sync();

  if (threadIdx.x == 0) {
    const int row_scales = args.k / 64 * 512;
    const std::uint8_t* a_scales = args.a_scales + std::int64_t{blockIdx.y} * row_scales;
    const std::uint8_t* b_scales = args.b_scales + std::int64_t{blockIdx.x} * row_scales;
    for (int k = 0; k < args.k; k += gemm_stage, ring.next()) {
      ring.wait_empty();
      const std::uint32_t to = base + ring.stage() * stage_bytes, full = ring.full(),
                          scales = to + 2 * codes_bytes;
      ptx::mbarrier_arrive_expect_tx(full, stage_bytes);
      ptx::cp_async_bulk_tensor_2d_shared_cluster_global_mbarrier(to, args.a_boxes, k / 2,
                                                                  blockIdx.y * gemm_tile, full);
      ptx::cp_async_bulk_tensor_2d_shared_cluster_global_mbarrier(
          to + codes_bytes, args.b_boxes, k / 2, blockIdx.x * gemm_tile, full);
      ptx::cp_async_bulk_shared_cluster_global_mbarrier(scales, a_scales + k / 64 * 512,
                                                        scales_bytes, full);
      ptx::cp_async_bulk_shared_cluster_global_mbarrier(
          scales + scales_bytes, b_scales + k / 64 * 512, scales_bytes, full);
    }
  } else if (threadIdx.x == 32) {
    for (int k = 0; k < args.k; k += gemm_stage, ring.next()) {
      ring.wait_full();
      multiply_stage(base + ring.stage() * stage_bytes, ring.stage(), address, k > 0);
      ptx::tcgen05_commit<1>(ring.empty());
    }
    ptx::tcgen05_commit<1>(barrier);
  }
  __syncwarp();
  ptx::mbarrier_wait_parity(barrier, 0);
  ptx::tcgen05_fence_after_thread_sync();
  store_tile(args, address);
  ptx::tcgen05_fence_before_thread_sync();
  __syncthreads();
  ptx::tcgen05_fence_after_thread_sync();
  if (threadIdx.x < 32) ptx::tcgen05_dealloc<1, tensor_columns>(address);
}

}  // namespace levels
