// A quantized d of a matrix product: finished FP32 values of a warp to codes and scales, in the
// quantizer's own registers and with its own arithmetic (cuda/block/lane_chunks.cuh), so that they
// are the bytes that quantizing an FP32 d gives.
#pragma once

#include <cstdint>

#include "cuda/block/mx_format.cuh"
#include "cuda/block/nvfp4_format.cuh"
#include "cuda/block/row_exchange.cuh"
#include "cuda/block/lane_chunks.cuh"
#include "cuda/matmul/expanded/args.hpp"
#include "formats/half.hpp"

namespace microscale::cuda::expanded {

// Blocks of a row in accumulators of wgmma, where four neighbouring lanes, a quad, have pairs of
// columns in turn (wgmma.cuh): a block's elements lie on all four, and what they tell each
// other are largest magnitudes, scales, and in the end codes, so that each lane has eight bytes of
// a row.

struct QuadBlocks {
  /// part(r, b): FP32 bits of this lane's maximum of block b of row r, of two rows and eight
  /// blocks. The maxima of the quad's: lane t of it ends with those of row t / 2, blocks 4 * (t %
  /// 2) on.
  template <class Part>
  __device__ static void maxima(Part&& part, std::uint32_t (&own)[4]) {
    const bool second = threadIdx.x & 2, upper = threadIdx.x & 1;
    std::uint32_t kept[8];
#pragma unroll
    for (int b = 0; b < 8; ++b) {
      const std::uint32_t first_row = part(0, b), second_row = part(1, b);
      const std::uint32_t given = second ? first_row : second_row;
      kept[b] = max(second ? second_row : first_row, __shfl_xor_sync(whole_warp, given, 2));
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t given = upper ? kept[i] : kept[4 + i];
      own[i] = max(upper ? kept[4 + i] : kept[i], __shfl_xor_sync(whole_warp, given, 1));
    }
  }
  __device__ static int owned_row() { return static_cast<int>(threadIdx.x >> 1 & 1); }
  __device__ static int owned_block() { return static_cast<int>(threadIdx.x & 1) * 4; }

  /// What the owner of block b of row r found.
  __device__ static std::uint32_t told(const std::uint32_t (&own)[4], int r, int b) {
    return __shfl_sync(whole_warp, own[b % 4],
                       (threadIdx.x & 28u) | static_cast<unsigned>(2 * r + b / 4));
  }

  /// Byte u of lane t's result is byte t of lane u's.
  __device__ static std::uint32_t transpose(std::uint32_t bytes) {
#pragma unroll
    for (int distance = 2; distance > 0; distance /= 2) {
      const std::uint32_t other = __shfl_xor_sync(whole_warp, bytes, distance);
      bytes = __byte_perm(bytes, other, threadIdx.x & distance ? 0x3726 : 0x5140);
    }
    return bytes;
  }
  /// The same of pairs of bytes, two a register.
  __device__ static uint2 transpose(uint2 pairs) {
    const bool second = threadIdx.x & 2, odd = threadIdx.x & 1;
    const std::uint32_t half =
        __shfl_xor_sync(whole_warp, second ? pairs.x : pairs.y, 2);  // of lanes two further
    const std::uint32_t low = second ? half : pairs.x, high = second ? pairs.y : half;
    const std::uint32_t other =
        __shfl_xor_sync(whole_warp, __byte_perm(low, high, odd ? 0x5410 : 0x7632), 1);
    return make_uint2(__byte_perm(low, other, odd ? 0x3254 : 0x5410),
                      __byte_perm(high, other, odd ? 0x3276 : 0x7610));
  }
};

/// Any values under any multiplier, as encode_e2m1_any gives them, but without a call, around which
/// a caller with many values in registers would put some into memory.
__device__ inline std::uint32_t encode_e2m1_inline(const std::uint32_t (&w)[8], float multiplier) {
  constexpr float unit = 8388608.0f;  // as in encode_e2m1_f32
  std::uint32_t codes = 0;
#pragma unroll
  for (int i = 7; i >= 0; --i) {
    const float y = __fmul_rn(__uint_as_float(w[i]), multiplier);
    const float magnitude = fminf(fabsf(y), 8.0f);  // of NaN: 8, and the code is the largest
    const std::uint32_t line = min(min(__float_as_uint(__fmaf_rn(magnitude, 2.0f, unit)),
                                       __float_as_uint(__fmaf_rn(magnitude, 1.0f, unit + 2))),
                                   __float_as_uint(__fmaf_rn(magnitude, 0x1.333332p-2f, unit + 5)));
    codes = codes * 16 | (line & 7) | (y == y ? __float_as_uint(y) >> 28 & 8 : 0);
  }
  return codes;
}

/// Four values under a multiplier each half has: scaled before they are encoded. (An instruction
/// more than to let the encoder multiply; but that way the assembler spills.)
__device__ inline std::uint32_t encode_e2m1_halves(const std::uint32_t (&w)[8], float first,
                                                   float last) {
  std::uint32_t scaled[8];
#pragma unroll
  for (int i = 0; i < 8; ++i)
    scaled[i] = __float_as_uint(__fmul_rn(__uint_as_float(w[i]), i < 4 ? first : last));
  return encode_e2m1_f32<InputF32>(scaled, 1.0f);
}

/// The formats as the end of a product quantizes to them: FP32, and no calls. encode_halves: a
/// chunk of unpacked blocks, of its first and last four values what each was told.
template <class Codec>
struct ProductMx : MxFormat<Codec, false> {
  using Base = MxFormat<Codec, false>;
  using Chunk = std::uint32_t[InputF32::words];
  __device__ static typename Base::Codes encode_halves(const Chunk& w, std::uint32_t told,
                                                       std::uint32_t) {
    if constexpr (Base::code_bits == 8)
      return Base::template encode<InputF32>(w, told);
    else
      return encode_e2m1_halves(w, Base::multiplier(told), Base::multiplier(told));
  }
  template <class Input>
  __device__ static typename Base::Codes encode_any(const Chunk& w, std::uint32_t told) {
    if constexpr (Base::code_bits == 8)
      return Base::template encode_any<Input>(w, told);
    else
      return told == nan_block ? 0x77777777u
                               : encode_e2m1_inline(w, Base::multiplier(told & 0xFFu));
  }
};

struct ProductNvfp4 : Nvfp4Format<false> {
  using Chunk = std::uint32_t[InputF32::words];
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
  __device__ static Codes encode_halves(const Chunk& w, std::uint32_t first, std::uint32_t last) {
    return encode_e2m1_halves(w, __uint_as_float(first), __uint_as_float(last));
  }
  template <class>
  __device__ static Codes encode_any(const Chunk& w, std::uint32_t told) {
    return told == nan_block ? 0x77777777u : encode_e2m1_inline(w, __uint_as_float(told));
  }
};

/// What a warp has of d: eight rows by 128 columns, lane l chunk l % 16 of the rows l / 16 + 2 j;
/// or 16 rows by 256 columns as accumulators.
template <class Format>
class QuantizedStore {
 public:
  using Tile = LaneChunks<Format, InputF32, false, false>;
  static constexpr int rows = 8, columns = 128;
  __device__ static int row_of(int lane, int j) { return lane / 16 + 2 * j; }

  /// All threads of a block call it.
  __device__ explicit QuantizedStore(const ProductBlocks& out)
      : out_(out), shared_(Format::prepare(out.quantize.global_scale)) {}

  /// 16 rows that exist, of `values` that are finished, to words of scales. False where a block is
  /// not unpacked, as those with NaN or infinity, or codes of -0 are changed: nothing has been
  /// stored, and `values` are as they were.
  __device__ bool store_accumulators(std::int64_t matrix, std::int64_t row, std::int64_t column,
                                     float (&values)[128]) const {
    constexpr int parts = 32 / Format::block;  // of eight blocks of a row
    constexpr int lane_values = Format::block / 4;
    const QuantizeArgs& q = out_.quantize;
    std::uint32_t told[parts][4], words[parts];
    bool unpacked = q.zero_is_positive == 0;
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      const auto amax = [&](int r, int b) {
        const int first = (part * 8 + b) * lane_values * 2 + r * 2;
        float largest = 0.0f;
#pragma unroll
        for (int i = 0; i < lane_values; ++i)
          largest = ptx::max_nan_abs_f32(largest, values[first + i / 2 * 4 + i % 2]);
        return __float_as_uint(largest);
      };
      QuadBlocks::maxima(amax, told[part]);
      plan(told[part], words[part], unpacked);
    }
    if (__any_sync(whole_warp, !unpacked)) return false;

    const int lane = static_cast<int>(threadIdx.x & 31);
    const std::int64_t blocks = static_cast<std::uint64_t>(q.cols) / Format::block;
    const std::int64_t line = row + lane / 4 + 8 * QuadBlocks::owned_row();
#pragma unroll
    for (int part = 0; part < parts; ++part) {
      const std::int64_t block =
          static_cast<std::uint64_t>(column) / Format::block + 8 * part + QuadBlocks::owned_block();
      ptx::st_global_b32(
          q.scales + matrix * out_.scales_matrix +
              (out_.tiled ? tiled_128x4::offset(line, block, blocks) : line * blocks + block),
          words[part]);
    }
    std::uint8_t* to = q.codes + matrix * out_.codes_matrix + (row + lane / 4) * q.code_stride +
                       column * Format::code_bits / 8 + lane % 4 * 8;
#pragma unroll 1  // or all of both rows is begun at once, and there are no registers for it
    for (int r = 0; r < 2; ++r, to += 8 * q.code_stride) {
      typename Format::Codes codes[8];  // of 32 columns each: pairs of neighbours, eight apart
#pragma unroll
      for (int chunk = 0; chunk < 8; ++chunk) {
        typename Tile::Chunk v;
#pragma unroll
        for (int i = 0; i < 8; ++i) v[i] = __float_as_uint(values[chunk * 16 + i / 2 * 4 + i % 2]);
        const int block = chunk * parts, part = block / 8;
        const std::uint32_t first = QuadBlocks::told(told[part], r, block % 8);
        const std::uint32_t last =
            parts == 1 ? first : QuadBlocks::told(told[part], r, block % 8 + 1);
        codes[chunk] = Format::encode_halves(v, first, last);
        if constexpr (Format::code_bits == 8) {
          const uint2 own = QuadBlocks::transpose(codes[chunk]);
          ptx::st_global_v2(to + 32 * chunk, own.x, own.y);
        } else if (chunk % 2 == 1) {  // even bytes become the lanes' first words
          const std::uint32_t low = codes[chunk - 1], high = codes[chunk];
          ptx::st_global_v2(to + 16 * (chunk - 1),
                            QuadBlocks::transpose(__byte_perm(low, high, 0x6420)),
                            QuadBlocks::transpose(__byte_perm(low, high, 0x7531)));
        }
      }
#pragma unroll
      for (int i = 0; i < 128; i += 4) values[i] = values[i + 2], values[i + 1] = values[i + 3];
    }
    return true;
  }

  __device__ bool writes_words() const { return out_.quantize.tiles.scale_words != 0; }
  __device__ bool writes_padding() const { return out_.tiled != 0 && writes_words(); }

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
    if (writes_words()) {
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
  /// Four blocks' largest magnitudes to what their lanes are told, and their scales as a word.
  __device__ void plan(std::uint32_t (&own)[4], std::uint32_t& word, bool& unpacked) const {
    std::uint32_t scale[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) unpacked &= own[i] < infinity_bits;
    if constexpr (Tile::Exchange::owned == 4) {
      Format::plan(out_.quantize, shared_, own, scale);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const uint2 found = Format::plan_any(out_.quantize, shared_, own[i]);
        own[i] = found.x, scale[i] = found.y;
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) unpacked &= Format::template is_plain<InputF32>(shared_, own[i]);
    word = __byte_perm(__byte_perm(scale[0], scale[1], 0x0040),
                       __byte_perm(scale[2], scale[3], 0x0040), 0x5410);
  }

  const ProductBlocks& out_;
  typename Format::Shared shared_;
};

}  // namespace microscale::cuda::expanded
