// Level 6, the other encoder: cvt.rn.satfinite.e2m1x2.f32 makes two codes of two numbers, where the
// ladder compares seven times for each. The families sm_120f and sm_100f have it, so "quantization
// is scalar work" describes the article's kernel, not the machine. Codes are those of the ladder.
//
// What is left of the quantizer: a maximum, a product and half a conversion an element, and moving
// the four bits to the middle of their byte.
#pragma once

#include "6_four_codes.cuh"
#include "cuda/ptx/packed.cuh"

namespace levels {

struct Convert : Multiply {
  __device__ static void encode(std::uint8_t (&four)[4], const float (&y)[4]) {
    using namespace microscale;
    const std::uint32_t codes = ptx::cvt_rn_satfinite_e2m1x2_f32(y[0], y[1]) |
                                ptx::cvt_rn_satfinite_e2m1x2_f32(y[2], y[3]) << 8;
    const std::uint32_t containers = container::pack4(codes);
#pragma unroll
    for (int i = 0; i < 4; ++i) four[i] = static_cast<std::uint8_t>(containers >> 8 * i);
  }
};

extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_6_hardware_cvt_128(AttentionArgs args) {
  half_staging<128, Convert, 4>(args);
}
extern "C" __global__ void __launch_bounds__(attention_threads)
    attention_6_hardware_cvt_64(AttentionArgs args) {
  half_staging<64, Convert, 4>(args);
}

}  // namespace levels
