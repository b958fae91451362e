// That the operands of support/exact_products.hpp are what they claim: sums exact in FP8's 13 bits,
// and a d in which any chunk that is lost, doubled or taken from another place shows everywhere.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/exact_products.hpp"
#include "support/products.hpp"

namespace microscale {
namespace {

using test::fp8_chunk;
using test::Matrix;
using test::Side;

constexpr std::int64_t depths[] = {96, 128, 320, 1056, 4160, 8448};

Matrix d_of(const BlockTensor& a, const BlockTensor& b) {
  return test::product(a.view(), b.view(), a.shape().rows, b.shape().rows,
                       {.backend = Backend::reference});
}

/// In how many elements two matrices differ.
std::int64_t differences(const Matrix& one, const Matrix& other) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < one.rows; ++i)
    for (std::int64_t j = 0; j < one.cols; ++j) count += one.at(i, j) != other.at(i, j);
  return count;
}

TEST(ExactProducts, have_sums_that_fp8_holds) {
  for (const std::int64_t k : depths) {
    const Side a(test::exact_rows(20, k, 3)), b(test::exact_weights(40, k, 4));
    for (std::int64_t i = 0; i < 20; ++i)
      for (std::int64_t j = 0; j < 40; ++j) {
        double all = 0;
        for (std::int64_t first = 0; first < k; first += fp8_chunk) {
          double chunk = 0, sum = 0, least = HUGE_VAL;
          for (std::int64_t e = first; e < std::min(k, first + fp8_chunk); ++e) {
            const double product = static_cast<double>(a.values.at(i, e)) * b.values.at(j, e);
            ASSERT_EQ(product, std::round(4 * product) / 4);
            chunk += std::fabs(product), sum += product;
            least = std::min<double>(least, std::fabs(a.values.at(i, e)));
          }
          const double scale = 2 * least;  // a's smallest element is half its scale
          ASSERT_LT(chunk, 0x1p11 * scale) << "k " << k;
          ASSERT_NE(sum, 0) << "k " << k;
          all += chunk;
        }
        ASSERT_LT(all, 0x1p22) << "k " << k;  // multiples of 1/4, so FP32 holds any sum of theirs
      }
  }
}

// A kernel that loses a chunk, counts it twice, or multiplies what its buffer held before computes
// the product of other operands: without the chunk, with twice its scale, with the chunk in front.
TEST(ExactProducts, show_a_faulty_chunk_in_every_element) {
  const std::int64_t m = 20, n = 40;
  for (const std::int64_t k : depths) {
    const BlockTensor a = test::exact_rows(m, k, 3), b = test::exact_weights(n, k, 4);
    const Matrix right = d_of(a, b);
    const std::int64_t chunks = (k + fp8_chunk - 1) / fp8_chunk, blocks = k / 32;
    for (std::int64_t chunk = 0; chunk < chunks; chunk += std::max<std::int64_t>(1, chunks / 5)) {
      BlockTensor lost = a, doubled = a, stale = a;
      for (std::int64_t row = 0; row < m; ++row)
        for (std::int64_t block = 4 * chunk; block < std::min(blocks, 4 * chunk + 4); ++block) {
          const auto at = static_cast<std::size_t>(row * blocks + block);
          std::fill_n(lost.codes().begin() + static_cast<std::ptrdiff_t>(16 * at), 16,
                      std::uint8_t{0});
          ++doubled.scales()[at];
          if (chunk == 0) continue;
          std::copy_n(a.codes().begin() + static_cast<std::ptrdiff_t>(16 * (at - 4)), 16,
                      stale.codes().begin() + static_cast<std::ptrdiff_t>(16 * at));
        }
      EXPECT_EQ(differences(d_of(lost, b), right), m * n) << "k " << k << ", chunk " << chunk;
      EXPECT_EQ(differences(d_of(doubled, b), right), m * n) << "k " << k << ", chunk " << chunk;
      if (chunk == 0) continue;  // else: two chunks may have the same sum
      EXPECT_GE(differences(d_of(stale, b), right), m * n * 98 / 100) << "k " << k;
    }
  }
}

// What the bound alone would have let pass: the reason for these operands.
TEST(ExactProducts, are_needed_where_rows_are_long) {
  const std::int64_t k = 8448;
  const Side a(test::exact_rows(20, k, 3)), b(test::exact_weights(40, k, 4));
  std::int64_t within = 0;
  for (std::int64_t i = 0; i < 20; ++i)
    for (std::int64_t j = 0; j < 40; ++j) {
      double lost = 0;
      for (std::int64_t e = 0; e < fp8_chunk; ++e)
        lost += static_cast<double>(a.values.at(i, e)) * b.values.at(j, e);
      within += std::fabs(lost) <= static_cast<double>(test::hopper_fp8_roundings(k)) * 0x1p-24 *
                                       test::exact_at(a, b, i, j).magnitude;
    }
  EXPECT_GT(within, 20 * 40 / 2);
}

}  // namespace
}  // namespace microscale
