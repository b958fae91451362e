// The oracle: exact where doubles are, and where they are not.
#include <gtest/gtest.h>

#include <cmath>

#include "emulator/tensor/exact_sum.hpp"
#include "support/mma_cases.hpp"

namespace microscale::testing {
namespace {

TEST(ExactSum, is_the_nearest_double_of_sums_that_doubles_lose) {
  tensor::ExactSum sum;
  sum.add(0x1p300);
  sum.add(1, -300);
  sum.add(-0x1p300);
  EXPECT_EQ(sum.value(), 0x1p-300);
  sum.add(-3, -300);
  EXPECT_EQ(sum.value(), -0x1p-299);
  tensor::ExactSum tie;
  tie.add((std::int64_t{1} << 53) + 1, 0);
  EXPECT_EQ(tie.value(), 0x1p53);
  tie.add(1, -200);
  EXPECT_EQ(tie.value(), 0x1p53 + 2);
  EXPECT_EQ(tensor::ExactSum{}.value(), 0);
  Bits bits(3);
  for (int round = 0; round < 2000; ++round) {
    tensor::ExactSum two;
    const double a =
        std::ldexp(static_cast<double>(bits.next()) - 0x1p31, static_cast<int>(bits.below(60)));
    const double b =
        std::ldexp(static_cast<double>(bits.next()) - 0x1p31, static_cast<int>(bits.below(60)));
    two.add(a);
    two.add(b);
    ASSERT_EQ(two.value(), a + b);
  }
}

}  // namespace
}  // namespace microscale::testing
