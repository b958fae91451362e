// The ends of the range on every backend of this machine: long sums, scales that no FP32 product
// survives, NaN and infinity.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "microscale/matmul.hpp"
#include "support/products.hpp"

namespace microscale {
namespace {

using test::Matrix;
using test::Side;

TEST(MatmulRange, long_sums_of_one_sign_and_of_wide_spread_stay_within_the_bound) {
  for (Backend backend : test::host_backends()) {
    for (const auto& [format, m] : {std::pair<Format, std::int64_t>{Format::nvfp4, 2},
                                    {Format::mxfp4, 2},
                                    {Format::nvfp4, 5},
                                    {Format::mxfp4, 40},
                                    {Format::nvfp4, 40}}) {
      const std::int64_t k = 8192;
      BlockTensor positive = test::random_blocks(format, 3, k, Layout::row_major, 2);
      for (std::uint8_t& code : positive.codes()) code &= 0x77;
      Matrix ones(DType::bf16, m, k);
      for (std::int64_t i = 0; i < m * k; ++i) ones.set(i / k, i % k, 1.0f + 0.0078125f * (i % 5));
      const Side a(ones), b(positive);
      EXPECT_TRUE(test::near_exact(
          test::product(a.input(), b.blocks->view(), m, 3, {.backend = backend}), a, b, backend));

      Matrix spread(DType::f32, m, k);
      for (std::int64_t i = 0; i < m * k; ++i)
        spread.set(i / k, i % k,
                   std::ldexp(i % 3 ? 1.1f : -1.3f, static_cast<int>(i * 7 % 80) - 40));
      const Side wide(spread), b2(test::random_blocks(format, 3, k, Layout::row_major, 4));
      EXPECT_TRUE(test::near_exact(
          test::product(wide.input(), b2.blocks->view(), m, 3, {.backend = backend}), wide, b2,
          backend));
    }
  }
}

// b with one scale everywhere against a that brings the sums back into FP32's range. The exact sums
// are those of scales of 1 and a scaled in FP64: 6 * 2^127 alone is beyond FP32.
void expect_exact_under_scale(Backend backend, Format format, int scale, std::int64_t m,
                              DType a_type) {
  const std::int64_t n = 41, k = 96;
  BlockTensor b = test::random_blocks(format, n, k, Layout::row_major, 3, scale, scale);
  Matrix a(a_type, m, k), scaled(DType::f32, m, k);
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t e = 0; e < k; ++e) {
      const double value = std::ldexp(1.0 + 0.0078125 * static_cast<double>((i + e) % 17),
                                      100 * (127 - scale) / 127);
      a.set(i, e, static_cast<float>(value));
      scaled.set(i, e, static_cast<float>(std::ldexp(value, scale - 127)));
    }
  const Matrix d = test::product(a.view(), b.view(), m, n, {.backend = backend});
  std::fill(b.scales().begin(), b.scales().end(), std::uint8_t{127});
  EXPECT_TRUE(test::near_exact(d, Side(scaled), Side(b), backend))
      << info(format).name << " scale " << scale << ", m " << m << ' ' << to_string(a_type);
}

TEST(MatmulRange, scales_at_both_ends_give_exact_values) {
  for (Backend backend : test::host_backends()) {
    const Context context{.backend = backend};
    for (Format b_format : {Format::mxfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2}) {
      for (int scale : {0, 1, 2, 9, 10, 125, 246, 247, 252, 253, 254})
        for (std::int64_t m : {3, 18})
          for (DType type : {DType::f32, DType::bf16})
            expect_exact_under_scale(backend, b_format, scale, m, type);
      // Both sides block-scaled, the scales far apart.
      for (int low : {0, 3, 254}) {
        const int other = 254 - low;
        for (const std::int64_t m : {7, 19}) {
          BlockTensor a =
              test::random_blocks(Format::mxfp4, m, 96, Layout::row_major, 5, other, other);
          BlockTensor b = test::random_blocks(b_format, 9, 96, Layout::row_major, 6, low, low);
          const Matrix d = test::product(a.view(), b.view(), m, 9, context);
          std::fill(a.scales().begin(), a.scales().end(), std::uint8_t{127});
          std::fill(b.scales().begin(), b.scales().end(), std::uint8_t{127});
          EXPECT_TRUE(test::near_exact(d, Side(a), Side(b), backend))
              << info(b_format).name << " scales " << other << " and " << low << ", m " << m;
        }
      }
    }
    for (int scale : {1, 7, 8, 0x7E}) {  // E4M3: subnormal, the smallest normal, 448
      for (const std::int64_t m : {7, 18}) {
        const Side a(test::random_blocks(Format::nvfp4, m, 80, Layout::row_major, 5, scale, scale));
        const Side b(test::random_blocks(Format::nvfp4, 5, 80, Layout::row_major, 6, scale, scale));
        EXPECT_TRUE(test::near_exact(
            test::product(a.blocks->view(), b.blocks->view(), m, 5, context), a, b, backend));
      }
    }
  }
}

// Whether weights are in range is asked piece by piece, of rows and of tiles.
TEST(MatmulRange, one_row_far_behind_decides_for_all) {
  constexpr std::int64_t m = 18, n = 600, k = 96;
  Matrix a(DType::f32, m, k);
  for (std::int64_t i = 0; i < m * k; ++i)
    a.set(i / k, i % k, std::ldexp(1.0f + 0.125f * static_cast<float>(i % 7), -100));
  for (const Backend backend : test::host_backends())
    for (const Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
      BlockTensor rows = test::random_blocks(Format::mxfp4, n, k, Layout::row_major, 3);
      const auto last = static_cast<std::size_t>((n - 1) * k / 32);
      std::fill(rows.scales().begin(), rows.scales().end(), std::uint8_t{127});
      std::fill(rows.scales().begin() + static_cast<std::ptrdiff_t>(last), rows.scales().end(),
                std::uint8_t{254});
      BlockTensor one(BlockShape{1, k, Format::mxfp4});
      std::copy(rows.codes().end() - k / 2, rows.codes().end(), one.codes().begin());
      std::fill(one.scales().begin(), one.scales().end(), std::uint8_t{254});
      BlockTensor b(BlockShape{n, k, Format::mxfp4, BlockAxis::cols, layout});
      std::copy(rows.codes().begin(), rows.codes().end(), b.codes().begin());
      repack_scales(rows.view(), layout, b.scales());
      const Context context{.backend = backend};
      const Matrix all = test::product(a.view(), b.view(), m, n, context),
                   alone = test::product(a.view(), one.view(), m, 1, context);
      for (std::int64_t r = 0; r < m; ++r) {
        EXPECT_TRUE(std::isfinite(all.at(r, n - 1))) << to_string(backend);
        EXPECT_EQ(all.at(r, n - 1), alone.at(r, 0)) << to_string(backend);
      }
    }
}

TEST(MatmulRange, blocks_of_zeros_with_the_smallest_scale_change_nothing) {
  for (Backend backend : test::host_backends()) {
    BlockTensor b = test::random_blocks(Format::mxfp4, 33, 128, Layout::row_major, 4);
    for (std::size_t block = 0; block < b.scales().size(); block += 3) {
      b.scales()[block] = 0;  // what quantizing a block of zeros gives
      for (std::size_t i = 0; i < 16; ++i) b.codes()[block * 16 + i] &= 0x88;
    }
    const Side a(test::gaussian(DType::bf16, 9, 128)), weights(b);
    EXPECT_TRUE(test::near_exact(test::product(a.input(), b.view(), 9, 33, {.backend = backend}), a,
                                 weights, backend));
  }
}

// Fewer than 16 rows and more go different ways, each of which has an order of its own.
TEST(MatmulRange, a_row_of_d_depends_on_no_other_row) {
  struct Case {
    Format format;
    std::int64_t m, k;
    std::vector<std::int64_t> parts;
  };
  for (const auto& [format, m, k, parts] : {Case{Format::nvfp4, 15, 336, {1, 2, 3, 6}},
                                            {Format::nvfp4, 70, 1200, {16, 35, 64}},
                                            {Format::mxfp8_e4m3, 15, 2272, {1, 2, 3, 6}},
                                            {Format::mxfp8_e4m3, 70, 2272, {16, 35, 64}}}) {
    const BlockTensor b = test::random_blocks(format, 67, k);
    const Matrix a = test::gaussian(DType::f32, m, k, 2, 1.0f);
    for (Backend backend : test::host_backends()) {
      const Matrix all = test::product(a.view(), b.view(), m, 67, {.backend = backend});
      for (const std::int64_t rows : parts)
        for (const std::int64_t first : {std::int64_t{0}, std::int64_t{5}, m - rows}) {
          TensorView some = a.view();
          some.data = a.bytes.data() + first * k * 4;
          some.rows = rows;
          const Matrix part = test::product(some, b.view(), rows, 67, {.backend = backend});
          for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < 67; ++j)
              ASSERT_EQ(part.at(i, j), all.at(first + i, j)) << to_string(backend) << ' ' << rows;
        }
    }
  }
}

TEST(MatmulRange, a_row_of_fp4_by_fp4_depends_on_no_other_row) {
  const std::int64_t m = 70, n = 67, k = 1200;
  const BlockTensor a = test::random_blocks(Format::nvfp4, m, k, Layout::row_major, 1),
                    b = test::random_blocks(Format::nvfp4, n, k);
  for (Backend backend : test::host_backends()) {
    const Matrix all = test::product(a.view(), b.view(), m, n, {.backend = backend});
    for (const std::int64_t rows : {17, 40}) {
      BlockTensorView some = a.view();
      some.shape.rows = rows;
      some.codes = some.codes.subspan(static_cast<std::size_t>(3 * k / 2));
      some.scales = some.scales.subspan(static_cast<std::size_t>(3 * k / 16));
      some.codes = some.codes.first(static_cast<std::size_t>(rows * k / 2));
      some.scales = some.scales.first(static_cast<std::size_t>(rows * k / 16));
      const Matrix part = test::product(some, b.view(), rows, n, {.backend = backend});
      for (std::int64_t i = 0; i < rows; ++i)
        for (std::int64_t j = 0; j < n; ++j)
          ASSERT_EQ(part.at(i, j), all.at(3 + i, j)) << to_string(backend) << ' ' << rows;
    }
  }
}

// NaN and infinity in rows 1 and 2 of a, a NaN scale in row 5 of b.
void expect_specials_in_place(Backend backend, Format format, std::int64_t m) {
  Matrix a = test::gaussian(DType::bf16, m, 160, 3, 1.0f);
  BlockTensor b = test::random_blocks(format, 70, 160, Layout::row_major, 4);
  const Context context{.backend = backend};
  const Matrix clean = test::product(a.view(), b.view(), m, 70, context);
  a.set(1, 77, NAN);
  a.set(2, 3, INFINITY);
  b.scales()[static_cast<std::size_t>(5 * (160 / info(format).block) + 2)] =
      info(format).e8m0_scale ? 255 : 0x7F;
  const Matrix d = test::product(a.view(), b.view(), m, 70, context);
  const Matrix b_values = test::decoded(b.view());
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < 70; ++j) {
      const float got = d.at(i, j), w = b_values.at(j, 3);
      if (i == 1 || j == 5)
        EXPECT_TRUE(std::isnan(got)) << i << ' ' << j;
      else if (i == 2 && w == 0)
        EXPECT_TRUE(std::isnan(got)) << "infinity times zero " << j;
      else if (i == 2)
        EXPECT_EQ(got, w > 0 ? INFINITY : -INFINITY) << j;
      else
        EXPECT_EQ(got, clean.at(i, j)) << i << ' ' << j;
    }
}

TEST(MatmulRange, nan_and_infinity_reach_their_row_and_column_and_no_other) {
  for (Backend backend : test::host_backends()) {
    for (Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2})
      for (const std::int64_t m : {6, 22}) expect_specials_in_place(backend, format, m);
    // Special codes of E5M2 and E4M3 in the weights, and NaN blocks in a.
    BlockTensor b = test::random_blocks(Format::mxfp8_e5m2, 3, 64, Layout::row_major, 4);
    Matrix ones(DType::f16, 1, 64);
    for (std::int64_t i = 0; i < 64; ++i) ones.set(0, i, 1.0f);
    b.codes()[40] = 0x7C;
    b.codes()[64 + 40] = 0x7F;
    Matrix d = test::product(ones.view(), b.view(), 1, 3, {.backend = backend});
    EXPECT_EQ(d.at(0, 0), INFINITY);
    EXPECT_TRUE(std::isnan(d.at(0, 1)));
    EXPECT_TRUE(std::isfinite(d.at(0, 2)));
    BlockTensor c = test::random_blocks(Format::mxfp8_e4m3, 2, 64, Layout::row_major, 4);
    c.codes()[3] = 0xFF;
    d = test::product(ones.view(), c.view(), 1, 2, {.backend = backend});
    EXPECT_TRUE(std::isnan(d.at(0, 0)));
    EXPECT_TRUE(std::isfinite(d.at(0, 1)));
    for (Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
      BlockTensor a = test::random_blocks(format, 3, 64, Layout::row_major, 8);
      a.scales()[static_cast<std::size_t>(64 / info(format).block)] =
          a.shape().format == Format::nvfp4 ? 0x7F : 255;
      d = test::product(a.view(), c.view(), 3, 2, {.backend = backend});
      EXPECT_TRUE(std::isfinite(d.at(0, 1)) && std::isnan(d.at(1, 1)) && std::isfinite(d.at(2, 1)));
    }
    for (Format format : {Format::nvfp4, Format::mxfp4}) {  // both sides FP4, many rows
      BlockTensor a = test::random_blocks(format, 19, 160, Layout::row_major, 8),
                  w = test::random_blocks(format, 5, 160, Layout::row_major, 9);
      const std::uint8_t nan = format == Format::nvfp4 ? 0x7F : 255;
      const auto blocks = static_cast<std::size_t>(160 / info(format).block);
      a.scales()[17 * blocks + 1] = w.scales()[3 * blocks + 2] = nan;
      d = test::product(a.view(), w.view(), 19, 5, {.backend = backend});
      for (std::int64_t i = 0; i < 19; ++i)
        for (std::int64_t j = 0; j < 5; ++j)
          EXPECT_EQ(std::isnan(d.at(i, j)), i == 17 || j == 3) << i << ' ' << j;
    }
  }
}

TEST(MatmulRange, dense_values_beyond_the_kernels_range_are_exact) {
  for (Backend backend : test::host_backends()) {
    Matrix a = test::gaussian(DType::f32, 9, 64, 3, 1.0f);
    for (std::int64_t k = 0; k < 64; ++k) a.set(4, k, 3e38f);
    const BlockTensor b = test::random_blocks(Format::mxfp4, 33, 64, Layout::row_major, 3, 80, 90);
    EXPECT_TRUE(test::near_exact(test::product(a.view(), b.view(), 9, 33, {.backend = backend}),
                                 Side(a), Side(b), backend));
  }
}

}  // namespace
}  // namespace microscale
