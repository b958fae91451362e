#include "cpu/avx512/attention_products.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "seam/kernel_table.hpp"

namespace microscale {
namespace {

template <class T>
std::vector<T> numbers(std::size_t count, int most, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> among(-most, most);
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(among(random));
  return values;
}

// With VNNI and without, the same bits.
TEST(AttentionProducts, are_the_same_with_every_instruction) {
  if (!avx512_kernels.available() || !__builtin_cpu_supports("avx512vnni"))
    GTEST_SKIP() << "this processor has no VNNI";
  for (const int d : {96, 128, 256}) {
    const std::size_t padded = static_cast<std::size_t>((d + 127) / 128 * 128);
    const auto q = numbers<std::int16_t>(4 * padded, 32767, 1),
               codes = numbers<std::int16_t>(padded * 32, 12, 2);
    const auto unit = numbers<float>(4, 100, 3),
               k_scales = numbers<float>(padded / 16 * 32, 448, 4);
    auto v_scales = numbers<float>(padded / 8 * 16, 448, 5), p = numbers<float>(4 * 32, 1000, 6);
    for (float& scale : v_scales) scale = std::abs(scale);
    for (float& weight : p) weight = std::abs(weight) / 1000;
    const auto alpha = numbers<float>(4, 3, 7), before = numbers<float>(4 * padded, 50, 8);
    for (int i = 0; i < 3; ++i)
      for (const int block_words : {2, 4}) {
        std::vector<float> scores[2], sums[2];
        for (const bool vnni : {false, true}) {
          const avx512::AttentionProducts& products = vnni ? vnni_products : avx512_products;
          scores[vnni].resize(4 * 32);
          products.scores[i]({q.data(), unit.data(), d},
                             {codes.data(), k_scales.data(), d / 8, block_words},
                             scores[vnni].data());
          sums[vnni] = before;
          std::vector<float> memory(4 * 16 * 16);
          products.sums[i]({p.data(), alpha.data(), memory.data()},
                           {codes.data(), v_scales.data(), static_cast<std::int64_t>(padded), 0.5f},
                           sums[vnni].data());
        }
        const int rows = avx512::product_rows[i];
        EXPECT_EQ(std::memcmp(scores[0].data(), scores[1].data(), scores[0].size() * 4), 0);
        EXPECT_EQ(std::memcmp(sums[0].data(), sums[1].data(), sums[0].size() * 4), 0);
        for (int r = 0; r < 4; ++r) {  // these rows and no others
          const std::size_t at = static_cast<std::size_t>(r) * padded;
          EXPECT_EQ(sums[1][at] != before[at], r < rows) << d << " row " << r << " of " << rows;
          EXPECT_EQ(scores[1][static_cast<std::size_t>(r) * 32] != 0, r < rows);
        }
      }
  }
}

}  // namespace
}  // namespace microscale
