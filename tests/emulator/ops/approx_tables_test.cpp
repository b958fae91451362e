#include "emulator/ops/approx_tables.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <span>

namespace microscale::emulator {
namespace {

// What the tables of the hardware can hold; tanh's rows are kept at another scale.
TEST(ApproximationTables, fit_the_widths_of_their_columns) {
  const std::span<const Parabola> tables[] = {ex2_rows,   lg2_rows,  rcp_rows,
                                              rsqrt_rows, sqrt_rows, sin_rows};
  for (const std::span<const Parabola> rows : tables)
    for (const Parabola& row : rows) {
      EXPECT_GE(row.c0, 0);
      EXPECT_LT(row.c0, 1 << 26);
      EXPECT_LT(std::abs(row.c1), 1 << 16);
      EXPECT_LT(std::abs(row.c2), 1 << 11);
    }
}

// `constant` and `quadratic`: how far c0 and c2 x^2 are to the left of c1 x; x^2 loses 19 bits.
void expect_joined(std::span<const Parabola> rows, double width, int constant, int quadratic,
                   double step) {
  for (std::size_t i = 0; i + 1 < rows.size(); ++i) {
    const double end = std::ldexp(rows[i].c0, constant) + rows[i].c1 * width +
                       std::ldexp(rows[i].c2 * width * width, quadratic - 19);
    EXPECT_NEAR(end, std::ldexp(rows[i + 1].c0, constant), step) << i;
  }
}

TEST(ApproximationTables, have_rows_that_end_where_the_next_begins) {
  const double ulp = 0x1p15;  // of the results, about
  expect_joined(ex2_rows, 0x1p17, 13, 0, 3 * ulp);
  expect_joined(lg2_rows, 0x1p17, 12, 1, 3 * ulp);
  expect_joined(rcp_rows, 0x1p16, 13, 2, 3 * ulp);
  expect_joined(sin_rows, 0x1p17, 11, 0, 3 * ulp);
  expect_joined(std::span(rsqrt_rows).first(64), 0x1p17, 14, 2, 6 * ulp);
  expect_joined(std::span(rsqrt_rows).last(64), 0x1p17, 14, 2, 6 * ulp);
  expect_joined(std::span(sqrt_rows).first(64), 0x1p17, 15, 0, 6 * ulp);
  expect_joined(std::span(sqrt_rows).last(64), 0x1p17, 14, 0, 6 * ulp);
}

TEST(ApproximationTables, begin_with_the_values_at_the_left_of_each_segment) {
  for (int i = 0; i < 64; ++i) {
    const double x = 1 + i / 64.0;
    EXPECT_NEAR(ex2_rows[i].c0, 0x1p25 * std::exp2(x - 1), 8) << i;
    EXPECT_NEAR(lg2_rows[i].c0, 0x1p26 * std::log2(x), 8) << i;
    EXPECT_NEAR(sin_rows[i].c0, 0x1p26 * std::sin((x - 1) * std::acos(0.0)), 64) << i;
    EXPECT_NEAR(rsqrt_rows[i].c0, 0x1p26 / std::sqrt(x), 8) << i;
    EXPECT_NEAR(rsqrt_rows[64 + i].c0, 0x1p26 / std::sqrt(2 * x), 8) << i;
    EXPECT_NEAR(sqrt_rows[i].c0, 0x1p25 * std::sqrt(x), 8) << i;
    EXPECT_NEAR(sqrt_rows[64 + i].c0, 0x1p25 * std::sqrt(2 * x), 8) << i;
  }
  for (int i = 0; i < 128; ++i) EXPECT_NEAR(rcp_rows[i].c0, 0x1p26 / (1 + i / 128.0), 8) << i;
}

}  // namespace
}  // namespace microscale::emulator
