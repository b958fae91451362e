// What every MXFP4 level shares: how an element is read, and the OCP floor rule for the scale.
//
// Values are finite. (A NaN or an infinity is a policy, and the shipped kernel has all of them.)
#pragma once

#include <cstdint>

#include "../level.hpp"
#include "cuda/ptx/scalar.cuh"

namespace levels {

struct Half {  // FP16, as it is stored
  std::uint16_t bits;
};

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(Half x) { return microscale::ptx::cvt_f32_f16(x.bits); }

template <class Element>
inline constexpr microscale::DType dtype_of = microscale::DType::f32;
template <>
inline constexpr microscale::DType dtype_of<Half> = microscale::DType::f16;

/// floor(log2 amax) - 2, biased by 127. The exponent field is the floor of the logarithm, and 2 is
/// the exponent of E2M1's largest value, 6. Below 2^-125 the byte would be negative: it is 0 there.
/// (A bare
/// `- 2` on the byte gives a block of zeros the scale 2^127.)
__device__ inline std::uint32_t floor_scale(float amax) {
  const int field = static_cast<int>(__float_as_uint(amax) >> 23);
  return static_cast<std::uint32_t>(max(field - 2, 0));
}

/// 1 / scale, exact: 2^(127 - byte). floor_scale() of a finite amax is at most 252.
__device__ inline float inverse_scale(std::uint32_t byte) {
  return __uint_as_float((254u - byte) << 23);
}

/// The level that runs `kernel` with 256 threads, each thread block taking `elements`.
template <class Encoder, class Element, int elements>
Level level_of(const char* name, void (*kernel)(Args)) {
  return {.name = std::string(name) + ", " + Encoder::name,
          .kernel = reinterpret_cast<const void*>(kernel),
          .threads = 256,
          .grid =
              [](std::int64_t rows, std::int64_t cols) {
                return Grid{ceil_div(rows * cols, elements), 1};
              },
          .input = dtype_of<Element>,
          .rounding = Encoder::rounding,
          .blackwell = Encoder::blackwell};
}

}  // namespace levels
