// MXFP4 made ready for products in FP8: the weights' windows, and rows of a as E5M2
// (fp8_window.cuh).
#pragma once

#include <cstdint>

#include "cuda/tile/fp8_window.cuh"
#include "cuda/tile/prepare_tiles.cuh"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda {

/// A thread block's warps share the chunks of a tile of 16 rows.
__device__ inline void find_windows(const Fp8WindowArgs& args) {
  __shared__ ScaleSpan spans[8][16];
  follow_previous_grid();
  constexpr int tile_bytes = fragment_tiles::tile_bytes(4, 32);
  const std::uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  for (std::int64_t matrix = blockIdx.y; matrix < args.matrices; matrix += gridDim.y) {
    const std::uint8_t* tiles =
        args.b + matrix * args.b_matrix + blockIdx.x * args.chunks * tile_bytes;
    ScaleSpan row, row8;
#pragma unroll 4
    for (std::int64_t chunk = warp; chunk < args.chunks; chunk += 8) {
      const std::uint8_t* tile = tiles + chunk * tile_bytes;
      const uint4 codes = ptx::ld_global_nc_no_allocate_v4(tile + 16 * lane);
      const std::uint32_t scales = ptx::ld_global_nc_b32(tile + 512 + lane / 4 * 4);
      const std::uint32_t first = codes.x | codes.y, second = codes.z | codes.w;
      row.add(scales & 0xFFu, first & 0x7E7Eu);
      row8.add(scales >> 8 & 0xFFu, first & 0x7E7E0000u);
      row.add(scales >> 16 & 0xFFu, second & 0x7E7Eu);
      row8.add(scales >> 24, second & 0x7E7E0000u);
    }
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2) row.join(distance), row8.join(distance);
    if (lane % 4 == 0) spans[warp][lane / 4] = row, spans[warp][lane / 4 + 8] = row8;
    __syncthreads();
    if (threadIdx.x < 16) {
      ScaleSpan all = spans[0][threadIdx.x];
#pragma unroll
      for (int i = 1; i < 8; ++i) {
        all.largest = max(all.largest, spans[i][threadIdx.x].largest);
        all.smallest = min(all.smallest, spans[i][threadIdx.x].smallest);
      }
      args.references[(matrix * gridDim.x + blockIdx.x) * 16 + threadIdx.x] =
          static_cast<std::uint8_t>(all.reference());
      if (!all.fits()) atomicOr(args.misfits, 1u);
    }
    __syncthreads();
  }
}

/// Eight E2M1 codes, the first in the lowest bits, as E5M2: four, then four.
__device__ inline uint2 e5m2_of_e2m1(std::uint32_t codes, E5m2Table table) {
  const std::uint32_t index = codes & 0x77777777u, even = codes << 4;
  const std::uint32_t signs = ptx::prmt_b32(even, codes, 0x5140) & 0x80808080u;
  const std::uint32_t signs4 = ptx::prmt_b32(even, codes, 0x7362) & 0x80808080u;
  return make_uint2(ptx::prmt_b32(table.low, table.high, index) | signs,
                    ptx::prmt_b32(table.low, table.high, index >> 16) | signs4);
}

/// A lane takes 16 elements, half a block; eight lanes a chunk. Of each 16, positions 4 t to 4 t +
/// 3 are elements 2 t, 2 t + 8, 2 t + 1, 2 t + 9: as the weights' fragments come out.
__device__ inline void prepare_fp8(const PrepareFp8Args& both) {
  follow_previous_grid();
  const PrepareTilesArgs& args = both.a;
  const std::int64_t all =
      token_tiles::all_groups(args.rows.m, args.rows.matrices, args.rows.offsets != nullptr);
  const std::int64_t lane = threadIdx.x & 31, row_in_group = threadIdx.x / 32;
  const std::int64_t column = (std::int64_t{blockIdx.x} * 32 + lane) * 16;
  const std::int64_t chunks = (args.k + 127) / 128, chunk = column / 128, blocks = args.k / 32;
#pragma unroll 1
  for (std::int64_t group = blockIdx.y; group < all; group += gridDim.y) {
    const TokenGroup at = find_token_group(args.rows, group, args.tiled != 0);
    if (!at.found) continue;
    const std::int64_t row = at.row + row_in_group;
    uint2 codes = make_uint2(0, 0);
    std::uint32_t byte = 0;
    if (row < at.rows.count && column < args.k) {
      codes = ptx::ld_global_nc_v2(static_cast<const std::uint8_t*>(args.a) +
                                   (at.rows.first + row) * args.a_stride + column / 2);
      byte = __ldg(scale_of_token(args, at, row, column / 32, blocks));
    }
    ScaleSpan span;
    span.add(byte, ((codes.x | codes.y) & 0x77777777u) != 0);
#pragma unroll
    for (int distance = 1; distance < 8; distance *= 2) span.join(distance);
    if (!span.fits()) atomicOr(both.misfits, 1u);
    if (chunk >= chunks) continue;
    const E5m2Table table = e5m2_table(e5m2_table_base(span.reference()), byte);
    const uint2 low = e5m2_of_e2m1(codes.x, table), high = e5m2_of_e2m1(codes.y, table);
    const std::int64_t place = first_group_of(args.rows, at.matrix, at.rows) * chunks +
                               chunk * token_tiles::groups(at.rows.count) +
                               at.row / token_tiles::group;
    ptx::st_global_v4(
        static_cast<char*>(args.tiles) + place * token_tiles::group_bytes +
            token_tiles::piece_offset(row_in_group, lane % 8),
        make_uint4(ptx::prmt_b32(low.x, high.x, 0x5140), ptx::prmt_b32(low.x, high.x, 0x7362),
                   ptx::prmt_b32(low.y, high.y, 0x5140), ptx::prmt_b32(low.y, high.y, 0x7362)));
    if (lane % 8 == 0) both.factors[place * 8 + row_in_group] = fp8_factor(span.reference());
  }
}

}  // namespace microscale::cuda
