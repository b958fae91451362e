// NVFP4: 16 elements share an E4M3 scale, the tensor an FP32 decode multiplier.
#pragma once

#include <cstdint>

#include "cuda/block/block_scale.cuh"
#include "cuda/block/encode.cuh"
#include "cuda/block/rounding_errors.cuh"
#include "cuda/block/row_exchange.cuh"
#include "microscale/numerics.hpp"

namespace microscale::cuda {

template <bool Search>
struct Nvfp4Format {
  static constexpr int block = 16;
  static constexpr int code_bits = 4;
  static constexpr bool searches = Search;
  static constexpr int other_code = 16;  // the bit

  /// What a thread block knows of its call; one table entry per scale code.
  struct Shared {
    float global_scale;
    float scale_factor;        // nvfp4_scale_factor(global_scale)
    const float* multipliers;  // in shared memory: what elements under that scale are multiplied by
    const float* squares;      // searches: of the scale itself
    bool ordinary;             // the factor is finite and encode() takes every multiplier
  };

  /// All threads of a block call it.
  __device__ static Shared prepare(const float* global_scale_at) {
    __shared__ float multipliers[128], squares[Search ? 128 : 1];
    const float global_scale = *global_scale_at;
#pragma unroll 1
    for (unsigned code = threadIdx.x; code <= nvfp4_max_scale; code += blockDim.x) {
      multipliers[code] = nvfp4_multiplier_rn(code, global_scale);
      if constexpr (Search) squares[code] = __fmul_rn(decode_e4m3(code), decode_e4m3(code));
    }
    if (threadIdx.x == 0) multipliers[nvfp4_nan_scale] = __uint_as_float(nan_block);
    __syncthreads();
    const float factor = __fmul_rn(__frcp_rn(global_scale), 1.0f / 6.0f);
    return {global_scale, factor, multipliers, squares,
            // The least is at least 2^-100, an eighth of which is still exact.
            factor < __uint_as_float(infinity_bits) && multipliers[nvfp4_max_scale] >= 0x1p-100f};
  }

  /// Replaces the largest magnitude of each row's block by what its elements are multiplied by, and
  /// finds its scale; searches: with the code of 4 over 6 from bit other_code on.
  __device__ static void plan(const QuantizeArgs& args, const Shared& shared,
                              std::uint32_t (&own)[4], std::uint32_t (&scale)[4]) {
    std::uint32_t other[4] = {};
    if constexpr (Search) {
      if (args.scale_rule != static_cast<int>(ScaleRule::search)) {
#pragma unroll
        for (int j = 0; j < 4; ++j) other[j] = nvfp4_four_code(own[j], shared.scale_factor);
      }
    }
    if (shared.ordinary && max(max(own[0], own[1]), max(own[2], own[3])) < infinity_bits) {
#pragma unroll
      for (int j = 0; j < 4; j += 2) {
        const std::uint32_t codes = ptx::cvt_rn_satfinite_e4m3x2_f32(
            __fmul_rn(__uint_as_float(own[j]), shared.scale_factor),
            __fmul_rn(__uint_as_float(own[j + 1]), shared.scale_factor));
        scale[j] = codes & 0xFFu;
        scale[j + 1] = codes >> 8;
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const std::uint32_t code = scale[j];
        if (Search && own[j] == 0) scale[j] = keep_scale;
        own[j] = __float_as_uint(shared.multipliers[code]);
      }
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const uint2 found = plan_any(args, shared, own[j]);
        own[j] = found.x;
        scale[j] = found.y;
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) scale[j] |= other[j] << other_code;
  }

  /// Of a block's largest magnitude: what its lanes are told, its scale.
  __device__ static uint2 plan_any(const QuantizeArgs& args, const Shared& shared,
                                   std::uint32_t amax) {
    return plan_rare(amax, shared.scale_factor, shared.multipliers, args.nan_propagates,
                     args.inf_is_nan);
  }

  /// A function of its own, so that no registers are kept for it.
  __device__ __noinline__ static uint2 plan_rare(std::uint32_t amax, float factor,
                                                 const float* multipliers, bool nan_propagates,
                                                 bool inf_is_nan) {
    if (amax > infinity_bits ? nan_propagates : amax == infinity_bits && inf_is_nan)
      return make_uint2(nan_block, nvfp4_nan_scale | keep_scale);
    const std::uint32_t code = amax >= infinity_bits ? nvfp4_max_scale | keep_scale
                               : amax == 0           ? keep_scale
                                                     : nvfp4_nearest_code(amax, factor);
    return make_uint2(__float_as_uint(multipliers[code & 0xFFu]), code);
  }

  /// What the rule finds best. Of the two lanes with a block of four rows, one takes the first two
  /// rows, one the others, all 16 elements each. All lanes of a warp call it. `first_alone`: of the
  /// four rows only the first counts.
  template <class Input>
  __device__ static void search(const QuantizeArgs& args, const Shared& shared,
                                const std::uint32_t (&w)[4][Input::words], std::uint32_t (&told)[4],
                                std::uint32_t (&scale)[4], bool first_alone = false) {
    const bool odd = threadIdx.x & 1;
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      if (j == 1 && first_alone) {  // what is no token has some scale
        scale[1] = scale[0];
        scale[3] = scale[2];
        break;
      }
      std::uint32_t own[Input::words], other[Input::words];
#pragma unroll
      for (int i = 0; i < Input::words; ++i) {
        own[i] = odd ? w[2 + j][i] : w[j][i];
        other[i] = __shfl_xor_sync(whole_warp, odd ? w[j][i] : w[2 + j][i], 1);
      }
      float magnitudes[16];
#pragma unroll
      for (int i = 0; i < chunk_elements; ++i) {
        magnitudes[i] = fabsf(Input::value(own, i));
        magnitudes[chunk_elements + i] = fabsf(Input::value(other, i));
      }
      const std::uint32_t found =
          best_scale(args, shared, magnitudes, odd ? scale[2 + j] : scale[j]);
      const std::uint32_t others = __shfl_xor_sync(whole_warp, found, 1);
      scale[j] = odd ? others : found;
      scale[2 + j] = odd ? found : others;
    }
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (!(scale[j] & keep_scale)) told[j] = __float_as_uint(shared.multipliers[scale[j]]);
  }

  /// Of a block, from what plan() found. All lanes of a warp call it.
  __device__ static std::uint32_t best_scale(const QuantizeArgs& args, const Shared& shared,
                                             const float (&magnitudes)[16], std::uint32_t planned) {
    const bool keeps = planned & keep_scale;
    const std::uint32_t codes = keeps ? 0 : planned,  // both in the tables
        nearest = codes & 0xFFu, other = codes >> other_code;
    // Subnormal scales are far apart, and the largest may be too small: values beyond 7.
    const bool beyond = !keeps && (nearest < 8 || nearest == nvfp4_max_scale);
    const bool any_beyond = __any_sync(whole_warp, beyond);
    std::uint32_t best;
    if (args.scale_rule == static_cast<int>(ScaleRule::search))
      best = best_of_window(shared, magnitudes, static_cast<int>(nearest), any_beyond);
    else
      best =
          other_is_better(args, shared, magnitudes, nearest, other, any_beyond) ? other : nearest;
    return keeps ? planned & (keep_scale | 0xFFu) : best;
  }

  /// The best of the window around the nearest code, the first of equals. Beyond: values may exceed
  /// 7 under any code, else only under those below the nearest.
  __device__ static std::uint32_t best_of_window(const Shared& shared,
                                                 const float (&magnitudes)[16], int nearest,
                                                 bool beyond) {
    const int first = max(nearest - nvfp4_window_below, 1);
    const int last = min(nearest + nvfp4_window_above, static_cast<int>(nvfp4_max_scale));
    constexpr int codes = nvfp4_window_below + nvfp4_window_above + 1;
    float least = __uint_as_float(infinity_bits);
    int best = first;
    const auto attempt = [&]<bool Clamp>(int i) {
      const int code = min(first + i, last);  // a code tried twice is not smaller than itself
      const float error =
          __fmul_rn(block_error_e2m1<Clamp, false>(magnitudes, shared.multipliers[code]),
                    shared.squares[code]);
      if (error < least) {
        least = error;
        best = code;
      }
    };
    const int clamped = beyond ? codes : nvfp4_window_below;
#pragma unroll 1
    for (int i = 0; i < clamped; ++i) attempt.template operator()<true>(i);
#pragma unroll 1
    for (int i = clamped; i < codes; ++i) attempt.template operator()<false>(i);
    return static_cast<std::uint32_t>(best);
  }

  /// 4 over 6: whether the other code has the smaller error.
  __device__ static bool other_is_better(const QuantizeArgs& args, const Shared& shared,
                                         const float (&magnitudes)[16], std::uint32_t nearest,
                                         std::uint32_t other, bool beyond) {
    const auto sum = [&]<bool Absolute>(std::uint32_t code) {
      const float multiplier = shared.multipliers[code];
      return beyond ? block_error_e2m1<true, Absolute>(magnitudes, multiplier)
                    : block_error_e2m1<false, Absolute>(magnitudes, multiplier);
    };
    if (args.scale_rule == static_cast<int>(ScaleRule::four_over_six_mae))
      return __fmul_rn(sum.template operator()<true>(other), decode_e4m3(other)) <
             __fmul_rn(sum.template operator()<true>(nearest), decode_e4m3(nearest));
    return __fmul_rn(sum.template operator()<false>(other), shared.squares[other]) <
           __fmul_rn(sum.template operator()<false>(nearest), shared.squares[nearest]);
  }

  using Codes = std::uint32_t;

  /// Whether encode() takes a block that was told so.
  template <class Input>
  __device__ static bool is_plain(const Shared& shared, std::uint32_t told) {
    return shared.ordinary && told != nan_block;
  }

  /// Whether it takes all four.
  template <class Input>
  __device__ static bool are_plain(const Shared& shared, const std::uint32_t (&told)[4]) {
    return is_plain<Input>(shared, max(max(told[0], told[1]), max(told[2], told[3])));
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
