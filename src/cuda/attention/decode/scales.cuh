// The scales of a warp's 32 tokens as operands in FP16: NVFP4's as they are, those of MX formats
// relative to the largest so far of K's and of V's. V's for LaneValues or for TurnedValues
// (values.cuh).
#pragma once

#include <cstdint>

#include "cuda/attention/codes.cuh"
#include "cuda/attention/decode/ring.cuh"
#include "cuda/attention/decode/sums.cuh"

namespace microscale::cuda::attention::decode {

/// Turned: for TurnedValues.
template <class Codes, int D, DecodeTokens Tokens, bool Turned>
class AttentionScales {
  using Ring = AttentionRing<Codes::format, D, Tokens>;

 public:
  static constexpr bool scaled = Codes::block > 0;
  // Of a lane, of a token.
  static constexpr int k_scales = scaled && D / 4 > Codes::block ? D / 4 / Codes::block : 1;
  static constexpr int v_scales = scaled && D / 8 > Codes::block ? D / 8 / Codes::block : 1;
  static constexpr int v_blocks = scaled ? D / Codes::block : 0;  // of a token
  static constexpr int v_words = Turned ? v_blocks / 2 : 4 * v_scales;

  /// `ring`: this warp's; K's tokens are own_token, 8 more, ..., V's t, t + 4, ...; turned: the
  /// lane's own, row lane % 8 of eight lane / 8.
  __device__ AttentionScales(const AttentionDecodeArgs& args, std::uint32_t ring)
      : args_(args),
        row_(Ring::scale_row(args)),
        g_(static_cast<int>(threadIdx.x & 31) >> 2),
        t_(static_cast<int>(threadIdx.x & 3)),
        k_at_(
            kept(ring + Ring::places(args).k_scales + decode_own_token() * row_ + t_ * of_row / 4)),
        v_at_(kept(ring + Ring::places(args).v_scales + own_values())) {
    if constexpr (Codes::relative) addend_[0] = addend_[1] = Codes::addend(least);
  }

  /// Scales of 32 tokens as operands: k[c][..] of the 16 tokens c; v: v_scales of tokens t and t +
  /// 4 of each eight of them, or, turned, of blocks 2 n and 2 n + 1 of the lane's own token.
  struct Operands {
    std::uint32_t k[2][2 * k_scales], v[v_words];
  };
  /// Of those `at` bytes behind the ring's first ones. raise(factor): the reference of V's has
  /// risen, and what has been summed is to be multiplied by this.
  template <class Raise>
  __device__ Operands read(std::uint32_t at, Raise&& raise) {
    std::uint32_t k[4], v[v_words];
#pragma unroll
    for (int i = 0; i < 4; ++i)
      k[i] = bytes<k_scales>(
          k_at_ + at + i / 2 * Ring::places(args_).sixteen_scales + i % 2 * 8 * row_,
          t_ * of_row / 4);
    read_values(at, v);
    Operands s{};
    if constexpr (Codes::relative) {
      relative(k, v, s, raise);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int n = 0; n < (k_scales + 1) / 2; ++n)  // two neighbours
          s.k[i / 2][i % 2 * ((k_scales + 1) / 2) + n] = Codes::halves(k[i] >> (16 * n));
#pragma unroll
      for (int i = 0; i < v_words; ++i) s.v[i] = Codes::halves(v[i]);
    }
    return s;
  }
  /// What sums with K's are multiplied by, and with V's.
  __device__ float of_keys(float factor) const {
    return Codes::relative ? __fmul_rn(factor, power(0)) : factor;
  }
  __device__ float of_values() const { return Codes::relative ? power(1) : Codes::unit; }
  /// A pair of K's times its scale; `n`: which of the lane's scales.
  __device__ static std::uint32_t scaled_key(std::uint32_t x, const Operands& s, int c, int half,
                                             int n) {
    if constexpr (!scaled) return x;
    const std::uint32_t scale =
        Codes::relative ? s.k[c][n] : s.k[c][half * ((k_scales + 1) / 2) + n / 2];
    return (Codes::relative ? half : n % 2) == 0 ? ptx::mul_rn_f16x2_by_low(x, scale)
                                                 : ptx::mul_rn_f16x2_by_high(x, scale);
  }

 private:
  // A smaller reference would make the power that sums are multiplied by less than 2^-127.
  static constexpr int least = Codes::relative ? Codes::unit_byte - 127 : 0;
  static constexpr int of_row = static_cast<int>(kv_page::token_scale_bytes(Codes::format, D));

  /// From a token's block `first` on.
  template <int Bytes>
  __device__ std::uint32_t bytes(std::uint32_t address, int first) const {
    return scaled ? shared_scales<Bytes, Tokens == DecodeTokens::part>(address, row_ - first) : 0;
  }
  __device__ float power(int of) const { return power_of_two(reference_[of] - Codes::unit_byte); }
  /// Where V's scales of this lane begin in a stage, behind its first ones.
  __device__ std::uint32_t own_values() const {
    if constexpr (!Turned) return t_ * row_ + g_ * of_row / 8;
    const int lane = static_cast<int>(threadIdx.x & 31);
    return lane / 16 * Ring::places(args_).sixteen_scales +
           (lane / 8 % 2 * 8 + decode_token(lane % 8)) * row_;
  }
  /// V's: pairs that Codes::halves takes.
  __device__ void read_values(std::uint32_t at, std::uint32_t (&v)[v_words]) const {
    constexpr std::uint32_t pair = Codes::relative ? 0x7470 : 0x7740,
                            next_pair = Codes::relative ? 0x7571 : 0x7751;
    if constexpr (Turned) {
      constexpr int once = v_blocks < 4 ? v_blocks : 4;  // bytes
#pragma unroll
      for (int i = 0; i < v_blocks; i += once) {
        const std::uint32_t word = bytes<once>(v_at_ + at + i, i);
#pragma unroll
        for (int n = 0; n < once; n += 2)
          v[(i + n) / 2] =
              Codes::relative ? ptx::prmt_b32(word, 0, n == 0 ? 0x4140 : 0x4342) : word >> 8 * n;
      }
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) {  // tokens t and t + 4 of each eight
        const std::uint32_t from =
            v_at_ + at + i / 2 * Ring::places(args_).sixteen_scales + i % 2 * 8 * row_;
        const std::uint32_t two[2] = {bytes<v_scales>(from, g_ * of_row / 8),
                                      bytes<v_scales>(from + 4 * row_, g_ * of_row / 8)};
#pragma unroll
        for (int n = 0; n < v_scales; ++n)
          v[i * v_scales + n] = ptx::prmt_b32(two[0], two[1], n == 0 ? pair : next_pair);
      }
    }
  }
  /// Relative to the largest so far; pairs of K's scales, then of V's.
  static constexpr int k_pairs = 2 * k_scales, pairs_of_both = k_pairs + v_words;
  template <class Raise>
  __device__ void relative(const std::uint32_t (&k)[4], const std::uint32_t (&v)[v_words],
                           Operands& s, Raise&& raise) {
    std::uint32_t pairs[pairs_of_both], exponents[pairs_of_both], beyond = 0;
#pragma unroll
    for (int i = 0; i < k_pairs; ++i)
      pairs[i] = ptx::prmt_b32(k[i / k_scales * 2], k[i / k_scales * 2 + 1],
                               i % k_scales == 0 ? 0x7470 : 0x7571);
#pragma unroll
    for (int i = 0; i < v_words; ++i) pairs[k_pairs + i] = v[i];
#pragma unroll
    for (int i = 0; i < pairs_of_both; ++i) {
      exponents[i] = Codes::exponents(pairs[i], addend_[i >= k_pairs]);
      beyond = ptx::max_s16x2(beyond, exponents[i]);
    }
    if (__builtin_expect(__any_sync(~0u, Codes::beyond(beyond) != 0), 0)) {
      raise(raise_references(pairs));
#pragma unroll
      for (int i = 0; i < pairs_of_both; ++i)
        exponents[i] = Codes::halves(pairs[i], addend_[i >= k_pairs]);
    } else {
#pragma unroll
      for (int i = 0; i < pairs_of_both; ++i) exponents[i] <<= 10;
    }
#pragma unroll
    for (int i = 0; i < k_pairs; ++i) s.k[i / k_scales][i % k_scales] = exponents[i];
#pragma unroll
    for (int i = 0; i < v_words; ++i) s.v[i] = exponents[k_pairs + i];
  }
  /// References become the largest there are; what is relative to V's is to be multiplied by this.
  __device__ float raise_references(const std::uint32_t (&pairs)[pairs_of_both]) {
    int largest[2] = {reference_[0], reference_[1]};
#pragma unroll
    for (int i = 0; i < pairs_of_both; ++i)
      largest[i >= k_pairs] = max(largest[i >= k_pairs], Codes::largest(pairs[i]));
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      largest[i] = __reduce_max_sync(~0u, largest[i]);
      addend_[i] = Codes::addend(largest[i]);
    }
    const float factor = power_of_two(max(reference_[1] - largest[1], -127));
    reference_[0] = largest[0];
    reference_[1] = largest[1];
    return factor;
  }

  const AttentionDecodeArgs& args_;
  const int row_, g_, t_;  // bytes of a token's scales
  const std::uint32_t k_at_, v_at_;
  int reference_[2] = {least, least};  // of K's, of V's, the largest so far
  std::uint32_t addend_[2];
};

}  // namespace microscale::cuda::attention::decode
