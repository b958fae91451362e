// The decoder's tables against the computed numbers.
#include <gtest/gtest.h>

#include <cmath>

#include "emulator/tensor/element_numbers.hpp"

namespace microscale::testing {
namespace {

namespace tensor = emulator::tensor;
using tensor::ElementNumbers, tensor::Number, tensor::Operand;

TEST(ElementNumbers, equal_the_computed_ones) {
  for (const Operand type : {Operand::f16, Operand::bf16, Operand::e4m3, Operand::e5m2,
                             Operand::e3m2, Operand::e2m3, Operand::e2m1}) {
    const ElementNumbers numbers(type);
    for (std::uint32_t code = 0; code < 256; ++code) {
      const Number wanted = tensor::number_of(type, code), got = numbers(code);
      EXPECT_EQ(got.significand, wanted.significand);
      EXPECT_EQ(got.exponent, wanted.exponent);
      EXPECT_EQ(got.kind, wanted.kind);
    }
  }
}

TEST(ElementNumbers, through_fp16_a_subnormal_of_e4m3_is_normal) {
  const ElementNumbers direct(Operand::e4m3), through(Operand::e4m3, true);
  for (std::uint32_t code = 1; code < 0x7F; ++code) {
    const Number a = direct(code), b = through(code);
    EXPECT_EQ(std::ldexp(a.significand, a.exponent - 3),
              std::ldexp(b.significand, b.exponent - 10));
    EXPECT_GE(b.significand, 1 << 10);
  }
  EXPECT_EQ(direct(1).exponent, -6);
  EXPECT_EQ(through(1).exponent, -9);
  EXPECT_EQ(through(0x7F).kind, tensor::Class::nan);
}

}  // namespace
}  // namespace microscale::testing
