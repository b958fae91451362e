// What a search sees of importance weights, and that it chooses as by the weights themselves.
#include "formats/block_weights.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>

#include "formats/block_quantizer.hpp"

namespace microscale {
namespace {

TEST(BlockWeights, are_relative_to_the_largest_of_their_block) {
  EXPECT_EQ(
      relative_weights(std::vector{12.0f, 3.0f, 0.0f, 0x1p-70f, 0.25f, 0.5f, 0.375f, 0.0f}, 2, 4),
      (std::vector{1.5f, 0.375f, 0x1p-60f, 0x1p-60f, 0.5f, 1.0f, 0.75f, 0x1p-60f}));
}

TEST(BlockWeights, of_any_magnitude_are_exact) {
  const float top = std::numeric_limits<float>::max(),
              least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(relative_weights(std::vector{top, 1.0f, top / 2, 0x1p127f}, 1, 4),
            (std::vector{0x1.fffffep0f, 0x1p-60f, 0x1.fffffep-1f, 1.0f}));
  EXPECT_EQ(relative_weights(std::vector{least, 3 * least, 0.0f, 2 * least}, 1, 4),
            (std::vector{0.5f, 1.5f, 0x1p-60f, 1.0f}));
}

TEST(BlockWeights, are_one_where_all_are_zero_and_least_past_the_end) {
  EXPECT_EQ(relative_weights(std::vector{0.0f, 0.0f, 5.0f}, 2, 2),
            (std::vector{1.0f, 1.0f, 1.25f, 0x1p-60f}));
}

TEST(BlockWeights, choose_the_scales_of_the_weights_themselves) {
  std::mt19937 generator(3);
  std::normal_distribution<float> normal;
  std::lognormal_distribution<float> importance(-7, 4);
  Numerics numerics;
  for (int round = 0; round < 2000; ++round) {
    std::array<float, 32> values;
    std::vector<float> weights(32);
    for (float& value : values) value = normal(generator);
    for (float& weight : weights) weight = importance(generator);
    const auto mx = relative_weights(weights, 1, 32), nv = relative_weights(weights, 2, 16);
    const BlockRange range = block_range<32>(values.data()), half = block_range<16>(values.data());
    EXPECT_EQ(choose_e8m0<E2M1>(values.data(), mx.data(), range.amax, ScaleRule::search),
              choose_e8m0<E2M1>(values.data(), weights.data(), range.amax, ScaleRule::search));
    for (const ScaleRule rule : {ScaleRule::search, ScaleRule::full, ScaleRule::four_over_six,
                                 ScaleRule::four_over_six_mae}) {
      numerics.scale_rule = rule;
      const BlockContext context{numerics, 0.001f, nvfp4_scale_factor(0.001f)};
      EXPECT_EQ(choose_nvfp4_scale(values.data(), nv.data(), half.amax, context),
                choose_nvfp4_scale(values.data(), weights.data(), half.amax, context));
    }
  }
}

}  // namespace
}  // namespace microscale
