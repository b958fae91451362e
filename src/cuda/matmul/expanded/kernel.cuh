// Products of expanded weights (expand_weights.cuh) and very many rows of a on Hopper, both
// operands from shared memory as they are: nothing but products in the main loop.
//
// A cluster of two blocks stays on its multiprocessors and takes tile after tile of d, each block
// its own 128 rows of a, both the same rows of the weights, of which each copies half, to both. One
// warp copies 128 bytes of k of both operands (layouts/token_tiles.hpp) into a ring of stages: a
// linear bulk copy for each. Two warpgroups have 64 rows of a each; the four steps of a stage are a
// group of products, and the next group is issued before the one before is waited for. The copying
// warp runs ahead into the next tile while this one's sums are stored (store.cuh,
// quantize.cuh).
//
// With FP8 (fp8_window.cuh) the tensor cores keep 13 bits behind the leading one of a sum: sums of
// a stage are taken out, multiplied by their row of a's power of two and added in FP32, while the
// other warpgroup's products are under way. The weights' powers of two go to the finished sums.
#pragma once

#include <cstdint>

#include "cuda/block/grid_order.cuh"
#include "cuda/block/stage_ring.cuh"
#include "cuda/matmul/expanded/args.hpp"
#include "cuda/matmul/expanded/store.cuh"
#include "cuda/matmul/in_registers/walk.cuh"
#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/wgmma.cuh"

namespace microscale::cuda::expanded {

/// A step of an element type: 32 bytes of k of a warpgroup's 64 rows and all columns.
struct Bf16Steps {
  static constexpr bool fp8 = false;
  static constexpr TileShape shape = shape_16;
  __device__ static void multiply(float (&d)[128], std::uint64_t a, std::uint64_t b, bool add) {
    ptx::wgmma_m64n256k16_f32_bf16_bf16(d, a, b, add);
  }
};
struct F16Steps {
  static constexpr bool fp8 = false;
  static constexpr TileShape shape = shape_16;
  __device__ static void multiply(float (&d)[128], std::uint64_t a, std::uint64_t b, bool add) {
    ptx::wgmma_m64n256k16_f32_f16_f16(d, a, b, add);
  }
};
struct E5m2Steps {
  static constexpr bool fp8 = true;
  static constexpr TileShape shape = shape_8;
  __device__ static void multiply(float (&d)[96], std::uint64_t a, std::uint64_t b, bool add) {
    ptx::wgmma_m64n192k32_f32_e5m2_e5m2(d, a, b, add);
  }
};

/// Output: what becomes of the sums of a tile, ToDense of store.cuh or ToBlocks of
/// quantize.cuh. All threads of a block make one, those that multiply use it.
template <class Element, template <class> class Output>
class TileProduct {
 public:
  using Args = typename Output<Element>::Args;
  static constexpr TileShape shape = Element::shape;
  static constexpr SharedLayout shared = shared_layout(shape, Element::fp8);
  static constexpr int a_bytes = shape.rows * 128, row_groups = shape.rows / 8;
  static constexpr int column_groups = shape.columns / 8,
                       own_groups = column_groups / cluster_blocks;
  static constexpr int chunk = Element::fp8 ? 128 : 64;  // elements of k of a stage
  static_assert(shape.rows == 128 && shape.columns % 64 == 0, "a warp stores 16 rows x 64 columns");
  static_assert(shared.stages >= 3 && shared.bytes <= most_shared_bytes, "shared memory is short");

  __device__ static void run(const Args& all) {
    const ProductArgs& args = Output<Element>::product(all);
    extern __shared__ __align__(1024) unsigned char memory[];
    std::uint32_t address[1] = {static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))};
    ptx::keep_in_place(address);
    const std::uint32_t base = address[0];
    if (args.partial) clear_stages(base);
    Ring ring(base + shared.barriers);
    if (threadIdx.x == 0) ring.init(8);
    ptx::barrier_cluster();
    follow_previous_grid();
    if (!is_wanted(args)) return;  // both blocks
    const Output<Element> output(all);
    if (threadIdx.x >= 256) {
      ptx::setmaxnreg_dec<56>();
      if (threadIdx.x < 288) copy(args, base, ring);
    } else {
      ptx::setmaxnreg_inc<224>();
      multiply(output, base, ring);
    }
    ptx::barrier_cluster();  // the other block still frees stages of both
  }

 private:
  using Ring = StageRing<shared.stages, cluster_blocks>;
  using Walk = in_registers::TileWalk<shape.cluster().rows, shape.cluster().tokens>;
  static_assert(Walk::sizes == 1, "tiles of several sizes have to be counted first");

  /// In FP8 if all scales fit; in 16 bits, where `only_if` asks, if they do not.
  __device__ static bool is_wanted(const ProductArgs& args) {
    if (!Element::fp8 && args.only_if == nullptr) return true;
    const TicketFlags misfit(args.misfit.word, 1, args.misfit.ticket);
    const bool first = blockIdx.x == 0 && threadIdx.x == 0;
    if constexpr (Element::fp8) {
      const bool fits = !misfit.is_set(0);
      if (first) *args.misfit.verdict = fits ? 0 : 1;
      return fits;
    }
    if (first) misfit.forget(0);
    return *args.only_if != 0;
  }

  __device__ static std::uint32_t place(std::uint32_t base, int stage) {
    return base + shared.places + 32 * stage;
  }

  /// Where a tile of d is not whole, what is left of the stage is multiplied, too, and dropped:
  /// whatever it is, it has been written.
  __device__ static void clear_stages(std::uint32_t base) {
#pragma unroll 1
    for (int at = static_cast<int>(threadIdx.x) * 16; at < shared.sums;
         at += in_registers::block_threads * 16)
      ptx::st_shared_v4(base + at, make_uint4(0, 0, 0, 0));
    ptx::fence_proxy_async_shared();
  }

  /// min(max(0, count), most), for numbers of groups.
  __device__ static std::uint32_t within(std::int64_t count, int most) {
    return static_cast<std::uint32_t>(count < 0 ? 0 : count < most ? count : most);
  }

  /// Lanes 0 to 2 copy a, this block's half of the weights, and with FP8 the factors of a.
  __device__ static void copy(const ProductArgs& args, std::uint32_t base, Ring ring) {
    const int lane = static_cast<int>(threadIdx.x & 31);
    const bool gated = args.output.gated != 0;
    const std::int64_t chunks = (args.k + chunk - 1) / chunk;
    const std::int64_t weight_groups = args.weight_groups;
    const std::uint32_t rank = blockIdx.x % cluster_blocks;
    Walk walk(args.rows, args.n, gated);
    in_registers::TilePlace at;
#pragma unroll 1
    for (std::uint32_t tile = blockIdx.x / cluster_blocks; walk.find(tile, at);
         tile += gridDim.x / cluster_blocks) {
      const std::int64_t groups = token_tiles::groups(at.rows.count);
      const std::int64_t tile_down = std::int64_t{at.tile_down} * cluster_blocks + rank;
      const std::int64_t group = tile_down * row_groups;
      const std::uint32_t rows = within(groups - group, row_groups);
      const std::int64_t first_group =
          args.rows.expert_rows == nullptr
              ? token_tiles::first_group(at.matrix, args.rows.m)
              : token_tiles::first_group_of_expert(at.matrix, at.rows.first);
      const std::int64_t first_place = first_group * chunks + group;
      const std::int64_t column = std::int64_t{at.column_tile} * column_groups;
      const std::uint32_t columns = within(weight_groups - column, column_groups);
      const std::uint32_t own_columns =
          within(weight_groups - column - rank * own_groups, own_groups);
      constexpr auto group_bytes = static_cast<std::uint32_t>(token_tiles::group_bytes);
      const char* from;
      std::int64_t step;
      std::uint32_t bytes, to;
      if (lane == 0) {
        from = static_cast<const char*>(args.a) + first_place * group_bytes;
        step = groups * group_bytes;
        bytes = rows * group_bytes;
        to = base;
      } else if (lane == 1) {
        from = static_cast<const char*>(args.b) +
               (at.matrix * chunks * weight_groups + column + rank * own_groups) * group_bytes;
        step = weight_groups * group_bytes;
        bytes = own_columns * group_bytes;
        to = base + a_bytes + rank * own_groups * group_bytes;
      } else {
        from = reinterpret_cast<const char*>(args.factors) + first_place * 32;
        step = groups * 32;
        bytes = rows * 32;
        to = base + shared.factors;
      }
      if (lane > (Element::fp8 ? 2 : 1)) bytes = 0;
      const std::uint32_t all_bytes =
          rows * (group_bytes + (Element::fp8 ? 32 : 0)) + columns * group_bytes;
      ring.wait_empty();
      if (lane == 0) {
        const std::int64_t before = tile_down * shape.rows;
        const std::int64_t row = (args.rows.expert_rows == nullptr ? 0 : at.rows.first) + before;
        const std::uint32_t where = place(base, ring.stage());
        ptx::st_shared_v4(
            where, make_uint4(at.matrix, at.column_tile, within(at.rows.count - before, shape.rows),
                              static_cast<std::uint32_t>(chunks)));
        ptx::st_shared_v4(where + 16, make_uint4(static_cast<std::uint32_t>(row),
                                                 static_cast<std::uint32_t>(row >> 32), 0, 0));
      }
#pragma unroll 1
      for (auto left = static_cast<std::uint32_t>(chunks); left > 0;
           --left, ring.next(), from += step) {
        ring.wait_empty();
        if (lane == 0) ptx::mbarrier_arrive_expect_tx(ring.full(), all_bytes);
        __syncwarp();
        const std::uint32_t own = to + ring.stage() * shared.stage_bytes;
        if (bytes == 0) continue;
        if (lane == 1)
          ptx::cp_async_bulk_shared_cluster_global_mbarrier_multicast(own, from, bytes, ring.full(),
                                                                      (1 << cluster_blocks) - 1);
        else
          ptx::cp_async_bulk_shared_cluster_global_mbarrier(own, from, bytes, ring.full());
      }
    }
    ring.wait_empty();
    if (lane == 0) {  // no chunks: the end
      ptx::st_shared_v4(place(base, ring.stage()), make_uint4(0, 0, 0, 0));
      ptx::mbarrier_arrive(ring.full());
    }
  }

  __device__ static void multiply(const Output<Element>& output, std::uint32_t base, Ring ring) {
    const std::uint32_t warp = threadIdx.x / 32;
    const Operands first(base);
    float d[shape.columns / 2];
#pragma unroll 1
    for (;;) {
      ring.wait_full();
      const uint4 where = ptx::ld_shared_v4(place(base, ring.stage()));
      const std::uint32_t chunks = __shfl_sync(0xFFFFFFFFu, where.w, 0);
      // By a vote, and no tile's sums become another's: so the ring stays in uniform registers.
      if (__any_sync(0xFFFFFFFFu, chunks == 0)) return;
      const uint4 row = ptx::ld_shared_v4(place(base, ring.stage()) + 16);
#pragma unroll
      for (float& x : d) x = 0.0f;
      if constexpr (Element::fp8)
        add_stages(first, base, ring, chunks, d);
      else
        add_steps(first, ring, chunks, d);
      output.store(base + shared.sums + warp * warp_sum_bytes, where,
                   static_cast<std::int64_t>(row.y) << 32 | row.x, d);
    }
  }

  /// A stage's two matrices, of which a warpgroup has 64 rows of a. Which of them by way of lane 0,
  /// so that what a whole warp shares is in uniform registers.
  struct Operands {
    std::uint64_t a, b;

    /// Of the first stage.
    __device__ explicit Operands(std::uint32_t base)
        : a(ptx::matrix_descriptor_rows128(base + __shfl_sync(0xFFFFFFFFu, threadIdx.x / 128, 0) *
                                                      (64 * 128))),
          b(ptx::matrix_descriptor_rows128(base + a_bytes)) {}
  };

  /// The four steps of stage `stage`, as one group.
  template <int Count>
  __device__ static void multiply_stage(const Operands& first, int stage, float (&d)[Count],
                                        bool add) {
    const std::uint64_t a = ptx::advance(first.a, stage * shared.stage_bytes),
                        b = ptx::advance(first.b, stage * shared.stage_bytes);
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; ++step)
      Element::multiply(d, ptx::advance(a, 32 * step), ptx::advance(b, 32 * step), add || step > 0);
    ptx::wgmma_commit_group();
  }

  template <int Count>
  __device__ static void add_steps(const Operands& first, Ring& ring, std::uint32_t chunks,
                                   float (&d)[Count]) {
    int before = 0;  // the stage of the chunk before
#pragma unroll 1
    for (std::uint32_t i = 0; i < chunks; ++i) {
      ring.wait_full();
      multiply_stage(first, ring.stage(), d, true);
      ptx::wgmma_wait_group<1>();
      ring.release(before, i > 0);
      before = ring.stage();
      ring.next();
    }
    ptx::wgmma_wait_group<0>();
    ptx::keep_in_place(d);
    ring.release(before, true);
  }

  template <int Count>
  __device__ static void add_stages(const Operands& first, std::uint32_t base, Ring& ring,
                                    std::uint32_t chunks, float (&d)[Count]) {
    float sums[Count];
    std::uint32_t row_factors[1] = {base + shared.factors +
                                    4 * (threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4)};
    ptx::keep_in_place(row_factors);
#pragma unroll 1
    for (std::uint32_t i = 0; i < chunks; ++i) {
      ring.wait_full();
      multiply_stage(first, ring.stage(), sums, false);
      const std::uint32_t factors = row_factors[0] + ring.stage() * shared.stage_bytes;
      const float factor = __uint_as_float(ptx::ld_shared_b32(factors)),
                  factor8 = __uint_as_float(ptx::ld_shared_b32(factors + 32));
      ptx::wgmma_wait_group<0>();
      ptx::keep_in_place(sums);
      ring.release(ring.stage(), true);
      ring.next();
#pragma unroll
      for (int j = 0; j < Count; ++j)
        d[j] = __fmaf_rn(sums[j], j / 2 % 2 == 0 ? factor : factor8, d[j]);
    }
  }
};

}  // namespace microscale::cuda::expanded
