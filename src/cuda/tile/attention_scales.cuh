// The scales of a warp's 32 tokens as operands in FP16: NVFP4's as they are, those of MX formats
// relative to the largest so far of K's and of V's.
#pragma once

#include <cstdint>

#include "cuda/tile/attention_codes.cuh"
#include "cuda/tile/attention_ring.cuh"

namespace microscale::cuda {

template <class Codes, int D, DecodeTokens Tokens>
class AttentionScales {
  using Ring = AttentionRing<Codes::format, D, Tokens>;

 public:
  static constexpr bool scaled = Codes::block > 0;
  // Of a lane, of a token.
  static constexpr int k_scales = scaled && D / 4 > Codes::block ? D / 4 / Codes::block : 1;
  static constexpr int v_scales = scaled && D / 8 > Codes::block ? D / 8 / Codes::block : 1;

  /// `ring`: this warp's; K's tokens are own_token, 8 more, ..., V's t, t + 4, ...
  __device__ AttentionScales(const AttentionDecodeArgs& args, std::uint32_t ring, int own_token)
      : args_(args),
        row_(Ring::scale_row(args)),
        g_(static_cast<int>(threadIdx.x & 31) >> 2),
        t_(static_cast<int>(threadIdx.x & 3)),
        k_at_(kept(ring + Ring::places(args).k_scales + own_token * row_ + t_ * of_row / 4)),
        v_at_(kept(ring + Ring::places(args).v_scales + t_ * row_ + g_ * of_row / 8)) {
    if constexpr (Codes::relative) addend_[0] = addend_[1] = Codes::addend(0);
  }

  /// Scales of 32 tokens as operands: k[c][..] of the 16 tokens c, v[c][i][..] of tokens t and t +
  /// 4 of their half i.
  struct Operands {
    std::uint32_t k[2][2 * k_scales], v[2][2][v_scales];
  };
  /// Of those `at` bytes behind the ring's first ones. raise(factor): the reference of V's has
  /// risen, and what has been summed is to be multiplied by this.
  template <class Raise>
  __device__ Operands read(std::uint32_t at, Raise&& raise) {
    std::uint32_t k[4], v[8];
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      const std::uint32_t of = at + c * Ring::places(args_).sixteen_scales;
#pragma unroll
      for (int i = 0; i < 2; ++i)
        k[2 * c + i] = bytes<k_scales>(k_at_ + of + 8 * i * row_, t_ * of_row / 4);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        v[4 * c + i] = bytes<v_scales>(v_at_ + of + 4 * i * row_, g_ * of_row / 8);
    }
    Operands s{};
    if constexpr (Codes::relative) {
      relative(k, v, s, raise);
    } else {
#pragma unroll
      for (int c = 0; c < 2; ++c)
#pragma unroll
        for (int i = 0; i < 2; ++i) {
#pragma unroll
          for (int n = 0; n < (k_scales + 1) / 2; ++n)  // two neighbours
            s.k[c][i * ((k_scales + 1) / 2) + n] = Codes::halves(k[2 * c + i] >> (16 * n));
#pragma unroll
          for (int n = 0; n < v_scales; ++n)
            s.v[c][i][n] = Codes::halves(
                ptx::prmt_b32(v[4 * c + 2 * i], v[4 * c + 2 * i + 1], n == 0 ? 0x7740 : 0x7751));
        }
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
  static constexpr int of_row = static_cast<int>(kv_page::token_scale_bytes(Codes::format, D));

  /// From a token's block `first` on.
  template <int Bytes>
  __device__ std::uint32_t bytes(std::uint32_t address, int first) const {
    return scaled ? shared_scales<Bytes, Tokens == DecodeTokens::part>(address, row_ - first) : 0;
  }
  __device__ float power(int of) const {
    return power_of_two(max(reference_[of] - Codes::unit_byte, -127));
  }
  /// Relative to the largest so far.
  template <class Raise>
  __device__ void relative(const std::uint32_t (&k)[4], const std::uint32_t (&v)[8], Operands& s,
                           Raise&& raise) {
    static_assert(v_scales == 1);
    std::uint32_t pairs[2][k_scales + 2], exponents[2][k_scales + 2], beyond = 0;
#pragma unroll
    for (int c = 0; c < 2; ++c) {
#pragma unroll
      for (int n = 0; n < k_scales; ++n)
        pairs[c][n] = ptx::prmt_b32(k[2 * c], k[2 * c + 1], n == 0 ? 0x7470 : 0x7571);
#pragma unroll
      for (int i = 0; i < 2; ++i)
        pairs[c][k_scales + i] = ptx::prmt_b32(v[4 * c + 2 * i], v[4 * c + 2 * i + 1], 0x7470);
#pragma unroll
      for (int n = 0; n < k_scales + 2; ++n) {
        exponents[c][n] = Codes::exponents(pairs[c][n], addend_[n >= k_scales]);
        beyond = ptx::max_s16x2(beyond, exponents[c][n]);
      }
    }
    if (__builtin_expect(__any_sync(~0u, Codes::beyond(beyond) != 0), 0)) {
      raise(raise_references(pairs));
#pragma unroll
      for (int c = 0; c < 2; ++c)
#pragma unroll
        for (int n = 0; n < k_scales + 2; ++n)
          exponents[c][n] = Codes::halves(pairs[c][n], addend_[n >= k_scales]);
    } else {
#pragma unroll
      for (int c = 0; c < 2; ++c)
#pragma unroll
        for (int n = 0; n < k_scales + 2; ++n) exponents[c][n] <<= 10;
    }
#pragma unroll
    for (int c = 0; c < 2; ++c) {
#pragma unroll
      for (int n = 0; n < k_scales; ++n) s.k[c][n] = exponents[c][n];
#pragma unroll
      for (int i = 0; i < 2; ++i) s.v[c][i][0] = exponents[c][k_scales + i];
    }
  }
  /// References become the largest there are; what is relative to V's is to be multiplied by this.
  __device__ float raise_references(const std::uint32_t (&pairs)[2][k_scales + 2]) {
    int largest[2] = {reference_[0], reference_[1]};
#pragma unroll
    for (int c = 0; c < 2; ++c)
#pragma unroll
      for (int n = 0; n < k_scales + 2; ++n)
        largest[n >= k_scales] = max(largest[n >= k_scales], Codes::largest(pairs[c][n]));
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
  int reference_[2] = {};  // of K's, of V's, the largest so far
  std::uint32_t addend_[2];
};

}  // namespace microscale::cuda
