#include "checkpoint/bad_element.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <vector>

namespace microscale {
namespace {

std::vector<std::uint8_t> bytes_of(const std::vector<float>& values) {
  std::vector<std::uint8_t> bytes(values.size() * 4);
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(BadElement, tells_a_nan_from_infinity_in_every_type) {
  const auto f32 =
      bytes_of({std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()});
  EXPECT_TRUE(is_nan(f32.data(), DType::f32));
  EXPECT_FALSE(is_nan(f32.data() + 4, DType::f32));
  const std::uint16_t halves[] = {0x7E00, 0x7C00, 0xFFC0, 0xFF80};
  const auto* half = reinterpret_cast<const std::uint8_t*>(halves);
  EXPECT_TRUE(is_nan(half, DType::f16));
  EXPECT_FALSE(is_nan(half + 2, DType::f16));
  EXPECT_TRUE(is_nan(half + 4, DType::bf16));
  EXPECT_FALSE(is_nan(half + 6, DType::bf16));
}

TEST(BadElement, finds_the_first_that_is_too_large) {
  EXPECT_EQ(find_huge(bytes_of({1.0f, -0x1.fffffep126f}), DType::f32), -1);
  EXPECT_EQ(find_huge(bytes_of({1.0f, 2.0f, -0x1p127f, 0x1p127f}), DType::f32), 2);
  const std::uint16_t halves[] = {0x7BFF, 0x7F00};
  const auto* half = reinterpret_cast<const std::uint8_t*>(halves);
  EXPECT_EQ(find_huge({half, 4}, DType::bf16), 1);
  EXPECT_EQ(find_huge({half, 2}, DType::f16), -1) << "no FP16 number is";
}

}  // namespace
}  // namespace microscale
