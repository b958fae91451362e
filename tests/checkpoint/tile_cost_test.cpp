#include "checkpoint/tile_cost.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "formats/half.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

// A matrix, quantized, with its restored values.
struct Sample {
  Sample(Format format, std::int64_t rows, std::int64_t cols, DType dtype) : dtype(dtype) {
    slice = {"m", rows, cols, 0, cols, 1, 0, 1};
    std::mt19937 random(7);
    std::normal_distribution<float> normal(0.0f, 1.0f);
    values.resize(static_cast<std::size_t>(rows * cols));
    halves.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float value = normal(random);
      halves[i] = dtype == DType::f16 ? float_to_f16(value) : float_to_bf16(value);
      values[i] = dtype == DType::f32   ? value
                  : dtype == DType::f16 ? f16_to_float(halves[i])
                                        : bf16_to_float(halves[i]);
    }
    quantized =
        quantize({.input = {data(), dtype, rows, cols, cols}, .format = format}, {.threads = 1});
    restored.resize(values.size());
    dequantize(quantized.view(), {restored.data(), DType::f32, rows, cols, cols}, {.threads = 1});
  }

  const void* data() const {
    return dtype == DType::f32 ? static_cast<const void*>(values.data()) : halves.data();
  }

  QuantizedTile tile() const {
    const BlockShape& shape = quantized.shape();
    return {&slice,
            {0, slice.rows, 0, slice.cols},
            dtype,
            data(),
            shape.format,
            quantized.global_scale,
            quantized.codes(),
            quantized.scales()};
  }

  DType dtype;
  MatrixSlice slice;
  std::vector<float> values, restored;
  std::vector<std::uint16_t> halves;
  BlockTensor quantized;
};

TEST(TileCost, agrees_with_the_error_sums_of_the_restored_values) {
  for (const Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
    for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
      const Sample sample(format, 37, 352, dtype);
      ErrorSums wanted;
      wanted.add(sample.values, sample.restored);
      const TileCost cost = measure_tile(sample.tile());
      wanted.clipped = cost.error.clipped;
      EXPECT_EQ(cost.error, wanted) << info(format).name << " " << to_string(dtype);
      EXPECT_GT(cost.error.relative_mse(), 0);
    }
  }
}

TEST(TileCost, counts_every_code_and_scale_once) {
  for (const Format format : {Format::nvfp4, Format::mxfp8_e4m3}) {
    const Sample sample(format, 5, 96, DType::f32);
    const TileCost cost = measure_tile(sample.tile());
    CodeHistogram codes{}, scales{};
    for (const std::uint8_t scale : sample.quantized.scales()) ++scales[scale];
    for (const std::uint8_t code : sample.quantized.codes()) {
      if (format == Format::nvfp4) {
        ++codes[code & 15];
        ++codes[code >> 4];
      } else {
        ++codes[code];
      }
    }
    EXPECT_EQ(cost.element_codes, codes);
    EXPECT_EQ(cost.scale_codes, scales);
  }
}

TEST(TileCost, counts_clipped_elements_above_the_largest_value_of_their_block) {
  // Floor: amax 7.5 gives scale 1, and 6 is the most a code stands for.
  std::vector<float> values(64, 1.0f);
  values[3] = 7.5f;
  values[5] = -6.5f;
  values[7] = 6.0f;
  Numerics numerics;
  numerics.scale_rule = ScaleRule::floor;
  const BlockTensor quantized = quantize({.input = {values.data(), DType::f32, 1, 64, 64},
                                          .format = Format::mxfp4,
                                          .numerics = numerics});
  const MatrixSlice slice{"m", 1, 64, 0, 64, 1, 0, 1};
  const TileCost cost = measure_tile({&slice,
                                      {0, 1, 0, 64},
                                      DType::f32,
                                      values.data(),
                                      Format::mxfp4,
                                      1.0f,
                                      quantized.codes(),
                                      quantized.scales()});
  EXPECT_EQ(cost.error.clipped, 2u);
}

TEST(TileCost, finds_the_worst_blocks_with_their_place_in_the_tensor) {
  Sample sample(Format::nvfp4, 8, 64, DType::f32);
  sample.slice.line = 100;  // as the second half of interleaved experts
  sample.slice.line_step = 2;
  const TileCost cost = measure_tile(sample.tile());
  double most = -1;
  std::int64_t row = 0, block = 0;
  for (std::int64_t i = 0; i < 8 * 4; ++i) {
    double error = 0;
    for (std::int64_t j = 16 * i; j < 16 * i + 16; ++j) {
      const auto at = static_cast<std::size_t>(j);
      error += std::pow(static_cast<double>(sample.values[at]) - sample.restored[at], 2);
    }
    if (error > most) most = error, row = 100 + 2 * (i / 4), block = i % 4;
  }
  ASSERT_EQ(cost.worst_blocks.size(), worst_blocks_per_tensor);
  EXPECT_EQ(cost.worst_blocks[0].row, row);
  EXPECT_EQ(cost.worst_blocks[0].block, block);
  EXPECT_NEAR(cost.worst_blocks[0].squared_error, most, 1e-12);
  EXPECT_GE(cost.worst_blocks[0].squared_error, cost.worst_blocks[1].squared_error);
  EXPECT_EQ(cost.worst_blocks[0].original.size(), 16u);
}

TEST(TensorCost, gives_the_same_report_in_whatever_order_tiles_come) {
  const Sample sample(Format::nvfp4, 64, 64, DType::f32);
  const auto tile_of = [&](std::int64_t i) {  // 16 rows each
    QuantizedTile tile = sample.tile();
    tile.tile = {i * 16, 16, 0, 64};
    tile.elements = sample.values.data() + i * 1024;
    tile.codes = tile.codes.subspan(static_cast<std::size_t>(i) * 512, 512);
    tile.scales = tile.scales.subspan(static_cast<std::size_t>(i) * 64, 64);
    return measure_tile(tile);
  };
  const auto report_of = [&](std::vector<std::int64_t> order) {
    TensorCost cost(4);
    for (const std::int64_t i : order) cost.add(i, tile_of(i));
    TensorReport report;
    cost.finish(report);
    return report;
  };
  const TensorReport forward = report_of({0, 1, 2, 3}), shuffled = report_of({2, 0, 3, 1});
  EXPECT_EQ(forward.error, shuffled.error);
  EXPECT_EQ(forward.blocks, 256);
  EXPECT_EQ(forward.scale_codes, shuffled.scale_codes);
  ASSERT_EQ(forward.worst_blocks.size(), shuffled.worst_blocks.size());
  for (std::size_t i = 0; i < forward.worst_blocks.size(); ++i) {
    EXPECT_EQ(forward.worst_blocks[i].row, shuffled.worst_blocks[i].row);
    EXPECT_EQ(forward.worst_blocks[i].block, shuffled.worst_blocks[i].block);
  }
  // Whole at once it is the same model.
  const TileCost whole = measure_tile(sample.tile());
  EXPECT_EQ(forward.worst_blocks[0].row, whole.worst_blocks[0].row);
  EXPECT_EQ(forward.error.elements, whole.error.elements);
  EXPECT_NEAR(forward.error.squared_error, whole.error.squared_error, 1e-9);
}

}  // namespace
}  // namespace microscale
