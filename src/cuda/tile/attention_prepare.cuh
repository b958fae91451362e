// Dense operands of attention to 4- and 8-bit codes: what docs/attention.md has under "Accuracy
// modes". A thread has a block; every one is quantized by the definition itself.
#pragma once

#include <cstdint>

#include "cuda/attention_block_scaled_args.hpp"
#include "cuda/ptx/memory.cuh"
#include "cuda/tile/attention_codes.cuh"
#include "cuda/tile/attention_rows.cuh"
#include "cuda/tile/grid_order.cuh"
#include "cuda/tile/product_output.cuh"
#include "formats/block_quantizer.hpp"

namespace microscale::cuda::block_attention {

/// `codec` as quantize_block takes it, and how many codes a byte has.
template <class Codec_, int Block, bool E8M0>
struct PreparedFormat {
  using Codec = Codec_;
  static constexpr int block = Block, bits = Codec::sign_bit == 8 ? 4 : 8;
  static constexpr bool e8m0 = E8M0;

  /// One term of `values`; what it leaves of them stays. Returns the scale.
  __device__ static std::uint8_t term(float (&values)[Block], std::uint8_t (&codes)[Block]) {
    BlockContext context;
    context.scale_factor = nvfp4_scale_factor(1.0f);
    context.numerics.scale_rule = E8M0 ? ScaleRule::rceil : ScaleRule::nearest;
    const std::uint8_t scale = quantize_block<Codec, Block, E8M0>(
        values, nullptr, context, [](int) { return std::uint64_t{0}; }, codes);
    const float step = E8M0 ? decode_e8m0(scale) : UE4M3::decode(scale);
    for (int i = 0; i < Block; ++i)
      values[i] = __fsub_rn(values[i], __fmul_rn(Codec::decode(codes[i]), step));
    return scale;
  }
  /// To `to`, aligned to 8 bytes.
  __device__ static void store(const std::uint8_t (&codes)[Block], std::uint8_t* to) {
    constexpr int words = Block * bits / 32, of_word = 32 / bits;
    std::uint32_t w[words] = {};
    for (int i = 0; i < Block; ++i)
      w[i / of_word] |= static_cast<std::uint32_t>(codes[i]) << (bits * (i % of_word));
    for (int i = 0; i < words; i += 2) ptx::st_global_v2(to + 4 * i, w[i], w[i + 1]);
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
__device__ void prepare_rows(const PrepareRowsArgs& args) {
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
  for (int term = 0; term < args.terms; ++term) {
    std::uint8_t codes[Format::block];
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
  std::uint8_t codes[16];
  const std::uint8_t scale = PreparedNvfp4::term(values, codes);
  std::uint8_t* const to =
      args.tiles + (head * args.head_tiles + first_value_tile(first, sequence) + tile) *
                       ValueTile::bytes(args.d);
  PreparedNvfp4::store(codes, to + ValueTile::code(i, block / 2) + 8 * (block % 2));
  to[ValueTile::scale(args.d, i) + block] = scale;
}

}  // namespace microscale::cuda::block_attention

#define MICROSCALE_PREPARE_ATTENTION_ENTRY(name, Arguments, ...)                   \
  extern "C" __global__ void __launch_bounds__(256) attention_prepare_##name(      \
      const __grid_constant__ microscale::cuda::block_attention::Arguments args) { \
    using namespace microscale::cuda::block_attention;                             \
    __VA_ARGS__(args);                                                             \
  }
