// Block-scaled FP4 sums against exact ones, and where the groups of 16 show.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "emulator/tensor/block_scaled_sum.hpp"
#include "emulator/tensor/exact_sum.hpp"
#include "emulator/tensor/fused_sum.hpp"
#include "support/mma_cases.hpp"

namespace microscale::testing {
namespace {

using tensor::Class, tensor::Fp4Tile, tensor::Number, tensor::Result, tensor::ScaleType;

struct Product {
  Fp4Tile tile{};
  std::uint32_t c[16][8] = {}, d[16][8] = {};
};

TEST(BlockScaledSum, is_within_its_bound_of_the_exact_sum) {
  Bits bits(5);
  for (int round = 0; round < 60; ++round) {
    const ScaleType type = round % 2 ? ScaleType::ue4m3 : ScaleType::ue8m0;
    const int scales = round % 2 ? 4 : 2;
    Product p;
    const auto scale = [&] {
      return static_cast<std::uint8_t>(type == ScaleType::ue4m3 ? bits.below(127)
                                                                : 117 + bits.below(20));
    };
    for (int k = 0; k < 64; ++k) {
      for (auto& row : p.tile.a) row[k] = tensor::doubled_e2m1[bits.below(16)];
      for (auto& value : p.tile.b[k]) value = tensor::doubled_e2m1[bits.below(16)];
    }
    for (auto& row : p.tile.scale_a)
      for (auto& byte : row) byte = scale();
    for (auto& column : p.tile.scale_b)
      for (auto& byte : column) byte = scale();
    for (auto& row : p.c)
      for (auto& word : row)
        word = random_accumulator(bits, Result::f32, tensor::Operand::e5m2, Spread::powers);
    block_scaled_fp4(p.tile, type, scales, p.c, p.d);
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        tensor::ExactSum exact;
        const float start = std::bit_cast<float>(p.c[row][column]);
        exact.add(start);
        int largest = start == 0 ? -300 : std::ilogb(start);
        for (int k = 0; k < 64; ++k) {
          const int chunk = k * scales / 64;
          const Number a = scale_number(type, p.tile.scale_a[row][chunk]);
          const Number b = scale_number(type, p.tile.scale_b[column][chunk]);
          const int fraction = type == ScaleType::ue4m3 ? 6 : 0;
          exact.add(static_cast<std::int64_t>(p.tile.a[row][k]) * p.tile.b[k][column] *
                        a.significand * b.significand,
                    std::max(a.exponent + b.exponent - fraction - 2, -300));
          largest = std::max(largest, a.exponent + b.exponent);
        }
        const double wanted = exact.value(), got = std::bit_cast<float>(p.d[row][column]);
        ASSERT_LE(std::fabs(got - wanted),
                  std::ldexp(5, largest - 35) + std::fabs(wanted) * 0x1p-23);
      }
  }
}

// 16 products that cancel inside a group leave what no alignment cuts; across groups it is cut.
TEST(BlockScaledSum, groups_of_16_are_exact) {
  Product p;
  for (auto& row : p.tile.scale_a)
    for (auto& byte : row) byte = 127;
  for (auto& column : p.tile.scale_b)
    for (auto& byte : column) byte = 127;
  p.tile.a[0][0] = p.tile.a[0][1] = 12, p.tile.a[0][2] = 1;
  p.tile.b[0][0] = 12, p.tile.b[1][0] = -12, p.tile.b[2][0] = 1;
  p.c[0][0] = std::bit_cast<std::uint32_t>(0x1p-30f);
  block_scaled_fp4(p.tile, ScaleType::ue8m0, 2, p.c, p.d);
  EXPECT_EQ(std::bit_cast<float>(p.d[0][0]), 0.25f);
  p.c[0][0] = std::bit_cast<std::uint32_t>(-0x1p-35f);
  block_scaled_fp4(p.tile, ScaleType::ue8m0, 2, p.c, p.d);
  EXPECT_EQ(std::bit_cast<float>(p.d[0][0]), 0.25f - 0x1p-26f);  // the last of 35 bits
  p.c[0][0] = std::bit_cast<std::uint32_t>(-0x1p-36f);
  block_scaled_fp4(p.tile, ScaleType::ue8m0, 2, p.c, p.d);
  EXPECT_EQ(std::bit_cast<float>(p.d[0][0]), 0.25f);
}

TEST(BlockScaledSum, nan_scales_and_special_accumulators) {
  Product p;
  p.tile.scale_a[3][1] = 255;
  p.c[0][0] = 0x7F800000, p.c[1][1] = 0xFFC12345, p.c[2][2] = 0xFF800000;
  block_scaled_fp4(p.tile, ScaleType::ue8m0, 2, p.c, p.d);
  EXPECT_EQ(p.d[0][0], 0x7F800000u);
  EXPECT_EQ(p.d[1][1], 0x7FFFFFFFu);
  EXPECT_EQ(p.d[2][2], 0xFF800000u);
  for (const std::uint32_t word : p.d[3]) EXPECT_EQ(word, 0x7FFFFFFFu);
  EXPECT_EQ(p.d[4][4], 0u);
}

}  // namespace
}  // namespace microscale::testing
