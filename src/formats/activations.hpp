// What a gate goes through in a gated product, operation for operation: the same FP32 value on a
// host and in a CUDA kernel. NaN in gives NaN out.
//
//   SiLU        formats/producers.hpp, silu_mul
//   GELU        the tanh form, written with one exponential: x / (1 + e^-t),
//               t = 2 sqrt(2 / pi) (x + 0.044715 x^3) = x (1.5957691 + 0.0713548 x^2)
#pragma once

#include "formats/host_device.hpp"
#include "formats/arithmetic.hpp"

namespace microscale {

/// Below this gate GELU's gate counts as this one: |GELU| is 4e-18 there and falls from then on.
inline constexpr float lowest_gelu_gate = -7.5f;

/// GELU(gate) * up, the tanh form; relative error below 2^-17.
MICROSCALE_HD constexpr float gelu_tanh_mul(float gate, float up) {
  const float x = gate < lowest_gelu_gate ? lowest_gelu_gate : gate;
  const float t = x * fused_multiply_add(x * x, 0.0713548163f, 1.59576912f);
  return x * reciprocal_close(1.0f + exp_of_negative(t)) * up;
}

}  // namespace microscale
