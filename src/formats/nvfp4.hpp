// NVFP4's two levels of scale. In memory the global scale g is a decode multiplier:
// value = code * (s * g), s the block's E4M3 scale, the product s * g rounded once to FP32.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"
#include "formats/arithmetic.hpp"
#include "formats/elements.hpp"

namespace microscale {

inline constexpr std::uint8_t nvfp4_max_scale = UE4M3::max_code;  // 0x7E = 448
inline constexpr std::uint8_t nvfp4_nan_scale = UE4M3::nan_code;  // 0x7F
inline constexpr float largest_float = 0x1.fffffep127f;

/// The search tries the codes nearest - 3 ... nearest + 6, clipped to [1, 126].
inline constexpr int nvfp4_window_below = 3;
inline constexpr int nvfp4_window_above = 6;

/// Per tensor: what a block's largest magnitude is multiplied by to give its E4M3 scale. Two
/// roundings, no division per block.
MICROSCALE_HD constexpr float nvfp4_scale_factor(float global_scale) {
  return divide(1.0f, global_scale) * (1.0f / 6.0f);
}

/// The E4M3 code nearest to amax / 6 / g; saturates at 448.
MICROSCALE_HD constexpr std::uint8_t nvfp4_nearest_scale(float amax, float scale_factor) {
  return UE4M3::encode(amax * scale_factor, Rounding::nearest_even);
}

/// What an element is multiplied by before it is encoded; 0 for scale code 0, so such a block is
/// zeros.
MICROSCALE_HD constexpr float nvfp4_multiplier(std::uint8_t scale, float global_scale) {
  if (scale == 0) return 0.0f;
  const float inverse = divide(1.0f, UE4M3::decode(scale) * global_scale);
  return inverse < largest_float ? inverse : largest_float;
}

/// What a code is multiplied by to give the value.
MICROSCALE_HD constexpr float nvfp4_step(std::uint8_t scale, float global_scale) {
  return UE4M3::decode(scale) * global_scale;
}

}  // namespace microscale
