// A warp's product of 16 rows x 128 columns of weights by one row of a
// (cuda/matmul/lane_parts.cuh). Both parts of a take the same registers here: what part 0 leaves in
// part 1's column is not read.
#pragma once

#include <cstdint>

#include "cuda/block/decode.cuh"
#include "cuda/matmul/few_rows/args.hpp"
#include "cuda/matmul/few_rows/unpacked_row.cuh"
#include "cuda/matmul/lane_parts.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/packed.cuh"
#include "cuda/ptx/scalar.cuh"

namespace microscale::cuda::few_rows {

/// A lane's share of half of its warp's columns in a stage.
template <int Block>
struct UnpackedWeights : LaneParts {
  /// Shared addresses of a lane's codes and scales in the first stage; the warp's columns begin at
  /// `column` of it.
  struct Place {
    std::uint32_t codes[2];   // of both halves
    std::uint32_t scales[2];  // of both rows; the second half's are `half` further
    std::uint32_t half;
    __device__ Place(std::uint32_t base, int column, int lane, bool tiled) {
      constexpr int pitch = stage_scale_row(Block);
      const int row = row_of_fragment(lane / 4), block = column / Block,
                own = lane % 4 * 32 / Block;
      codes[0] = base + column / piece_columns * (tile_rows * piece_bytes) + row * piece_bytes +
                 (lane % 4 ^ row) * 16;
      codes[1] = codes[0] ^ 64;
      scales[0] =
          base + stage_code_bytes +
          (tiled ? block / 4 * (tile_rows * 4) + 4 * row + own / 4 * (tile_rows * 4) + own % 4
           : Block == 16 ? row * pitch + ((block / 16) ^ row) * 16 + own
                         : row * pitch + block + own);
      scales[1] = scales[0] + 8 * (tiled ? 4 : pitch);
      half = half_columns / Block * (tiled ? tile_rows : 1);
    }
  };
  /// `from`: where the stage begins, from the first on; bytes.
  __device__ static UnpackedWeights read(const Place& place, std::uint32_t from, int half) {
    UnpackedWeights w;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const std::uint32_t scales = place.scales[i] + from + half * place.half;
      w.codes[i] = ptx::ld_shared_v4(place.codes[half] + from + 8 * i * piece_bytes);
      w.scales[i] = Block == 16 ? ptx::ld_shared_u16(scales) : ptx::ld_shared_u8(scales);
    }
    return w;
  }
  __device__ std::uint32_t last_read() const { return codes[1].x | scales[1]; }
  /// Scales of both parts of row i.
  __device__ float2 scale(int i) const {
    if constexpr (Block == 32) {
      const float both = e8m0_scale(scales[i]);
      return {both, both};
    }
    const std::uint32_t pair = ptx::cvt_rn_f16x2_e4m3x2(scales[i]);
    return {fabsf(ptx::cvt_f32_f16(pair)), fabsf(ptx::cvt_f32_f16(pair >> 16))};
  }
};

/// a in FP4: both sides are integers, twice their values, so products and sums are exact. A byte
/// permutation looks up four magnitudes of weights, and gives 0 for a code with a sign; with the
/// signs turned, it gives the others. So positive weights are multiplied by a, negative ones by -a.
template <int Block>
struct ByCodes {
  using Units = CodeUnits;

  __device__ static void multiply(const UnpackedWeights<Block>& w, const uint4& plus,
                                  const uint4& minus, std::uint32_t unit_scales, float (&sums)[2]) {
    constexpr std::uint32_t zero_bits = 0x4B400000;  // as FP32 1.5 x 2^23, units of 1
    constexpr float zero = 12582912.0f;
    const std::uint32_t a_plus[4] = {plus.x, plus.y, plus.z, plus.w},
                        a_minus[4] = {minus.x, minus.y, minus.z, minus.w};
    std::uint32_t d[2][4];
#pragma unroll
    for (int part = 0; part < 2; ++part)
#pragma unroll
      for (int i = 0; i < 4; ++i) d[part][i] = zero_bits;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int sign = 0; sign < 2; ++sign)
#pragma unroll
        for (int part = 0; part < 2; ++part) {
          std::uint32_t a[4];
#pragma unroll
          for (int row = 0; row < 2; ++row) {
            const std::uint32_t word = w.word(row, 2 * part + i) ^ (sign == 0 ? 0u : 0x88888888u);
            a[row] = twice_unsigned(word);
            a[2 + row] = twice_unsigned(ptx::dp2a_lo_u32_u32(word, 0x100, 0));  // word >> 16
          }
          const auto& b = sign == 0 ? a_plus : a_minus;
          ptx::mma_m16n8k32_s32_s8(d[part], a, b[2 * i], b[2 * i + 1]);
        }
    const uint2 of_a = ptx::ld_shared_v2(unit_scales);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 own = w.scale(i);
      const float first = __fmul_rn(own.x, __uint_as_float(of_a.x)),
                  second = __fmul_rn(own.y, __uint_as_float(of_a.y));
      sums[i] = __fmaf_rn(__fsub_rn(__uint_as_float(d[0][2 * i]), zero), first, sums[i]);
      sums[i] = __fmaf_rn(__fsub_rn(__uint_as_float(d[1][2 * i + 1]), zero), second, sums[i]);
    }
  }
};

/// a in FP16; weights become FP16 by moving their bits.
template <int Block>
struct ByHalves {
  using Units = HalfUnits;

  __device__ static void multiply(const UnpackedWeights<Block>& w, const uint4& first,
                                  const uint4& second, std::uint32_t, float (&sums)[2]) {
    const std::uint32_t b[8] = {first.x,  first.y,  first.z,  first.w,
                                second.x, second.y, second.z, second.w};
    float d[2][4] = {};
#pragma unroll
    for (int step = 0; step < 4; ++step)
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        std::uint32_t a[4];
        w.fragment(4 * part + step, a);
        ptx::mma_m16n8k16_f32_f16(d[part], a, b[2 * step], b[2 * step + 1]);
      }
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float2 own = w.scale(i);
      sums[i] = __fmaf_rn(d[0][2 * i], own.x, sums[i]);
      sums[i] = __fmaf_rn(d[1][2 * i + 1], own.y, sums[i]);
    }
  }
};

}  // namespace microscale::cuda::few_rows
