// The oracle itself, against sums worked out by hand: packing, strides, weights, importance of the
// index.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "formats/e8m0.hpp"
#include "seam/kernel_table.hpp"

namespace microscale {
namespace {

QuantizeLines mxfp4_call(const std::vector<float>& input, std::int64_t lines,
                         std::vector<std::uint8_t>& codes, std::vector<std::uint8_t>& scales) {
  QuantizeLines call;
  call.input = input.data();
  call.input_stride = 32;
  call.lines = lines;
  call.blocks = 1;
  call.numerics.scale_rule = ScaleRule::floor;
  call.codes = codes.data();
  call.code_stride = 20;
  call.scales = scales.data();
  call.scale_stride = 3;
  return call;
}

TEST(ReferenceKernels, quantize_by_hand_with_strides) {
  std::vector<float> input(64);
  for (std::size_t i = 0; i < 32; ++i) input[i] = static_cast<float>(i % 8) - 3;  // amax 4: scale 1
  for (std::size_t i = 0; i < 32; ++i)
    input[32 + i] = 0.25f * static_cast<float>(i % 4);  // 0.75: 2^-3
  std::vector<std::uint8_t> codes(40, 0xEE), scales(6, 0xEE);
  reference_kernels.quantize(mxfp4_call(input, 2, codes, scales));
  EXPECT_EQ(scales[0], 127);
  EXPECT_EQ(scales[3], 124);
  EXPECT_EQ(scales[1], 0xEE);
  // -3 -2 -1 0 1 2 3 4 -> D C A 0 2 4 5 6, the even element in the low nibble
  const std::array<std::uint8_t, 4> first{0xCD, 0x0A, 0x42, 0x65};
  // 0 0.25 0.5 0.75 times 8 -> 0 2 4 6 -> 0 4 6 7
  const std::array<std::uint8_t, 2> second{0x40, 0x76};
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(codes[i], first[i % 4]) << i;
    EXPECT_EQ(codes[20 + i], second[i % 2]) << i;
  }
  EXPECT_EQ(codes[16], 0xEE);
}

TEST(ReferenceKernels, dequantize_by_hand) {
  const std::array<std::uint8_t, 16> codes{0x21, 0x43, 0x65, 0x87, 0xA9, 0xCB, 0xED, 0x0F};
  const std::array<std::uint8_t, 1> scales{128};
  std::array<float, 32> output{};
  DequantizeLines call;
  call.codes = codes.data();
  call.scales = scales.data();
  call.lines = 1;
  call.blocks = 1;
  call.output = output.data();
  reference_kernels.dequantize(call);
  const std::array<float, 16> expected{1, 2, 3, 4, 6, 8, 12, -0.0f, -1, -2, -3, -4, -6, -8, -12, 0};
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(output[i], expected[i]) << i;
    EXPECT_EQ(std::signbit(output[i]), std::signbit(expected[i])) << i;
  }
}

TEST(ReferenceKernels, stochastic_rounding_counts_from_the_index_given) {
  std::vector<float> input(32, 2.5f);
  input[0] = 6.0f;
  std::vector<std::uint8_t> a(20), b(20), c(20), scales(3);
  QuantizeLines call = mxfp4_call(input, 1, a, scales);
  call.numerics.rounding = Rounding::stochastic;
  reference_kernels.quantize(call);
  call.codes = b.data();
  call.first_index = 32;
  reference_kernels.quantize(call);
  call.codes = c.data();
  call.first_index = 0;
  reference_kernels.quantize(call);
  EXPECT_NE(a, b);
  EXPECT_EQ(a, c);
}

TEST(ReferenceKernels, abs_max_ignores_nan_and_reports_it) {
  const std::array<float, 4> values{1, -5, NAN, 2};
  const AbsMaxRun run = reference_kernels.abs_max(values.data(), DType::f32, 4);
  EXPECT_EQ(run.amax, 5);
  EXPECT_TRUE(run.non_finite);
  EXPECT_FALSE(reference_kernels.abs_max(values.data(), DType::f32, 2).non_finite);
}

}  // namespace
}  // namespace microscale
