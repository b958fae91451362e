#include "formats/nvfp4.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace microscale {
namespace {

TEST(Nvfp4, multiplier_is_the_reciprocal_of_the_step) {
  for (float g : {1.0f, 3.7e-5f, 0x1p-117f, 1e30f})
    for (std::uint8_t scale = 1; scale <= nvfp4_max_scale; ++scale) {
      const float step = nvfp4_step(scale, g);
      EXPECT_EQ(step, UE4M3::decode(scale) * g);
      EXPECT_EQ(nvfp4_multiplier(scale, g), std::min(1.0f / step, largest_float));
    }
}

TEST(Nvfp4, scale_zero_makes_zeros_not_infinities) {
  EXPECT_EQ(nvfp4_multiplier(0, 1.0f), 0.0f);
  EXPECT_EQ(nvfp4_multiplier(1, 0x1p-126f), largest_float);
}

TEST(Nvfp4, nearest_scale_uses_two_rounded_factors) {
  const float g = 0.7f;
  EXPECT_EQ(nvfp4_scale_factor(g), (1.0f / g) * (1.0f / 6.0f));
  EXPECT_EQ(nvfp4_nearest_scale(6.0f * g, nvfp4_scale_factor(g)), 0x38);
  EXPECT_EQ(nvfp4_nearest_scale(1e9f, nvfp4_scale_factor(g)), nvfp4_max_scale);
}

}  // namespace
}  // namespace microscale
