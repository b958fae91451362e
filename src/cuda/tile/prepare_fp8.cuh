// Rows of MXFP4 made ready for products in FP8, as E5M2 (fp8_window.cuh).
#pragma once

#include <cstdint>

#include "cuda/tile/fp8_window.cuh"
#include "cuda/tile/prepare_tiles.cuh"

namespace microscale::cuda {

/// Eight E2M1 codes, the first in the lowest bits, as E5M2: four, then four.
__device__ inline uint2 e5m2_of_e2m1(std::uint32_t codes, E5m2Table table) {
  const std::uint32_t index = codes & 0x77777777u, even = codes << 4;
  const std::uint32_t signs = ptx::prmt_b32(even, codes, 0x5140) & 0x80808080u;
  const std::uint32_t signs4 = ptx::prmt_b32(even, codes, 0x7362) & 0x80808080u;
  return make_uint2(ptx::prmt_b32(table.low, table.high, index) | signs,
                    ptx::prmt_b32(table.low, table.high, index >> 16) | signs4);
}

/// A lane's 16 elements, and the first lane's factor, to a group's place. Of each 16, positions 4 t
/// to 4 t + 3 are elements 2 t, 2 t + 8, 2 t + 1, 2 t + 9: as expand_fp8.cuh leaves the weights.
__device__ inline void put_fp8(const PrepareFp8Args& args, std::int64_t place, std::int64_t row,
                               uint2 codes, std::uint32_t byte, std::uint32_t reference) {
  const std::int64_t lane = threadIdx.x & 31;
  const E5m2Table table = e5m2_table(e5m2_table_base(reference), byte);
  const uint2 low = e5m2_of_e2m1(codes.x, table), high = e5m2_of_e2m1(codes.y, table);
  ptx::st_global_v4(
      static_cast<char*>(args.a.tiles) + place * token_tiles::group_bytes +
          token_tiles::piece_offset(row, lane % 8),
      make_uint4(ptx::prmt_b32(low.x, high.x, 0x5140), ptx::prmt_b32(low.x, high.x, 0x7362),
                 ptx::prmt_b32(low.y, high.y, 0x5140), ptx::prmt_b32(low.y, high.y, 0x7362)));
  if (lane % 8 == 0) args.factors[place * 8 + row] = fp8_factor(reference);
}

inline constexpr int fp8_pieces_at_once = 4;  // that a thread loads before it stores one

/// A lane takes 16 elements, half a block; eight lanes a chunk.
__device__ inline void prepare_fp8(const PrepareFp8Args& both) {
  follow_previous_grid();
  const PrepareTilesArgs& args = both.a;
  const std::int64_t all =
      token_tiles::all_groups(args.rows.m, args.rows.matrices, args.rows.expert_rows != nullptr);
  const std::uint32_t lane = threadIdx.x & 31, row_in_group = threadIdx.x / 32;
  const std::int64_t chunks = (args.k + 127) / 128, blocks = args.k / 32;
  const std::uint32_t step = gridDim.x * 512;  // columns
#pragma unroll 1
  for (std::int64_t group = blockIdx.y; group < all; group += gridDim.y) {
    const TokenGroup at = find_token_group(args.rows, group, args.tiled != 0);
    if (!at.found) continue;
    const std::int64_t row = at.row + row_in_group;
    // As in prepare_tiles.cuh: reads have no condition.
    const std::int64_t read_row = row < at.rows.count ? row : at.rows.count - 1;
    const auto* from =
        static_cast<const std::uint8_t*>(args.a) + (at.rows.first + read_row) * args.a_stride;
    const std::uint8_t* scales = scales_of_token(args, at, read_row, blocks);
    const auto width = static_cast<std::uint32_t>(row < at.rows.count ? args.k : 0);
    const std::int64_t groups = token_tiles::groups(at.rows.count);
    const std::int64_t first_place =
        first_group_of(args.rows, at.matrix, at.rows) * chunks + at.row / token_tiles::group;
#pragma unroll 1
    for (std::uint32_t first = blockIdx.x * 512; first < args.k;
         first += fp8_pieces_at_once * step) {
      uint2 codes[fp8_pieces_at_once];
      std::uint32_t bytes[fp8_pieces_at_once];
#pragma unroll
      for (int i = 0; i < fp8_pieces_at_once; ++i) {
        const std::uint32_t column = first + i * step + lane * 16;
        const std::uint32_t read = column < width ? column : 0;
        codes[i] = ptx::ld_global_nc_v2(from + read / 2);
        bytes[i] = __ldg(scales + scale_step(args, read / 32));
        if (column >= width) codes[i] = make_uint2(0, 0), bytes[i] = 0;
      }
#pragma unroll
      for (int i = 0; i < fp8_pieces_at_once; ++i) {
        const std::uint32_t chunk = (first + i * step + lane * 16) / 128;
        ScaleSpan span;
        span.add(bytes[i], ((codes[i].x | codes[i].y) & 0x77777777u) != 0);
#pragma unroll
        for (int distance = 1; distance < 8; distance *= 2) span.join(distance);
        if (!span.fits()) atomicOr(both.misfits, 1u);
        if (chunk < chunks)
          put_fp8(both, first_place + chunk * groups, row_in_group, codes[i], bytes[i],
                  span.reference());
      }
    }
  }
}

}  // namespace microscale::cuda
