// NVFP4: 16 elements share an E4M3 scale, the tensor an FP32 decode multiplier.
#pragma once

#include <cstdint>

#include "cuda/tile/block_scale.cuh"
#include "cuda/tile/encode.cuh"
#include "cuda/tile/errors.cuh"

namespace microscale::cuda {

template <bool Search>
struct Nvfp4Format {
  static constexpr int block = 16;
  static constexpr int code_bits = 4;
  static constexpr bool searches = Search;

  struct Shared {
    float global_scale;
    float scale_factor;
  };
  __device__ static Shared prepare(const QuantizeArgs& args) {
    const float global_scale = *args.global_scale;
    return {global_scale, __fmul_rn(__frcp_rn(global_scale), 1.0f / 6.0f)};  // nvfp4_scale_factor
  }

  __device__ static BlockPlan plan(const QuantizeArgs& args, Shared shared, std::uint32_t amax) {
    std::uint32_t code;
    if (amax >= infinity_bits) {
      if (is_nan_block(args, amax)) return {nan_block, nvfp4_nan_scale | keep_scale};
      code = nvfp4_max_scale | keep_scale;
    } else {
      code = nvfp4_nearest_code(amax, shared.scale_factor) | (amax == 0 ? keep_scale : 0u);
    }
    return {__float_as_uint(nvfp4_multiplier_rn(code & 0xFFu, shared.global_scale)), code};
  }

  /// The best of the window around the nearest code, the first of equals. All lanes of a warp call
  /// it.
  template <class Input>
  __device__ static void search(Shared shared, const std::uint32_t (&w)[Input::words],
                                std::uint32_t& told, std::uint32_t& scale) {
    const int nearest = static_cast<int>(scale & 0xFFu);
    const int first = max(nearest - nvfp4_window_below, 1);
    const int last = min(nearest + nvfp4_window_above, static_cast<int>(nvfp4_max_scale));
    float least = 0.0f, best_multiplier = 0.0f;
    int best = first;
    for (int i = 0; i <= nvfp4_window_below + nvfp4_window_above; ++i) {
      const int code = min(first + i, last);  // a code tried twice is not smaller than itself
      const float value = decode_e4m3(static_cast<std::uint32_t>(code));
      const float multiplier =
          nvfp4_multiplier_rn(static_cast<std::uint32_t>(code), shared.global_scale);
      const float sum = block_total<2>(chunk_error<E2M1, Input>(w, multiplier));
      const float error = __fmul_rn(sum, __fmul_rn(value, value));
      if (i == 0 || error < least) {
        least = error;
        best = code;
        best_multiplier = multiplier;
      }
    }
    if (scale & keep_scale) return;
    scale = static_cast<std::uint32_t>(best);
    told = __float_as_uint(best_multiplier);
  }

  using Codes = std::uint32_t;

  /// Whether encode() takes such a block.
  template <class Input>
  __device__ static bool is_plain(std::uint32_t told) {
#if MICROSCALE_HAS_FP4_CVT
    return told != nan_block;
#else
    // Zero, or at least 2^-100, an eighth of which is still exact.
    return told == 0 || told - 0x0D800000u < 0x72800000u;
#endif
  }

  template <class Input>
  __device__ static Codes encode(const std::uint32_t (&w)[Input::words], std::uint32_t told) {
#if MICROSCALE_HAS_FP4_CVT
    return encode_e2m1_cvt<Input>(w, __uint_as_float(told));
#else
    return encode_e2m1_f32<Input>(w, __uint_as_float(told));
#endif
  }

  template <class Input>
  __device__ static Codes encode_any(const std::uint32_t (&w)[Input::words], std::uint32_t told) {
    if (told == nan_block) return 0x77777777u;
    return encode_e2m1_any<Input>(w, __uint_as_float(told));
  }

  __device__ static Codes positive_zeros(Codes codes) { return positive_zeros_e2m1(codes); }

  __device__ static void store(std::uint8_t* address, Codes codes) {
    ptx::st_global_b32(address, codes);
  }
};

}  // namespace microscale::cuda
