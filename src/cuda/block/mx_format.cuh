// The MX formats: 32 elements share a power of two.
#pragma once

#include <cstdint>
#include <type_traits>

#include "cuda/block/block_scale.cuh"
#include "cuda/block/encode.cuh"
#include "cuda/block/rounding_errors.cuh"
#include "cuda/block/row_exchange.cuh"

namespace microscale::cuda {

template <class Codec_, bool Search>
struct MxFormat {
  using Codec = Codec_;
  static constexpr int block = 32;
  static constexpr int code_bits = Codec::mantissa_bits == 1 ? 4 : 8;
  static constexpr bool searches = Search;

  struct Shared {};
  __device__ static Shared prepare(const float*) { return {}; }

  /// Of a block's largest magnitude: what its lanes are told, its scale.
  __device__ static uint2 plan_any(const QuantizeArgs& args, Shared, std::uint32_t amax) {
    if (amax >= infinity_bits) {
      if (is_nan_block(args, amax)) return make_uint2(nan_block, e8m0_nan | keep_scale);
      return make_uint2(e8m0_max | holds_infinity, e8m0_max | keep_scale);
    }
    const std::uint32_t byte = e8m0_byte(args, amax);
    return amax == 0 ? make_uint2(127, byte | keep_scale) : make_uint2(byte, byte);
  }

  /// Replaces the maximum that this lane owns by what is told, and finds its scale.
  __device__ static void plan(const QuantizeArgs& args, Shared shared, std::uint32_t (&own)[1],
                              std::uint32_t (&scale)[1]) {
    const uint2 found = plan_any(args, shared, own[0]);
    own[0] = found.x;
    scale[0] = found.y;
  }

  /// 2^(127 - byte).
  __device__ static float multiplier(std::uint32_t byte) {
    return __uint_as_float(byte == e8m0_max ? 0x00400000u : (254u - byte) << 23);
  }

  /// Whether sums of errors may be those of errors in BF16, which takes bytes 1 to 253.
  template <class Input>
  static constexpr bool packs_errors = code_bits == 4 && std::is_same_v<Input, InputBf16>;

  // Upper: the byte after floor's, which keeps scaled values below 4.
  template <class Input, bool Upper, bool Packed>
  __device__ static float error(const std::uint32_t (&w)[Input::words], std::uint32_t byte) {
    if constexpr (Packed)
      return chunk_error_e2m1_bf16<!Upper>(w, byte);
    else
      return chunk_error<Codec, Input, !Upper>(w, multiplier(byte));
  }

  /// Under any byte.
  template <class Input, bool Upper>
  __device__ static float error(const std::uint32_t (&w)[Input::words], std::uint32_t byte) {
    if constexpr (packs_errors<Input>)
      if (byte - 1 < 253) return error<Input, Upper, true>(w, byte);
    return error<Input, Upper, false>(w, byte);
  }

  /// The same of four chunks; the lower of their bytes.
  template <class Input, bool Packed>
  __device__ static void errors(const std::uint32_t (&w)[4][Input::words],
                                const std::uint32_t (&byte)[4], float (&lower)[4],
                                float (&upper)[4]) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      lower[j] = error<Input, false, Packed>(w[j], byte[j]);
      upper[j] = error<Input, true, Packed>(w[j], byte[j] + 1);
    }
  }

  /// The next byte if its error is smaller, in units of this one's scale. All lanes of a warp call
  /// it.
  template <class Input>
  __device__ static void search(const QuantizeArgs&, Shared,
                                const std::uint32_t (&w)[4][Input::words], std::uint32_t (&told)[4],
                                std::uint32_t (&scale)[1]) {
    using Exchange = RowExchange<block / chunk_elements>;
    float lower[4], upper[4];
    std::uint32_t byte[4];  // of a block that may change: its scale
    bool packed = packs_errors<Input>;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      byte[j] = told[j] & 0xFFu;
      packed &= byte[j] - 1 < 252;
    }
    if (packs_errors<Input> && packed)
      errors<Input, packs_errors<Input>>(w, byte, lower, upper);
    else
      errors<Input, false>(w, byte, lower, upper);
    const float here = Exchange::total(lower), next = __fmul_rn(Exchange::total(upper), 4.0f);
    const bool moves = !(scale[0] & keep_scale) && scale[0] != e8m0_max && next < here;
    if (moves) ++scale[0];
    const std::uint32_t moved = Exchange::said(moves);
#pragma unroll
    for (int j = 0; j < 4; ++j) told[j] += moved >> j & 1u;
  }

  // The codes of a chunk.
  using Codes = std::conditional_t<code_bits == 8, uint2, std::uint32_t>;

  /// Whether encode() takes a block that was told so.
  template <class Input>
  __device__ static bool is_plain(Shared, std::uint32_t told) {
    if constexpr (code_bits == 8 || MICROSCALE_HAS_FP4_CVT) {
      return told != nan_block;
    } else if constexpr (Input::element_bytes == 2) {
      constexpr unsigned first = Input::is_bf16 ? 1 : 99, last = Input::is_bf16 ? 251 : 141;
      return told - first <= last - first;
    } else {
      return told <= e8m0_max;
    }
  }

  /// Whether it takes all four.
  template <class Input>
  __device__ static bool are_plain(Shared shared, const std::uint32_t (&told)[4]) {
    return is_plain<Input>(shared, told[0]) & is_plain<Input>(shared, told[1]) &
           is_plain<Input>(shared, told[2]) & is_plain<Input>(shared, told[3]);
  }

  template <class Input>
  __device__ static Codes encode(const std::uint32_t (&w)[Input::words], std::uint32_t told) {
    const std::uint32_t byte = told & 0xFFu;
    if constexpr (code_bits == 8) {
      return encode_fp8<Codec, Input>(w, multiplier(byte));
    } else {
#if MICROSCALE_HAS_FP4_CVT
      return encode_e2m1_cvt<Input>(w, multiplier(byte));
#else
      if constexpr (Input::element_bytes == 2)
        return encode_e2m1_packed<Input>(w, byte);
      else
        return encode_e2m1_f32<Input>(w, multiplier(byte));
#endif
    }
  }

  template <class Input>
  __device__ static Codes encode_any(const std::uint32_t (&w)[Input::words], std::uint32_t told) {
    if constexpr (code_bits == 8) {
      if (told == nan_block) return make_uint2(0x7F7F7F7Fu, 0x7F7F7F7Fu);
      return encode<Input>(w, told);
    } else {
      if (told == nan_block) return 0x77777777u;
      return encode_e2m1_any<Input>(w, multiplier(told & 0xFFu));
    }
  }

  __device__ static Codes positive_zeros(Codes codes) {
    if constexpr (code_bits == 8)
      return make_uint2(positive_zeros_fp8(codes.x), positive_zeros_fp8(codes.y));
    else
      return positive_zeros_e2m1(codes);
  }

  __device__ static void store(std::uint8_t* address, Codes codes) {
    if constexpr (code_bits == 8)
      ptx::st_global_v2(address, codes.x, codes.y);
    else
      ptx::st_global_b32(address, codes);
  }
};

}  // namespace microscale::cuda
