// MXFP4 keys and values to the E5M2 tiles of args.hpp: E2M1 x 2^s is exact there
// for scales down to 2^-26 of the largest of the tile (fp8_window.cuh), and smaller ones count as
// 0. V is turned around in shared memory: `ldmatrix` brings two bytes of each of two tokens
// together, and two tokens of the next eight are their neighbours in fp8_key_place.
#pragma once

#include <cstdint>

#include "cuda/attention/prefill/elements.cuh"
#include "cuda/attention/prefill/expand.cuh"
#include "cuda/attention/prefill/item.cuh"
#include "cuda/attention/prefill/args.hpp"
#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/fp8_window.cuh"
#include "cuda/ptx/control.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/scalar.cuh"

namespace microscale::cuda::attention::prefill {

/// For E2M1 codes under a scale, relative to `reference`; NaN scales give NaN.
__device__ inline E5m2Table e5m2_table_of(std::uint32_t scale, std::uint32_t reference) {
  if (scale == 255) return {0x7F7F7F7Fu, 0x7F7F7F7Fu};
  if (scale + fp8_span < reference) return {0, 0};
  return e5m2_table(scale, reference);
}

/// What E5M2 elements are to be multiplied by: 2^ of this.
__device__ inline int e5m2_exponent(int reference) { return reference - 140; }

/// Where 16 elements of a row of 128 lie.
__device__ inline std::uint32_t fp8_place(std::uint32_t row, std::uint32_t sixteen) {
  return static_cast<std::uint32_t>(row / 8 * 1024 + token_tiles::piece_offset(row, sixteen));
}

class AttentionExpandFp8 {
 public:
  static constexpr int width = 128, keys = prefill_keys(width), blocks = 4;  // of a token
  static constexpr int apart = prefill_expand_threads / blocks, each = keys / apart;

  __device__ static void run(const AttentionExpandArgs& args) {
    follow_previous_grid();
    const ExpandTile at(args);
    if (at.first >= at.range.length) return;
    constexpr std::int64_t bytes = prefill_tile_bytes(width, 1);
    std::uint8_t* const to =
        args.tiles[at.which] + at.place * (bytes + (at.which == 0 ? prefill_tile_info : 0));
    auto* const info = reinterpret_cast<PrefillTile*>(
        args.tiles[0] + at.place * (bytes + prefill_tile_info) + bytes);
    __shared__ __align__(128) std::uint8_t memory[bytes];
    __shared__ ExpandRow rows[keys];
    __shared__ int reference;
    if (threadIdx.x == 0) reference = least_reference;
    find_rows(args, at, rows, info);
    const auto tile = static_cast<std::uint32_t>(__cvta_generic_to_shared(memory));
    expand(args.keys.d, rows, reference, tile);
    __syncthreads();
    if (at.which == 1) turn_around(tile);
    const std::uint32_t own = threadIdx.x * 16;
#pragma unroll
    for (std::uint32_t i = 0; i < bytes; i += prefill_expand_threads * 16)
      ptx::st_global_v4(to + own + i, ptx::ld_shared_v4(tile + own + i));
    if (threadIdx.x == 0)
      (at.which == 0 ? info->k_exponent : info->v_exponent) = e5m2_exponent(reference);
  }

 private:
  /// A thread has a block of every `apart`-th token.
  __device__ static void expand(int d, const ExpandRow (&rows)[keys], int& reference,
                                std::uint32_t tile) {
    const std::uint32_t block = threadIdx.x % blocks, first = threadIdx.x / blocks;
    uint4 codes[each] = {};
    std::uint32_t scales[each] = {};
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const ExpandRow from = rows[first + i * apart];
      if (!from.codes || 32 * static_cast<int>(block) >= d) continue;
      codes[i] = __ldg(reinterpret_cast<const uint4*>(from.codes) + block);
      scales[i] = __ldg(from.scales + block);
    }
    ptx::keep_in_place(scales);  // all are asked for before one is looked at
    int largest = 0;
#pragma unroll
    for (int i = 0; i < each; ++i)
      largest = max(largest, ElementsMxfp4::reference(codes[i], scales[i]));
    largest = __reduce_max_sync(~0u, largest);
    if (threadIdx.x % 32 == 0) atomicMax(&reference, largest);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const E5m2Table table = e5m2_table_of(scales[i], reference);
      const std::uint32_t words[4] = {codes[i].x, codes[i].y, codes[i].z, codes[i].w};
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint2 low = e5m2_of_e2m1(words[2 * half], table),
                    high = e5m2_of_e2m1(words[2 * half + 1], table);
        ptx::st_shared_v4(tile + fp8_place(first + i * apart, 2 * block + half),
                          make_uint4(low.x, low.y, high.x, high.y));
      }
    }
  }

  /// A warp has 16 tokens. Of lane 4 g + t and 16 elements: tokens 2 t and 2 t + 1 of each eight,
  /// elements 2 g and 2 g + 1, whose rows' places in `stmatrix` share no bank if the lanes from 16
  /// on have them the other way around.
  __device__ static void turn_around(std::uint32_t tile) {
    constexpr int pairs = width / 32;  // of 16 elements
    const std::uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, matrix = lane / 8,
                        row = lane % 8;
    const std::uint32_t from = tile + fp8_place(16 * warp + matrix % 2 * 8 + row, matrix / 2);
    std::uint32_t two[pairs][4];  // of 16 elements by tokens of the first eight, of the others
#pragma unroll
    for (int i = 0; i < pairs; ++i) ptx::ldmatrix_m8n8_x4_trans_b16(two[i], from ^ (32 * i));
    __syncthreads();
    const std::uint32_t first = lane < 16 ? 0x6420u : 0x7531u,
                        second = lane < 16 ? 0x7531u : 0x6420u;
    const std::uint32_t to =
        tile + fp8_place(matrix / 2 * 16 + 2 * row + (row / 4 ^ matrix % 2), warp);
#pragma unroll
    for (int i = 0; i < pairs; ++i) {
      const std::uint32_t four[4] = {
          ptx::prmt_b32(two[i][0], two[i][1], first), ptx::prmt_b32(two[i][0], two[i][1], second),
          ptx::prmt_b32(two[i][2], two[i][3], first), ptx::prmt_b32(two[i][2], two[i][3], second)};
      ptx::stmatrix_m8n8_x4_b16(to + i * fp8_place(32, 0), four);
    }
    __syncthreads();
  }
};

}  // namespace microscale::cuda::attention::prefill
