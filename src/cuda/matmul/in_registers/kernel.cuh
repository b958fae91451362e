// Products of packed weights and many rows of a on Hopper: the transposed product, so that the
// weights are the operand that wgmma takes from registers, where they are decoded, and a, 16 bits
// an element, is read from shared memory as it is.
//
// A block stays on its multiprocessor and takes tile after tile of d (walk.cuh). One warp
// copies chunks of 64 elements of k, of both operands, into a ring of stages: linear bulk copies
// that end in a stage's `full` barrier. Two or four warpgroups, each with its part of the rows of
// the weights and all Tokens rows of a, decode two steps of 16 elements into four registers each
// while the tensor cores multiply the two before (GroupStages in stages.cuh; where Tokens are few,
// warp by warp: WarpStages there), and free a stage through its `empty` barrier. The
// copying warp runs ahead into the next tile while this one's sums are stored (store.cuh).
//
// Weights that are not packed (unpacked.cuh) are brought by two more warps, piece by piece.
//
// Where whole tiles would leave multiprocessors idle, tiles are cut into ranges of k
// (args.hpp), and a block has units, ranges or whole tiles, one after the other
// (walk.cuh). The sums of ranges go to memory, and the block that has a tile's last range
// adds them to its own (sums.cuh). Where all tiles have equally many ranges, an even number, pairs
// of these exchange halves of their sums in a cluster first (sums.cuh). The first unit is found
// before the grid in front has ended; of constant weights, which no kernel in flight writes, half a
// ring is asked for, too, of unpacked ones a whole ring.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/async_copy.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "cuda/matmul/in_registers/walk.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/block/stage_ring.cuh"
#include "cuda/matmul/in_registers/sums.cuh"
#include "cuda/matmul/in_registers/unpacked.cuh"
#include "cuda/matmul/in_registers/store.cuh"
#include "cuda/matmul/in_registers/stages.cuh"
#include "cuda/matmul/in_registers/weights.cuh"

namespace microscale::cuda::in_registers {

template <class Weights, int Rows, int Tokens>
class TileProduct {
 public:
  static constexpr TileShape shape = tile_shape(Rows, Tokens);
  using Stages = std::conditional_t<shape.by_warps(), WarpStages<Weights, Rows, Tokens>,
                                    GroupStages<Weights, Rows, Tokens>>;
  static constexpr SharedLayout shared = Stages::shared;
  static constexpr int warpgroups = shape.warpgroups;  // that multiply
  static constexpr int parts = Stages::parts;     // 64 rows of the weights each, of a warpgroup
  static constexpr int weight_tiles = Rows / 16;  // of a stage
  static constexpr int multiplying_threads = 128 * warpgroups;
  static constexpr int stage_chunks = Stages::stage_chunks;
  static constexpr int a_bytes = Stages::a_bytes, weight_bytes = Stages::weight_bytes;
  static constexpr std::uint32_t prefetched = 4;  // chunks: as measured, no more, no fewer
  static constexpr std::uint32_t multiplying_barrier = 13;  // the warpgroups' are 1 and up
  static constexpr bool unpacked = Weights::unpacked;
  static_assert((parts == 1 || parts == 2) && weight_tiles < 32,
                "a warpgroup has one or two accumulators, the copying warp a lane for each tile");
  static_assert(shared.stages >= 3 && shared.bytes <= most_shared_bytes, "shared memory is short");

  __device__ static void run(const Args& args) {
    extern __shared__ __align__(1024) unsigned char memory[];
    // By way of lane 0, or it would be made anew in every loop.
    const auto base =
        __shfl_sync(0xFFFFFFFFu, static_cast<std::uint32_t>(__cvta_generic_to_shared(memory)), 0);
    if (args.partial) clear_stages(base);
    Ring ring(__shfl_sync(0xFFFFFFFFu, base + shared.barriers, 0));
    if (threadIdx.x < 32) {
      if (threadIdx.x == 0) {
        if (!unpacked) ptx::prefetch_tensormap(args.weights);
        if (args.tiles == nullptr) ptx::prefetch_tensormap(args.dense);
        if (shape.has_pairs() && args.cut.paired) Pair(base + shared.pairs).init();
        ring.init(4 * warpgroups, unpacked ? 1 + loading_threads : 1);
      }
      __syncwarp();
      CopyStart::tell();
      if constexpr (unpacked) LoadStart::tell();
    }
    if (threadIdx.x >= multiplying_threads) {
      ptx::setmaxnreg_dec<shape.copying_registers()>();
      if (shape.has_pairs() && args.cut.paired) Pair::arrive();
      const std::uint32_t loading = threadIdx.x - multiplying_threads - 32;
      if (threadIdx.x < multiplying_threads + 32)
        copy(args, base, ring);
      else if (unpacked && loading < loading_threads)
        load_unpacked_weights<Rows, Tokens, Weights>(args, base, loading, ring);
      if (shape.has_pairs() && args.cut.paired) Pair::meet();
    } else {
      ptx::bar_sync(multiplying_barrier, multiplying_threads);
      if (shape.has_pairs() && args.cut.paired) Pair::arrive();
      follow_previous_grid();
      ptx::setmaxnreg_inc<shape.multiplying_registers()>();
      multiply(args, base, ring);
    }
  }

 private:
  using Ring = typename Stages::Ring;
  using CopyStart = BlockStart<15, 32>;
  using Pair = BlockPair<warpgroups, Tokens / 2>;

  __device__ static std::uint32_t place(std::uint32_t base, int stage) {
    return base + shared.places + 32 * stage;
  }

  /// Where a tile of d has fewer rows than the stage, what is left is multiplied, too, and dropped:
  /// whatever it is, it has been written.
  __device__ static void clear_stages(std::uint32_t base) {
#pragma unroll 1
    for (int stage = 0; stage < shared.stages; ++stage)
#pragma unroll 1
      for (int at = static_cast<int>(threadIdx.x) * 16; at < shared.stage_bytes;
           at += shape.threads() * 16)
        ptx::st_shared_v4(base + stage * shared.stage_bytes + at, make_uint4(0, 0, 0, 0));
    ptx::fence_proxy_async_shared();
    __syncthreads();
  }

  /// While the grid in front ends: asks for half a ring of the first unit's weights, if they
  /// are constant; if a kernel in flight may write them, brings them to the second-level cache,
  /// whose copies will see it all the same. The chunk behind the last one that is on its way to its
  /// stage.
  __device__ static std::uint32_t begin_early(const Args& args, std::uint32_t base, Ring ring,
                                              const TileUnit& unit, std::uint32_t token_bytes) {
    const std::uint32_t ahead = args.constant != 0
                                    ? static_cast<std::uint32_t>(shared.stages / 2 * stage_chunks)
                                    : prefetched;
    const std::uint32_t end = min(unit.end, unit.first + ahead);
    if (ptx::elect_sync()) {
#pragma unroll 1
      for (std::uint32_t chunk = unit.first; chunk < end; chunk += stage_chunks, ring.next()) {
        const auto row_tile = static_cast<std::int32_t>(unit.place.column_tile * weight_tiles),
                   matrix = static_cast<std::int32_t>(unit.place.matrix),
                   k = static_cast<std::int32_t>(chunk);
        if (args.constant != 0)
          begin_stage(args, base, ring, unit, chunk, token_bytes);
        else
          prefetch_weights(args.weights, k, row_tile, matrix, unit);
      }
    }
    __syncwarp();
    return args.constant != 0 ? end : unit.first;
  }
  // Weights that one tile of rows reads leave the second-level cache before what the kernels beside
  // this one read again and again, their code above all; others are read again themselves. Tiles of
  // many rows have no registers for a policy, and products to wait for.
  static constexpr bool has_policy = Tokens <= 64;

  __device__ static std::uint64_t weight_policy(const TileUnit& unit) {
    return unit.place.rows.count <= Tokens ? ptx::createpolicy_fractional_l2_evict_first()
                                           : ptx::createpolicy_fractional_l2_evict_normal();
  }
  __device__ static void prefetch_weights(const TensorMap& weights, std::int32_t k,
                                          std::int32_t row_tile, std::int32_t matrix,
                                          const TileUnit& unit) {
    if constexpr (has_policy)
      ptx::cp_async_bulk_prefetch_tensor_4d_l2_global_l2_cache_hint(weights, 0, k, row_tile, matrix,
                                                                    weight_policy(unit));
    else
      ptx::cp_async_bulk_prefetch_tensor_4d_l2_global(weights, 0, k, row_tile, matrix);
  }
  __device__ static void copy_weights(std::uint32_t to, const TensorMap& weights, std::int32_t k,
                                      std::int32_t row_tile, std::int32_t matrix,
                                      std::uint32_t barrier, const TileUnit& unit) {
    if constexpr (has_policy)
      ptx::cp_async_bulk_tensor_4d_shared_cluster_global_mbarrier_l2_cache_hint(
          to, weights, 0, k, row_tile, matrix, barrier, weight_policy(unit));
    else
      ptx::cp_async_bulk_tensor_4d_shared_cluster_global_mbarrier(to, weights, 0, k, row_tile,
                                                                  matrix, barrier);
  }

  /// One lane: how much will come to a stage, and its weights.
  __device__ static void begin_stage(const Args& args, std::uint32_t base, const Ring& ring,
                                     const TileUnit& unit, std::uint32_t chunk,
                                     std::uint32_t token_bytes) {
    const bool whole = chunk + stage_chunks <= unit.end;
    ptx::mbarrier_arrive_expect_tx(
        ring.full(), (unpacked ? 0 : weight_bytes) + (whole ? stage_chunks : 1) * token_bytes);
    if constexpr (!unpacked)
      copy_weights(base + shared.weights + ring.stage() * weight_bytes, args.weights,
                   static_cast<std::int32_t>(chunk),
                   static_cast<std::int32_t>(unit.place.column_tile * weight_tiles),
                   static_cast<std::int32_t>(unit.place.matrix), ring.full(), unit);
  }

  __device__ static void copy(const Args& args, std::uint32_t base, Ring ring) {
    const auto chunks = static_cast<std::uint32_t>(token_tiles::chunks(args.k));
    TileUnits<Weights, Rows, Tokens> units(args);
    TileUnit unit;
    CopyStart start;
    bool early = !unpacked && args.rows.expert_rows == nullptr;
#pragma unroll 1
    while (units.next(unit)) {
      const TilePlace& at = unit.place;
      const std::int64_t groups = token_tiles::groups(at.rows.count);
      const std::int64_t group = std::int64_t{at.tile_down} * (Tokens / 8);
      const std::int64_t own = groups - group < Tokens / 8 ? groups - group : Tokens / 8;
      const std::int64_t first_group =
          args.rows.expert_rows == nullptr
              ? token_tiles::first_group(at.matrix, args.rows.m)
              : token_tiles::first_group_of_expert(at.matrix, at.rows.first);
      const std::int64_t step = groups * token_tiles::group_bytes;
      const char* tokens = static_cast<const char*>(args.tiles) +
                           (first_group * chunks + group) * token_tiles::group_bytes +
                           unit.first * step;
      const bool dense = args.tiles == nullptr;
      const auto token_bytes =
          static_cast<std::uint32_t>(dense ? a_bytes : own * token_tiles::group_bytes);
      const auto first_row =
          static_cast<std::int32_t>(at.rows.first + std::int64_t{at.tile_down} * Tokens);
      start.meet();
      ring.wait_empty();
      if (ptx::elect_sync()) {  // the lane that copies
        const std::int64_t before = std::int64_t{at.tile_down} * Tokens;
        const std::int64_t rows_left = at.rows.count - before;
        const std::int64_t row = (args.rows.expert_rows == nullptr ? 0 : at.rows.first) + before;
        const std::uint32_t where = place(base, ring.stage());
        ptx::st_shared_v4(
            where, make_uint4(at.matrix, at.column_tile,
                              static_cast<std::uint32_t>(rows_left < Tokens ? rows_left : Tokens),
                              unit.end - unit.first));
        ptx::st_shared_v4(where + 16, make_uint4(static_cast<std::uint32_t>(row),
                                                 static_cast<std::uint32_t>(row >> 32),
                                                 unit.first_block, unit.range | unit.ranges << 16));
      }
      std::uint32_t asked = unit.first;  // weights up to here
      if constexpr (!unpacked)
        if (early) asked = begin_early(args, base, ring, unit, token_bytes);
      early = false;
      follow_previous_grid();
#pragma unroll 1
      for (std::uint32_t at_chunk = unit.first; at_chunk < unit.end;
           at_chunk += stage_chunks, ring.next()) {
        ring.wait_empty();
        if (ptx::elect_sync()) {
          if (at_chunk >= asked) begin_stage(args, base, ring, unit, at_chunk, token_bytes);
          std::uint32_t to = base + ring.stage() * shared.stage_bytes;
#pragma unroll
          for (int i = 0; i < stage_chunks; ++i, to += a_bytes) {
            if (i > 0 && at_chunk + stage_chunks > unit.end) break;
            if (dense)
              ptx::cp_async_bulk_tensor_2d_shared_cluster_global_mbarrier(
                  to, args.dense, static_cast<std::int32_t>(64 * (at_chunk + i)), first_row,
                  ring.full());
            else
              ptx::cp_async_bulk_shared_cluster_global_mbarrier(to, tokens + i * step, token_bytes,
                                                                ring.full());
          }
        }
        tokens += stage_chunks * step;
        __syncwarp();
      }
    }
    start.meet();
    ring.wait_empty();
    if (ptx::elect_sync()) {  // no rows: the end
      ptx::st_shared_v4(place(base, ring.stage()), make_uint4(0, 0, 0, 0));
      ptx::st_shared_v4(place(base, ring.stage()) + 16, make_uint4(0, 0, 0, 0));  // read as well
      ptx::mbarrier_arrive(ring.full());
    }
  }

  __device__ static void multiply(const Args& args, std::uint32_t base, Ring ring) {
    const std::uint32_t warpgroup = threadIdx.x / 128;
    const std::uint32_t sums = base + shared.sums + warpgroup * shared.sum_bytes;
    const Stages stages(base);
    float d[Tokens / 2];  // of the first 64 rows
    typename Stages::Others d64;
#pragma unroll 1
    for (;;) {
      ring.wait_full();
      // In this order: when the second has come, so has the first, long before the place is
      // another's.
      const uint4 row = ptx::ld_shared_v4(place(base, ring.stage()) + 16);
      const uint4 where = ptx::ld_shared_v4(place(base, ring.stage()));
      if (where.z == 0) return;
      const std::uint32_t chunks = __shfl_sync(0xFFFFFFFFu, where.w, 0);
      // Zeros, so that no tile's sums begin where another's have been moved to.
#pragma unroll
      for (float& sum : d) sum = 0.0f;
#pragma unroll
      for (float& sum : d64) sum = 0.0f;
      [[maybe_unused]] const int before =
          stages.template multiply<Tokens>(where.z, chunks, ring, d, d64);
      if constexpr (!shape.by_warps()) {
        ptx::wgmma_wait_group<0>();
        ring.release(before, true);
      }
      const ProductFactors factors = product_factors(args.output, where.x);
      ptx::keep_in_place(d);
      if constexpr (parts == 2) ptx::keep_in_place(d64);
      TileOutput tile{.matrix = where.x,
                      .row = static_cast<std::int64_t>(row.y) << 32 | row.x,
                      .column = 0,
                      .tokens = static_cast<int>(where.z),
                      .vectors = args.vectors != 0};
      const std::int64_t unit = std::int64_t{where.y} * (Rows / 64) + warpgroup * parts;
      const int columns = args.output.gated ? 32 : 64;
      constexpr std::int64_t apart = Rows * Tokens;
      if constexpr (shape.has_pairs())
        if (args.cut.paired) {
          const std::uint32_t own = blockIdx.x % 2, block = row.z + own;
          float half[Pair::half];
          Pair(base + shared.pairs).exchange(d, own, sums + shared.sum_bytes / 2, half);
          const std::uint32_t ranges = row.w >> 17, range = (row.w & 0xFFFF) / 2;
          if (ranges > 1) {
            float* sums_of_tile =
                args.sums + block * apart + warpgroup * (Rows * Tokens / warpgroups);
            const TicketFlags flags(args.flags + warpgroups * block + warpgroup, 2 * warpgroups,
                                    args.ticket);
            if (range + 1 < ranges) {
              put_sums(half, sums_of_tile + 2 * range * apart);
              announce_sums(flags, range);
              continue;
            }
            await_sums(flags, ranges - 1);
            add_sums(half, sums_of_tile, 2 * apart, ranges - 1);
          }
          tile.row += own * (Tokens / 2);
          tile.tokens = min(max(tile.tokens - static_cast<int>(own) * (Tokens / 2), 0), Tokens / 2);
          tile.column = unit * columns;
          store(args, factors, tile, half, sums);
          continue;
        }
      if (const std::uint32_t ranges = row.w >> 16, range = row.w & 0xFFFF; ranges > 1) {
        float* sums_of_tile = args.sums + row.z * apart + warpgroup * (Rows * Tokens / warpgroups);
        const TicketFlags flags(args.flags + warpgroups * row.z + warpgroup, warpgroups,
                                args.ticket);
        if (range + 1 < ranges) {
          put_sums(d, sums_of_tile + range * apart);
          if constexpr (parts == 2) put_sums(d64, sums_of_tile + range * apart + 64 * Tokens);
          announce_sums(flags, range);
          continue;
        }
        await_sums(flags, ranges - 1);
        add_sums(d, sums_of_tile, apart, ranges - 1);
        if constexpr (parts == 2) add_sums(d64, sums_of_tile + 64 * Tokens, apart, ranges - 1);
      }
      tile.column = unit * columns;
      store(args, factors, tile, d, sums);
      tile.column += columns;
      if constexpr (parts == 2) store(args, factors, tile, d64, sums);
    }
  }

  template <int Count>
  __device__ static void store(const Args& args, const ProductFactors& factors,
                               const TileOutput& tile, const float (&d)[Count],
                               std::uint32_t sums) {
    if (!is_rounded(args.output, tile, args.n))
      store_part<0>(args, factors, tile, d, sums);
    else if (static_cast<DType>(args.output.d_type) == DType::f16)
      store_rounded<true>(args.output, factors.sum, Weights::sum_factor, tile, d, sums);
    else
      store_rounded<false>(args.output, factors.sum, Weights::sum_factor, tile, d, sums);
  }

  /// 64 rows of the weights: accumulators from `First` on, as many tokens at once as are staged.
  template <int First, int Count>
  __device__ static void store_part(const Args& args, const ProductFactors& factors,
                                    TileOutput tile, const float (&d)[Count], std::uint32_t sums) {
    constexpr int staged = shape.staged_tokens() < 2 * Count ? shape.staged_tokens() : 2 * Count;
    const std::uint32_t barrier = 1 + threadIdx.x / 128;
    stage_sums<First, staged / 2>(d, Weights::sum_factor, Weights::sum_factor, sums);
    ptx::bar_sync(barrier, 128);
    const int left = tile.tokens;
    if (staged < 2 * Count && left > staged) tile.tokens = staged;
    store_staged(args.output, factors, tile, args.n, sums);
    ptx::bar_sync(barrier, 128);
    if constexpr (First + staged / 2 < Count) {
      if (left <= staged) return;
      tile.row += staged;
      tile.tokens = left - staged;
      store_part<First + staged / 2>(args, factors, tile, d, sums);
    }
  }
};

}  // namespace microscale::cuda::in_registers
