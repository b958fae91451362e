// MXFP4 keys and values to the E5M2 tiles of attention_prefill_args.hpp: E2M1 x 2^s is exact there
// for scales down to 2^-26 of the largest of the tile (fp8_window.cuh), and smaller ones count as
// 0. V is turned around in shared memory, byte by byte: 32 neighbouring tokens a warp, whose places
// share no bank.
#pragma once

#include <cstdint>

#include "cuda/attention_prefill_args.hpp"
#include "cuda/tile/attention_elements.cuh"
#include "cuda/tile/attention_expand.cuh"
#include "cuda/tile/attention_prefill_item.cuh"
#include "cuda/tile/fp8_window.cuh"
#include "cuda/tile/grid_order.cuh"
#include "cuda/tile/prepare_fp8.cuh"

namespace microscale::cuda {

/// E5M2 codes of eight E2M1 codes under a scale, relative to `reference`; NaN scales give NaN.
__device__ inline uint2 e5m2_elements(std::uint32_t codes, std::uint32_t scale,
                                      std::uint32_t reference) {
  if (scale == 255) return make_uint2(0x7F7F7F7Fu, 0x7F7F7F7Fu);
  if (scale + 26 < reference) return make_uint2(0, 0);
  return e5m2_of_e2m1(codes, e5m2_table(e5m2_table_base(reference), scale));
}

/// What E5M2 elements are to be multiplied by: 2^ of this.
__device__ inline int e5m2_exponent(int reference) { return reference - 140; }

/// Where 16 elements of a row of 128 lie.
__device__ inline std::uint32_t fp8_place(int row, int sixteen) {
  return static_cast<std::uint32_t>(row / 8 * 1024 + token_tiles::piece_offset(row, sixteen));
}

class AttentionExpandFp8 {
 public:
  static constexpr int width = 128, keys = prefill_keys(width), blocks = 4;  // of a token
  static constexpr int each = keys * blocks / prefill_expand_threads;

  __device__ static void run(const AttentionExpandArgs& args) {
    follow_previous_grid();
    const ExpandTile at(args);
    if (at.first >= at.range.length) return;
    constexpr std::int64_t bytes = prefill_tile_bytes(width, 1);
    std::uint8_t* const to =
        args.tiles[at.which] + at.place * (bytes + (at.which == 0 ? prefill_tile_info : 0));
    auto* const info = reinterpret_cast<PrefillTile*>(
        args.tiles[0] + at.place * (bytes + prefill_tile_info) + bytes);
    __shared__ __align__(128) std::uint8_t tile[bytes];
    __shared__ int pages[keys];
    __shared__ int reference;
    find_pages(args.keys, at, pages, info);
    if (threadIdx.x == 0) reference = least_reference;
    __syncthreads();
    uint4 codes[each];
    std::uint32_t scales[each];
    int largest = 0;
#pragma unroll
    for (int i = 0; i < each; ++i) {
      load(args, at, pages, i, codes[i], scales[i]);
      largest = max(largest, ElementsMxfp4::reference(codes[i], scales[i]));
    }
    largest = __reduce_max_sync(~0u, largest);
    if (threadIdx.x % 32 == 0) atomicMax(&reference, largest);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < each; ++i)
      if (at.which == 0)
        put_key(tile, i, codes[i], scales[i], reference);
      else
        put_value(tile, i, codes[i], scales[i], reference);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x) * 16; i < bytes; i += prefill_expand_threads * 16)
      ptx::st_global_v4(to + i, *reinterpret_cast<const uint4*>(tile + i));
    if (threadIdx.x == 0)
      (at.which == 0 ? info->k_exponent : info->v_exponent) = e5m2_exponent(reference);
  }

 private:
  /// Token, and which block of its row, of a thread's block `i`: neighbouring tokens in a warp.
  __device__ static int token() { return static_cast<int>(threadIdx.x) % keys; }
  __device__ static int block(int i) { return static_cast<int>(threadIdx.x) / keys * each + i; }

  __device__ static void load(const AttentionExpandArgs& args, const ExpandTile& at,
                              const int (&pages)[keys], int i, uint4& codes, std::uint32_t& scale) {
    codes = make_uint4(0, 0, 0, 0), scale = 0;
    const int page = pages[token()];
    if (page < 0 || 32 * block(i) >= args.keys.d) return;
    const PrefillOperand& operand = args.operands[at.which];
    codes =
        __ldg(reinterpret_cast<const uint4*>(at.row(args.keys, operand.codes, page, token()) +
                                             16 * block(i)));  // half a sector: the next is a hit
    scale = __ldg(at.row(args.keys, operand.scales, page, token()) + block(i));
  }

  __device__ static void put_key(std::uint8_t* tile, int i, uint4 codes, std::uint32_t scale,
                                 std::uint32_t reference) {
    const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint2 low = e5m2_elements(words[2 * half], scale, reference),
                  high = e5m2_elements(words[2 * half + 1], scale, reference);
      *reinterpret_cast<uint4*>(tile + fp8_place(token(), 2 * block(i) + half)) =
          make_uint4(low.x, low.y, high.x, high.y);
    }
  }

  __device__ static void put_value(std::uint8_t* tile, int i, uint4 codes, std::uint32_t scale,
                                   std::uint32_t reference) {
    const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
    const int place = token() / 32 * 32 + fp8_key_place(token() % 32);
#pragma unroll
    for (int word = 0; word < 4; ++word) {
      const uint2 eight = e5m2_elements(words[word], scale, reference);
#pragma unroll
      for (int j = 0; j < 8; ++j) {
        const int element = 32 * block(i) + 8 * word + j;
        tile[fp8_place(element, place / 16) + place % 16] =
            static_cast<std::uint8_t>((j < 4 ? eight.x : eight.y) >> (8 * (j % 4)));
      }
    }
  }
};

}  // namespace microscale::cuda
