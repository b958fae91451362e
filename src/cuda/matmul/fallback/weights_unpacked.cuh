// Weights as they lie in a checkpoint, rows of codes and scales in rows or in 128x4 tiles: a lane's
// share of 64 or 128 columns, in the order of fragment_order.hpp.
#pragma once

#include <cstdint>

#include "cuda/matmul/fragment_order.hpp"
#include "cuda/matmul/fallback/weights_packed.cuh"
#include "layouts/tiled_128x4.hpp"

namespace microscale::cuda {

/// The two rows of a lane, g and g + 8 of a tile; gated: row g of the gate and of up. In place of
/// rows beyond the last the last one is read; their sums are not stored.
struct UnpackedSource {
  const std::uint8_t *codes[2], *scales[2];
  std::int64_t row[2];  // where scales are in tiles
  std::int64_t k, blocks;
  int t;  // lane of four
  bool tiled[2], wide;

  template <int CodeBits, int Block>
  __device__ static UnpackedSource of(const MatmulRowsArgs& args, std::int64_t matrix,
                                      std::int64_t row_tile) {
    const int g = static_cast<int>(threadIdx.x & 31) / 4;
    UnpackedSource source;
    source.k = args.k;
    source.blocks = args.k / Block;
    source.t = static_cast<int>(threadIdx.x) % 4;
    source.wide = args.wide != 0;
    const bool gated = args.output.gated != 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::int64_t row = gated ? row_tile * 8 + g : row_tile * 16 + g + 8 * i;
      source.row[i] = row < args.n ? row : args.n - 1;
      const bool up = gated && i == 1;
      const std::uint8_t* codes = up ? args.up : args.b;
      const std::uint8_t* scales = up ? args.up_scales + matrix * args.up_scale_matrix
                                      : args.b_scales + matrix * args.b_scale_matrix;
      source.tiled[i] = (up ? args.up_tiled : args.tiled) != 0;
      source.codes[i] = codes + matrix * args.b_matrix + source.row[i] * (args.k * CodeBits / 8);
      source.scales[i] = scales;
      if (!source.tiled[i]) source.scales[i] += source.row[i] * source.blocks;
    }
    return source;
  }

  /// Scale bytes of `Count` (2 or 4) neighbouring blocks of row i, the first a multiple of Count;
  /// beyond k: 0.
  template <int Count>
  __device__ std::uint32_t scale_bytes(int i, std::int64_t block) const {
    if (block >= blocks) return 0;
    const std::uint8_t* at =
        scales[i] + (tiled[i] ? tiled_128x4::offset(row[i], block, blocks) : block);
    if (wide || tiled[i]) {
      if constexpr (Count == 4) return ptx::ld_global_nc_b32(at);
      return __ldg(reinterpret_cast<const std::uint16_t*>(at));
    }
    std::uint32_t bytes = 0;
#pragma unroll
    for (int b = 0; b < Count; ++b)
      if (block + b < blocks) bytes |= static_cast<std::uint32_t>(__ldg(at + b)) << 8 * b;
    return bytes;
  }

  __device__ std::uint32_t scale_byte(int i, std::int64_t block) const {
    return __ldg(scales[i] + (tiled[i] ? tiled_128x4::offset(row[i], block, blocks) : block));
  }

  /// 16 bytes of codes of row i; where rows are not aligned, the second eight only if `all`.
  __device__ uint4 sixteen(int i, std::int64_t byte, bool all) const {
    const std::uint8_t* at = codes[i] + byte;
    if (wide) return ptx::ld_global_nc_no_allocate_v4(at);
    const uint2 first = ptx::ld_global_nc_v2(at);
    const uint2 second = all ? ptx::ld_global_nc_v2(at + 8) : uint2{0, 0};
    return make_uint4(first.x, first.y, second.x, second.y);
  }
};

/// What a product asks of weights: `CodeBits` of an element, `Block` elements of a scale.
template <int CodeBits, int Block>
struct UnpackedWeightsOf {
  using Source = UnpackedSource;
  __device__ static Source source(const MatmulRowsArgs& args, std::int64_t matrix,
                                  std::int64_t row_tile) {
    return UnpackedSource::of<CodeBits, Block>(args, matrix, row_tile);
  }
};

/// FP16 operands times the first or the second of two scales.
__device__ inline NibblePairs scaled(const NibblePairs& pairs, std::uint32_t scales, bool second) {
  if (second)
    return {ptx::mul_rn_f16x2_by_high(pairs.first, scales),
            ptx::mul_rn_f16x2_by_high(pairs.second, scales)};
  return {ptx::mul_rn_f16x2_by_low(pairs.first, scales),
          ptx::mul_rn_f16x2_by_low(pairs.second, scales)};
}

/// 128 columns at a time: a lane has 32 neighbours, two blocks of its own.
struct UnpackedNvfp4By128 : UnpackedWeightsOf<4, 16> {
  static constexpr bool scales_follow = false;
  static constexpr int columns = 128;
  static constexpr int exponent_bias = nvfp4_bias;
  uint4 codes[2];           // of both rows
  std::uint32_t scales[2];  // two bytes each

  __device__ static UnpackedNvfp4By128 load(const Source& s, std::int64_t chunk) {
    const std::int64_t column = chunk * columns + 32 * s.t;
    UnpackedNvfp4By128 w{};
    if (column >= s.k) return w;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      w.codes[i] = s.sixteen(i, column / 2, column + 16 < s.k);
      w.scales[i] = s.scale_bytes<2>(i, column / 16);
    }
    return w;
  }
  /// Instruction `step` of 8.
  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t words[4] = {codes[i].x, codes[i].y, codes[i].z, codes[i].w};
      const NibblePairs pairs = e2m1_of_word(words[step / 2], step % 2 != 0);
      const NibblePairs own = scaled(pairs, ue4m3_pair(scales[i]), step >= 4);
      a[i] = own.first;
      a[2 + i] = own.second;
    }
  }
};

/// Codes of 64 columns of both rows: a lane has eight neighbours of each 32, so an instruction
/// stays inside 32 columns. Word: eight codes, zeros beyond k.
template <class Word>
struct UnpackedCodes64 {
  static constexpr int columns = 64;
  Word codes[2][2];  // [row][32 columns]

  __device__ void load_row(int i, const UnpackedSource& s, std::int64_t chunk) {
#pragma unroll
    for (int b = 0; b < 2; ++b) {
      const std::int64_t column = chunk * columns + 32 * b + 8 * s.t;
      if constexpr (sizeof(Word) == 4) {
        if (column < s.k) codes[i][b] = ptx::ld_global_nc_b32(s.codes[i] + column / 2);
      } else {
        if (column < s.k) codes[i][b] = ptx::ld_global_nc_v2(s.codes[i] + column);
      }
    }
  }
};

/// For an a with block scales, which go with the sums of 32 columns.
struct UnpackedNvfp4By64 : UnpackedWeightsOf<4, 16>, UnpackedCodes64<std::uint32_t> {
  static constexpr bool scales_follow = false;
  static constexpr int exponent_bias = nvfp4_bias;
  std::uint32_t scales[2];  // of the lane's blocks, one in each 32 columns

  __device__ static UnpackedNvfp4By64 load(const Source& s, std::int64_t chunk) {
    UnpackedNvfp4By64 w{};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      w.load_row(i, s, chunk);
      const std::uint32_t four = s.scale_bytes<4>(i, chunk * 4) >> (s.t / 2 * 8);
      w.scales[i] = ptx::prmt_b32(four, 0, 0x4420);  // bytes 0 and 2
    }
    return w;
  }
  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const NibblePairs pairs = e2m1_of_word(codes[i][step / 2], step % 2 != 0);
      const NibblePairs own = scaled(pairs, ue4m3_pair(scales[i]), step >= 2);
      a[i] = own.first;
      a[2 + i] = own.second;
    }
  }
};

/// MX: a block's scale is multiplied into its sums. Made is what derives from it.
template <class Made, int CodeBits, class Word>
struct UnpackedMx : UnpackedWeightsOf<CodeBits, 32>, UnpackedCodes64<Word> {
  static constexpr bool scales_follow = true;
  std::uint32_t scales[2];  // of both rows, two blocks each

  __device__ static Made load(const UnpackedSource& s, std::int64_t chunk) {
    Made w{};
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      w.load_row(i, s, chunk);
      w.scales[i] = s.template scale_bytes<2>(i, chunk * 2);
    }
    return w;
  }
  __device__ RowScales row_scales(int block) const {
    return {decode_e8m0(static_cast<std::uint8_t>(scales[0] >> 8 * block)),
            decode_e8m0(static_cast<std::uint8_t>(scales[1] >> 8 * block))};
  }
};

struct UnpackedMxfp4 : UnpackedMx<UnpackedMxfp4, 4, std::uint32_t> {
  static constexpr int exponent_bias = e2m1_bits_bias;

  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const NibblePairs pairs = e2m1_of_word(codes[i][step / 2], step % 2 != 0);
      a[i] = pairs.first;
      a[2 + i] = pairs.second;
    }
  }
};

template <class Codec>
struct UnpackedMxfp8 : UnpackedMx<UnpackedMxfp8<Codec>, 8, uint2> {
  static constexpr int exponent_bias = 0;

  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint2 both = this->codes[i][step / 2];
      const std::uint32_t word = step % 2 ? both.y : both.x;
      a[i] = cvt_f16x2<Codec>(word & 0xFFFFu);
      a[2 + i] = cvt_f16x2<Codec>(word >> 16);
    }
  }
};

}  // namespace microscale::cuda
