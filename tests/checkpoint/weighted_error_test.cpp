#include "checkpoint/weighted_error.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/tile_quantizer.hpp"
#include "microscale/quantize.hpp"
#include "small_model.hpp"

namespace microscale {
namespace {

using testing::gaussian;

struct Sums {
  double error = 0, original = 0;
};

Sums direct_sums(const std::vector<float>& values, const std::vector<float>& restored,
                 const std::vector<float>& weights) {
  Sums sums;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double weight = weights.empty() ? 1 : static_cast<double>(weights[i % weights.size()]);
    const double value = static_cast<double>(values[i]);
    const double off = value - static_cast<double>(restored[i]);
    sums.error += weight * off * off;
    sums.original += weight * value * value;
  }
  return sums;
}

// Rows of many lengths, also longer than what is restored at once.
TEST(WeightedError, is_the_direct_sum_in_every_format) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    for (const auto& [rows, cols] : {std::pair<std::int64_t, std::int64_t>{5, 64},
                                     {300, 96},
                                     {3, 4096},
                                     {2, 4128},
                                     {1, 12320}}) {
      SCOPED_TRACE(std::string(info(format).name) + " " + std::to_string(cols));
      const std::vector<float> values = gaussian(rows * cols, 7);
      std::vector<float> weights = gaussian(cols, 8, 1.0f);
      for (float& weight : weights) weight *= weight;
      const BlockTensor tensor =
          quantize({.input = {values.data(), DType::f32, rows, cols, cols}, .format = format});
      std::vector<float> restored(values.size());
      dequantize(tensor.view(), {restored.data(), DType::f32, rows, cols, cols});
      MatrixSlice slice;
      slice.rows = rows;
      slice.cols = slice.row_step = cols;
      const QuantizedTile tile{&slice, {0, rows, 0, cols},  DType::f32,     values.data(),
                               format, tensor.global_scale, tensor.codes(), tensor.scales()};
      for (const auto& weighted : {weights, std::vector<float>()}) {
        const Sums wanted = direct_sums(values, restored, weighted);
        const WeightedSums sums = weighted_error(tile, weighted);
        EXPECT_NEAR(sums.error, wanted.error, 1e-12 * wanted.error);
        EXPECT_NEAR(sums.original, wanted.original, 1e-12 * wanted.original);
        EXPECT_DOUBLE_EQ(sums.share(), sums.error / sums.original);
      }
    }
  }
}

TEST(WeightedError, knows_the_scales_of_fp8_rows) {
  const std::int64_t rows = 90, cols = 100;
  std::vector<float> values = gaussian(rows * cols, 9);
  for (std::int64_t i = 0; i < cols; ++i) values[static_cast<std::size_t>(cols + i)] *= 50;
  std::vector<std::uint8_t> codes(values.size());
  std::vector<std::uint16_t> scales(static_cast<std::size_t>(rows));
  const DenseRows input{values.data(), DType::f32, rows, cols};
  quantize_fp8_rows(input, codes, scales);
  const WeightedSums sums = weighted_error(input, codes, scales, {});
  const ErrorSums unweighted = measure_fp8_rows(input, codes, scales).error;
  EXPECT_NEAR(sums.error, unweighted.squared_error, 1e-12 * sums.error);
  EXPECT_NEAR(sums.original, unweighted.squared_original, 1e-12 * sums.original);
  std::vector<float> first_column(static_cast<std::size_t>(cols));
  first_column[0] = 2;
  double error = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    float back = 0;
    const auto at = static_cast<std::size_t>(row * cols);
    restore_fp8({codes.data() + at, 1}, bf16_to_float(scales[static_cast<std::size_t>(row)]),
                &back);
    error += 2 * std::pow(static_cast<double>(values[at]) - static_cast<double>(back), 2);
  }
  EXPECT_NEAR(weighted_error(input, codes, scales, first_column).error, error, 1e-12 * error);
}

TEST(WeightedError, of_nothing_is_0_and_of_nothing_restored_as_something_1) {
  EXPECT_EQ(WeightedSums{}.share(), 0);
  EXPECT_EQ((WeightedSums{2, 0}.share()), 1);
  EXPECT_EQ((WeightedSums{1, 4}.share()), 0.25);
}

}  // namespace
}  // namespace microscale
