#include "emulator/tensor/descriptor_check.hpp"

#include <gtest/gtest.h>

#include "emulator/tensor/matrix_descriptor.hpp"

namespace microscale::testing {
namespace {

namespace tensor = emulator::tensor;
using tensor::MatrixDescriptor, tensor::Swizzle;

std::string problem(const MatrixDescriptor& d, int lines = 64, bool mn_major = false) {
  const auto found = tensor::descriptor_problem(tensor::wgmma_descriptor_bits(d), lines, mn_major);
  if (!found.what.empty()) {
    EXPECT_TRUE(found.alignment);
  }
  return found.what;
}

TEST(DescriptorCheck, reserved_bits_are_zero) {
  for (int bit = 0; bit < 64; ++bit) {
    const bool reserved = bit == 14 || bit == 15 || bit == 30 || bit == 31 ||
                          (bit >= 46 && bit <= 48) || (bit >= 52 && bit <= 61);
    const auto found = tensor::descriptor_problem(std::uint64_t{1} << bit, 64, false);
    EXPECT_EQ(found.what.starts_with("has reserved bits"), reserved) << bit;
    if (reserved) {
      EXPECT_FALSE(found.alignment);
    }
  }
}

TEST(DescriptorCheck, starts_where_the_pattern_does_or_the_base_offset_says) {
  for (int mode = 1; mode <= 3; ++mode) {
    const std::uint32_t row = 16u << mode;
    for (std::uint32_t start = 0; start < 2048; start += row)
      for (std::uint32_t base = 0; base < 8; ++base) {
        const bool good = start % 128 == 0 && (start / 128) % (row / 16) == base % (row / 16);
        EXPECT_EQ(problem({start, 16, 8 * row, base, static_cast<Swizzle>(mode)}).empty(), good)
            << mode << " " << start << " " << base;
      }
  }
  EXPECT_EQ(problem({0x1230, 128, 256, 0, Swizzle::none}), "");
}

TEST(DescriptorCheck, a_row_of_the_swizzle_is_not_left) {
  for (const std::uint32_t chunk : {0, 2, 4, 6})
    EXPECT_EQ(problem({1024 + 16 * chunk, 16, 1024, 0, Swizzle::bytes128}), "");
  EXPECT_EQ(problem({1024 + 16, 16, 1024, 0, Swizzle::bytes128}), "");
  EXPECT_NE(problem({1024 + 112, 16, 1024, 0, Swizzle::bytes128}), "");
  EXPECT_NE(problem({512 + 48, 16, 512, 0, Swizzle::bytes64}), "");
  EXPECT_NE(problem({256 + 16, 16, 256, 0, Swizzle::bytes32}), "");
  EXPECT_EQ(problem({1024 + 64, 2048, 1024, 0, Swizzle::bytes128}, 32, true), "");
  EXPECT_NE(problem({1024 + 64, 2048, 1024, 0, Swizzle::bytes128}, 40, true), "");
  EXPECT_EQ(problem({1024, 2048, 1024, 0, Swizzle::bytes128}, 256, true), "");
}

}  // namespace
}  // namespace microscale::testing
