// The header both sides compile is the public function, and is the same at compile time.
#include "formats/global_scale.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "microscale/quantize.hpp"

namespace microscale {
namespace {

static_assert(global_scale_of(0.0f) == 1.0f);
static_assert(conventions_agree(global_scale_of(3.0f)));
static_assert(global_scale_of(2688.0f) == 1.0f);

TEST(GlobalScaleHeader, is_the_public_function_for_every_bf16_magnitude) {
  for (std::uint32_t high = 0; high <= 0x7F80u; ++high) {
    const float amax = std::bit_cast<float>(high << 16);
    const float g = global_scale_of(amax);
    ASSERT_EQ(g, nvfp4_global_scale(amax)) << amax;
    ASSERT_TRUE(conventions_agree(g)) << amax;
    ASSERT_GE(g, amax > 0 && std::isfinite(amax) ? amax / 2688.0f : 0.0f);
  }
}

}  // namespace
}  // namespace microscale
