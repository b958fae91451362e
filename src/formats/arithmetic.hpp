// The arithmetic behind every byte-exact function that is more than a comparison: the same FP32
// result on a host and in a CUDA kernel. `expf`, `rsqrtf` and a plain division may become
// approximate instructions on a GPU, and a compiler may fuse or split a multiply-add; nothing here
// leaves either to chance.
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "formats/host_device.hpp"

namespace microscale {

/// The NaN that a GPU writes.
inline constexpr std::uint32_t canonical_nan_f32 = 0x7FFFFFFFu;
MICROSCALE_HD constexpr float canonical_nan() { return std::bit_cast<float>(canonical_nan_f32); }

namespace detail {

// a * b + c with one rounding, for constant evaluation: the product is exact in double, the sum is
// rounded to odd in double, and rounding that to float is then the correct single rounding.
constexpr float fma_constexpr(float a, float b, float c) {
  const double product = static_cast<double>(a) * b, addend = c;
  const double sum = product + addend;
  const double other = sum - product;
  const double error = (product - (sum - other)) + (addend - other);
  auto bits = std::bit_cast<std::uint64_t>(sum);
  if (error != 0 && !(bits & 1)) bits = (error > 0) == (sum > 0) ? bits | 1 : bits - 1;
  return static_cast<float>(std::bit_cast<double>(bits));
}

}  // namespace detail

/// a * b + c with one rounding.
MICROSCALE_HD constexpr float fused_multiply_add(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  if (std::is_constant_evaluated()) return detail::fma_constexpr(a, b, c);
  return __builtin_fmaf(a, b, c);
#endif
}

/// a / b, correctly rounded.
MICROSCALE_HD constexpr float divide(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

/// 2^x within 1 unit in the last place (2 where the result is subnormal); 0 below -150, infinity
/// from 128. Seven fused multiply-adds on the fraction in [-1/2, 1/2], then the exponent by integer
/// addition.
MICROSCALE_HD constexpr float exp2_exact(float x) {
  if (!(x == x)) return x;
  if (x >= 128.0f) return std::bit_cast<float>(0x7F800000u);
  if (x < -150.0f) return 0.0f;
  const float shifted = x + 12582912.0f;  // 1.5 * 2^23: rounds to an integer
  const float whole = shifted - 12582912.0f;
  const float f = x - whole;
  float p = 1.52527338e-5f;  // ln(2)^k / k! for k = 7 ... 0
  p = fused_multiply_add(p, f, 1.54035304e-4f);
  p = fused_multiply_add(p, f, 1.33335581e-3f);
  p = fused_multiply_add(p, f, 9.61812911e-3f);
  p = fused_multiply_add(p, f, 5.55041087e-2f);
  p = fused_multiply_add(p, f, 2.40226507e-1f);
  p = fused_multiply_add(p, f, 6.93147181e-1f);
  p = fused_multiply_add(p, f, 1.0f);
  const int exponent = static_cast<int>(whole);
  if (exponent >= -125)  // p is in [0.7, 1.42]: the product is normal (128 arises only with p < 1)
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                                (static_cast<std::uint32_t>(exponent) << 23));
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                              (static_cast<std::uint32_t>(exponent + 64) << 23)) *
         0x1p-64f;
}

/// The smaller of two numbers; where a is NaN, b.
MICROSCALE_HD constexpr float smaller_number(float a, float b) {
#if defined(__CUDA_ARCH__)
  return fminf(a, b);
#else
  return a < b ? a : b;
#endif
}

/// e^-x for x >= -87, relative error below 2^-22 + |x| * 2^-24; some positive number below 2^-115
/// from 80 on, and for NaN. Without a branch, for sums with 1: three steps to the fraction of -x /
/// ln 2 in
/// [-1/2, 1/2], a polynomial of degree 5 for 2^fraction, the exponent by integer addition.
MICROSCALE_HD constexpr float exp_of_negative(float x) {
  constexpr float log2_e = 1.44269502f, rounder = 12582912.0f;  // 1.5 * 2^23: rounds to an integer
  const float limited = smaller_number(x, 80.0f);
  const float shifted = fused_multiply_add(limited, -log2_e, rounder);
  const float f = fused_multiply_add(limited, -log2_e, -(shifted - rounder));
  float p = 1.32647271e-3f;  // least largest relative error, 2^0 = 1
  p = fused_multiply_add(p, f, 9.67151264e-3f);
  p = fused_multiply_add(p, f, 5.55073374e-2f);
  p = fused_multiply_add(p, f, 2.40222421e-1f);
  p = fused_multiply_add(p, f, 6.93146978e-1f);
  p = fused_multiply_add(p, f, 1.0f);
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(p) +
                              (std::bit_cast<std::uint32_t>(shifted) << 23));
}

/// 1 / x within 2 units in the last place, for x in [2^-125, 2^125]: an integer subtraction gives
/// it to 5 %, one step to 0.2 %, one of third order the rest. Six instructions, none of them a
/// division.
MICROSCALE_HD constexpr float reciprocal_close(float x) {
  float y = std::bit_cast<float>(0x7EF31000u - std::bit_cast<std::uint32_t>(x));
  y = y * fused_multiply_add(-x, y, 2.00127649f);
  const float rest = fused_multiply_add(-x, y, 1.5f);
  return y * fused_multiply_add(rest, rest, 0.75f);
}

/// 1 / sqrt(x) within 2 units in the last place, for normal x: a shifted subtraction gives it to 4
/// %, two steps of third order the rest. 0 for infinity, a large number for 0, NaN for NaN.
MICROSCALE_HD constexpr float inverse_square_root_close(float x) {
  float y = std::bit_cast<float>(0x5F3759DFu - (std::bit_cast<std::uint32_t>(x) >> 1));
  for (int step = 0; step < 2; ++step) {
    const float rest = fused_multiply_add(-(x * y), y, 1.0f);
    y = fused_multiply_add(y * rest, fused_multiply_add(rest, 0.375f, 0.5f), y);
  }
  return x > 0x1.fffffep127f ? 0.0f : y;
}

/// The order in which every block sum is taken: each eight consecutive terms one after another,
/// starting from zero, then neighbouring partial sums in pairs. `accumulate(sum, i)` returns the
/// sum with term i in.
template <int Count, class Accumulate>
MICROSCALE_HD constexpr float block_sum(Accumulate&& accumulate) {
  static_assert(Count == 8 || Count == 16 || Count == 32, "a block has 16 or 32 elements");
  float partial[Count / 8] = {};
  for (int group = 0; group < Count / 8; ++group) {
    float sum = 0.0f;
    for (int i = 0; i < 8; ++i) sum = accumulate(sum, group * 8 + i);
    partial[group] = sum;
  }
  for (int width = Count / 8; width > 1; width /= 2)
    for (int i = 0; i < width / 2; ++i) partial[i] = partial[2 * i] + partial[2 * i + 1];
  return partial[0];
}

}  // namespace microscale
