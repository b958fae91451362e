// MXFP4 made ready for products in FP8 (fp8_window.cuh): packed weights as E5M2, each row relative
// to one power of two, in the tiles of matmul_expanded_fp8.
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/device/kernel_types.hpp"
#include "cuda/matmul/expanded/args.hpp"
#include "cuda/matmul/fp8_window.cuh"
#include "cuda/matmul/in_registers/weights.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/packed.cuh"
#include "layouts/fragment_tiles.hpp"

namespace microscale::cuda::expanded {

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

/// What becomes of rows g and g + 8 of a lane, whose values are relative to these scales.
class PackedToE5m2 {
 public:
  __device__ PackedToE5m2(std::uint32_t reference, std::uint32_t reference8)
      : addend_((fp8_span - reference & 0xFFFFu) | (fp8_span - reference8) << 16) {}

  /// 2^(14 + e) of both rows in BF16, 2^e the scale's share of E5M2 (fp8_window.cuh); `bytes`: the
  /// scales' two. Blocks of zeros may have any; with a finite factor they stay zeros.
  __device__ std::uint32_t factors(std::uint32_t bytes) const {
    const std::uint32_t e =
        ptx::min_s16x2(ptx::max_relu_s16x2(ptx::add_s16x2(bytes, addend_), 0), fp8_span * 0x10001u);
    return e * 128 + 0x40004000u;
  }
  /// Four codes of row g, and four of row g + 8. In BF16 2^-112 times an element has E5M2's bits at
  /// 11 to 5, as no element of a window is below E5M2's normal numbers.
  __device__ static uint2 elements(std::uint32_t word, std::uint32_t factors) {
    std::uint32_t a[4];
    e2m1_bits_bf16(word, a);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t x = i % 2 == 0 ? ptx::mul_rn_bf16x2_by_low(a[i], factors)
                                         : ptx::mul_rn_bf16x2_by_high(a[i], factors);
      a[i] = ptx::lop3_select_b32(0x80008000u, x, x * 8);
    }
    return make_uint2(ptx::prmt_b32(a[0], a[2], 0x7351), ptx::prmt_b32(a[1], a[3], 0x7351));
  }

 private:
  std::uint32_t addend_;
};

/// The spans of scales of a tile of 16 rows, which all threads of a block find together.
class RowSpans {
 public:
  /// Of all blocks, those of zeros among them: of their scales alone.
  __device__ void find_all(const std::uint8_t* tiles, std::uint32_t chunks) {
    constexpr int at_once = 4;
    constexpr std::uint32_t apart = threads_per_block / 8, bytes = 0x00FF00FFu;
    const std::uint32_t own = threadIdx.x % 8;
    // Of rows g and g + 8, two blocks each; and the same of 255 less the scale.
    std::uint32_t largest[2] = {}, inverse[2] = {};
#pragma unroll 1
    for (std::uint32_t chunk = threadIdx.x / 8; chunk < chunks; chunk += at_once * apart) {
      std::uint32_t scales[at_once];
#pragma unroll
      for (std::uint32_t i = 0; i < at_once; ++i)  // beyond the last one that one again
        scales[i] = ptx::ld_global_nc_b32(
            tiles + min(chunk + i * apart, chunks - 1) * std::uint64_t{fp8_tile_bytes} + 512 +
            4 * own);
#pragma unroll
      for (int i = 0; i < at_once; ++i)
#pragma unroll
        for (int row = 0; row < 2; ++row) {
          const std::uint32_t two = scales[i] >> 8 * row & bytes;
          largest[row] = ptx::max_s16x2(largest[row], two);
          inverse[row] = ptx::max_s16x2(inverse[row], two ^ bytes);
        }
    }
    ScaleSpan spans[2];
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      spans[row] = ScaleSpan::of_pairs(largest[row], inverse[row]);
#pragma unroll
      for (int distance = 8; distance < 32; distance *= 2) spans[row].join_lanes(distance);
    }
    put(threadIdx.x % 32 < 8, own, spans[0], spans[1]);
  }
  /// Of blocks that are not all zeros.
  __device__ void find(const std::uint8_t* tiles, std::uint32_t chunks) {
    const std::uint32_t lane = threadIdx.x & 31;
    ScaleSpan row, row8;
    constexpr std::uint32_t of_row = 0x71C071C0u, of_row8 = 0x0E130E13u;  // magnitudes
#pragma unroll 1
    for (std::uint32_t chunk = threadIdx.x / 32; chunk < chunks; chunk += threads_per_block / 32) {
      const PackedFp8 own = PackedFp8::load(tiles + chunk * std::uint64_t{fp8_tile_bytes}, lane);
      const std::uint32_t first = own.codes.x | own.codes.y, second = own.codes.z | own.codes.w;
      row.add(own.scales & 0xFFu, first & of_row);
      row8.add(own.scales >> 8 & 0xFFu, first & of_row8);
      row.add(own.scales >> 16 & 0xFFu, second & of_row);
      row8.add(own.scales >> 24, second & of_row8);
    }
#pragma unroll
    for (int distance = 1; distance < 4; distance *= 2)
      row.join_lanes(distance), row8.join_lanes(distance);
    put(lane % 4 == 0, lane / 4, row, row8);
  }
  /// Of the whole row.
  __device__ ScaleSpan of_row(std::uint32_t row) const {
    ScaleSpan all = of_warps_[0][row];
#pragma unroll
    for (int warp = 1; warp < threads_per_block / 32; ++warp) all.join(of_warps_[warp][row]);
    return all;
  }

 private:
  __device__ void put(bool puts, std::uint32_t at, ScaleSpan row, ScaleSpan row8) {
    const std::uint32_t warp = threadIdx.x / 32;
    if (puts) of_warps_[warp][at] = row, of_warps_[warp][at + 8] = row8;
    __syncthreads();
  }

  ScaleSpan of_warps_[threads_per_block / 32][16];
};

/// Two tiles, neighbours along k: 128 bytes of each of 16 rows, 2 KB in shared memory at `to`. Of
/// each 16 bytes, positions 4 t to 4 t + 3 are elements 2 t, 2 t + 8, 2 t + 1, 2 t + 9.
__device__ inline void put_e5m2(const PackedFp8 (&own)[2], PackedToE5m2 to_e5m2, std::uint32_t to) {
  const std::uint32_t lane = threadIdx.x & 31, row = lane / 4;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const std::uint32_t scales = own[half].scales,
                        factors[2] = {to_e5m2.factors(ptx::prmt_b32(scales, 0, 0x4140)),
                                      to_e5m2.factors(ptx::prmt_b32(scales, 0, 0x4342))};
#pragma unroll
    for (int step = 0; step < 4; ++step) {
      const uint2 bytes =
          PackedToE5m2::elements(in_registers::word_of(own[half].codes, step), factors[step / 2]);
      const std::uint32_t at = to + row * 128 + ((4 * half + step) ^ row) * 16 + lane % 4 * 4;
      ptx::st_shared_b32(at, bytes.x);
      ptx::st_shared_b32(at + 1024, bytes.y);
    }
  }
}

/// A warp's next two pairs of tiles, each eight pairs further; beyond the last one zeros.
__device__ inline void load_pairs(const std::uint8_t* tiles, std::uint32_t chunks,
                                  std::uint32_t pair, PackedFp8 (&own)[2][2]) {
#pragma unroll
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t chunk = 2 * pair + 16 * (i / 2) + i % 2;
    own[i / 2][i % 2] = {};
    if (chunk < chunks)
      own[i / 2][i % 2] =
          PackedFp8::load(tiles + chunk * std::uint64_t{fp8_tile_bytes}, threadIdx.x & 31);
  }
}

/// What thread block `block` does: fp8_pairs pairs of tiles a warp, of one tile of 16 rows. Every
/// block looks at all scales of its rows; at codes only where those do not fit as they are, as
/// zeros do with any.
__device__ inline void expand_fp8(const ExpandFp8Args& args, const TicketFlags& misfit,
                                  std::uint32_t block) {
  __shared__ RowSpans spans;
  __shared__ std::uint32_t relative_to[16];
  __shared__ __align__(128) unsigned char memory[8][2048];
  const std::uint32_t lane = threadIdx.x & 31, warp = threadIdx.x / 32;
  const auto staged = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory[warp]));
  const auto chunks = static_cast<std::uint32_t>(args.chunks), pairs = (chunks + 1) / 2,
             row_tiles = static_cast<std::uint32_t>(args.row_tiles);
  const auto row_tile = static_cast<std::uint32_t>(args.by_parts.divide(static_cast<int>(block)));
  const std::uint32_t part = block - row_tile * args.parts;
  const std::uint8_t* tiles =
      args.b + std::uint64_t{row_tile} * (chunks * std::uint64_t{fp8_tile_bytes});
  std::uint32_t pair = part * (fp8_pairs * 8) + warp;
  PackedFp8 own[2][2];
  load_pairs(tiles, chunks, pair, own);
  spans.find_all(tiles, chunks);
  bool settled = true;
  if (threadIdx.x < 16) {
    const ScaleSpan span = spans.of_row(threadIdx.x);
    relative_to[threadIdx.x] = span.reference();
    settled = span.fits_without_any();
  }
  if (__syncthreads_or(!settled)) {
    spans.find(tiles, chunks);
    if (threadIdx.x < 16) {
      const ScaleSpan span = spans.of_row(threadIdx.x);
      relative_to[threadIdx.x] = span.reference();
      if (!span.fits()) misfit.set(0);
    }
    __syncthreads();
  }
  if (threadIdx.x < 16 && part == 0)
    args.references[std::uint64_t{row_tile} * 16 + threadIdx.x] =
        static_cast<std::uint8_t>(relative_to[threadIdx.x]);
  const PackedToE5m2 to_e5m2(relative_to[lane / 4], relative_to[lane / 4 + 8]);
  const std::uint32_t matrix = row_tile / row_tiles;
  char* to =
      static_cast<char*>(args.expanded) + 16 * lane +
      (std::uint64_t{matrix * pairs + pair} * row_tiles + row_tile - matrix * row_tiles) * 2048;
#pragma unroll 1
  for (int turn = 0; turn < fp8_pairs / 2; ++turn) {
    if (turn > 0) load_pairs(tiles, chunks, pair, own);
#pragma unroll
    for (int i = 0; i < 2; ++i, pair += 8, to += std::uint64_t{row_tiles} * (8 * 2048)) {
      if (pair >= pairs) return;
      put_e5m2(own[i], to_e5m2, staged);
      __syncwarp();
#pragma unroll
      for (int j = 0; j < 2048; j += 512)
        ptx::st_global_v4(to + j, ptx::ld_shared_v4(staged + j + 16 * lane));
      __syncwarp();
    }
  }
}

}  // namespace microscale::cuda::expanded
