#include "reference/dense.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace microscale {
namespace {

TEST(Dense, stores_round_and_loads_widen_by_type) {
  alignas(4) std::array<std::uint8_t, 16> bytes{};
  const float value = 1.0f + 0x1p-9f;
  store_dense(value, bytes.data(), DType::f32, 1);
  EXPECT_EQ(load_dense(bytes.data(), DType::f32, 1), value);
  store_dense(value, bytes.data(), DType::f16, 3);
  EXPECT_EQ(load_dense(bytes.data(), DType::f16, 3), value);
  store_dense(value, bytes.data(), DType::bf16, 3);
  EXPECT_EQ(load_dense(bytes.data(), DType::bf16, 3), 1.0f);
}

TEST(Dense, any_nan_is_stored_as_the_canonical_one) {
  alignas(4) std::array<std::uint8_t, 4> bytes{};
  store_dense(std::bit_cast<float>(0xFF812345u), bytes.data(), DType::f32, 0);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(load_dense(bytes.data(), DType::f32, 0)),
            canonical_nan_f32);
  store_dense(-NAN, bytes.data(), DType::bf16, 0);
  EXPECT_EQ(bytes[0], 0xFF);
  EXPECT_EQ(bytes[1], 0x7F);
}

}  // namespace
}  // namespace microscale
