// Weights for one_row.cuh, k a multiple of 128: a lane loads 16 bytes that lie together of each of
// its two rows, and the scales of just those. From one 128 columns to the next all of it is equally
// far apart, in either layout of scales.
#pragma once

#include <cstdint>

#include "cuda/block/block_scale.cuh"
#include "cuda/matmul/fallback/weights_unpacked.cuh"
#include "cuda/matmul/lane_parts.cuh"

namespace microscale::cuda {

/// Where a lane's codes and scales begin, of rows g and g + 8.
struct OneRowSource {
  const std::uint8_t *codes[2], *scales[2];
  std::int64_t scale_step[2];  // from 128 columns to the next

  template <int CodeBits>
  __device__ void advance(int chunks) {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      codes[i] += chunks * (16 * CodeBits);
      scales[i] += chunks * scale_step[i];
    }
  }

  /// `column`: the lane's first of 128.
  template <int CodeBits, int Block>
  __device__ static OneRowSource of(const MatmulRowsArgs& args, std::int64_t matrix,
                                    std::int64_t row_tile, int column) {
    const auto plain = UnpackedSource::of<CodeBits, Block>(args, matrix, row_tile);
    constexpr int blocks = 128 / Block;
    OneRowSource source;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      source.codes[i] = plain.codes[i] + column * CodeBits / 8;
      const std::int64_t block = column / Block;
      source.scales[i] =
          plain.scales[i] +
          (plain.tiled[i] ? tiled_128x4::offset(plain.row[i], block, plain.blocks) : block);
      source.scale_step[i] =
          plain.tiled[i] ? blocks / tiled_128x4::tile_blocks * tiled_128x4::tile_bytes : blocks;
    }
    return source;
  }
};

/// 128 columns of 4-bit weights.
template <int Block>
struct OneRowFp4 : LaneParts {
  static constexpr int exponent_bias = e2m1_bits_bias;
  static constexpr int code_bits = 4;

  __device__ static OneRowSource source(const MatmulRowsArgs& args, std::int64_t matrix,
                                        std::int64_t row_tile) {
    return OneRowSource::of<4, Block>(args, matrix, row_tile,
                                      32 * static_cast<int>(threadIdx.x % 4));
  }
  __device__ static OneRowFp4 load(const OneRowSource& s) {
    OneRowFp4 w;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      w.codes[i] = ptx::ld_global_nc_no_allocate_v4(s.codes[i]);
      w.scales[i] = Block == 16 ? __ldg(reinterpret_cast<const std::uint16_t*>(s.scales[i]))
                                : __ldg(s.scales[i]);
    }
    return w;
  }
  /// Of row i, part 0 or 1.
  __device__ float scale(int i, int part) const {
    if constexpr (Block == 32) return decode_e8m0(static_cast<std::uint8_t>(scales[i]));
    return decode_e4m3(scales[i] >> 8 * part & 0x7Fu);
  }
  /// Which block of 32 of the 128 columns a part is in; for scales of a.
  __device__ static int block_32(int t, int) { return t; }
};

template <class Codec>
struct OneRowFp8 {
  static constexpr int exponent_bias = 0;
  static constexpr int code_bits = 8;
  uint4 codes[2][2];  // [row][part]
  std::uint32_t scales[2][2];

  __device__ static OneRowSource source(const MatmulRowsArgs& args, std::int64_t matrix,
                                        std::int64_t row_tile) {
    return OneRowSource::of<8, 32>(args, matrix, row_tile, 16 * static_cast<int>(threadIdx.x % 4));
  }
  __device__ static OneRowFp8 load(const OneRowSource& s) {
    OneRowFp8 w;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        w.codes[i][part] = ptx::ld_global_nc_no_allocate_v4(s.codes[i] + 64 * part);
        w.scales[i][part] = __ldg(s.scales[i] + 2 * part);
      }
    return w;
  }
  __device__ void fragment(int step, std::uint32_t (&a)[4]) const {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const uint4 part = codes[i][step / 4];
      const std::uint32_t words[4] = {part.x, part.y, part.z, part.w};
      a[i] = cvt_f16x2<Codec>(words[step % 4] & 0xFFFFu);
      a[2 + i] = cvt_f16x2<Codec>(words[step % 4] >> 16);
    }
  }
  __device__ float scale(int i, int part) const {
    return decode_e8m0(static_cast<std::uint8_t>(scales[i][part]));
  }
  __device__ static int block_32(int t, int part) { return 2 * part + t / 2; }
};

}  // namespace microscale::cuda
