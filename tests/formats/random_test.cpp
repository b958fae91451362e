#include "formats/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace microscale {
namespace {

TEST(Random16, is_pinned) {
  static_assert(random16(1, 2) <= 0xFFFF);
  // Part of the numerics contract: these numbers never change.
  const std::uint32_t pinned[] = {48821, 46623, 15943, 31315, 56438, 29556, 1420, 43813};
  const std::uint64_t indices[] = {0, 1, 2, 3, 1000, 1ull << 33, (1ull << 33) + 1, 1ull << 40};
  for (int i = 0; i < 8; ++i) EXPECT_EQ(random16(42, indices[i]), pinned[i]) << indices[i];
}

TEST(Random16, is_uniform_and_neighbours_are_independent) {
  constexpr int count = 1 << 20;
  std::vector<int> bins(256);
  double sum = 0, product = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint32_t a = random16(7, static_cast<std::uint64_t>(i));
    const std::uint32_t b = random16(7, static_cast<std::uint64_t>(i) + 1);
    ++bins[a >> 8];
    sum += a / 65536.0;
    product += (a / 65536.0 - 0.5) * (b / 65536.0 - 0.5);
  }
  double chi_squared = 0;
  for (int bin : bins) chi_squared += std::pow(bin - count / 256.0, 2) / (count / 256.0);
  EXPECT_NEAR(sum / count, 0.5, 0.002);
  EXPECT_LT(chi_squared, 350);  // 255 degrees of freedom: 350 is beyond 1 in 20,000
  EXPECT_GT(chi_squared, 170);
  EXPECT_NEAR(product / count * 12, 0.0, 0.005);
}

TEST(Random16, seeds_and_stretches_differ) {
  int same_seed = 0, same_stretch = 0;
  for (std::uint64_t i = 0; i < 4096; ++i) {
    same_seed += random16(1, i) == random16(2, i);
    same_stretch += random16(1, i) == random16(1, i + (1ull << 33));
  }
  EXPECT_LT(same_seed, 8);
  EXPECT_LT(same_stretch, 8);
}

}  // namespace
}  // namespace microscale
