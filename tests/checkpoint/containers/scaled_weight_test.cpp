#include "checkpoint/containers/scaled_weight.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "checkpoint/containers/coded_models.hpp"

namespace microscale {
namespace {

using Shape = std::vector<std::int64_t>;

std::string fitted(const Shape& weight, const Shape& scales,
                   std::optional<std::pair<std::int64_t, std::int64_t>> block = {}) {
  const auto grid = fit_scale_grid(weight, scales, block);
  return grid ? grid->description() : "nothing";
}

TEST(ScaleGrid, follows_from_the_shapes) {
  EXPECT_EQ(fitted({64, 96}, {}), "one scale per tensor");
  EXPECT_EQ(fitted({64, 96}, {1}), "one scale per tensor");
  EXPECT_EQ(fitted({64, 96}, {1, 1}), "one scale per tensor");
  EXPECT_EQ(fitted({64, 96}, {64}), "one scale per row");
  EXPECT_EQ(fitted({64, 96}, {64, 1}), "one scale per row");
  EXPECT_EQ(fitted({64, 96}, {1, 96}), "one scale per column");
  EXPECT_EQ(fitted({300, 512}, {3, 4}), "one scale per 128 x 128 block");
  EXPECT_EQ(fitted({256, 512}, {4, 4}), "one scale per 64 x 128 block");
  EXPECT_EQ(fitted({256, 512}, {256, 4}), "one scale per 1 x 128 block");
  EXPECT_EQ(fitted({300, 512}, {7, 4}), "nothing");
  EXPECT_EQ(fitted({300, 512}, {2, 3, 4}), "nothing");
  EXPECT_EQ(fitted({300, 512}, {0, 4}), "nothing");
}

TEST(ScaleGrid, follows_config_json_where_shapes_leave_a_choice) {
  EXPECT_EQ(fitted({300, 512}, {7, 4}, std::pair(48, 128)), "one scale per 48 x 128 block");
  EXPECT_EQ(fitted({300, 512}, {3, 4}, std::pair(100, 128)), "one scale per 100 x 128 block");
  EXPECT_EQ(fitted({64, 64}, {1, 1}, std::pair(128, 128)), "one scale per tensor");
}

TEST(ScaleGrid, of_stacked_matrices_holds_for_each_or_for_all) {
  EXPECT_EQ(fitted({8, 256, 384}, {8, 2, 3}), "one scale per 128 x 128 block");
  EXPECT_EQ(fitted({8, 256, 384}, {8}), "one scale per matrix");
  EXPECT_EQ(fitted({8, 256, 384}, {8, 1, 1}), "one scale per matrix");
  EXPECT_EQ(fitted({8, 256, 384}, {8, 256}), "one scale per row");
  EXPECT_EQ(fitted({8, 256, 384}, {8, 1, 384}), "one scale per column");
  EXPECT_EQ(fitted({8, 256, 384}, {1}), "one scale per tensor");
  EXPECT_EQ(fitted({8, 256, 384}, {4, 2, 3}), "nothing");
}

TEST(ScaleGrid, takes_scales_of_floats_and_powers_of_two) {
  for (const StoredType type :
       {StoredType::f32, StoredType::bf16, StoredType::f16, StoredType::f8_e8m0, StoredType::u8}) {
    EXPECT_TRUE(is_scale_type(type));
  }
  for (const StoredType type : {StoredType::i8, StoredType::i32, StoredType::f8_e4m3}) {
    EXPECT_FALSE(is_scale_type(type));
  }
}

// Each code under each scale of a row, NaN and infinities too: the bits of code * scale in FP32,
// for runs that begin and end anywhere.
TEST(ScaledWeight, decodes_every_code) {
  constexpr std::int64_t rows = 3, cols = 256 + 40;
  testing::TemporaryFolder place;
  for (const StoredType type : {StoredType::f8_e4m3, StoredType::f8_e5m2}) {
    testing::SmallModel model;
    testing::Bytes codes;
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      codes.push_back(static_cast<std::uint8_t>(i % cols + i / cols));
    }
    const std::vector<float> scales{0.3f, 1e-30f, 7e37f};
    model.add("a.weight", type, {rows, cols}, codes);
    model.add_floats("a.weight_scale", {rows, 1}, scales);
    model.write(place / std::string(type == StoredType::f8_e4m3 ? "e4m3" : "e5m2"));
    const QuantizedFolder folder = take(
        open_quantized_folder(place / std::string(type == StoredType::f8_e4m3 ? "e4m3" : "e5m2")));
    ASSERT_EQ(folder.weights.size(), 1u);
    const StoredWeight& weight = *folder.weights.front();
    for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>(0, rows * cols),
                                       {5, 1},
                                       {31, 33},
                                       {250, 300},
                                       {rows * cols - 3, 3}}) {
      std::vector<float> values(static_cast<std::size_t>(count));
      take(weight.decode(first, count,
                         std::span(reinterpret_cast<std::uint8_t*>(values.data()),
                                   values.size() * sizeof(float))));
      for (std::int64_t i = 0; i < count; ++i) {
        const auto at = static_cast<std::size_t>(first + i);
        const float code = type == StoredType::f8_e4m3 ? testing::e4m3_value(codes[at])
                                                       : testing::e5m2_value(codes[at]);
        const float wanted = code * scales[at / static_cast<std::size_t>(cols)];
        const float found = values[static_cast<std::size_t>(i)];
        if (std::isnan(wanted)) {
          EXPECT_TRUE(std::isnan(found)) << at;
        } else {
          EXPECT_EQ(std::bit_cast<std::uint32_t>(found), std::bit_cast<std::uint32_t>(wanted))
              << at;
        }
      }
    }
  }
}

// The largest of the decoded values, of negative scales too; none where one is NaN or infinite.
TEST(ScaledWeight, knows_the_largest_magnitude_from_codes) {
  constexpr std::int64_t rows = 130, cols = 200;
  testing::TemporaryFolder place;
  testing::SmallModel model;
  testing::Bytes codes = testing::random_e4m3(rows * cols, 3);
  codes[5 * cols + 7] = 0xFE;  // -448
  codes[128 * cols + 100] = 0x7F;
  model.add("a.weight", StoredType::f8_e4m3, {rows, cols}, codes);
  model.add_floats("a.weight_scale_inv", {2, 2}, {-0.3f, 1e30f, 0.01f, 0.02f});
  model.write(place / "in");
  const QuantizedFolder folder = take(open_quantized_folder(place / "in"));
  const StoredWeight& weight = *folder.weights.at(0);
  for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>(0, 100),
                                     {3, 40},
                                     {5 * cols + 7, 1},
                                     {100, 5 * cols},
                                     {129 * cols, cols}}) {
    std::vector<float> values(static_cast<std::size_t>(count));
    take(weight.decode(
        first, count,
        std::span(reinterpret_cast<std::uint8_t*>(values.data()), values.size() * sizeof(float))));
    float wanted = 0;
    for (const float value : values) wanted = std::max(wanted, std::fabs(value));
    EXPECT_EQ(take(largest_magnitude(weight, first, count)), std::optional(wanted)) << first;
  }
  EXPECT_EQ(take(largest_magnitude(weight, 0, rows * cols)), std::nullopt) << "NaN";
}

}  // namespace
}  // namespace microscale
