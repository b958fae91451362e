#include "checkpoint/kept_codes.hpp"

#include <gtest/gtest.h>

#include <random>

#include "formats/elements.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

float step_of(const BlockCoding& coding, std::uint8_t scale) {
  const float value = E4M3::decode(scale);
  return coding.divisor != 0 ? value / coding.divisor : value * coding.multiplier;
}

bool same_steps(const BlockCoding& a, const BlockCoding& b) {
  for (std::uint8_t scale = 1; scale <= E4M3::max_code; ++scale) {
    if (step_of(a, scale) != step_of(b, scale)) return false;
  }
  return true;
}

TEST(KeptCodes, a_multiplier_is_stored_as_a_divisor_of_the_same_steps_if_there_is_one) {
  std::mt19937 random(3);
  int exact = 0;
  for (int i = 0; i < 300; ++i) {
    const float multiplier = std::ldexp(1.0f + static_cast<float>(random()) * 0x1p-32f, -14);
    const BlockCoding coding{.format = Format::nvfp4, .multiplier = multiplier};
    const StoredGlobal kept = stored_global(coding, false);
    EXPECT_EQ(kept.number, multiplier);
    EXPECT_TRUE(kept.same);
    const StoredGlobal divisor = stored_global(coding, true);
    EXPECT_EQ(divisor.coding, coding_of_stored(divisor.number, true));
    EXPECT_EQ(divisor.same, same_steps(divisor.coding, coding));
    EXPECT_NEAR(divisor.number * multiplier, 1.0f, 1e-6f);
    exact += divisor.same;
  }
  EXPECT_GT(exact, 30);
}

// What quantize writes into compressed-tensors has a multiplier of the same steps.
TEST(KeptCodes, divisors_that_quantize_writes_have_reciprocals) {
  for (const float amax : {0.013f, 0.5f, 6.0f, 117.0f}) {
    const float multiplier = nvfp4_global_scale(amax);
    const float divisor = stored_global_scale(multiplier);
    const BlockCoding coding = coding_of_stored(divisor, true);
    const StoredGlobal kept = stored_global(coding, false);
    EXPECT_TRUE(kept.same) << amax;
    EXPECT_TRUE(same_steps(kept.coding, coding)) << amax;
  }
  const BlockCoding power{.format = Format::nvfp4, .multiplier = 0x1p-9f};
  EXPECT_EQ(stored_global(power, true).number, 512.0f);
  EXPECT_TRUE(stored_global(power, true).same);
}

TEST(KeptCodes, format_is_the_own_one_unless_the_container_has_it_not) {
  QuantizeModelOptions options;
  options.keep_codes = KeepCodes{};
  EXPECT_EQ(kept_format(Format::mxfp4, options), WeightFormat::mxfp4);
  EXPECT_EQ(kept_format(Format::nvfp4, options), WeightFormat::nvfp4);
  EXPECT_EQ(kept_format(Format::mxfp8_e4m3, options), WeightFormat::mxfp8);
  options.container = Container::modelopt;
  EXPECT_EQ(kept_format(Format::mxfp4, options), WeightFormat::nvfp4);
  options.container = Container::compressed_tensors;
  options.keep_codes->cast = true;
  EXPECT_EQ(kept_format(Format::mxfp4, options), WeightFormat::nvfp4);
  EXPECT_EQ(kept_format(Format::mxfp8_e4m3, options), WeightFormat::mxfp8);
  EXPECT_EQ(kept_format(Format::mxfp6_e3m2, options), std::nullopt);
}

}  // namespace
}  // namespace microscale
