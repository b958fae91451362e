// Plain weights to tiles in the order of a warp's lanes (layouts/fragment_tiles.hpp), at memory's
// pace.
//
// A part is 512 bytes of packed codes: 32 bytes of each of 16 rows, so all codes of a 4-bit tile,
// half of those of an 8-bit one. A warp takes `parts` of them, neighbours along k. Lane 4 g + 2 c +
// h reads 16 bytes, half h of part c, of rows g and g + 8. They hold half of what four lanes of the
// packed order have; shared memory puts the halves together, and a part leaves as 16 bytes a lane.
#pragma once

#include "cuda/matmul/args.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/scalar.cuh"
#include "layouts/fragment_tiles.hpp"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

namespace tiles = fragment_tiles;

constexpr int parts = pack_parts, passes = parts / 2;
constexpr int part_bytes = 512, warps = pack_threads / 32;

/// Bytes of one row, two to each of four lanes: the first two are lane 0's, and so on.
struct LaneBytes {
  std::uint32_t low, high;  // of lanes 0 and 1, of lanes 2 and 3
};

/// 16 E2M1 codes of a row: `first` in the lower halves of bytes, `second` in the upper ones.
__device__ inline LaneBytes e2m1_bytes(std::uint32_t first, std::uint32_t second) {
  constexpr std::uint32_t low = 0x0F0F0F0Fu;
  const std::uint32_t even = (first & low) | (second & low) << 4,
                      odd = (first >> 4 & low) | (second & ~low);
  return {ptx::prmt_b32(even, odd, 0x5140), ptx::prmt_b32(even, odd, 0x7362)};
}

/// A row's 16 bytes and those eight rows below, to the 8 bytes of each of four lanes.
template <int CodeBits>
__device__ inline void to_lanes(uint4 row, uint4 row8, uint2 (&lanes)[4]) {
  if constexpr (CodeBits == 4) {
    const LaneBytes a = e2m1_bytes(row.x, row.y), a8 = e2m1_bytes(row8.x, row8.y),
                    b = e2m1_bytes(row.z, row.w), b8 = e2m1_bytes(row8.z, row8.w);
    lanes[0] = {ptx::prmt_b32(a.low, a8.low, 0x5140), ptx::prmt_b32(b.low, b8.low, 0x5140)};
    lanes[1] = {ptx::prmt_b32(a.low, a8.low, 0x7362), ptx::prmt_b32(b.low, b8.low, 0x7362)};
    lanes[2] = {ptx::prmt_b32(a.high, a8.high, 0x5140), ptx::prmt_b32(b.high, b8.high, 0x5140)};
    lanes[3] = {ptx::prmt_b32(a.high, a8.high, 0x7362), ptx::prmt_b32(b.high, b8.high, 0x7362)};
  } else {
    lanes[0] = {ptx::prmt_b32(row.x, row8.x, 0x5410), ptx::prmt_b32(row.z, row8.z, 0x5410)};
    lanes[1] = {ptx::prmt_b32(row.x, row8.x, 0x7632), ptx::prmt_b32(row.z, row8.z, 0x7632)};
    lanes[2] = {ptx::prmt_b32(row.y, row8.y, 0x5410), ptx::prmt_b32(row.w, row8.w, 0x5410)};
    lanes[3] = {ptx::prmt_b32(row.y, row8.y, 0x7632), ptx::prmt_b32(row.w, row8.w, 0x7632)};
  }
}

/// Where lane 4 g + t's 16 bytes of part c of a pass lie in shared memory: no bank twice, neither
/// where eight rows are written nor where lanes read side by side.
__device__ inline std::uint32_t lane_offset(std::uint32_t g, std::uint32_t c, std::uint32_t t) {
  const std::uint32_t column = ((2 * g + c) & 7) ^ ((t & 1) | (t & 2) << 1);
  return 16 * (8 * (2 * t + g / 4) + column);
}

/// Row `row` (0 to 15) of a tile in the matrix it comes from.
struct SourceRow {
  const std::uint8_t *codes, *scales;  // of the matrix
  std::uint32_t row;
  bool found, tiled;
};
__device__ inline SourceRow source_row(const PackWeightsArgs& args, std::uint32_t row_tile,
                                       std::uint32_t matrix, std::uint32_t row,
                                       std::int64_t code_bytes) {
  const bool gated = args.up_codes != nullptr, up = gated && row >= 8;
  const std::uint32_t own = gated ? row_tile * 8 + row % 8 : row_tile * 16 + row;
  return {(up ? args.up_codes : args.codes) + matrix * code_bytes,
          up ? args.up_scales + matrix * args.up_scale_matrix
             : args.scales + matrix * args.scale_matrix,
          own, own < args.rows, (up ? args.up_tiled : args.tiled) != 0};
}

/// Of each pass 16 bytes of a row, `left` bytes before its end (none: 0 or less); zeros beyond.
__device__ inline void load_codes(const std::uint8_t* from, std::int32_t left,
                                  uint4 (&codes)[passes]) {
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    codes[pass] = make_uint4(0, 0, 0, 0);
    if (left > 64 * pass) codes[pass] = ptx::ld_global_nc_no_allocate_v4(from + 64 * pass);
  }
}
/// The same where rows begin and end at multiples of 8.
__device__ inline void load_halves(const std::uint8_t* from, std::int32_t left,
                                   uint4 (&codes)[passes]) {
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    uint2 low = make_uint2(0, 0), high = low;
    if (left > 64 * pass) low = ptx::ld_global_nc_v2(from + 64 * pass);
    if (left > 64 * pass + 8) high = ptx::ld_global_nc_v2(from + 64 * pass + 8);
    codes[pass] = make_uint4(low.x, low.y, high.x, high.y);
  }
}

/// The scales that a row has in tile `chunk` along k, the first in the lowest byte.
template <int Block>
__device__ inline std::uint32_t load_scales(const SourceRow& from, std::uint32_t chunk,
                                            std::uint32_t blocks) {
  constexpr std::uint32_t count = tiles::tile_cols / Block;
  const std::uint32_t first = chunk * count;
  if (!from.found || first >= blocks) return 0;
  const std::uint8_t* at = from.scales + (from.tiled ? tiled_128x4::offset(from.row, first, blocks)
                                                     : std::int64_t{from.row} * blocks + first);
  if (blocks % count == 0) {
    if constexpr (count == 4)
      return ptx::ld_global_nc_b32(at);
    else
      return __ldg(reinterpret_cast<const std::uint16_t*>(at));
  }
  std::uint32_t scales = 0;  // four of a line lie side by side in both layouts
#pragma unroll
  for (std::uint32_t i = 0; i < count; ++i)
    if (first + i < blocks) scales |= std::uint32_t{__ldg(at + i)} << (8 * i);
  return scales;
}

/// Four UE4M3 scales as tiles have them.
__device__ inline std::uint32_t placed_scales(std::uint32_t scales) {
  const std::uint32_t bits = scales & 0x7F7F7F7Fu;
  // A byte's highest bit: neither zero, nor subnormal, nor NaN.
  const std::uint32_t usual = (bits + 0x78787878u) & ~(bits + 0x01010101u) & 0x80808080u;
  if (usual == 0x80808080u) return bits + 0x78787878u;
  std::uint32_t placed = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    placed |= std::uint32_t{tiles::placed_scale(static_cast<std::uint8_t>(bits >> 8 * i))} << 8 * i;
  return placed;
}

/// Those of rows g and g + 8, behind the tile's codes.
template <int CodeBits, int Block>
__device__ inline void pack_scales(std::uint32_t row, std::uint32_t row8, std::uint32_t g,
                                   std::uint8_t* tile) {
  std::uint8_t* to = tile + tiles::code_bytes(CodeBits);
  if constexpr (Block == 16)
    ptx::st_global_v2(to + 8 * g,
                      tiles::scale_word(placed_scales(ptx::prmt_b32(row, row8, 0x5140))),
                      tiles::scale_word(placed_scales(ptx::prmt_b32(row, row8, 0x7362))));
  else
    ptx::st_global_b32(to + 4 * g, ptx::prmt_b32(row, row8, 0x5140));
}

/// Two blocks of 16 codes are zeros where their UE4M3 scales, the low half of `scales`, are.
__device__ inline void clear_zero_blocks(std::uint32_t scales, uint4& codes) {
  constexpr std::uint32_t signs = 0x88888888u;
  if ((scales & 0x007Fu) == 0) codes.x &= signs, codes.y &= signs;
  if ((scales & 0x7F00u) == 0) codes.z &= signs, codes.w &= signs;
}

template <int CodeBits, int Block>
__device__ inline void pack(const PackWeightsArgs& args) {
  constexpr std::uint32_t tile_parts = CodeBits / 4, warp_tiles = parts / tile_parts;
  constexpr std::uint32_t tile_bytes = tiles::tile_bytes(CodeBits, Block);
  __shared__ __align__(16) unsigned char memory[warps][parts * part_bytes];
  const std::uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory[warp]));
  // Tiles and rows have numbers of 32 bits; only bytes need more.
  const auto cols = static_cast<std::uint32_t>(args.cols),
             all_rows = static_cast<std::uint32_t>(args.rows);
  const std::uint32_t across = (cols + 63) / 64,
                      down = args.up_codes ? (all_rows + 7) / 8 : (all_rows + 15) / 16;
  const std::uint32_t turns = (across + warp_tiles - 1) / warp_tiles;
  const std::uint32_t index = blockIdx.x * warps + warp, tile_row = index / turns,
                      chunk = (index - tile_row * turns) * warp_tiles;
  // One matrix needs no second division.
  const std::uint32_t matrix = args.matrices == 1 && tile_row < down ? 0 : tile_row / down,
                      row_tile = tile_row - matrix * down;
  if (matrix >= args.matrices) return;
  std::uint8_t* out = args.packed + (std::int64_t{tile_row} * across + chunk) * tile_bytes;

  const std::uint32_t g = lane / 4, c = lane / 2 % 2, h = lane % 2;
  const std::uint32_t stride = cols / (8 / CodeBits);
  const SourceRow row = source_row(args, row_tile, matrix, g, args.rows * stride),
                  row8 = source_row(args, row_tile, matrix, g + 8, args.rows * stride);
  const std::uint32_t first = chunk * (8 * CodeBits) + 32 * c + 16 * h;
  const std::uint8_t* from = row.codes + std::uint64_t{row.row} * stride + first;
  const std::uint8_t* from8 = row8.codes + std::uint64_t{row8.row} * stride + first;
  const auto left = static_cast<std::int32_t>(stride - first);
  uint4 codes[passes], codes8[passes];
  if (stride % 16 == 0) {
    load_codes(from, row.found ? left : 0, codes);
    load_codes(from8, row8.found ? left : 0, codes8);
  } else {
    load_halves(from, row.found ? left : 0, codes);
    load_halves(from8, row8.found ? left : 0, codes8);
  }
  const std::uint32_t tile = lane % 4;
  std::uint32_t scales = 0, scales8 = 0;
  if (tile < warp_tiles && chunk + tile < across) {
    scales = load_scales<Block>(row, chunk + tile, cols / Block);
    scales8 = load_scales<Block>(row8, chunk + tile, cols / Block);
    pack_scales<CodeBits, Block>(scales, scales8, g, out + tile * tile_bytes);
  }
#pragma unroll
  for (int pass = 0; pass < passes; ++pass) {
    if constexpr (Block == 16) {
      const auto of = static_cast<int>(4 * g + 2 * pass + c);  // the lane that has this tile's
      clear_zero_blocks(__shfl_sync(0xFFFFFFFFu, scales, of) >> 16 * h, codes[pass]);
      clear_zero_blocks(__shfl_sync(0xFFFFFFFFu, scales8, of) >> 16 * h, codes8[pass]);
    }
    uint2 lanes[4];
    to_lanes<CodeBits>(codes[pass], codes8[pass], lanes);
#pragma unroll
    for (int t = 0; t < 4; ++t)
      ptx::st_shared_v2(shared + pass * 2 * part_bytes + lane_offset(g, c, t) + 8 * h, lanes[t].x,
                        lanes[t].y);
  }
  __syncwarp();
#pragma unroll
  for (int part = 0; part < parts; ++part) {
    if (chunk + part / tile_parts >= across) break;
    uint4 mine =
        ptx::ld_shared_v4(shared + part / 2 * 2 * part_bytes + lane_offset(g, part % 2, lane % 4));
    if constexpr (CodeBits == 4)
      mine = make_uint4(tiles::code_word(mine.x), tiles::code_word(mine.y),
                        tiles::code_word(mine.z), tiles::code_word(mine.w));
    ptx::st_global_v4(
        out + part / tile_parts * tile_bytes + part % tile_parts * part_bytes + 16 * lane, mine);
  }
}

}  // namespace microscale::cuda
