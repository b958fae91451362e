// Products of MXFP4 weights and rows of MXFP4 on Hopper's FP8: as wide_product.cuh, but both operands
// are E5M2, exactly (fp8_window.cuh), and a step is 32 elements. The tensor cores keep 13 bits behind
// the leading one of a sum, so a warpgroup takes sums of 128 elements out, multiplies them by their
// row of a's power of two and adds them to others in FP32, while the other warpgroup's products are
// under way. The weights' powers of two go to the finished sums.
#pragma once

#include <cstdint>

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
    const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
    if (args.product.partial) clear_stages(base);
    Ring ring(base + shared.barriers);
    if (threadIdx.x == 0) ring.init(8);
    __syncthreads();
    follow_previous_grid();
    if (*args.misfits != 0) return;
    if (threadIdx.x >= 256) {
      ptx::setmaxnreg_dec<56>();
      if (threadIdx.x < 288) copy(args, base, ring);
    } else {
      ptx::setmaxnreg_inc<224>();
      multiply(args, base, ring);
    }
  }

 private:
  using Ring = StageRing<shared.stages>;
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
    const std::int64_t tile_chunks = token_tiles::chunks(args.k), chunks = (tile_chunks + 1) / 2;
    const std::int64_t row_tiles = fragment_tiles::row_tiles(args.n, gated);
    WideWalk<shape.rows, shape.tokens> walk(args.rows, args.n, gated);
    WidePlace at;
#pragma unroll 1
    for (std::int64_t tile = blockIdx.x; walk.find(tile, at); tile += gridDim.x) {
      const std::int64_t groups = token_tiles::groups(at.rows.count);
      const std::int64_t group = at.row_tile * (tokens / 8);
      const std::int64_t own = groups - group < tokens / 8 ? groups - group : tokens / 8;
      const std::int64_t first_group =
          args.rows.offsets == nullptr ? token_tiles::first_group(at.matrix, args.rows.m)
                                       : token_tiles::first_group_of_expert(at.matrix, at.rows.first);
      const std::int64_t first_place = first_group * chunks + group;
      const char* from;
      std::int64_t step, last = 0;
      std::uint32_t bytes, to;
      if (lane < 2 * weight_tiles) {
        const std::int64_t wanted = at.column_tile * weight_tiles + lane / 2;
        const std::int64_t row_tile = wanted < row_tiles ? wanted : row_tiles - 1;
        from = reinterpret_cast<const char*>(args.b) + at.matrix * args.b_matrix +
               (row_tile * tile_chunks + lane % 2) * tile_bytes;
        step = 2 * tile_bytes;
        bytes = tile_bytes;
        to = base + a_bytes + tokens * 4 + lane * tile_bytes;
        if (lane % 2 != 0 && tile_chunks % 2 != 0) last = -tile_bytes;
      } else if (lane == 2 * weight_tiles) {
        from = static_cast<const char*>(args.tiles) + first_place * token_tiles::group_bytes;
        step = groups * token_tiles::group_bytes;
        bytes = static_cast<std::uint32_t>(own * token_tiles::group_bytes);
        to = base;
      } else {
        from = reinterpret_cast<const char*>(all.factors + first_place * 8);
        step = groups * 32;
        bytes = static_cast<std::uint32_t>(own * 32);
        to = base + a_bytes;
      }
      const std::int64_t rows_left = at.rows.count - at.row_tile * tokens;
#pragma unroll 1
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk, ring.next(), from += step) {
        ring.wait_empty();
        if (lane == 0) {
          if (chunk == 0) {
            const std::int64_t row =
                (args.rows.offsets == nullptr ? 0 : at.rows.first) + at.row_tile * tokens;
            const std::uint32_t where = place(base, ring.stage());
            ptx::st_shared_v4(
                where,
                make_uint4(static_cast<std::uint32_t>(at.matrix),
                           static_cast<std::uint32_t>(at.column_tile),
                           static_cast<std::uint32_t>(rows_left < tokens ? rows_left : tokens),
                           static_cast<std::uint32_t>(chunks)));
            ptx::st_shared_v4(where + 16, make_uint4(static_cast<std::uint32_t>(row),
                                                     static_cast<std::uint32_t>(row >> 32), 0, 0));
          }
          ptx::mbarrier_arrive_expect_tx(
              ring.full(), static_cast<std::uint32_t>(own) * (token_tiles::group_bytes + 32) +
                               2 * weight_tiles * tile_bytes);
        }
        __syncwarp();
        if (lane <= 2 * weight_tiles + 1)
          ptx::cp_async_bulk_shared_cluster_global_mbarrier(
              to + ring.stage() * shared.stage_bytes, chunk + 1 == chunks ? from + last : from,
              bytes, ring.full());
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
    const MatmulWideArgs& args = all.product;
    const std::uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32 % 4;
    const std::uint32_t warpgroup = threadIdx.x / 128;
    const std::uint32_t own_sums = base + shared.sums + warpgroup * shared.sum_bytes;
    const std::uint32_t own_tile = warpgroup * 4 + warp;
    const std::uint32_t weights = base + a_bytes + tokens * 4 + own_tile * 2 * tile_bytes;
    const std::int64_t row_tiles = fragment_tiles::row_tiles(args.n, args.output.gated != 0);
    float d[tokens / 2], sums[tokens / 2];
#pragma unroll 1
    for (;;) {
      ring.wait_full();
      const uint4 where = ptx::ld_shared_v4(place(base, ring.stage()));
      if (where.z == 0) return;
      const uint4 row = ptx::ld_shared_v4(place(base, ring.stage()) + 16);
      std::int64_t row_tile = std::int64_t{where.y} * weight_tiles + own_tile;
      if (row_tile >= row_tiles) row_tile = row_tiles - 1;  // as its codes
      const std::uint8_t* references =
          all.references + (where.x * row_tiles + row_tile) * 16 + lane / 4;
      const std::uint32_t reference = references[0], reference8 = references[8];
      const E5m2Table table = e5m2_table_base(reference), table8 = e5m2_table_base(reference8);
#pragma unroll
      for (float& x : d) x = 0.0f;
#pragma unroll 1
      for (std::uint32_t chunk = 0; chunk < where.w; ++chunk) {
        if (chunk > 0) ring.wait_full();
        const std::uint32_t stage = ring.stage() * shared.stage_bytes;
        const std::uint64_t descriptor = ptx::matrix_descriptor_rows128(base + stage);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const std::uint32_t tile = weights + stage + half * tile_bytes;
          const uint4 codes = ptx::ld_shared_v4(tile + 16 * lane);
          const std::uint32_t scales = ptx::ld_shared_b32(tile + 512 + lane / 4 * 4);
#pragma unroll
          for (int block = 0; block < 2; ++block) {
            const E5m2Table own = e5m2_table(table, scales >> (16 * block) & 0xFFu);
            const E5m2Table own8 = e5m2_table(table8, scales >> (16 * block + 8) & 0xFFu);
            std::uint32_t a[4];
            decode(word_of(codes, 2 * block), own, own8, a[0], a[1]);
            decode(word_of(codes, 2 * block + 1), own, own8, a[2], a[3]);
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
      const ProductFactors factors = product_factors(args.output, where.x);
      WideTileOutput tile{.matrix = where.x,
                          .row = static_cast<std::int64_t>(row.y) << 32 | row.x,
                          .column = (std::int64_t{where.y} * 2 + warpgroup) *
                                    (args.output.gated ? 32 : 64),
                          .tokens = 0,
                          .vectors = args.vectors != 0};
      const auto store = [&](auto first) {
        const int left = static_cast<int>(where.z) - 2 * first;
        stage_sums<first, tokens / 4>(d, fp8_factor(reference), fp8_factor(reference8), own_sums);
        ptx::bar_sync(1 + warpgroup, 128);
        tile.tokens = left < 0 ? 0 : left < tokens / 2 ? left : tokens / 2;
        store_staged(args.output, factors, tile, args.n, own_sums);
        ptx::bar_sync(1 + warpgroup, 128);
        tile.row += tokens / 2;
      };
      store(std::integral_constant<int, 0>{});
      store(std::integral_constant<int, tokens / 4>{});
    }
  }
};

}  // namespace microscale::cuda
