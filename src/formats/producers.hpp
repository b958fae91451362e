// What is computed in front of a quantizer or behind a product, operation for operation: the same
// FP32 values on a host and in a CUDA kernel, whatever the launch shape and the number of threads.
// NaN in gives NaN out; a NaN's bits are not promised (the quantizer does not look at them).
//
//   SiLU        gate / (1 + e^-gate) * up, two neighbours at a time: they share one reciprocal
//   GELU        the tanh form, with one exponential, of the gate of a product: x / (1 + e^-t),
//               t = 2 sqrt(2 / pi) (x + 0.044715 x^3) = x (1.5957691 + 0.0713548 x^2)
//   RMSNorm     x * (1 / sqrt(mean of squares + epsilon)) * weight; the mean's sum is a fixed tree
//   Hadamard    orthonormal, natural (Sylvester) order, blocks of 16, 32, 64 or 128 neighbours
#pragma once

#include <bit>
#include <cstdint>

#include "formats/host_device.hpp"
#include "formats/arithmetic.hpp"

namespace microscale {

/// Below this gate SiLU's gate counts as this one: |SiLU| is 1e-17 there and falls from then on.
inline constexpr float lowest_gate = -43.0f;

/// NaN stays NaN.
MICROSCALE_HD constexpr float clamp_gate(float gate) {
  return gate < lowest_gate ? lowest_gate : gate;
}

struct SiluPair {
  float first, second;
};

/// SiLU(gate) * up of two neighbours; gates as clamp_gate leaves them. Relative error of SiLU below
/// 2^-19 (from the exponent of a negative gate; 2^-21 for gates above -4).
MICROSCALE_HD constexpr SiluPair silu_mul(float gate0, float gate1, float up0, float up1) {
  const float d0 = 1.0f + exp_of_negative(gate0), d1 = 1.0f + exp_of_negative(gate1);
  const float inverse = reciprocal_close(d0 * d1);  // at most 2^125: the smallest is normal
  return {gate0 * (inverse * d1) * up0, gate1 * (inverse * d0) * up1};
}

/// Squares of a row are summed in groups of 32 neighbours (the last one filled up with zeros);
/// group sums in segments of 512 groups (likewise), neighbours in pairs until one is left; segments
/// in order.
inline constexpr int rms_group = 32;
inline constexpr int rms_segment_groups = 512;

/// One group. `value(i)`, 0 <= i < 32. Sum j takes elements j, j + 8, j + 16, j + 24; then
/// neighbouring sums in pairs.
template <class Value>
MICROSCALE_HD constexpr float rms_group_sum(Value&& value) {
  float sum[8] = {};
  for (int i = 0; i < rms_group; ++i)
    sum[i % 8] = fused_multiply_add(value(i), value(i), sum[i % 8]);
  return ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
}

/// 1 / cols, nearest; cols as FP32 first.
MICROSCALE_HD constexpr float rms_inverse_count(std::int64_t cols) {
  return divide(1.0f, static_cast<float>(cols));
}

/// What a row with this sum of squares is multiplied by; epsilon >= 0. 0 for an infinite sum, and
/// where both are 0 a large number, so that a row of zeros stays one.
MICROSCALE_HD constexpr float rms_multiplier(float sum, float inverse_count, float epsilon) {
  return inverse_square_root_close(sum * inverse_count + epsilon);
}

/// `weight` is 1 where there is none: the product is then exact.
MICROSCALE_HD constexpr float rms_value(float x, float multiplier, float weight) {
  return x * multiplier * weight;
}

/// 1 / sqrt(order), nearest; order 16, 32, 64 or 128.
MICROSCALE_HD constexpr float hadamard_scale(int order) {
  return order == 16 ? 0.25f : order == 32 ? 0x1.6a09e6p-3f : order == 64 ? 0.125f : 0x1.6a09e6p-4f;
}

/// The first level, distance 1, which also scales: a * scale + b * scale and the difference.
MICROSCALE_HD constexpr void hadamard_first(float& a, float& b, float scale) {
  const float product = b * scale, x = a;
  a = fused_multiply_add(x, scale, product);
  b = fused_multiply_add(x, scale, -product);
}

/// A later level, distances 2, 4, ... order / 2 in this order.
MICROSCALE_HD constexpr void hadamard_step(float& a, float& b) {
  const float x = a;
  a = x + b;
  b = x - b;
}

/// Below this gate GELU's gate counts as this one: |GELU| is 4e-18 there and falls from then on.
inline constexpr float lowest_gelu_gate = -7.5f;

/// GELU(gate) * up, the tanh form; relative error below 2^-17.
MICROSCALE_HD constexpr float gelu_tanh_mul(float gate, float up) {
  const float x = gate < lowest_gelu_gate ? lowest_gelu_gate : gate;
  const float t = x * fused_multiply_add(x * x, 0.0713548163f, 1.59576912f);
  return x * reciprocal_close(1.0f + exp_of_negative(t)) * up;
}

}  // namespace microscale
