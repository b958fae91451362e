// What a warp has summed for its rows of queries so far, and the products that add tokens to it: 16
// of them are the first operand of mma.m16n8k16, whatever they are read from.
//
// S^T = K Q^T: lane t of a row of four takes the t-th quarter of d, so the sum over d comes in an
// order of its own and q is put to match. Row r of a half of the 16 is token r / 2 + 4 (r % 2) of
// it. O^T = V^T P^T: the lanes of row g take fours of d (ValueOrder), of two tokens at a time; S^T
// becomes P^T by movmatrix. One product more, by ones, adds the probabilities up.
//
// Probabilities are e^(s - reference), in FP16. A reference moves only when a score would not fit.
#pragma once

#include <cstdint>

#include "cuda/attention/codes.cuh"
#include "cuda/attention/rows.cuh"
#include "cuda/ptx/mma.cuh"

namespace microscale::cuda::attention::decode {

/// Token of row `row` of the first 8 of 16.
__device__ inline int decode_token(int row) { return (row >> 1) + 4 * (row & 1); }
/// Of the lane's row g.
__device__ inline int decode_own_token() {
  return decode_token(static_cast<int>(threadIdx.x & 31) >> 2);
}

/// Which elements of a token's values the lanes of row g take: the g-th eighth, or of every 32 the
/// g-th four.
enum class ValueOrder { eighths, fours };

/// Rows: of queries, 4, 8 or 16. They are the columns of the products, in tiles of 8. Four rows
/// take columns 0 to 3, and columns 4 to 7 have the same queries again: their probabilities may
/// then be multiplied by the scales of other values than those of columns 0 to 3 (TurnedValues),
/// else they are not used.
template <int D, int Rows, ValueOrder Order>
struct AttentionSums {
  static constexpr int rows = Rows, tiles = (Rows + 7) / 8, Tiles = tiles;
  static constexpr int k_eights = D / 32;  // elements of a lane, of a token
  static constexpr int o_tiles = D / 16;
  // Of values a lane has fours: how far apart they are, and from the lanes of g to those of g + 1.
  static constexpr int v_fours = D / 32;
  static constexpr int four_step = Order == ValueOrder::eighths ? 4 : 32,
                       lane_step = Order == ValueOrder::eighths ? D / 8 : 4;

  std::uint32_t q[Tiles][k_eights][4];          // decode_query()
  float factor[Tiles][2], reference[Tiles][2];  // of rows 2 t, 2 t + 1
  float weight[4];                              // of the same: of tile 0, of tile 1
  float o[Tiles][o_tiles][4];

  /// The row of column `column` of a tile.
  __device__ static int row_of(int tile, int column) {
    return Rows < 8 ? column % Rows : 8 * tile + column;
  }

  __device__ void clear() {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile) {
#pragma unroll
      for (int j = 0; j < 2; ++j) reference[tile][j] = decode_no_reference;
#pragma unroll
      for (int j = 0; j < 2; ++j) weight[2 * tile + j] = weight[2 + j] = 0.0f;
#pragma unroll
      for (int i = 0; i < o_tiles; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) o[tile][i][j] = 0.0f;
    }
  }

  /// Products of 16 keys. eight(half, i): the lane's eight number i of token decode_own_token() + 8
  /// half, elements n and n + 4 a pair; multiply(a, tile, i, j) takes them with q[tile][i][2 j] and
  /// the next.
  template <class Eight, class Multiply>
  __device__ static void multiply_keys(Eight&& eight, Multiply&& multiply) {
#pragma unroll
    for (int i = 0; i < k_eights; ++i) {
      const NibbleHalves k[2] = {eight(0, i), eight(1, i)};
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const std::uint32_t a[4] = {k[0].n[3 - j], k[1].n[3 - j], k[0].n[1 - j], k[1].n[1 - j]};
#pragma unroll
        for (int tile = 0; tile < Tiles; ++tile) multiply(a, tile, i, j);
      }
    }
  }

  /// Products of 16 values. of_two(i, four): the lane's four number `four` of tokens t + 8 i and t
  /// + 4 + 8 i, a pair of theirs each; multiply(a, o of a tile, tile) takes them with p.
  template <class OfTwo, class Multiply>
  __device__ void multiply_values(OfTwo&& of_two, Multiply&& multiply) {
#pragma unroll
    for (int four = 0; four < v_fours; ++four)
      multiply_four(four, of_two(0, four), of_two(1, four), multiply);
  }
  /// Of one four.
  template <class Multiply>
  __device__ void multiply_four(int four, const NibbleHalves& first, const NibbleHalves& second,
                                Multiply&& multiply) {
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const std::uint32_t a[4] = {first.n[3 - j], first.n[1 - j], second.n[3 - j], second.n[1 - j]};
#pragma unroll
      for (int tile = 0; tile < Tiles; ++tile) multiply(a, o[tile][2 * four + j], tile);
    }
  }

  /// Adds the probabilities of 16 tokens up, of which p[tile] has two words from `first` on.
  template <int Words>
  __device__ void add_weights(const std::uint32_t (&p)[Tiles][Words], int first) {
    constexpr std::uint32_t one = 0x3C003C00u, ones[2][4] = {{one, 0, one, 0}, {0, one, 0, one}};
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
      ptx::mma_m16n8k16_f32_f16(weight, ones[tile], p[tile][first], p[tile][first + 1]);
  }

  /// e^(s factors - reference), summed, and as the second operand of O^T; s[tile][4 c + i] of 16
  /// tokens c.
  template <int Scores>
  __device__ void probabilities(const float (&s)[Tiles][Scores], const float (&factors)[Tiles][2],
                                std::uint32_t (&p)[Tiles][Scores / 2]) {
    float largest[Tiles][2];
    bool fits = true;
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float* const x = s[tile];
        float most = fmaxf(x[j], x[j + 2]);
#pragma unroll
        for (int i = 4; i < Scores; i += 4) most = fmaxf(most, fmaxf(x[i + j], x[i + j + 2]));
        largest[tile][j] = __fmul_rn(most, factors[tile][j]);
        fits = fits && !(__fsub_rn(largest[tile][j], reference[tile][j]) > decode_most);
      }
    if (__builtin_expect(__any_sync(~0u, !fits), 0)) raise(largest);
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < Scores / 2; ++i) {
        float e[2];
#pragma unroll
        for (int j = 0; j < 2; ++j)
          e[j] = ptx::ex2_approx_ftz_f32(
              __fmaf_rn(s[tile][2 * i + j], factors[tile][j], -reference[tile][j]));
        p[tile][i] = ptx::movmatrix_trans_m8n8_b16(ptx::cvt_rn_f16x2_f32(e[0], e[1]));
      }
  }

  /// References of rows whose `largest` score is too high for theirs, and what has been summed.
  __device__ void raise(const float (&largest)[Tiles][2]) {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        float share;
        decode_raise(largest[tile][j], reference[tile][j], share);
        weight[2 * tile + j] = __fmul_rn(weight[2 * tile + j], share);
#pragma unroll
        for (int i = 0; i < o_tiles; ++i) {
          o[tile][i][j] = __fmul_rn(o[tile][i][j], share);
          o[tile][i][j + 2] = __fmul_rn(o[tile][i][j + 2], share);
        }
      }
  }

  /// Sums of values, in another unit.
  __device__ void scale_values(float by) {
#pragma unroll
    for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
      for (int i = 0; i < o_tiles; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j) o[tile][i][j] = __fmul_rn(o[tile][i][j], by);
  }
};

}  // namespace microscale::cuda::attention::decode
