// Importance weights as kernels take them: relative to the largest of their block.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace microscale {

/// The exponent of the least relative weight. Far below what a sum of FP32 sees beside the largest:
/// it decides where the errors of everything that counts are equal, and leaves e^2 * s^2 normal
/// numbers.
inline constexpr int least_weight_exponent = -60;

/// `blocks` blocks of `block` weights. Each block is divided by a power of two so that its largest
/// is in [1, 2), which changes no choice, and no error under- or overflows however large or small
/// all of them are. What is below 2^-60 then, zeros too, is 2^-60: positions that do not count get
/// the scale that is best for them among those equally good for the rest. Where all are zero, all
/// become 1: no weights. Positions past the end count as zeros.
inline std::vector<float> relative_weights(std::span<const float> weights, std::int64_t blocks,
                                           int block) {
  std::vector<float> relative(static_cast<std::size_t>(blocks * block));
  std::copy(weights.begin(), weights.end(), relative.begin());
  for (auto first = relative.begin(); first != relative.end(); first += block) {
    const float largest = *std::max_element(first, first + block);
    const int exponent = largest > 0 ? std::ilogb(largest) : 0;
    const float least = largest > 0 ? std::ldexp(1.0f, least_weight_exponent) : 1.0f;
    for (auto weight = first; weight != first + block; ++weight)
      *weight = std::max(std::scalbn(*weight, -exponent), least);
  }
  return relative;
}

}  // namespace microscale
