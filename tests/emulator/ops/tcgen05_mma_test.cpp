// Products of tcgen05.mma: every kind against a sum in FP64, in every swizzle and at every moment
// of completion.
#include "emulator/ops/tcgen05.hpp"

#include <gtest/gtest.h>

#include "support/tcgen05_products.hpp"

namespace microscale::testing {
namespace {

using tensor::Operand;

/// All of D within the error that cutting terms and sums to 25 bits or more can make.
void expect_products(const Tcgen05Operands& operands, const emulator::testing::Ran& ran) {
  ASSERT_EQ(ran.findings(), "");
  const Tcgen05Case& what = operands.what;
  const double terms = what.k() * what.steps + 1;
  for (int row = 0; row < what.m; ++row)
    for (int column = 0; column < what.n; ++column) {
      double magnitude = 0;
      const double expected = operands.sum(row, column, magnitude);
      const int lane = what.m == 64 ? 32 * (row / 16) + row % 16 : row;
      const auto got = static_cast<double>(
          std::bit_cast<float>(ran.words[static_cast<std::size_t>(lane * what.n + column)]));
      ASSERT_LE(std::abs(got - expected), magnitude * (terms * 0x1p-24 + what.steps * 0x1p-23))
          << row << ", " << column << ": " << got << " for " << expected;
    }
}

const Tcgen05Case kinds[] = {
    {.kind = "mxf4nvf4",
     .scales = ".block_scale.block16",
     .a = Operand::e2m1,
     .b = Operand::e2m1,
     .n = 256,
     .steps = 2,
     .scale_vector = 4,
     .ue4m3 = true,
     .swizzle = 64},
    {.kind = "mxf4nvf4",
     .scales = ".block_scale.block16",
     .a = Operand::e2m1,
     .b = Operand::e2m1,
     .n = 16,
     .steps = 4,
     .scale_vector = 4,
     .swizzle = 128},
    {.kind = "mxf4nvf4",
     .scales = ".block_scale.block32",
     .a = Operand::e2m1,
     .b = Operand::e2m1,
     .n = 24,
     .steps = 1,
     .scale_vector = 2,
     .swizzle = 32},
    {.kind = "mxf4",
     .scales = ".block_scale.block32",
     .a = Operand::e2m1,
     .b = Operand::e2m1,
     .n = 136,
     .steps = 2,
     .scale_vector = 2},
    {.kind = "mxf8f6f4",
     .scales = ".block_scale.block32",
     .a = Operand::e4m3,
     .b = Operand::e5m2,
     .n = 64,
     .steps = 4,
     .scale_vector = 1,
     .swizzle = 128},
    {.kind = "mxf8f6f4",
     .scales = ".block_scale",
     .a = Operand::e4m3,
     .b = Operand::e2m1,
     .n = 32,
     .steps = 2,
     .scale_vector = 1,
     .swizzle = 64},
    {.kind = "mxf8f6f4",
     .scales = ".block_scale.block32",
     .a = Operand::e3m2,
     .b = Operand::e2m3,
     .n = 8,
     .steps = 1,
     .scale_vector = 1},
    {.kind = "f16", .a = Operand::f16, .b = Operand::f16, .n = 256, .steps = 2, .swizzle = 64},
    {.kind = "f16", .a = Operand::bf16, .b = Operand::bf16, .n = 64, .steps = 4, .swizzle = 128},
    {.kind = "f16", .m = 64, .n = 24, .steps = 1},
    {.kind = "f16", .n = 32, .steps = 2, .a_in_tensor = true},
    {.kind = "f16", .n = 64, .steps = 4, .swizzle = 128, .mn_major_b = true},
    {.kind = "f16",
     .a = Operand::bf16,
     .b = Operand::bf16,
     .n = 128,
     .steps = 2,
     .a_in_tensor = true,
     .mn_major_b = true},
    {.kind = "f8f6f4",
     .a = Operand::e4m3,
     .b = Operand::e4m3,
     .n = 128,
     .steps = 4,
     .swizzle = 128,
     .mn_major_b = true},
    {.kind = "mxf8f6f4",
     .scales = ".block_scale.block32",
     .a = Operand::e5m2,
     .b = Operand::e4m3,
     .n = 32,
     .steps = 2,
     .scale_vector = 1,
     .mn_major_b = true},
    {.kind = "tf32", .a = Operand::tf32, .b = Operand::tf32, .n = 48, .steps = 2},
    {.kind = "f8f6f4", .a = Operand::e5m2, .b = Operand::e4m3, .n = 80, .steps = 3},
};

TEST(Tcgen05Mma, every_kind_equals_an_fp64_sum) {
  std::uint64_t seed = 0;
  for (const Tcgen05Case& what : kinds) {
    SCOPED_TRACE(what.kind + what.scales + " n " + std::to_string(what.n));
    const Tcgen05Operands operands(what, ++seed);
    const std::string text = tcgen05_kernel(operands);
    std::vector<std::uint32_t> first;
    for (const auto completion : {emulator::Completion::eager, emulator::Completion::latest,
                                  emulator::Completion::random}) {
      emulator::LaunchOptions options;
      options.completion = completion;
      options.schedule = static_cast<emulator::Schedule>(seed % 3);
      options.seed = seed;
      const auto ran = run_tcgen05(operands, text, options);
      if (first.empty()) {
        expect_products(operands, ran);
        first = ran.words;
      }
      EXPECT_EQ(ran.findings(), "");
      EXPECT_EQ(ran.words, first);
    }
  }
}

}  // namespace
}  // namespace microscale::testing
