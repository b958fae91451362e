#include "emulator/ptx/affine.hpp"

#include <gtest/gtest.h>

namespace microscale::emulator::ptx {
namespace {

TEST(PtxAffine, sums_and_products_are_kept_in_one_form) {
  const Form tid("%tid.x"), block("%ctaid.x"), threads("%ntid.x");
  const Form index = block.times(threads)->plus(tid);
  EXPECT_EQ(Form().plus(index, 4).plus(Form(-8)).text(), "4*%ctaid.x*%ntid.x + 4*%tid.x - 8");
  EXPECT_EQ(index.plus(index, -1), Form());
  EXPECT_EQ(Form().text(), "0");
  EXPECT_EQ(Form(7).constant(), 7);
  EXPECT_FALSE(index.constant());
}

TEST(PtxAffine, step_is_what_one_more_adds) {
  const Form tid("%tid.x"), width("[w]");
  EXPECT_EQ(tid.times(width)->plus(Form("%ctaid.x")).step("%tid.x"), width);
  EXPECT_EQ(width.step("%tid.x"), Form());
  EXPECT_FALSE(tid.times(tid)->step("%tid.x"));
}

TEST(PtxAffine, products_that_grow_too_large_are_none) {
  Form wide;
  for (int i = 0; i < 9; ++i) wide = wide.plus(Form("s" + std::to_string(i)));
  EXPECT_FALSE(wide.times(wide));
  Form power("x");
  power = *power.times(power);
  power = *power.times(power);
  EXPECT_FALSE(power.times(Form("x")));
}

}  // namespace
}  // namespace microscale::emulator::ptx
