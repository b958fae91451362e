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

/// A lane takes 16 elements, half a block; eight lanes a chunk. Of each 16, positions 4 t to 4 t +
/// 3 are elements 2 t, 2 t + 8, 2 t + 1, 2 t + 9: as expand_fp8.cuh leaves the weights.
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
