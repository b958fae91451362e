// Rotary position embedding of one pair of elements: the same FP32 values on a host and in a CUDA
// kernel.
#pragma once

#include <cstdint>

#include "formats/host_device.hpp"
#include "formats/arithmetic.hpp"

namespace microscale {

struct RopePair {
  float first, second;
};

/// (x, y) turned by the angle of this cosine and sine.
MICROSCALE_HD constexpr RopePair rotate(float x, float y, float cos, float sin) {
  return {fused_multiply_add(x, cos, -(y * sin)), fused_multiply_add(y, cos, x * sin)};
}

/// Where pair i (of width / 2) of a row stands; the second element is `distance` behind the first.
MICROSCALE_HD constexpr std::int64_t rope_first(std::int64_t i, bool interleaved) {
  return interleaved ? 2 * i : i;
}
MICROSCALE_HD constexpr std::int64_t rope_distance(std::int64_t width, bool interleaved) {
  return interleaved ? 1 : width / 2;
}

}  // namespace microscale
