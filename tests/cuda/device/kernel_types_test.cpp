#include "cuda/device/kernel_types.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <random>

namespace microscale::cuda {
namespace {

void expect_quotients(std::int64_t d) {
  constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
  const Divisor by = divisor(d);
  const auto expect = [&](std::int64_t n) {
    if (n < 0 || n > most) return;
    ASSERT_EQ(by.divide(static_cast<int>(n)), n / d) << n << " / " << d;
  };
  for (std::int64_t n = 0; n < 300; ++n) expect(n);
  // Where a quotient begins is where rounding would show.
  for (const std::int64_t q : {most / d, most / d / 2, most / d / 3, std::int64_t{1}})
    for (int i = -2; i <= 2; ++i) expect(q * d + i);
  for (int i = 0; i < 3; ++i) expect(most - i);
}

TEST(Divisor, IsTheQuotientOfIntegers) {
  for (std::int64_t d = 1; d <= 4096; ++d) expect_quotients(d);
  for (int i = 12; i < 31; ++i)
    for (int near = -1; near <= 1; ++near) expect_quotients((std::int64_t{1} << i) + near);
  expect_quotients((std::int64_t{1} << 31) - 1);
  std::mt19937 random(1);
  for (int i = 0; i < 2000; ++i)
    expect_quotients(1 + static_cast<std::int64_t>(random() >> 1) % ((1LL << 31) - 1));
}

}  // namespace
}  // namespace microscale::cuda
