// Numbers of every code against the library's codecs.
#include <gtest/gtest.h>

#include <cmath>

#include "emulator/tensor/number.hpp"
#include "formats/e8m0.hpp"
#include "formats/elements.hpp"
#include "formats/half.hpp"

namespace microscale::testing {
namespace {

namespace tensor = emulator::tensor;
using tensor::Class, tensor::Number, tensor::Operand;

void expect_value(const Number& number, int fraction, float value, bool normal_or_smallest) {
  if (std::isnan(value)) {
    EXPECT_EQ(number.kind, Class::nan);
  } else if (std::isinf(value)) {
    EXPECT_EQ(number.kind, Class::infinite);
    EXPECT_EQ(number.significand < 0, value < 0);
  } else {
    EXPECT_EQ(number.kind, Class::finite);
    EXPECT_EQ(std::ldexp(static_cast<double>(number.significand), number.exponent - fraction),
              value);
    EXPECT_LT(std::abs(number.significand), 2 << fraction);
    EXPECT_TRUE(value == 0 || normal_or_smallest);
  }
}

template <class Codec>
void expect_codec(Operand type) {
  const int fraction = tensor::fraction_bits(type);
  const int smallest = tensor::number_of(type, 1).exponent;
  for (std::uint32_t code = 0; code < Codec::code_count; ++code) {
    const Number n = tensor::number_of(type, code);
    const bool canonical = std::abs(n.significand) >= 1 << fraction || n.exponent == smallest;
    expect_value(n, fraction, Codec::decode(static_cast<std::uint8_t>(code)), canonical);
  }
}

TEST(Number, has_the_value_of_every_small_code) {
  expect_codec<E4M3>(Operand::e4m3);
  expect_codec<E5M2>(Operand::e5m2);
  expect_codec<E3M2>(Operand::e3m2);
  expect_codec<E2M3>(Operand::e2m3);
  expect_codec<E2M1>(Operand::e2m1);
}

TEST(Number, has_the_value_of_every_16_bit_code) {
  for (std::uint32_t code = 0; code < 0x10000; ++code) {
    const auto bits = static_cast<std::uint16_t>(code);
    expect_value(tensor::number_of(Operand::f16, code), 10, f16_to_float(bits), true);
    expect_value(tensor::number_of(Operand::bf16, code), 7, bf16_to_float(bits), true);
  }
}

TEST(Number, tf32_drops_13_bits_even_those_that_make_a_nan) {
  EXPECT_EQ(tensor::number_of(Operand::tf32, 0x3F801FFF).significand, 1 << 10);
  EXPECT_EQ(tensor::number_of(Operand::tf32, 0x3F803FFF).significand, (1 << 10) + 1);
  EXPECT_EQ(tensor::number_of(Operand::tf32, 0x7F800001).kind, Class::infinite);
  EXPECT_EQ(tensor::number_of(Operand::tf32, 0x7F802000).kind, Class::nan);
}

TEST(Number, scales) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::uint8_t>(code);
    const Number power = tensor::scale_number(tensor::ScaleType::ue8m0, byte);
    if (code == 255)
      EXPECT_EQ(power.kind, Class::nan);
    else
      EXPECT_EQ(std::ldexp(static_cast<double>(power.significand), power.exponent),
                std::ldexp(1.0, static_cast<int>(code) - 127));
    const Number small = tensor::scale_number(tensor::ScaleType::ue4m3, byte);
    if ((code & 0x7F) == 0x7F)
      EXPECT_EQ(small.kind, Class::nan);
    else
      EXPECT_EQ(std::ldexp(static_cast<double>(small.significand), small.exponent - 3),
                UE4M3::decode(byte & 0x7F));
  }
}

}  // namespace
}  // namespace microscale::testing
