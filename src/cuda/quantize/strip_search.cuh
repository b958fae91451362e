// The searches over a strip: the sums of rounding_errors.cuh, a chunk's first, then those of
// neighbouring chunks, then, for MX, of the block's two strips.
#pragma once

#include <cstdint>

#include "cuda/block/rounding_errors.cuh"

namespace microscale::cuda {

/// MX: the next byte if its error is smaller. `w`: the two chunks of one line.
template <class Format, class Input, int Partner>
__device__ void search_strip_mx(const std::uint32_t (&w)[2][Input::words], std::uint32_t& told,
                                std::uint32_t& scale) {
  const std::uint32_t byte = scale & 0xFFu;
  float lower = __fadd_rn(Format::template error<Input, false>(w[0], byte),
                          Format::template error<Input, false>(w[1], byte));
  float upper = __fadd_rn(Format::template error<Input, true>(w[0], byte + 1),
                          Format::template error<Input, true>(w[1], byte + 1));
  lower = __fadd_rn(lower, __shfl_xor_sync(0xFFFFFFFFu, lower, Partner));
  upper = __fadd_rn(upper, __shfl_xor_sync(0xFFFFFFFFu, upper, Partner));
  if (!(scale & keep_scale) && byte != e8m0_max && __fmul_rn(upper, 4.0f) < lower)
    told = scale = byte + 1;
}

/// NVFP4: the best of the window around the nearest code, the first of equals.
template <class Input>
__device__ void search_strip_nvfp4(float global_scale, const std::uint32_t (&w)[2][Input::words],
                                   std::uint32_t& told, std::uint32_t& scale) {
  if (scale & keep_scale) return;
  const int nearest = static_cast<int>(scale & 0xFFu);
  const int first = max(nearest - nvfp4_window_below, 1);
  const int last = min(nearest + nvfp4_window_above, static_cast<int>(nvfp4_max_scale));
  float least = 0.0f;
  for (int code = first; code <= last; ++code) {
    const float value = decode_e4m3(static_cast<std::uint32_t>(code));
    const float multiplier = nvfp4_multiplier_rn(static_cast<std::uint32_t>(code), global_scale);
    const float sum = __fadd_rn(chunk_error<E2M1, Input>(w[0], multiplier),
                                chunk_error<E2M1, Input>(w[1], multiplier));
    const float error = __fmul_rn(sum, __fmul_rn(value, value));
    if (code == first || error < least) {
      least = error;
      scale = static_cast<std::uint32_t>(code);
      told = __float_as_uint(multiplier);
    }
  }
}

}  // namespace microscale::cuda
