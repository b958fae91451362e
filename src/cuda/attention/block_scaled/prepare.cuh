// Dense operands of attention to 4- and 8-bit codes: what docs/attention.md has under "Accuracy
// modes". A thread has a block.
#pragma once

#include <cstdint>

#include "cuda/attention/block_scaled/args.hpp"
#include "cuda/attention/codes.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/block/grid_order.cuh"
#include "cuda/matmul/product_output.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/packed.cuh"
#include "formats/e8m0.hpp"
#include "formats/nvfp4.hpp"

namespace microscale::cuda::attention::block_scaled {

/// One block, as quantize_block has it with ScaleRule::nearest (rceil for E8M0) and no other
/// options: a NaN makes it NaN, an infinity takes the largest scale.
template <class Codec, int Block, bool E8M0>
struct PreparedFormat {
  static constexpr int block = Block, bits = Codec::sign_bit == 8 ? 4 : 8;
  static constexpr int words = Block * bits / 32, of_word = 32 / bits;

  /// One term of `values`; what it leaves of them stays. Returns the scale.
  __device__ static std::uint8_t term(float (&values)[Block], std::uint32_t (&codes)[words]) {
    std::uint32_t most = 0;
    bool nan = false;
#pragma unroll
    for (int i = 0; i < Block; ++i) {
      const std::uint32_t magnitude = __float_as_uint(values[i]) & 0x7FFFFFFFu;
      nan = nan || magnitude > 0x7F800000u;
      most = max(most, magnitude > 0x7F800000u ? 0u : magnitude);
    }
    const float amax = __uint_as_float(most);
    std::uint8_t scale;
    if constexpr (E8M0)
      scale = most == 0x7F800000u ? e8m0_max : e8m0_from_amax<Codec>(ScaleRule::rceil, amax);
    else
      scale = most == 0x7F800000u ? nvfp4_max_scale
                                  : nvfp4_nearest_scale(amax, nvfp4_scale_factor(1.0f));
    const float step = E8M0 ? decode_e8m0(scale) : UE4M3::decode(scale);
    const float multiplier = E8M0 ? inverse_e8m0(scale) : nvfp4_multiplier(scale, 1.0f);
#pragma unroll
    for (int w = 0; w < words; ++w) {
      float* const v = values + w * of_word;
      float x[8] = {};
#pragma unroll
      for (int i = 0; i < of_word; ++i) x[i] = __fmul_rn(v[i], multiplier);
      if constexpr (bits == 4) {
        codes[w] =
            ptx::cvt_rn_satfinite_e2m1x2_f32_x4(x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7]);
        std::uint32_t pairs[4];
        ptx::cvt_rn_f16x2_e2m1x2_x4(pairs, codes[w]);
#pragma unroll
        for (int i = 0; i < 8; ++i)
          v[i] = __fsub_rn(v[i], __fmul_rn(ptx::cvt_f32_f16(pairs[i / 2] >> (16 * (i % 2))), step));
      } else {
        codes[w] = ptx::cvt_rn_satfinite_e4m3x2_f32(x[0], x[1]) |
                   ptx::cvt_rn_satfinite_e4m3x2_f32(x[2], x[3]) << 16;
      }
      if (nan) codes[w] = 0x7F7F7F7Fu & (bits == 4 ? 0x77777777u : ~0u);
    }
    return nan ? (E8M0 ? e8m0_nan : nvfp4_nan_scale) : scale;
  }
  /// To `to`, aligned to 8 bytes.
  __device__ static void store(const std::uint32_t (&codes)[words], std::uint8_t* to) {
#pragma unroll
    for (int i = 0; i < words; i += 2) ptx::st_global_v2(to + 4 * i, codes[i], codes[i + 1]);
  }
};
using PreparedNvfp4 = PreparedFormat<E2M1, 16, false>;
using PreparedMxfp4 = PreparedFormat<E2M1, 32, true>;
using PreparedMxfp8 = PreparedFormat<E4M3, 32, true>;

/// The power of two that brings `largest` to [2^10, 2^11) when divided by it; none below 2^-126.
__device__ inline float row_factor(float largest) {
  if (!(largest > 0.0f) || largest == INFINITY) return 1.0f;
  const int exponent = static_cast<int>(__float_as_uint(largest) >> 23) - 127;
  return power_of_two(max(exponent - 10, -126));
}

template <class Format>
__device__ void prepare_rows(const PrepareHeadsArgs& args) {
  follow_previous_grid();
  const std::int64_t blocks = args.d / Format::block;  // of a row: a power of two, up to 16
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const std::int64_t row = min(index / blocks, args.rows - 1), block = index % blocks;
  const std::int64_t token = row / args.heads;
  const std::int64_t from = token / args.tokens * args.input.batch +
                            token % args.tokens * args.input.token +
                            row % args.heads * args.input.head + block * Format::block;
  float values[Format::block], largest = 0.0f;
#pragma unroll
  for (int i = 0; i < Format::block; ++i) {
    values[i] = load_element(args.input.data, args.input.type, from + i);
    largest = fmaxf(largest, fabsf(values[i]));
  }
  if (args.normalize) {
    for (int lanes = 1; lanes < blocks; lanes *= 2)
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
    const float factor = row_factor(largest);
    // 1 / factor may be too large for one number.
    const float half = power_of_two(-(static_cast<int>(__float_as_uint(factor) >> 23) - 127) / 2);
    const float other = __fdiv_rn(1.0f, __fmul_rn(factor, half));
#pragma unroll
    for (int i = 0; i < Format::block; ++i)
      values[i] = __fmul_rn(__fmul_rn(values[i], half), other);
    if (block == 0 && index / blocks < args.rows) args.factors[row] = factor;
  }
  if (index / blocks >= args.rows) return;
#pragma unroll 1
  for (int term = 0; term < args.terms; ++term) {
    std::uint32_t codes[Format::words];
    args.scales[term][row * blocks + block] = Format::term(values, codes);
    Format::store(codes,
                  args.codes[term] + (row * blocks + block) * (Format::block * Format::bits / 8));
  }
}

/// V to ValueTiles of NVFP4; what is beyond a sequence's end counts as zero.
__device__ inline void prepare_values(const PrepareValuesArgs& args) {
  follow_previous_grid();
  constexpr int blocks = tile_keys / 16;
  std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int i = static_cast<int>(index % args.d);
  index /= args.d;
  const int block = static_cast<int>(index % blocks);
  index /= blocks;
  const std::int64_t tile = index % args.sequence_tiles;
  index /= args.sequence_tiles;
  const std::int64_t head = index % args.heads, sequence = index / args.heads;
  if (sequence >= args.sequences) return;
  std::int64_t first = sequence * args.tokens, end = first + args.tokens;
  if (args.kv_offsets) {
    first = DecodeItem::clamp(args.kv_offsets[sequence], 0, args.all_tokens);
    end = DecodeItem::clamp(args.kv_offsets[sequence + 1], first, args.all_tokens);
  }
  if (first + tile * tile_keys >= end) return;
  float values[16];
#pragma unroll
  for (int j = 0; j < 16; ++j) {
    const std::int64_t token = first + tile * tile_keys + block * 16 + j;
    const std::int64_t of_batch = token / args.tokens;
    values[j] = token >= end
                    ? 0.0f
                    : load_element(args.input.data, args.input.type,
                                   of_batch * args.input.batch +
                                       (token - of_batch * args.tokens) * args.input.token +
                                       head * args.input.head + i);
  }
  std::uint32_t codes[PreparedNvfp4::words];
  const std::uint8_t scale = PreparedNvfp4::term(values, codes);
  std::uint8_t* const to =
      args.tiles + (head * args.head_tiles + first_value_tile(first, sequence) + tile) *
                       ValueTile::bytes(args.d);
  PreparedNvfp4::store(codes, to + ValueTile::code(i, block / 2) + 8 * (block % 2));
  to[ValueTile::scale(args.d, i) + block] = scale;
}

}  // namespace microscale::cuda::attention::block_scaled
