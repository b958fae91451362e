#include "checkpoint/fp8_rows.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale {
namespace {

struct Rows {
  std::vector<std::uint8_t> codes;
  std::vector<std::uint16_t> scales;
};

Rows quantized(const DenseRows& input) {
  Rows rows;
  rows.codes.resize(static_cast<std::size_t>(input.rows * input.cols));
  rows.scales.resize(static_cast<std::size_t>(input.rows));
  quantize_fp8_rows(input, rows.codes, rows.scales);
  return rows;
}

// Every finite BF16 number in rows of its binade and of all others, against the codec.
TEST(Fp8Rows, equal_the_codec_on_every_bf16) {
  std::vector<std::uint16_t> values;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    if ((bits & 0x7F80u) != 0x7F80u) values.push_back(static_cast<std::uint16_t>(bits));
  }
  for (const std::int64_t cols : {std::int64_t{255}, std::int64_t{5100}}) {
    const auto rows = static_cast<std::int64_t>(values.size()) / cols;
    const Rows result = quantized({values.data(), DType::bf16, rows, cols});
    for (std::int64_t row = 0; row < rows; ++row) {
      float amax = 0;
      for (std::int64_t col = 0; col < cols; ++col) {
        amax = std::max(
            amax, std::fabs(bf16_to_float(values[static_cast<std::size_t>(row * cols + col)])));
      }
      float scale = amax == 0 ? 1.0f : bf16_to_float(float_to_bf16(amax / 448.0f));
      scale = std::max(scale, std::numeric_limits<float>::min());
      ASSERT_EQ(bf16_to_float(result.scales[static_cast<std::size_t>(row)]), scale) << row;
      for (std::int64_t col = 0; col < cols; ++col) {
        const auto at = static_cast<std::size_t>(row * cols + col);
        const float value = bf16_to_float(values[at]) / scale;
        ASSERT_EQ(result.codes[at], E4M3::encode(value, Rounding::nearest_even)) << value;
      }
    }
  }
}

TEST(Fp8Rows, equal_the_codec_on_random_fp32_and_fp16) {
  std::mt19937 random(1);
  std::vector<float> values(64 * 300);
  for (float& value : values) {
    value =
        std::ldexp(static_cast<float>(random()) - 0x1p31f, static_cast<int>(random() % 40) - 60);
  }
  const Rows result = quantized({values.data(), DType::f32, 64, 300});
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = bf16_to_float(result.scales[i / 300]);
    ASSERT_EQ(result.codes[i], E4M3::encode(values[i] / scale, Rounding::nearest_even));
  }
  std::vector<std::uint16_t> halves;
  for (float& value : values) {
    halves.push_back(float_to_f16(value * 0x1p20f));
    value = f16_to_float(halves.back());
  }
  const Rows from_halves = quantized({halves.data(), DType::f16, 64, 300});
  EXPECT_EQ(from_halves.codes, quantized({values.data(), DType::f32, 64, 300}).codes);
}

TEST(Fp8Rows, rows_of_zeros_have_a_scale_that_loaders_take) {
  const std::vector<float> values{0, -0.0f, 0, 1e-40f, 0, 0};
  const Rows result = quantized({values.data(), DType::f32, 2, 3});
  EXPECT_EQ(bf16_to_float(result.scales[0]), 1.0f);
  EXPECT_EQ(bf16_to_float(result.scales[1]), std::numeric_limits<float>::min());
  EXPECT_EQ(result.codes[0], 0);
  EXPECT_EQ(result.codes[1], 0x80);
}

TEST(Fp8Rows, cost_is_that_of_the_values_that_codes_stand_for) {
  std::vector<float> values(3 * 5000);
  std::mt19937 random(2);
  std::normal_distribution<float> normal(0, 0.02f);
  for (float& value : values) value = normal(random);
  const DenseRows input{values.data(), DType::f32, 3, 5000};
  const Rows result = quantized(input);
  const TileCost cost = measure_fp8_rows(input, result.codes, result.scales);
  double error = 0, power = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float back = E4M3::decode(result.codes[i]) * bf16_to_float(result.scales[i / 5000]);
    error += std::pow(static_cast<double>(values[i]) - static_cast<double>(back), 2);
    power += std::pow(static_cast<double>(values[i]), 2);
  }
  EXPECT_EQ(cost.error.elements, values.size());
  EXPECT_NEAR(cost.error.relative_mse(), error / power, 1e-12);
  EXPECT_LT(cost.error.relative_mse(), 0.0011);
  EXPECT_GT(cost.error.relative_mse(), 0.0003);
  std::uint64_t codes = 0;
  for (const std::uint64_t count : cost.element_codes) codes += count;
  EXPECT_EQ(codes, values.size());
}

TEST(Fp8Rows, one_scale_for_all_of_a_weight) {
  std::vector<float> values(3 * 5000);
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.02f);
  for (float& value : values) value = normal(random);
  values[7] = -0.875f;
  const float scale = fp8_tensor_scale(0.875f);
  EXPECT_EQ(scale, 0.875f / 448);
  const DenseRows input{values.data(), DType::f32, 3, 5000};
  std::vector<std::uint8_t> codes(values.size());
  quantize_fp8_tensor(input, scale, codes);
  double error = 0, power = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(codes[i], E4M3::encode(values[i] / scale, Rounding::nearest_even));
    error += std::pow(static_cast<double>(values[i] - E4M3::decode(codes[i]) * scale), 2);
    power += std::pow(static_cast<double>(values[i]), 2);
  }
  EXPECT_EQ(E4M3::decode(codes[7]), -448.0f);
  EXPECT_NEAR(measure_fp8_tensor(input, codes, scale).error.relative_mse(), error / power, 1e-9);
  EXPECT_EQ(fp8_tensor_scale(0), 1.0f);
  EXPECT_EQ(fp8_tensor_scale(1e-40f), std::numeric_limits<float>::min());
}

}  // namespace
}  // namespace microscale
