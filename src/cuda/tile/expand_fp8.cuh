// MXFP4 made ready for products in FP8 (fp8_window.cuh): packed weights as E5M2, each row relative
// to one power of two, in the tiles of matmul_dense_fp8.
#pragma once

#include <cstdint>

#include "cuda/matmul_args.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/tile/fp8_window.cuh"
#include "cuda/tile/grid_order.cuh"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda {

inline constexpr int fp8_tile_bytes = fragment_tiles::tile_bytes(4, 32);

/// A lane's part of a tile of 16 rows x 64.
struct PackedFp8 {
  uint4 codes;
  std::uint32_t scales;  // rows g and g + 8 of the first block, then of the second

  __device__ static PackedFp8 load(const std::uint8_t* tile, std::uint32_t lane) {
    return {ptx::ld_global_nc_no_allocate_v4(tile + 16 * lane),
            ptx::ld_global_nc_b32(tile + 512 + lane / 4 * 4)};
  }
};

/// Eight codes of a lane, four of row g and four of row g + 8, as E5M2.
__device__ inline uint2 e5m2_of_packed(std::uint32_t word, E5m2Table row, E5m2Table row8) {
  const std::uint32_t codes =
      ptx::prmt_b32(fragment_tiles::nibbles_of(word), 0, 0x3120);  // rows side by side
  const std::uint32_t index = codes & 0x77777777u, low = codes << 4;
  const std::uint32_t signs = ptx::prmt_b32(low, codes, 0x5140) & 0x80808080u;
  const std::uint32_t signs8 = ptx::prmt_b32(low, codes, 0x7362) & 0x80808080u;
  return make_uint2(ptx::prmt_b32(row.low, row.high, index) | signs,
                    ptx::prmt_b32(row8.low, row8.high, index >> 16) | signs8);
}

/// A thread block's warps share the chunks of a tile of 16 rows: the span of each row's scales.
__device__ inline void find_spans(const std::uint8_t* tiles, std::int64_t chunks,
                                  ScaleSpan (&spans)[8][16]) {
  const std::uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  ScaleSpan row, row8;
  constexpr std::uint32_t of_row = 0x71C071C0u, of_row8 = 0x0E130E13u;  // magnitudes
#pragma unroll 4
  for (std::int64_t chunk = warp; chunk < chunks; chunk += 8) {
    const PackedFp8 own = PackedFp8::load(tiles + chunk * fp8_tile_bytes, lane);
    const std::uint32_t first = own.codes.x | own.codes.y, second = own.codes.z | own.codes.w;
    row.add(own.scales & 0xFFu, first & of_row);
    row8.add(own.scales >> 8 & 0xFFu, first & of_row8);
    row.add(own.scales >> 16 & 0xFFu, second & of_row);
    row8.add(own.scales >> 24, second & of_row8);
  }
#pragma unroll
  for (int distance = 1; distance < 4; distance *= 2) row.join(distance), row8.join(distance);
  if (lane % 4 == 0) spans[warp][lane / 4] = row, spans[warp][lane / 4 + 8] = row8;
  __syncthreads();
}

/// Two tiles, neighbours along k: 128 bytes of each of 16 rows, 2 KB in shared memory at `to`. Of
/// each 16 bytes, positions 4 t to 4 t + 3 are elements 2 t, 2 t + 8, 2 t + 1, 2 t + 9.
__device__ inline void put_e5m2(const PackedFp8 (&own)[2], E5m2Table base, E5m2Table base8,
                                std::uint32_t to) {
  const std::uint32_t lane = threadIdx.x & 31, row = lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const std::uint32_t scales = own[half].scales >> (step / 2 * 16);
      const std::uint32_t word = step == 0   ? own[half].codes.x
                                 : step == 1 ? own[half].codes.y
                                 : step == 2 ? own[half].codes.z
                                             : own[half].codes.w;
      const uint2 bytes = e5m2_of_packed(word, e5m2_table(base, scales & 0xFFu),
                                         e5m2_table(base8, scales >> 8 & 0xFFu));
      const std::uint32_t at = to + row * 128 + ((4 * half + step) ^ row) * 16 + lane % 4 * 4;
      ptx::st_shared_b32(at, bytes.x);
      ptx::st_shared_b32(at + 1024, bytes.y);
    }
  }
}

/// Twice over a tile of 16 rows: what its rows are relative to, then the elements. The second time
/// it comes from the second-level cache.
__device__ inline void expand_fp8(const ExpandFp8Args& args) {
  __shared__ ScaleSpan spans[8][16];
  __shared__ std::uint32_t relative_to[16];
  __shared__ __align__(128) unsigned char memory[8][2048];
  follow_previous_grid();
  const std::uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  const auto staged = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory[warp]));
  const std::int64_t pairs = (args.chunks + 1) / 2;
  for (std::int64_t matrix = blockIdx.y; matrix < args.matrices; matrix += gridDim.y) {
    const std::uint8_t* tiles =
        args.b + (matrix * gridDim.x + blockIdx.x) * args.chunks * fp8_tile_bytes;
    find_spans(tiles, args.chunks, spans);
    if (threadIdx.x < 16) {
      ScaleSpan all = spans[0][threadIdx.x];
#pragma unroll
      for (int i = 1; i < 8; ++i) {
        all.largest = max(all.largest, spans[i][threadIdx.x].largest);
        all.smallest = min(all.smallest, spans[i][threadIdx.x].smallest);
      }
      relative_to[threadIdx.x] = all.reference();
      args.references[(matrix * gridDim.x + blockIdx.x) * 16 + threadIdx.x] =
          static_cast<std::uint8_t>(all.reference());
      if (!all.fits()) atomicOr(args.misfits, 1u);
    }
    __syncthreads();
    const E5m2Table row = e5m2_table_base(relative_to[lane / 4]),
                    row8 = e5m2_table_base(relative_to[lane / 4 + 8]);
#pragma unroll 1
    for (std::int64_t pair = warp; pair < pairs; pair += 8) {
      PackedFp8 own[2]{};
      const std::uint8_t* tile = tiles + pair * (2 * fp8_tile_bytes);
      own[0] = PackedFp8::load(tile, lane);
      if (2 * pair + 1 < args.chunks) own[1] = PackedFp8::load(tile + fp8_tile_bytes, lane);
      __syncwarp();  // the last pair has been read
      put_e5m2(own, row, row8, staged);
      __syncwarp();
      const std::int64_t place = (matrix * pairs + pair) * gridDim.x + blockIdx.x;
      char* to = static_cast<char*>(args.expanded) + place * 2048 + 16 * lane;
#pragma unroll
      for (int j = 0; j < 2048; j += 512)
        ptx::st_global_v4(to + j, ptx::ld_shared_v4(staged + j + 16 * lane));
    }
    __syncthreads();
  }
}

}  // namespace microscale::cuda
