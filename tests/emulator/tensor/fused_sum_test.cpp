// The fused sum against exact arithmetic, and its rounding at the edges.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "emulator/tensor/element_numbers.hpp"
#include "emulator/tensor/exact_sum.hpp"
#include "emulator/tensor/fused_sum.hpp"
#include "support/mma_cases.hpp"

namespace microscale::testing {
namespace {

using tensor::Arithmetic, tensor::Class, tensor::Number, tensor::Operand, tensor::Output,
    tensor::Result;

TEST(RoundSum, f32_is_toward_zero_with_subnormals) {
  EXPECT_EQ(round_sum(Output::f32, 0, 5), 0u);
  EXPECT_EQ(round_sum(Output::f32, 1, 0), 0x3F800000u);
  EXPECT_EQ(round_sum(Output::f32, -3, 0), 0xC0400000u);
  EXPECT_EQ(round_sum(Output::f32, (1 << 25) - 1, 0), 0x4BFFFFFFu);  // not up to 2^25
  EXPECT_EQ(round_sum(Output::f32, 1, -149), 1u);
  EXPECT_EQ(round_sum(Output::f32, 3, -150), 1u);
  EXPECT_EQ(round_sum(Output::f32, -1, -150), 0u);  // +0
  EXPECT_EQ(round_sum(Output::f32, (1 << 24) - 1, -150), 0x007FFFFFu);
  EXPECT_EQ(round_sum(Output::f32, (1 << 24) - 1, 104), 0x7F7FFFFFu);
  EXPECT_EQ(round_sum(Output::f32, 1, 128), 0x7F800000u);
  EXPECT_EQ(round_sum(Output::f32, -1, 128), 0xFF800000u);
  EXPECT_EQ(round_sum(Output::f32, 1, -1000), 0u);
}

TEST(RoundSum, e8m13_keeps_13_fraction_bits) {
  EXPECT_EQ(round_sum(Output::f32_e8m13, 0xFFFFFF, 0), 0x4B7FFC00u);
  EXPECT_EQ(round_sum(Output::f32_e8m13, -0x4000, 0), 0xC6800000u);
  EXPECT_EQ(round_sum(Output::f32_e8m13, -1, -149), 0u);
}

TEST(RoundSum, f16_is_to_nearest_even) {
  EXPECT_EQ(round_sum(Output::f16, 2049, 0), 0x6800u);  // 2049: tie to 2048
  EXPECT_EQ(round_sum(Output::f16, 2051, 0), 0x6802u);  // tie to 2052
  EXPECT_EQ(round_sum(Output::f16, 65519, 0), 0x7BFFu);
  EXPECT_EQ(round_sum(Output::f16, 65520, 0), 0x7C00u);
  EXPECT_EQ(round_sum(Output::f16, -1, -25), 0u);
  EXPECT_EQ(round_sum(Output::f16, -3, -25), 0x8002u);
  for (std::uint32_t code = 1; code < 0x7C00; ++code) {
    const Number n = accumulator_number(Result::f16, code);
    EXPECT_EQ(round_sum(Output::f16, n.significand, n.exponent - 10), code);
  }
}

/// The model's sum lies within what cutting every term and the result can lose.
TEST(FusedDot, is_within_its_bound_of_the_exact_sum) {
  for (const Operand type : {Operand::f16, Operand::bf16, Operand::tf32, Operand::e4m3,
                             Operand::e5m2, Operand::e3m2, Operand::e2m3, Operand::e2m1})
    for (const int bits_kept : {13, 25}) {
      if (bits_kept == 13 && container_bits(tensor::Kind::plain, type) != 8) continue;
      Bits bits(17);
      const tensor::ElementNumbers numbers(type);
      const Arithmetic how{bits_kept, 2 * tensor::fraction_bits(type), Output::f32};
      for (int round = 0; round < 3000; ++round) {
        const auto spread = static_cast<Spread>(round % 4);
        const int count = 4 << round % 4;
        tensor::Lines<2> lines;
        tensor::ExactSum exact;
        const std::uint32_t c = random_accumulator(bits, Result::f32, type, Spread::moderate);
        const double start = std::bit_cast<float>(c);
        int largest = start == 0 ? -133 : std::ilogb(start);
        exact.add(start);
        for (int k = 0; k < count; ++k) {
          const Number a = numbers(random_code(bits, type, spread)),
                       b = numbers(random_code(bits, type, spread));
          lines.set(0, k, a);
          lines.set(1, k, b);
          if (a.significand == 0 || b.significand == 0) continue;
          exact.add(static_cast<std::int64_t>(a.significand) * b.significand,
                    a.exponent + b.exponent - how.product_fraction);
          largest = std::max(largest, a.exponent + b.exponent);
        }
        const float got = std::bit_cast<float>(fused_dot(how, lines.line(0), lines.line(1), count,
                                                         0, accumulator_number(Result::f32, c)));
        const double wanted = exact.value();
        if (std::isinf(got)) {
          EXPECT_GT(std::fabs(wanted), 0x1p127);
          continue;
        }
        const double bound =
            std::ldexp(count + 1, largest - bits_kept) + std::fabs(wanted) * 0x1p-23 + 0x1p-149;
        ASSERT_LE(std::fabs(got - wanted), bound) << name_of(type) << " " << count;
        if (got != 0 && std::fabs(wanted) > bound) {
          ASSERT_EQ(std::signbit(got), std::signbit(wanted));
        }
      }
    }
}

TEST(FusedDot, a_term_too_small_is_cut_and_a_zero_aligns_nothing) {
  const Arithmetic how{25, 2 * tensor::fraction_bits(Operand::bf16), Output::f32};
  const tensor::ElementNumbers numbers(Operand::bf16);
  tensor::Lines<2> lines;
  for (int k = 0; k < 4; ++k)
    lines.set(0, k, numbers(0)), lines.set(1, k, numbers(0x7F00));  // 0 * 2^127
  const auto run = [&](float c) {
    return std::bit_cast<float>(
        fused_dot(how, lines.line(0), lines.line(1), 4, 0,
                  accumulator_number(Result::f32, std::bit_cast<std::uint32_t>(c))));
  };
  EXPECT_EQ(run(0x1p-100f), 0x1p-100f);
  lines.set(0, 0, numbers(0x3F80)), lines.set(1, 0, numbers(0x3F80));  // 1 * 1
  EXPECT_EQ(run(0x1p-24f), 1.0f);                                      // kept, then rounded away
  EXPECT_EQ(run(-0x1p-25f), 1 - 0x1p-24f);
  EXPECT_EQ(run(-0x1p-26f), 1.0f);  // cut before the sum
}

// 2^-149 - 2^-q, which is below 2^-149 unless the second term is cut: on an H200 it is from q = 159
// on.
TEST(FusedDot, alignment_ends_at_2_to_the_minus_133) {
  const Arithmetic how{25, 2 * tensor::fraction_bits(Operand::bf16), Output::f32};
  for (int q = 150; q < 182; ++q) {
    tensor::Lines<2> lines;
    const auto set = [&](int row, int k, int exponent, bool negative) {
      const auto bits = std::bit_cast<std::uint32_t>(std::ldexp(negative ? -1.0f : 1.0f, exponent));
      lines.set(row, k, tensor::number_of(Operand::bf16, bits >> 16));
    };
    set(0, 0, -75, false), set(1, 0, -74, false);
    set(0, 1, -75, true), set(1, 1, 75 - q, false);
    for (int k = 2; k < 8; ++k) lines.set(0, k, {0, tensor::zero_exponent}), lines.set(1, k, {});
    EXPECT_EQ(fused_dot(how, lines.line(0), lines.line(1), 8, 0, {0, tensor::zero_exponent}),
              q >= 159 ? 1u : 0u)
        << q;
  }
}

TEST(FusedDot, nan_and_infinity_follow_the_rules) {
  const Arithmetic how{25, 20, Output::f32};
  const tensor::ElementNumbers numbers(Operand::f16);
  const auto run = [&](std::uint32_t a, std::uint32_t b, std::uint32_t c) {
    tensor::Lines<2> lines;
    for (int k = 0; k < 8; ++k) lines.set(0, k, numbers(0x3C00)), lines.set(1, k, numbers(0x3C00));
    lines.set(0, 5, numbers(a)), lines.set(1, 5, numbers(b));
    return fused_dot(how, lines.line(0), lines.line(1), 8, 0, accumulator_number(Result::f32, c));
  };
  EXPECT_EQ(run(0x7C00, 0x3C00, 0), 0x7F800000u);
  EXPECT_EQ(run(0x7C00, 0xBC00, 0), 0xFF800000u);
  EXPECT_EQ(run(0x7C00, 0x8000, 0), 0x7FFFFFFFu);
  EXPECT_EQ(run(0xFC00, 0x3C00, 0x7F800000), 0x7FFFFFFFu);
  EXPECT_EQ(run(0x7E00, 0x3C00, 0), 0x7FFFFFFFu);
  EXPECT_EQ(run(0x3C00, 0x3C00, 0xFFC00001), 0x7FFFFFFFu);
  EXPECT_EQ(run(0x3C00, 0x3C00, 0xFF800000), 0xFF800000u);
}

}  // namespace
}  // namespace microscale::testing
