// A quantized d of a matrix product: finished FP32 values of a warp to codes and scales, in the
// quantizer's own registers and with its own arithmetic (quantize_tile.cuh), so that they are the
// bytes that quantizing an FP32 d gives.
#pragma once

#include <cstdint>

#include "cuda/matmul_args.hpp"
#include "cuda/tile/mx_format.cuh"
#include "cuda/tile/nvfp4_format.cuh"
#include "cuda/tile/quantize_tile.cuh"
#include "formats/half.hpp"

namespace microscale::cuda {

/// Any values under any multiplier, as encode_e2m1_any gives them, but without a call, around which
/// a caller with many values in registers would put some into memory.
template <class Input>
__device__ std::uint32_t encode_e2m1_inline(const std::uint32_t (&w)[Input::words],
                                            float multiplier) {
  constexpr float unit = 8388608.0f;  // as in encode_e2m1_f32
  std::uint32_t codes = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) {
    const float x = Input::value(w, i), y = __fmul_rn(x, multiplier);
    const float magnitude = fminf(fabsf(y), 8.0f);  // of NaN: 8, and the code is the largest
    const std::uint32_t line = min(min(__float_as_uint(__fmaf_rn(magnitude, 2.0f, unit)),
                                       __float_as_uint(__fmaf_rn(magnitude, 1.0f, unit + 2))),
                                   __float_as_uint(__fmaf_rn(magnitude, 0x1.333332p-2f, unit + 5)));
    codes = codes * 16 | (line & 7) | (y == y ? __float_as_uint(y) >> 28 & 8 : 0);
  }
  return codes;
}

/// Two FP32 to BF16, to the odd one of the two around each: whether an FP32 is above or below a
/// number of up to seven bits, or equal to it, can be told from that.
__device__ inline std::uint32_t odd_bf16x2(float low, float high) {
  const std::uint32_t a = __float_as_uint(low), b = __float_as_uint(high);
  return __byte_perm(a, b, 0x7632) | __vminu2(__byte_perm(a, b, 0x5410), 0x00010001u);
}

/// The formats as the end of a product quantizes to them: eight neighbouring FP32 values as a chunk
/// of `Input`, and no calls.
template <class Codec>
struct ProductMxfp8 : MxFormat<Codec, false> {
  using Input = InputF32;
  __device__ static void make(const float (&v)[8], std::uint32_t (&w)[8]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) w[i] = __float_as_uint(v[i]);
  }
};

/// Under any rule this asks no more of a value than odd_bf16x2 keeps: exponents and fractions of
/// one bit decide on scales, values of three bits, scaled by powers of two, on codes. And BF16 is
/// encoded two elements at a time.
struct ProductMxfp4 : MxFormat<E2M1, false> {
  using Input = InputBf16;
  __device__ static void make(const float (&v)[8], std::uint32_t (&w)[4]) {
#pragma unroll
    for (int i = 0; i < 4; ++i) w[i] = odd_bf16x2(v[2 * i], v[2 * i + 1]);
  }
  template <class>
  __device__ static Codes encode_any(const std::uint32_t (&w)[4], std::uint32_t told) {
    return told == nan_block ? 0x77777777u : encode_e2m1_inline<Input>(w, multiplier(told & 0xFFu));
  }
};

struct ProductNvfp4 : Nvfp4Format<false> {
  using Input = InputF32;
  __device__ static void make(const float (&v)[8], std::uint32_t (&w)[8]) {
    ProductMxfp8<E4M3>::make(v, w);
  }
  __device__ static void plan(const QuantizeArgs& args, const Shared& shared,
                              std::uint32_t (&own)[4], std::uint32_t (&scale)[4]) {
    float scaled[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {  // infinity converts to the largest scale, NaN to that of NaN
      scaled[j] = own[j] == 0 ? 0.0f : __fmul_rn(__uint_as_float(own[j]), shared.scale_factor);
      if (own[j] >= infinity_bits && is_nan_block(args, own[j])) scaled[j] = canonical_nan();
    }
#pragma unroll
    for (int j = 0; j < 4; j += 2) {
      const std::uint32_t codes = ptx::cvt_rn_satfinite_e4m3x2_f32(scaled[j], scaled[j + 1]);
      scale[j] = codes & 0xFFu, scale[j + 1] = codes >> 8;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) own[j] = __float_as_uint(shared.multipliers[scale[j]]);
  }
  template <class>
  __device__ static Codes encode_any(const std::uint32_t (&w)[8], std::uint32_t told) {
    return told == nan_block ? 0x77777777u : encode_e2m1_inline<Input>(w, __uint_as_float(told));
  }
};

/// A warp has eight rows of d by 128 columns; lane l chunk l % 16 of the rows l / 16 + 2 j.
template <class Format>
class QuantizedStore {
 public:
  using Tile = RowTile<Format, typename Format::Input, false, false>;
  static constexpr int rows = 8, columns = 128;
  __device__ static int row_of(int lane, int j) { return lane / 16 + 2 * j; }

  /// All threads of a block call it.
  __device__ explicit QuantizedStore(const ProductBlocks& out)
      : out_(out), shared_(Format::prepare(out.quantize)) {}

  __device__ bool writes_padding() const {
    return out_.tiled != 0 && out_.quantize.tiles.scale_words != 0;
  }

  /// The rows from `row` on, of which `rows_here` exist, and the columns from `column` on, of which
  /// `columns_here` are this warp's. Where it writes padding, `row` is within the last 128 rows.
  __device__ void store(int lane, std::int64_t matrix, std::int64_t row, std::int64_t column,
                        int rows_here, int columns_here, const typename Tile::Chunk (&w)[4]) const {
    using Exchange = typename Tile::Exchange;
    const QuantizeArgs& q = out_.quantize;
    const int piece = lane % 16;
    const std::int64_t own = column + 8 * piece;
    const bool here = 8 * piece < columns_here;
    const std::int64_t blocks = static_cast<std::uint64_t>(q.cols) / Format::block,
                       block = static_cast<std::uint64_t>(own) / Format::block;
    const std::int64_t first = row + row_of(lane, 0);
    RowCursor at{};
    at.target =
        q.codes + matrix * out_.codes_matrix + first * q.code_stride + own * Format::code_bits / 8;
    at.left = here && own < q.cols ? rows_here - row_of(lane, 0) : 0;
    std::uint8_t* const scales = q.scales + matrix * out_.scales_matrix;
    if (q.tiles.scale_words) {
      const int word_row = row_of(lane, Exchange::word_row());
      const std::int64_t line = row + word_row, word = block & ~3;
      at.scales =
          scales + (out_.tiled ? tiled_128x4::offset(line, word, blocks) : line * blocks + word);
      const bool stores = Exchange::has_word() && here && word < blocks;
      at.words_left = !stores ? 0 : out_.tiled ? 1 : rows_here - word_row;
    } else {
      at.scales = scales +
                  (out_.tiled ? tiled_128x4::offset(first, block, blocks) : first * blocks + block);
    }
    // In a tile the next of 32 rows is 16 bytes further.
    const Tile tile{q, shared_, 2, out_.tiled ? 16 : blocks, nullptr};
    tile.template run<false>(at, w);
  }

 private:
  const ProductBlocks& out_;
  typename Format::Shared shared_;
};

}  // namespace microscale::cuda
