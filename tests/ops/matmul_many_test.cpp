// Many rows on every backend of this machine: what the walk over k, the range of weights and rows
// beyond it may not change.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "microscale/matmul.hpp"
#include "support/products.hpp"

namespace microscale {
namespace {

using test::Matrix;
using test::Side;

TEST(MatmulMany, sums_up_to_two_to_the_127_stay_finite) {
  for (Backend backend : test::host_backends())
    for (const Format a_format : {Format::mxfp4, Format::nvfp4}) {
      BlockTensor a(BlockShape{16, 32, a_format}), b(BlockShape{1, 32, Format::mxfp4});
      for (std::uint8_t& s : a.scales()) s = a_format == Format::mxfp4 ? 127 : 0x38;
      for (std::int64_t r = 0; r < 16; ++r) a.codes()[static_cast<std::size_t>(r * 16)] = 0x02;
      b.codes()[0] = 0x02;
      b.scales()[0] = 253;  // 2^126
      const Matrix d = test::product(a.view(), b.view(), 16, 1, {.backend = backend});
      EXPECT_EQ(d.at(0, 0), 0x1p126f) << to_string(backend);
    }
}

TEST(MatmulMany, more_of_k_than_rows_of_a_stay_in_the_cache_for) {
  for (Backend backend : test::host_backends())
    for (const bool blocks : {false, true}) {
      const Side a = blocks
                         ? Side(test::random_blocks(Format::nvfp4, 515, 1120, Layout::row_major, 5))
                         : Side(test::gaussian(DType::bf16, 515, 1120, 5, 1.0f));
      const Side b(test::random_blocks(Format::nvfp4, 3, 1120, Layout::row_major, 6));
      EXPECT_TRUE(test::near_exact(
          test::product(a.input(), b.blocks->view(), 515, 3, {.backend = backend}), a, b, backend));
    }
}

TEST(MatmulMany, one_scale_far_along_a_row_is_found) {
  for (Backend backend : test::host_backends())
    for (int scale : {0, 254})
      for (const std::size_t place : {std::size_t{5}, std::size_t{63}}) {
        const std::int64_t m = 17, n = 2, k = 2144;
        BlockTensor b = test::random_blocks(Format::mxfp4, n, k, Layout::row_major, 6, 120, 127);
        b.scales()[place] = static_cast<std::uint8_t>(scale);
        for (std::size_t i = 0; i < 16; ++i)
          b.codes()[place * 16 + i] = 0x77;  // 6 * 2^127 is infinite
        Matrix a = test::gaussian(DType::bf16, m, k, 2, 0x1p-20f);
        const Matrix d = test::product(a.view(), b.view(), m, n, {.backend = backend});
        for (std::int64_t i = 0; i < m; ++i)
          EXPECT_TRUE(std::isfinite(d.at(i, 0))) << to_string(backend) << ' ' << i;
      }
}

TEST(MatmulMany, sign_bits_of_e4m3_scales_are_ignored) {
  for (Backend backend : test::host_backends())
    for (const std::int64_t m : {5, 19}) {
      BlockTensor a = test::random_blocks(Format::nvfp4, m, 160),
                  b = test::random_blocks(Format::nvfp4, 9, 160);
      const Matrix wanted = test::product(a.view(), b.view(), m, 9, {.backend = backend});
      for (std::size_t i = 0; i < b.scales().size(); i += 3) b.scales()[i] |= 0x80;
      for (std::size_t i = 0; i < a.scales().size(); i += 5) a.scales()[i] |= 0x80;
      EXPECT_EQ(test::product(a.view(), b.view(), m, 9, {.backend = backend}).bytes, wanted.bytes);
    }
}

TEST(MatmulMany, dense_values_beyond_the_range_in_many_rows) {
  for (Backend backend : test::host_backends()) {
    Matrix a = test::gaussian(DType::f32, 21, 64, 3, 1.0f);
    for (std::int64_t k = 0; k < 64; ++k) a.set(18, k, k % 2 ? 3e38f : -3e38f);
    const BlockTensor b =
        test::random_blocks(Format::mxfp4, 33, 64, Layout::row_major, 3, 110, 120);
    const Matrix d = test::product(a.view(), b.view(), 21, 33, {.backend = backend});
    const Matrix exact = test::product(a.view(), b.view(), 21, 33, {.backend = Backend::reference});
    for (std::int64_t j = 0; j < 33; ++j) EXPECT_EQ(d.at(18, j), exact.at(18, j));
  }
}

TEST(MatmulMany, other_matrices_of_a_batch_change_no_byte) {
  for (Backend backend : test::host_backends())
    for (const Format f : {Format::mxfp4, Format::mxfp8_e4m3}) {
      const std::int64_t m = 32, n = 64, k = 1024;
      const BlockTensor first = test::random_blocks(f, n, k, Layout::row_major, 1);
      BlockTensor second = test::random_blocks(f, n, k, Layout::row_major, 2);
      second.scales()[7] = 1;
      std::vector<std::uint8_t> codes(first.codes().begin(), first.codes().end()),
          scales(first.scales().begin(), first.scales().end());
      codes.insert(codes.end(), second.codes().begin(), second.codes().end());
      scales.insert(scales.end(), second.scales().begin(), second.scales().end());
      const Matrix a = test::gaussian(DType::f32, 2 * m, k, 3, 1.0f);
      TensorView some = a.view();
      some.rows = m;
      const Matrix both = test::product(some, BlockTensorView{first.shape(), codes, scales, 1.0f},
                                        m, n, {.backend = backend}, DType::f32, 1.0f, {}, 2),
                   one = test::product(some, first.view(), m, n, {.backend = backend});
      EXPECT_TRUE(std::equal(one.bytes.begin(), one.bytes.end(), both.bytes.begin()))
          << to_string(backend);
    }
}

TEST(MatmulMany, up_weights_at_the_end_of_the_range) {
  const std::int64_t m = 17, n = 3, k = 64;
  const BlockTensor gate = test::random_blocks(Format::mxfp4, n, k, Layout::row_major, 1, 127, 127),
                    up = test::random_blocks(Format::mxfp4, n, k, Layout::row_major, 2, 254, 254);
  const Matrix a = test::gaussian(DType::f32, m, k, 3, 0x1p-30f);
  for (Backend backend : test::host_backends()) {
    Matrix d(DType::f32, m, n);
    gated_matmul({.a = a.view(), .gate = gate.view(), .up = up.view(), .d = d.mutable_view()},
                 {.backend = backend});
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j)
        EXPECT_TRUE(std::isfinite(d.at(i, j))) << to_string(backend);
  }
}

}  // namespace
}  // namespace microscale
