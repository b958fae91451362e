// Products of MXFP4 weights and rows of MXFP4 on Hopper's FP8: as wide_product.cuh, but both
// operands are E5M2, exactly (fp8_window.cuh), and a step is 32 elements. The tensor cores keep 13
// bits behind the leading one of a sum, so a warpgroup takes sums of 128 elements out, multiplies
// them by their row of a's power of two and adds them to others in FP32, while the other
// warpgroup's products are under way. The weights' powers of two go to the finished sums.
//
// Two blocks of a cluster take neighbouring tiles along n, so the same rows of a: each copies half
// of them from the second-level cache, to both.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/ptx/wgmma_e5m2.cuh"
#include "cuda/tile/fp8_window.cuh"
#include "cuda/tile/wide_product.cuh"

namespace microscale::cuda {

class WideFp8 {
 public:
  static constexpr WideShape shape = fp8_shape;
  static constexpr Fp8Shared shared = fp8_shared();
  static constexpr int tokens = shape.tokens, weight_tiles = shape.rows / 16;
  static constexpr int a_bytes = tokens * 128;
  static constexpr int tile_bytes = fragment_tiles::tile_bytes(4, 32);

  __device__ static void run(const MatmulFp8Args& args) {
    extern __shared__ __align__(1024) unsigned char memory[];
    std::uint32_t address[1] = {static_cast<std::uint32_t>(__cvta_generic_to_shared(memory))};
    ptx::keep_in_place(address);
    const std::uint32_t base = address[0];
    if (args.product.partial) clear_stages(base);
    Ring ring(base + shared.barriers);
    if (threadIdx.x == 0) ring.init(8);
    ptx::barrier_cluster();
    follow_previous_grid();
    if (*args.misfits != 0) return;  // both blocks
    if (threadIdx.x >= 256) {
      ptx::setmaxnreg_dec<56>();
      if (threadIdx.x < 288) copy(args, base, ring);
    } else {
      ptx::setmaxnreg_inc<224>();
      multiply(args, base, ring);
    }
    ptx::barrier_cluster();  // the other block still frees stages of both
  }

 private:
  using Ring = StageRing<shared.stages, 2>;
  __device__ static std::uint32_t place(std::uint32_t base, int stage) {
    return base + shared.places + 32 * stage;
  }

  __device__ static void clear_stages(std::uint32_t base) {
#pragma unroll 1
    for (int stage = 0; stage < shared.stages; ++stage)
#pragma unroll 1
      for (int at = static_cast<int>(threadIdx.x) * 16; at < a_bytes + tokens * 4;
           at += wide_threads * 16)
        ptx::st_shared_v4(base + stage * shared.stage_bytes + at, make_uint4(0, 0, 0, 0));
    ptx::fence_proxy_async_shared();
  }

  /// A stage: a, its factors, then two chunks of 64 of each tile of the weights, the second one
  /// again where k ends with the first.
  __device__ static void copy(const MatmulFp8Args& all, std::uint32_t base, Ring ring) {
    const MatmulWideArgs& args = all.product;
    const int lane = static_cast<int>(threadIdx.x & 31);
    const bool gated = args.output.gated != 0;
    const std::int64_t tile_chunks = token_tiles::chunks(args.k);
    const auto chunks = static_cast<std::uint32_t>((tile_chunks + 1) / 2);
    const std::int64_t row_tiles = fragment_tiles::row_tiles(args.n, gated);
    WideWalk<2 * shape.rows, tokens> walk(args.rows, args.n, gated);
    WidePlace at;
    const std::uint32_t rank = blockIdx.x % 2;
#pragma unroll 1
    for (std::uint32_t tile = blockIdx.x / 2; walk.find(tile, at); tile += gridDim.x / 2) {
      at.column_tile = 2 * at.column_tile + rank;
      const std::int64_t groups = token_tiles::groups(at.rows.count);
      const std::int64_t group = std::int64_t{at.row_tile} * (tokens / 8);
      const std::int64_t own = groups - group < tokens / 8 ? groups - group : tokens / 8;
      const std::int64_t first_group =
          args.rows.offsets == nullptr
              ? token_tiles::first_group(at.matrix, args.rows.m)
              : token_tiles::first_group_of_expert(at.matrix, at.rows.first);
      const std::int64_t first_place = first_group * chunks + group;
      const char* from;
      std::int64_t step;
      std::int32_t last = 0;
      std::uint32_t bytes, to;
      if (lane < 2 * weight_tiles) {
        const std::int64_t wanted = std::int64_t{at.column_tile} * weight_tiles + lane / 2;
        const std::int64_t row_tile = wanted < row_tiles ? wanted : row_tiles - 1;
        from = reinterpret_cast<const char*>(args.b) + at.matrix * args.b_matrix +
               (row_tile * tile_chunks + lane % 2) * tile_bytes;
        step = 2 * tile_bytes;
        bytes = tile_bytes;
        to = base + a_bytes + tokens * 4 + lane * tile_bytes;
        if (lane % 2 != 0 && tile_chunks % 2 != 0) last = -tile_bytes;
      } else if (lane == 2 * weight_tiles) {
        constexpr std::int64_t half = tokens / 16;  // groups
        const std::int64_t mine = rank == 0 ? (own < half ? own : half) : own - half;
        from = static_cast<const char*>(args.tiles) +
               (first_place + rank * half) * token_tiles::group_bytes;
        step = groups * token_tiles::group_bytes;
        bytes = mine > 0 ? static_cast<std::uint32_t>(mine * token_tiles::group_bytes) : 0;
        to = base + rank * static_cast<std::uint32_t>(half * token_tiles::group_bytes);
      } else {
        from = reinterpret_cast<const char*>(all.factors + first_place * 8);
        step = groups * 32;
        bytes = static_cast<std::uint32_t>(own * 32);
        to = base + a_bytes;
      }
      const std::uint32_t all_bytes =
          static_cast<std::uint32_t>(own) *
              static_cast<std::uint32_t>(token_tiles::group_bytes + 32) +
          2 * weight_tiles * tile_bytes;
      ring.wait_empty();
      if (lane == 0) {
        const std::int64_t before = std::int64_t{at.row_tile} * tokens;
        const std::int64_t rows_left = at.rows.count - before;
        const std::int64_t row = (args.rows.offsets == nullptr ? 0 : at.rows.first) + before;
        const std::uint32_t where = place(base, ring.stage());
        ptx::st_shared_v4(
            where, make_uint4(at.matrix, at.column_tile,
                              static_cast<std::uint32_t>(rows_left < tokens ? rows_left : tokens),
                              chunks));
        ptx::st_shared_v4(where + 16, make_uint4(static_cast<std::uint32_t>(row),
                                                 static_cast<std::uint32_t>(row >> 32), 0, 0));
      }
#pragma unroll 1
      for (std::uint32_t left = chunks; left > 0; --left, ring.next(), from += step) {
        ring.wait_empty();
        if (lane == 0) ptx::mbarrier_arrive_expect_tx(ring.full(), all_bytes);
        __syncwarp();
        if (lane == 2 * weight_tiles) {
          if (bytes > 0)
            ptx::cp_async_bulk_shared_cluster_global_mbarrier_multicast(
                to + ring.stage() * shared.stage_bytes, from, bytes, ring.full(), 3);
        } else if (lane <= 2 * weight_tiles + 1)
          ptx::cp_async_bulk_shared_cluster_global_mbarrier(to + ring.stage() * shared.stage_bytes,
                                                            left == 1 ? from + last : from, bytes,
                                                            ring.full());
      }
    }
    ring.wait_empty();
    if (lane == 0) {  // no rows: the end
      ptx::st_shared_v4(place(base, ring.stage()), make_uint4(0, 0, 0, 0));
      ptx::mbarrier_arrive(ring.full());
    }
  }

  /// Eight codes of a lane, four of row g and four of row g + 8, to a register of A each.
  __device__ static void decode(std::uint32_t codes, E5m2Table row, E5m2Table row8,
                                std::uint32_t& a, std::uint32_t& a8) {
    const std::uint32_t index = (codes >> 1 & 0x07070707u) | (codes & 0x70707070u);
    const std::uint32_t high = codes << 7;
    const std::uint32_t signs = ptx::prmt_b32(codes, high, 0x5140) & 0x80808080u;
    const std::uint32_t signs8 = ptx::prmt_b32(codes, high, 0x7362) & 0x80808080u;
    a = ptx::prmt_b32(row.low, row.high, index) | signs;
    a8 = ptx::prmt_b32(row8.low, row8.high, index >> 16) | signs8;
  }

  __device__ static void multiply(const MatmulFp8Args& all, std::uint32_t base, Ring ring) {
    const std::uint32_t lane = threadIdx.x & 31;
    const std::uint32_t weights = base + a_bytes + tokens * 4 + threadIdx.x / 32 * 2 * tile_bytes;
    float d[tokens / 2], sums[tokens / 2];
#pragma unroll 1
    for (;;) {
      ring.wait_full();
      const std::uint32_t chunks = keep_place(base, ring.stage());
      if (chunks == 0) return;
      const Factors own = factors_of(all, base);
      const E5m2Table table = e5m2_table_base(own.row), table8 = e5m2_table_base(own.row8);
#pragma unroll
      for (float& x : d) x = 0.0f;
#pragma unroll 1
      for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
        ring.wait_full();
        const std::uint32_t stage = ring.stage() * shared.stage_bytes;
        const std::uint64_t descriptor = ptx::matrix_descriptor_rows128(base + stage);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t tile = weights + stage + half * tile_bytes;
          const uint4 codes = ptx::ld_shared_v4(tile + 16 * lane);
          const std::uint32_t scales = ptx::ld_shared_b32(tile + 512 + lane / 4 * 4);
#pragma unroll
          for (int block = 0; block < 2; ++block) {
            const E5m2Table row = e5m2_table(table, scales >> (16 * block) & 0xFFu);
            const E5m2Table row8 = e5m2_table(table8, scales >> (16 * block + 8) & 0xFFu);
            std::uint32_t a[4];
            decode(word_of(codes, 2 * block), row, row8, a[0], a[1]);
            decode(word_of(codes, 2 * block + 1), row, row8, a[2], a[3]);
            ptx::keep_in_place(a);
            ptx::wgmma_fence();
            ptx::wgmma_m64n192k32_f32_e5m2_e5m2(
                sums, a, ptx::advance(descriptor, 64 * half + 32 * block), half + block > 0);
            ptx::wgmma_commit_group();
          }
        }
        ptx::wgmma_wait_group<0>();
        ptx::keep_in_place(sums);
        const std::uint32_t factors = base + stage + a_bytes + lane % 4 * 8;
#pragma unroll
        for (int i = 0; i < tokens / 2; i += 4) {
          const uint2 pair = ptx::ld_shared_v2(factors + 8 * i);
          const float first = __uint_as_float(pair.x), second = __uint_as_float(pair.y);
          d[i] = __fmaf_rn(sums[i], first, d[i]);
          d[i + 1] = __fmaf_rn(sums[i + 1], second, d[i + 1]);
          d[i + 2] = __fmaf_rn(sums[i + 2], first, d[i + 2]);
          d[i + 3] = __fmaf_rn(sums[i + 3], second, d[i + 3]);
        }
        ring.release(ring.stage(), true);
        ring.next();
      }
      finish(all, base, d);
    }
  }

  /// Puts the place of the tile that begins with this stage where the warp finds it again, when the
  /// stage is somebody else's; returns the tile's chunks, 0 behind the last one.
  __device__ static std::uint32_t keep_place(std::uint32_t base, int stage) {
    const std::uint32_t kept = base + shared.kept + threadIdx.x / 32 * 32;
    const uint4 where = ptx::ld_shared_v4(place(base, stage));
    __syncwarp();  // all lanes are through with the last one
    if (threadIdx.x % 32 == 0 && where.z != 0) {
      ptx::st_shared_v4(kept, where);
      ptx::st_shared_v4(kept + 16, ptx::ld_shared_v4(place(base, stage) + 16));
    }
    __syncwarp();
    return where.z == 0 ? 0 : where.w;
  }

  /// The references of this thread's rows of the weights. Rows behind the last are the last.
  struct Factors {
    std::uint32_t row, row8;
  };
  __device__ static Factors factors_of(const MatmulFp8Args& all, std::uint32_t base) {
    const uint4 where = ptx::ld_shared_v4(base + shared.kept + threadIdx.x / 32 * 32);
    const std::int64_t row_tiles =
        fragment_tiles::row_tiles(all.product.n, all.product.output.gated != 0);
    std::int64_t row_tile = std::int64_t{where.y} * weight_tiles + threadIdx.x / 32;
    if (row_tile >= row_tiles) row_tile = row_tiles - 1;
    const std::uint8_t* references =
        all.references + (where.x * row_tiles + row_tile) * 16 + threadIdx.x % 32 / 4;
    return {references[0], references[8]};
  }

  __device__ static void finish(const MatmulFp8Args& all, std::uint32_t base,
                                const float (&d)[tokens / 2]) {
    const MatmulWideArgs& args = all.product;
    const std::uint32_t kept = base + shared.kept + threadIdx.x / 32 * 32;
    const uint4 where = ptx::ld_shared_v4(kept), row = ptx::ld_shared_v4(kept + 16);
    const Factors own = factors_of(all, base);
    const std::uint32_t warpgroup = threadIdx.x / 128;
    const std::uint32_t own_sums = base + shared.sums + warpgroup * shared.sum_bytes;
    const ProductFactors factors = product_factors(args.output, where.x);
    WideTileOutput tile{
        .matrix = where.x,
        .row = static_cast<std::int64_t>(row.y) << 32 | row.x,
        .column = (std::int64_t{where.y} * 2 + warpgroup) * (args.output.gated ? 32 : 64),
        .tokens = 0,
        .vectors = args.vectors != 0};
    const auto store = [&](auto first) {
      const int left = static_cast<int>(where.z) - 2 * first;
      stage_sums<first, tokens / 4>(d, fp8_factor(own.row), fp8_factor(own.row8), own_sums);
      ptx::bar_sync(1 + warpgroup, 128);
      tile.tokens = left < 0 ? 0 : left < tokens / 2 ? left : tokens / 2;
      store_staged(args.output, factors, tile, args.n, own_sums);
      ptx::bar_sync(1 + warpgroup, 128);
      tile.row += tokens / 2;
    };
    store(std::integral_constant<int, 0>{});
    store(std::integral_constant<int, tokens / 4>{});
  }
};

}  // namespace microscale::cuda
