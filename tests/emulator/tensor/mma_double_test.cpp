// mma of f64 against fused multiply-adds written out, element by element.
#include "emulator/tensor/mma_double.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cfenv>
#include <cmath>

#include "support/mma_cases.hpp"

namespace microscale::testing {
namespace {

struct Registers {
  std::uint64_t a[8][32], b[4][32], c[4][32], d[4][32];

  explicit Registers(std::uint64_t seed) {
    Bits bits(seed);
    const auto fill = [&](auto& rows) {
      for (auto& row : rows)
        for (std::uint64_t& value : row)
          value = std::bit_cast<std::uint64_t>((static_cast<double>(bits.next()) - 2147483648.0) *
                                               std::exp2(bits.below(40)) / 3);
    };
    fill(a), fill(b), fill(c);
  }
  void run(const tensor::MmaShape& shape) {
    tensor::MmaDoubles in;
    for (std::size_t i = 0; i < 8; ++i) in.a[i] = a[i];
    for (std::size_t i = 0; i < 4; ++i) in.b[i] = b[i], in.c[i] = c[i];
    mma_double(shape, in, {d[0], d[1], d[2], d[3]});
  }
};

tensor::MmaShape shape_of(int m, int k, tensor::Rounding rounding) {
  tensor::MmaShape shape;
  shape.m = m, shape.k = k, shape.rounding = rounding;
  shape.a = shape.b = tensor::Operand::f64;
  shape.c = shape.d = tensor::Result::f64;
  return shape;
}

// The fragments as PTX has them: A's row is lane / 4 (and 8 more in odd registers), its k lane % 4
// (and 4 more every two registers); B's k is lane % 4 and 4 more a register, its column lane / 4.
TEST(MmaDouble, is_a_chain_of_fused_multiply_adds_in_the_order_of_k) {
  using tensor::Rounding;
  const std::pair<Rounding, int> roundings[] = {{Rounding::nearest, FE_TONEAREST},
                                                {Rounding::zero, FE_TOWARDZERO},
                                                {Rounding::down, FE_DOWNWARD},
                                                {Rounding::up, FE_UPWARD}};
  const std::pair<int, int> sizes[] = {{8, 4}, {16, 4}, {16, 8}, {16, 16}};
  for (const auto& [m, k] : sizes)
    for (const auto& [rounding, host] : roundings) {
      Registers registers(static_cast<std::uint64_t>(m * 100 + k));
      registers.run(shape_of(m, k, rounding));
      for (int row = 0; row < m; ++row)
        for (int column = 0; column < 8; ++column) {
          const auto at = static_cast<std::size_t>(column % 2 + 2 * (row / 8));
          const int lane = row % 8 * 4 + column / 2;
          volatile double sum = std::bit_cast<double>(registers.c[at][lane]);
          std::fesetround(host);
          for (int i = 0; i < k; ++i) {
            const auto of_a = static_cast<std::size_t>(row / 8 + i / 4 * (m / 8));
            const volatile double x = std::bit_cast<double>(registers.a[of_a][row % 8 * 4 + i % 4]);
            const volatile double y = std::bit_cast<double>(
                registers.b[static_cast<std::size_t>(i / 4)][column * 4 + i % 4]);
            sum = std::fma(x, y, sum);
          }
          std::fesetround(FE_TONEAREST);
          EXPECT_EQ(registers.d[at][lane], std::bit_cast<std::uint64_t>(static_cast<double>(sum)))
              << m << " " << k << " " << row << "," << column;
        }
    }
}

TEST(MmaDouble, a_nan_is_the_canonical_one) {
  Registers registers(1);
  registers.c[0][0] = 0xfff0000000000001;
  registers.run(shape_of(8, 4, tensor::Rounding::nearest));
  EXPECT_EQ(registers.d[0][0], 0x7ff8000000000000u);
}

}  // namespace
}  // namespace microscale::testing
