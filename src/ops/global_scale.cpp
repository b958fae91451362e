// The global scale of an NVFP4 tensor.
#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/nvfp4.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

// Below this, block scale times global scale could be subnormal and the conventions would differ.
constexpr float smallest_global_scale = 0x1p-117f;

// Whether a file that stores the reciprocal decodes to the same floats: s / (1/g) == s * g for each of the
// eight significands an E4M3 scale can have, and the reciprocal of the reciprocal is g again.
bool conventions_agree(float g) {
  const float divisor = 1.0f / g;
  if (1.0f / divisor != g) return false;
  for (int significand = 9; significand < 16; ++significand) {
    const auto s = static_cast<float>(significand);
    if (s / divisor != s * g) return false;
  }
  return true;
}

}  // namespace

float nvfp4_global_scale(float amax) {
  if (!(amax > 0)) return 1.0f;
  float g = std::min(amax, std::numeric_limits<float>::max()) / (6.0f * 448.0f);
  g = std::max(g, smallest_global_scale);
  while (!conventions_agree(g)) g = std::nextafter(g, std::numeric_limits<float>::infinity());
  return g;
}

}  // namespace microscale
