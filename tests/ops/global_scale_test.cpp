#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "formats/elements.hpp"
#include "microscale/error.hpp"
#include "microscale/quantize.hpp"

namespace microscale {
namespace {

TEST(GlobalScale, divisor_and_multiplier_decode_alike) {
  std::mt19937 generator(4);
  std::uniform_real_distribution<float> exponent(-30, 30);
  for (int i = 0; i < 2000; ++i) {
    const float amax = std::exp2(exponent(generator));
    const float g = nvfp4_global_scale(amax), divisor = 1.0f / g;
    ASSERT_GE(g, amax / 2688.0f);
    ASSERT_LT(g, amax / 2688.0f * 1.0001f);
    ASSERT_EQ(1.0f / divisor, g);
    for (int code = 1; code < 127; ++code) {
      const float scale = UE4M3::decode(static_cast<std::uint8_t>(code));
      ASSERT_EQ(scale / divisor, scale * g) << std::hexfloat << amax << " code " << code;
    }
  }
  EXPECT_EQ(nvfp4_global_scale(0.0f), 1.0f);
  EXPECT_TRUE(std::isnormal(1.0f / nvfp4_global_scale(0x1p-149f)));
  EXPECT_TRUE(std::isfinite(nvfp4_global_scale(INFINITY)));
}

TEST(GlobalScale, of_what_is_no_magnitude_is_refused) {
  EXPECT_EQ(nvfp4_global_scale(-0.0f), 1.0f);
  for (const float amax : {-1.0f, -INFINITY, NAN}) {
    for (const Compat compat : {Compat::none, Compat::torchao, Compat::transformer_engine,
                                Compat::vllm, Compat::compressed_tensors, Compat::llama_cpp}) {
      try {
        nvfp4_global_scale(amax, compat);
        ADD_FAILURE() << amax << ' ' << to_string(compat);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
        EXPECT_NE(std::string(error.what()).find("must not be negative nor NaN"),
                  std::string::npos);
      }
    }
    EXPECT_THROW(nvfp4_global_scale(amax), Error);
  }
}

TEST(GlobalScale, is_a_number_an_address_or_absent) {
  const float numbers[] = {0.5f, 0.25f};
  EXPECT_FALSE(GlobalScale().given());
  EXPECT_THROW(GlobalScale().value(), Error);
  const GlobalScale one = 0.125f, each = GlobalScale::per_expert(numbers),
                    there = GlobalScale::on_device(numbers);
  EXPECT_EQ(one.value(), 0.125f);
  EXPECT_EQ(one.value(7), 0.125f);
  EXPECT_EQ(one.device_pointer(), nullptr);
  EXPECT_EQ(each.value(1), 0.25f);
  EXPECT_TRUE(each.is_per_expert());
  EXPECT_EQ(each.device_pointer(), nullptr);
  EXPECT_THROW(there.value(), Error);
  EXPECT_EQ(there.device_pointer(), numbers);
  EXPECT_EQ(there.memory(), Memory::device);
  EXPECT_FALSE(GlobalScale::on_device(nullptr).given());
  EXPECT_EQ(GlobalScale::per_expert(nullptr), GlobalScale());
}

}  // namespace
}  // namespace microscale
