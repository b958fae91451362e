// The matrix product of two block-scaled operands on sm_100f: tcgen05.mma takes codes out of
// shared memory and scales out of tensor memory, and leaves sums there.
//
// A thread block, or a pair of them, stays on its multiprocessor. One warp's thread copies: boxes
// of codes by tensor maps, scale tiles as they lie. One warp's thread multiplies: behind each
// stage's scale copies its products, K in order from zero; of a pair it is one of the first block,
// which the second tells when its part of a stage is there. Four warps take sums to d while the
// next tile's are made. docs/performance/blackwell.md has the budgets of each.
#pragma once

#include <cstdint>

#include "cuda/block/grid_order.cuh"
#include "cuda/block/stage_ring.cuh"
#include "cuda/matmul/tcgen05/args.hpp"
#include "cuda/matmul/tcgen05/pairs.cuh"
#include "cuda/matmul/tcgen05/store.cuh"
#include "cuda/matmul/tcgen05/walk.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/tcgen05.cuh"

namespace microscale::cuda::tcgen05 {

template <class Pair, int Rows, int Columns>
class TileProduct {
 public:
  __device__ static void run(const MatmulTcgen05Args& args) {
    extern __shared__ __align__(1024) unsigned char memory[];
    std::uint32_t address[1] = {static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))};
    ptx::keep_in_place(address);
    const std::uint32_t base = address[0];
    const auto warp = static_cast<int>(threadIdx.x / 32);
    Ring ring(base + shared.barriers);
    if (threadIdx.x == 0) init_barriers(base, ring);
    const std::uint32_t where = made(base, 4);
    if (warp == multiply_warp) {
      ptx::tcgen05_alloc<blocks, tensor_columns>(where);
      ptx::tcgen05_relinquish_alloc_permit<blocks>();
    }
    meet();
    const std::uint32_t tensor = ptx::ld_shared_b32(where);
    follow_previous_grid();
    if (warp == copy_warp)
      copy(args, base, ring);
    else if (warp == multiply_warp)
      multiply(args, base, tensor, ring);
    else
      store(args, base, tensor);
    __syncwarp();  // lanes that had nothing to do
    meet();
    if (warp == multiply_warp) ptx::tcgen05_dealloc<blocks, tensor_columns>(tensor);
  }

 private:
  static constexpr TileShape shape{Rows, Columns};
  static constexpr int blocks = shape.blocks();
  static constexpr int b_parts = Columns / 128;       // 128 rows of the weights each
  static constexpr int own_parts = b_parts / blocks;  // whose codes this block copies
  static constexpr int scale_tiles = stage_steps * Pair::scales / 4;
  static constexpr int tile_steps = 4 / Pair::scales;  // instructions whose scales a tile has
  static constexpr int tile_bytes = static_cast<int>(tiled_128x4::tile_bytes);
  static constexpr SharedLayout shared = shared_layout(shape, scale_tiles);
  static constexpr TensorLayout layout = tensor_layout(Columns, scale_tiles);
  using Ring = StageRing<shared.stages>;
  using Walk = TileWalk<Rows, Columns>;

  // Barriers behind those of the ring: the second block's part of a stage is there (the first
  // block's alone count); the sums of every other tile are made; so many of them have been taken
  // away that the next ones may be made (of a pair, in the first block).
  __device__ static std::uint32_t other_full(std::uint32_t base, int stage) {
    return base + shared.barriers + 8 * (2 * shared.stages + stage);
  }
  __device__ static std::uint32_t made(std::uint32_t base, int parity) {
    return other_full(base, shared.stages + parity);
  }
  __device__ static std::uint32_t taken(std::uint32_t base, int parity) {
    return made(base, 2 + parity);
  }

  __device__ static void init_barriers(std::uint32_t base, const Ring& ring) {
#pragma unroll 1
    for (int i = 0; blocks > 1 && i < shared.stages; ++i)
      ptx::mbarrier_init_shared(other_full(base, i), 1);
    for (int i = 0; i < 2; ++i) {
      ptx::mbarrier_init_shared(made(base, i), 1);
      ptx::mbarrier_init_shared(taken(base, i), store_warps * blocks);
    }
    ring.init_arrivals(1, 1);
  }

  /// All threads of all blocks; behind it what they have done to tensor memory is ordered.
  __device__ static void meet() {
    ptx::tcgen05_fence_before_thread_sync();
    __syncthreads();
    if constexpr (blocks > 1) ptx::barrier_cluster();
    ptx::tcgen05_fence_after_thread_sync();
  }

  __device__ static int steps_of(const MatmulTcgen05Args& args) {
    return static_cast<int>(args.k / Pair::elements);
  }

  __device__ static void copy(const MatmulTcgen05Args& args, std::uint32_t base, Ring ring) {
    const bool leader = ptx::elect_sync(), gated = args.output.gated != 0;
    if (leader) {
      ptx::prefetch_tensormap(args.a);
      ptx::prefetch_tensormap(args.b);
    }
    const int all_tiles = (steps_of(args) + tile_steps - 1) / tile_steps;  // of scales, of a row
    const std::int64_t row_tile = std::int64_t{all_tiles} * tile_bytes;
    const int last_part = static_cast<int>((args.n - 1) / 128);
    for (Walk walk(args); walk.next();) {
      if (!leader) continue;
      const int a_row = static_cast<int>(walk.rows.first);
      const int b_row = static_cast<int>(walk.rows.matrix * args.n) + walk.first_column;
      const int first_part = walk.first_column / 128;
      const std::uint8_t* a_scales = args.a_scales + walk.scale_row_tile * row_tile;
      const std::uint8_t* b_scales[b_parts];
#pragma unroll
      for (int i = 0; i < b_parts; ++i) {
        // Rows of the weights that there are not repeat the last ones' scales: no warp stores
        // their sums.
        const int part = gated                        ? first_part
                         : first_part + i < last_part ? first_part + i
                                                      : last_part;
        b_scales[i] = (gated && i > 0 ? args.up_scales : args.b_scales) +
                      walk.rows.matrix * args.b_scale_matrix + part * row_tile;
      }
      int at = 0;  // byte of a row
#pragma unroll 1
      for (int left = all_tiles; left > 0; left -= scale_tiles, at += stage_row_bytes) {
        const std::uint32_t bytes = tile_bytes * (left < scale_tiles ? left : scale_tiles);
        ring.wait_empty();
        const std::uint32_t full = ring.full();
        ptx::mbarrier_arrive_expect_tx(full, shared.code_bytes + (1 + b_parts) * bytes);
        std::uint32_t to = base + ring.stage() * shared.code_bytes;
        ptx::cp_async_bulk_tensor_2d_shared_cluster_global_mbarrier(to, args.a, at, a_row, full);
#pragma unroll
        for (int i = 0; i < own_parts; ++i) {
          to += operand_bytes;
          const int part = blocks > 1 ? static_cast<int>(Walk::rank()) : i;
          const bool of_up = gated && part > 0;
          ptx::cp_async_bulk_tensor_2d_shared_cluster_global_mbarrier(
              to, of_up ? args.up : args.b, at, gated ? b_row : b_row + 128 * part, full);
        }
        to = base + shared.scales + ring.stage() * shared.scale_bytes;
        ptx::cp_async_bulk_shared_cluster_global_mbarrier(to, a_scales, bytes, full);
        a_scales += scale_tiles * tile_bytes;
#pragma unroll
        for (int i = 0; i < b_parts; ++i) {
          to += scale_tiles * tile_bytes;
          ptx::cp_async_bulk_shared_cluster_global_mbarrier(to, b_scales[i], bytes, full);
          b_scales[i] += scale_tiles * tile_bytes;
        }
        ring.next();
      }
    }
    if (!leader) return;
      // Arrivals of commits are under way as long as stages are not empty.
#pragma unroll 1
    for (int i = 0; i < shared.stages; ++i, ring.next()) ring.wait_empty();
  }

  __device__ static void multiply(const MatmulTcgen05Args& args, std::uint32_t base,
                                  std::uint32_t tensor, Ring ring) {
    const bool leader = ptx::elect_sync();
    const std::uint64_t codes = ptx::tcgen05_descriptor_rows128(base),
                        scales = ptx::tcgen05_descriptor_rows16(base + shared.scales);
    Ring before = ring;  // two stages behind: whose products read the scale columns to be written
    int done = 0;        // stages
    for (Walk walk(args); walk.next();) {
      if (!leader) continue;
      if (blocks > 1 && Walk::rank() > 0) {
        tell_first_block(args, base, ring);
        continue;
      }
      wait_for_room(base, walk.index);
      ptx::tcgen05_fence_after_thread_sync();
      const std::uint32_t d = tensor + (walk.index % 2 == 0 ? 0 : layout.second);
      bool add = false;
#pragma unroll 1
      for (int left = steps_of(args); left > 0; left -= stage_steps) {
        const std::uint32_t scale_columns =
            tensor + layout.scales + done % 2 * layout.scale_columns;
        ring.wait_full();
        if constexpr (blocks > 1)
          ptx::mbarrier_wait_parity_cluster(other_full(base, ring.stage()), ring.parity());
        if (done >= 2) {
          before.wait_released();
          before.next();
        }
        ++done;
        ptx::tcgen05_fence_after_thread_sync();
        const std::uint64_t stage_scales = scales + ring.stage() * (shared.scale_bytes / 16);
#pragma unroll
        for (int i = 0; i < scale_tiles; ++i)
          if (i * tile_steps < left) copy_scales(scale_columns, stage_scales, i);
        const std::uint64_t a = codes + ring.stage() * (shared.code_bytes / 16);
#pragma unroll
        for (int i = 0; i < stage_steps; ++i)
          if (i < left) {
            const int tile = i / tile_steps;
            Pair::template multiply<blocks>(
                d, a + 2 * i, a + operand_bytes / 16 + 2 * i,
                with_scale_byte(Pair::instruction(shape), i % tile_steps * Pair::scales),
                scale_columns + 4 * tile, scale_columns + layout.b_scales + 4 * b_parts * tile,
                add);
            add = true;
          }
        ptx::tcgen05_commit<blocks>(ring.empty());
        ring.next();
      }
      ptx::tcgen05_commit<blocks>(made(base, walk.index % 2));
    }
  }

  /// The second block's stages of a tile, each as it becomes full.
  __device__ static void tell_first_block(const MatmulTcgen05Args& args, std::uint32_t base,
                                          Ring& ring) {
#pragma unroll 1
    for (int left = steps_of(args); left > 0; left -= stage_steps, ring.next()) {
      ring.wait_full();
      ptx::mbarrier_arrive_release_cluster(other_full(base, ring.stage()), 0);
    }
  }

  /// Tile `i` of a stage's scales, of a and of each 128 rows of the weights.
  __device__ static void copy_scales(std::uint32_t columns, std::uint64_t from, int i) {
    ptx::tcgen05_cp_32x128b_warpx4<blocks>(columns + 4 * i, from + i * (tile_bytes / 16));
#pragma unroll
    for (int part = 0; part < b_parts; ++part)
      ptx::tcgen05_cp_32x128b_warpx4<blocks>(
          columns + layout.b_scales + 4 * (b_parts * i + part),
          from + ((1 + part) * scale_tiles + i) * (tile_bytes / 16));
  }

  /// Until tile `index` may be summed where its turn is.
  __device__ static void wait_for_room(std::uint32_t base, int index) {
    const int other = layout.overlap > 0 ? index - 1 : index - 2;  // whose sums are in the way
    if (other < 0) return;
    if constexpr (blocks > 1)
      ptx::mbarrier_wait_parity_cluster(taken(base, other % 2), other / 2 % 2);
    else
      ptx::mbarrier_wait_parity(taken(base, other % 2), other / 2 % 2);
  }

  __device__ static void store(const MatmulTcgen05Args& args, std::uint32_t base,
                               std::uint32_t tensor) {
    for (Walk walk(args); walk.next();) {
      const bool second = walk.index % 2 != 0, gated = args.output.gated != 0;
      if constexpr (blocks > 1)
        ptx::mbarrier_wait_parity_cluster(made(base, second), walk.index / 2 % 2);
      else
        ptx::mbarrier_wait_parity(made(base, second), walk.index / 2 % 2);
      ptx::tcgen05_fence_after_thread_sync();
      const auto left = [&] {
        ptx::tcgen05_fence_before_thread_sync();
        __syncwarp();
        if (threadIdx.x % 32 != 0) return;
        if constexpr (blocks > 1)
          ptx::mbarrier_arrive_release_cluster(taken(base, second), 0);
        else
          ptx::mbarrier_arrive(taken(base, second));
      };
      const std::uint32_t sums = tensor + (second ? layout.second : 0);
      if (gated) {
        if constexpr (Columns == 256)
          store_sums<Columns, true, layout.overlap>(args, walk.rows, walk.first_column, sums,
                                                    !second, left);
      } else {
        store_sums<Columns, false, layout.overlap>(args, walk.rows, walk.first_column, sums,
                                                   !second, left);
      }
    }
  }
};

}  // namespace microscale::cuda::tcgen05
