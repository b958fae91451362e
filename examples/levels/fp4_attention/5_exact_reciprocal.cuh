// Level 5: a scale is a power of two, so its reciprocal is one, too, and x * (1 / scale) is x /
// scale to the last bit. A division is a subroutine; a multiplication is an instruction. And
// fmaxf is one instruction by its name, not by the compiler's insight.
//
// The article computes the reciprocal as exp2f(127 - byte). It is the byte's own bits, subtracted:
// exact without trusting an approximation. Codes and results are those of level 4, bit for bit.
#pragma once

#include "4_half_staging.cuh"

namespace levels {

struct Multiply : Ladder {
  __device__ static float larger(float amax, float x) { return fmaxf(amax, fabsf(x)); }
  struct Scale {
    float reciprocal;
    __device__ explicit Scale(int byte) : reciprocal(scale_of(254 - byte)) {}
    __device__ float operator()(float x) const { return __fmul_rn(x, reciprocal); }
  };
};

extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_5_exact_reciprocal_128(AttentionArgs args) {
  half_staging<128, Multiply, 1>(args);
}
extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_5_exact_reciprocal_64(AttentionArgs args) {
  half_staging<64, Multiply, 1>(args);
}

}  // namespace levels
