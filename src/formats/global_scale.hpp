// The global scale of an NVFP4 tensor from its largest magnitude: the same float on a host and on a
// GPU.
#pragma once

#include <bit>
#include <cstdint>

#include "formats/host_device.hpp"
#include "formats/arithmetic.hpp"
#include "formats/nvfp4.hpp"

namespace microscale {

/// Below this, block scale times global scale could be subnormal and the conventions would differ.
inline constexpr float smallest_global_scale = 0x1p-117f;

/// Whether a file that stores the reciprocal decodes to the same floats: s / (1/g) == s * g for
/// each of the eight significands an E4M3 scale can have, and the reciprocal of the reciprocal is g
/// again.
MICROSCALE_HD constexpr bool conventions_agree(float g) {
  const float divisor = divide(1.0f, g);
  if (divide(1.0f, divisor) != g) return false;
  for (int significand = 9; significand < 16; ++significand) {
    const auto s = static_cast<float>(significand);
    if (divide(s, divisor) != s * g) return false;
  }
  return true;
}

/// nvfp4_global_scale of the public API. `amax` >= 0, infinity allowed.
MICROSCALE_HD constexpr float global_scale_of(float amax) {
  if (!(amax > 0)) return 1.0f;
  float g = divide(amax < largest_float ? amax : largest_float, 6.0f * 448.0f);
  if (g < smallest_global_scale) g = smallest_global_scale;
  while (!conventions_agree(g))
    g = std::bit_cast<float>(std::bit_cast<std::uint32_t>(g) + 1);  // the next
  return g;
}

}  // namespace microscale
