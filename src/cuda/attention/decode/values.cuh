// The values of 32 tokens, from a warp's stage in shared memory to its sums, and where their block
// scales go.
//
// LaneValues: the lanes of row g read the g-th eighth of each token, and multiply what they decode
// by its scale. TurnedValues: `ldmatrix` turns 32 elements around, so that the rows of an
// instruction are of one block of 32. Then its scales can be multiplied into the probabilities, one
// product of halves where there are four for the elements, and no permutation brings two tokens
// together. Of blocks of 16 rows 0 to 3 have one and rows 4 to 7 the next; four rows of queries
// leave columns 4 to 7 free, so these have their probabilities times the scales of the second
// blocks.
#pragma once

#include <cstdint>

#include "cuda/attention/codes.cuh"
#include "cuda/attention/decode/ring.cuh"
#include "cuda/attention/decode/scales.cuh"
#include "cuda/attention/decode/sums.cuh"
#include "cuda/ptx/mma.cuh"

namespace microscale::cuda::attention::decode {

template <class Codes, int D, DecodeTokens Tokens>
class LaneValues {
  using Ring = AttentionRing<Codes::format, D, Tokens>;
  using Scales = AttentionScales<Codes, D, Tokens, false>;
  static constexpr int eights = D / 64, words = eights * Codes::words;  // of a lane and token
  static constexpr int row_bytes = D * Codes::words / 2;                // of a token's codes

 public:
  static constexpr ValueOrder order = ValueOrder::eighths;
  static constexpr float unit = 1.0f;  // of the sums, beside that of the scales
  /// Whether lane t of row g has sums of its columns 2 t and 2 t + 1 that count.
  __device__ static bool has(int, int) { return true; }

  /// The warp's ring begins at `ring`.
  __device__ void place(const AttentionDecodeArgs& args, std::uint32_t ring, std::uint32_t) {
    const int lane = static_cast<int>(threadIdx.x & 31);
    at_ =
        kept(ring + Ring::places(args).v_codes + lane % 4 * row_bytes + lane / 4 * (row_bytes / 8));
  }

  /// Those whose codes begin `codes` bytes behind the ring's first ones, times p, to the sums.
  template <int Tiles, class Sums>
  __device__ void add(const AttentionDecodeArgs& args, std::uint32_t codes,
                      const std::uint32_t (&scales)[Scales::v_words],
                      const std::uint32_t (&p)[Tiles][4], Sums& sums) const {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      std::uint32_t w[4][words];
#pragma unroll
      for (int i = 0; i < 4; ++i)  // tokens t, t + 4, t + 8, t + 12
        shared_words<words>(at_ + codes + c * Ring::places(args).sixteen_codes + 4 * i * row_bytes,
                            w[i]);
      sums.multiply_values(
          [&](int i, int four) {
            NibbleHalves v = Codes::template of_two<words>(w[2 * i], w[2 * i + 1], four);
#pragma unroll
            for (int n = 0; Scales::scaled && n < 4; ++n)
              v.n[n] = ptx::mul_rn_f16x2(
                  v.n[n],
                  scales[(2 * c + i) * Scales::v_scales + four / (2 * eights / Scales::v_scales)]);
            return v;
          },
          [&](const std::uint32_t(&a)[4], float(&o)[4], int tile) {
            ptx::mma_m16n8k16_f32_f16(o, a, p[tile][2 * c], p[tile][2 * c + 1]);
          });
    }
  }

 private:
  std::uint32_t at_;
};

/// Four bits an element; blocks of 32, or of 16 for four rows of queries.
template <class Codes, int D, DecodeTokens Tokens>
class TurnedValues {
  using Ring = AttentionRing<Codes::format, D, Tokens>;
  using Scales = AttentionScales<Codes, D, Tokens, true>;
  static constexpr int row_bytes = D / 2, run_bytes = 16;  // of a token's codes, of 32 of them
  static constexpr int runs = D / 32, blocks = 32 / Codes::block;  // of a run
  static constexpr int factors_bytes = 2 * decode_piece;           // of a block

 public:
  static constexpr ValueOrder order = ValueOrder::fours;
  // Probabilities are up to 2^15, so what they are multiplied by is to be at most 1.
  static constexpr float unit = Codes::relative ? 0x1p15f : 0x1p9f;
  __device__ static bool has(int g, int t) { return blocks == 1 || g / 4 == t / 2; }

  /// The warp's ring begins at `ring`, its factors at `factors`.
  __device__ void place(const AttentionDecodeArgs& args, std::uint32_t ring,
                        std::uint32_t factors) {
    const int lane = static_cast<int>(threadIdx.x & 31);
    at_ = kept(ring + Ring::places(args).v_codes +
               (lane / 8 % 2 * 8 + decode_token(lane % 8)) * row_bytes + lane / 16 * run_bytes);
    factors_ = kept(factors);
  }

  /// `scales`: of blocks 2 n and 2 n + 1 of the lane's own token (AttentionScales).
  template <int Tiles, class Sums>
  __device__ void add(const AttentionDecodeArgs& args, std::uint32_t codes,
                      const std::uint32_t (&scales)[Scales::v_words],
                      const std::uint32_t (&p)[Tiles][4], Sums& sums) const {
    put(scales);
    const std::uint32_t lane = threadIdx.x & 31,
                        second = blocks == 2 ? lane / 16 * factors_bytes : 0,
                        own = factors_ + lane % 4 * 16 + second;
#pragma unroll
    for (int two = 0; two < runs; two += 2) {
      uint4 factors[2];
#pragma unroll
      for (int i = 0; i < 2; ++i)
        factors[i] = ptx::ld_shared_v4(own + (two + i) * (blocks * factors_bytes));
#pragma unroll
      for (int c = 0; c < 2; ++c) {
        std::uint32_t w[4];  // of both eights of tokens, of run `two`, then of the next
        ptx::ldmatrix_m8n8_x4_trans_b16(
            w, at_ + codes + c * Ring::places(args).sixteen_codes + two * run_bytes);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const std::uint32_t by[2] = {c == 0 ? factors[i].x : factors[i].z,
                                       c == 0 ? factors[i].y : factors[i].w};
          std::uint32_t scaled[Tiles][2];
#pragma unroll
          for (int tile = 0; tile < Tiles; ++tile)
#pragma unroll
            for (int eight = 0; eight < 2; ++eight)
              scaled[tile][eight] = ptx::mul_rn_f16x2(p[tile][2 * c + eight], by[eight]);
          sums.multiply_four(two + i, nibble_halves(w[2 * i]), nibble_halves(w[2 * i + 1]),
                             [&](const std::uint32_t(&a)[4], float(&o)[4], int tile) {
                               ptx::mma_m16n8k16_f32_f16(o, a, scaled[tile][0], scaled[tile][1]);
                             });
        }
      }
    }
  }

 private:
  /// Scales of all tokens to where lanes find those of a block and of the tokens that they have
  /// probabilities of: of lane t and eight u of tokens two halves, word 4 t + u. Lane 8 u + row has
  /// row `row` of eight u; it and its neighbour put one block of two each.
  __device__ void put(const std::uint32_t (&scales)[Scales::v_words]) const {
    constexpr std::uint32_t unit_inverse = Codes::relative ? 0x02000200u : 0x18001800u;
    const std::uint32_t lane = threadIdx.x & 31, odd = lane % 2,
                        to = factors_ + odd * factors_bytes + lane % 8 / 2 * 16 + lane / 8 * 4;
    __syncwarp();  // all have read what was there
#pragma unroll
    for (int n = 0; n < Scales::v_words; ++n) {
      const std::uint32_t own = ptx::mul_rn_f16x2(scales[n], unit_inverse),
                          other = __shfl_xor_sync(~0u, own, 1);
      ptx::st_shared_b32(to + 2 * n * factors_bytes,
                         ptx::prmt_b32(own, other, odd == 0 ? 0x5410 : 0x3276));
    }
    __syncwarp();
  }

  std::uint32_t at_, factors_;
};

}  // namespace microscale::cuda::attention::decode
