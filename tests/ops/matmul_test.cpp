// matmul on every backend of this machine against exact sums, and the things that must not change
// a byte: layouts, packing, batches, threads.
#include "microscale/matmul.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "microscale/error.hpp"
#include "support/products.hpp"

namespace microscale {
namespace {

using test::Matrix;
using test::Side;

constexpr DType dense_types[] = {DType::f32, DType::f16, DType::bf16};

bool same_bytes(const Matrix& a, const Matrix& b) { return a.bytes == b.bytes; }

// Every kind of a, `rows` x `cols`.
std::vector<Side> all_inputs(std::int64_t rows, std::int64_t cols, unsigned seed) {
  std::vector<Side> sides;
  for (DType type : dense_types) sides.emplace_back(test::gaussian(type, rows, cols, seed, 2.0f));
  for (const FormatInfo& format : all_formats())
    sides.emplace_back(test::random_blocks(format.format, rows, cols, Layout::row_major, seed));
  return sides;
}

// One backend where it has a kernel for the pair; the others where `automatic` finds one.
Context context_for(Backend backend, const Side& a, const Side& b) {
  const auto fast = [](const Side& s) {
    return !s.blocks || info(s.blocks->shape().format).element == Element::e2m1 ||
           info(s.blocks->shape().format).element == Element::e4m3 ||
           info(s.blocks->shape().format).element == Element::e5m2;
  };
  return {.backend = fast(a) && fast(b) ? backend : Backend::automatic, .threads = 2};
}

TEST(Matmul, every_pair_of_formats_is_within_the_bound) {
  for (Backend backend : test::product_backends()) {
    for (const Side& a : all_inputs(5, 224, 3)) {
      for (const FormatInfo& format : all_formats()) {
        const Side b(test::random_blocks(format.format, 37, 224, Layout::row_major, 7));
        const Context context = context_for(backend, a, b);
        const Matrix d = test::product(a.input(), b.blocks->view(), 5, 37, context);
        EXPECT_TRUE(test::near_exact(d, a, b, backend))
            << (a.dense ? to_string(a.dense->dtype) : info(a.blocks->shape().format).name) << " x "
            << format.name;
      }
    }
  }
}

TEST(Matmul, every_shape_is_within_the_bound) {
  for (Backend backend : test::product_backends()) {
    for (Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
      const std::int64_t step = info(format).block;
      for (std::int64_t m : {1, 2, 3, 4, 7, 16, 33})
        for (std::int64_t n : {1, 2, 5, 64, 67})
          for (std::int64_t blocks : {1, 2, 3, 5, 8, 9, 33}) {
            const Side a(test::gaussian(DType::bf16, m, blocks * step, 5, 1.0f));
            const Side b(test::random_blocks(format, n, blocks * step, Layout::row_major, 9));
            const Matrix d = test::product(a.input(), b.blocks->view(), m, n,
                                           {.backend = backend, .threads = 1});
            ASSERT_TRUE(test::near_exact(d, a, b, backend))
                << info(format).name << ' ' << m << " x " << n << " x " << blocks * step;
          }
    }
  }
}

TEST(Matmul, long_sums_of_one_sign_and_of_wide_spread_stay_within_the_bound) {
  for (Backend backend : test::product_backends()) {
    for (Format format : {Format::nvfp4, Format::mxfp4}) {
      const std::int64_t k = 8192;
      BlockTensor positive = test::random_blocks(format, 3, k, Layout::row_major, 2);
      for (std::uint8_t& code : positive.codes()) code &= 0x77;
      Matrix ones(DType::bf16, 2, k);
      for (std::int64_t i = 0; i < 2 * k; ++i) ones.set(i / k, i % k, 1.0f + 0.0078125f * (i % 5));
      const Side a(ones), b(positive);
      EXPECT_TRUE(test::near_exact(
          test::product(a.input(), b.blocks->view(), 2, 3, {.backend = backend}), a, b, backend));

      Matrix spread(DType::f32, 2, k);
      for (std::int64_t i = 0; i < 2 * k; ++i)
        spread.set(i / k, i % k,
                   std::ldexp(i % 3 ? 1.1f : -1.3f, static_cast<int>(i * 7 % 80) - 40));
      const Side wide(spread), b2(test::random_blocks(format, 3, k, Layout::row_major, 4));
      EXPECT_TRUE(test::near_exact(
          test::product(wide.input(), b2.blocks->view(), 2, 3, {.backend = backend}), wide, b2,
          backend));
    }
  }
}

TEST(Matmul, scales_at_both_ends_give_exact_values) {
  for (Backend backend : test::product_backends()) {
    const Context context{.backend = backend};
    for (Format b_format : {Format::mxfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2}) {
      for (int low : {0, 1, 2, 125, 250, 254}) {
        BlockTensor weights = test::random_blocks(b_format, 9, 96, Layout::row_major, 3, low, low);
        // a brings the sums back into FP32's range.
        Matrix dense(DType::f32, 3, 96);
        for (std::int64_t i = 0; i < 3 * 96; ++i)
          dense.set(i / 96, i % 96,
                    std::ldexp(1.0f + 0.01f * static_cast<float>(i % 17), 100 * (127 - low) / 127));
        // Exact sums need doubles: 6 * 2^127 is beyond FP32, so scale by hand.
        BlockTensor unit = weights;
        std::fill(unit.scales().begin(), unit.scales().end(), std::uint8_t{127});
        Matrix unit_dense(DType::f32, 3, 96);
        for (std::int64_t i = 0; i < 3 * 96; ++i)
          unit_dense.set(
              i / 96, i % 96,
              static_cast<float>(std::ldexp(double{dense.at(i / 96, i % 96)}, low - 127)));
        EXPECT_TRUE(test::near_exact(test::product(dense.view(), weights.view(), 3, 9, context),
                                     Side(unit_dense), Side(unit), backend))
            << info(b_format).name << " scale " << low;
      }
      // Both sides block-scaled, the scales far apart.
      for (int low : {0, 3, 254}) {
        const int other = 254 - low;
        BlockTensor a =
            test::random_blocks(Format::mxfp4, 3, 96, Layout::row_major, 5, other, other);
        BlockTensor b = test::random_blocks(b_format, 9, 96, Layout::row_major, 6, low, low);
        const Matrix d = test::product(a.view(), b.view(), 3, 9, context);
        std::fill(a.scales().begin(), a.scales().end(), std::uint8_t{127});
        std::fill(b.scales().begin(), b.scales().end(), std::uint8_t{127});
        EXPECT_TRUE(test::near_exact(d, Side(a), Side(b), backend))
            << info(b_format).name << " scales " << other << " and " << low;
      }
    }
    for (int scale : {1, 7, 8, 0x7E}) {  // E4M3: subnormal, the smallest normal, 448
      const Side a(test::random_blocks(Format::nvfp4, 4, 80, Layout::row_major, 5, scale, scale));
      const Side b(test::random_blocks(Format::nvfp4, 5, 80, Layout::row_major, 6, scale, scale));
      EXPECT_TRUE(test::near_exact(test::product(a.blocks->view(), b.blocks->view(), 4, 5, context),
                                   a, b, backend));
    }
  }
}

TEST(Matmul, nan_and_infinity_reach_their_row_and_column_and_no_other) {
  for (Backend backend : test::product_backends()) {
    for (Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2}) {
      Matrix a = test::gaussian(DType::bf16, 6, 160, 3, 1.0f);
      BlockTensor b = test::random_blocks(format, 70, 160, Layout::row_major, 4);
      const Context context{.backend = backend};
      const Matrix clean = test::product(a.view(), b.view(), 6, 70, context);
      a.set(1, 77, NAN);
      a.set(2, 3, INFINITY);
      b.scales()[static_cast<std::size_t>(5 * (160 / info(format).block) + 2)] =
          info(format).e8m0_scale ? 255 : 0x7F;
      const Matrix d = test::product(a.view(), b.view(), 6, 70, context);
      const Matrix b_values = test::decoded(b.view());
      for (std::int64_t i = 0; i < 6; ++i)
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
  }
}

TEST(Matmul, dense_values_beyond_the_kernels_range_are_exact) {
  for (Backend backend : test::product_backends()) {
    Matrix a = test::gaussian(DType::f32, 9, 64, 3, 1.0f);
    for (std::int64_t k = 0; k < 64; ++k) a.set(4, k, 3e38f);
    const BlockTensor b = test::random_blocks(Format::mxfp4, 33, 64, Layout::row_major, 3, 80, 90);
    EXPECT_TRUE(test::near_exact(test::product(a.view(), b.view(), 9, 33, {.backend = backend}),
                                 Side(a), Side(b), backend));
  }
}

TEST(Matmul, dense_outputs_are_the_rounded_fp32_result) {
  const Side a(test::gaussian(DType::bf16, 19, 128, 1, 1.0f));
  const Side b(test::random_blocks(Format::nvfp4, 77, 128));
  const Matrix bias = test::gaussian(DType::f16, 1, 77, 3, 4.0f);
  for (Backend backend : test::product_backends()) {
    const Context context{.backend = backend};
    const Matrix f32 =
        test::product(a.input(), b.blocks->view(), 19, 77, context, DType::f32, -1.5f, bias.view());
    EXPECT_TRUE(test::near_exact(f32, a, b, backend, -1.5, &bias));
    for (DType type : {DType::f16, DType::bf16}) {
      const Matrix d =
          test::product(a.input(), b.blocks->view(), 19, 77, context, type, -1.5f, bias.view());
      for (std::int64_t i = 0; i < 19; ++i)
        for (std::int64_t j = 0; j < 77; ++j) {
          Matrix one(type, 1, 1);
          one.set(0, 0, f32.at(i, j));
          ASSERT_EQ(d.at(i, j), one.at(0, 0)) << to_string(type) << ' ' << i << ' ' << j;
        }
    }
  }
}

TEST(Matmul, quantized_outputs_are_the_quantized_fp32_result) {
  const Side a(test::gaussian(DType::bf16, 135, 96, 1, 1.0f));
  const Side b(test::random_blocks(Format::mxfp4, 160, 96));
  for (Backend backend : test::product_backends()) {
    const Context context{.backend = backend};
    const Matrix f32 = test::product(a.input(), b.blocks->view(), 135, 160, context);
    for (Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2})
      for (Layout layout : {Layout::row_major, Layout::tiled_128x4})
        for (Rounding rounding : {Rounding::nearest_even, Rounding::stochastic}) {
          QuantizeOptions options{.input = f32.view(), .format = format, .layout = layout};
          options.numerics.rounding = rounding;
          options.global_scale = 0.05f;
          const BlockTensor wanted = quantize(options);
          BlockTensor got(wanted.shape());
          for (std::uint8_t& scale : got.scales()) scale = 0xEE;
          QuantizedOutput output{.format = format, .layout = layout};
          output.numerics.rounding = rounding;
          output.global_scale = 0.05f;
          output.codes = got.codes();
          output.scales = got.scales();
          matmul({.a = a.input(), .b = b.blocks->view(), .d = output}, context);
          EXPECT_TRUE(std::ranges::equal(got.codes(), wanted.codes()) &&
                      std::ranges::equal(got.scales(), wanted.scales()))
              << to_string(backend) << ' ' << info(format).name;
        }
  }
}

// Memory at a multiple of 64 bytes.
struct Packed {
  explicit Packed(std::int64_t bytes)
      : size(static_cast<std::size_t>(bytes)),
        memory(static_cast<std::uint8_t*>(std::aligned_alloc(64, (size + 63) / 64 * 64)),
               &std::free) {}
  std::span<std::uint8_t> span() { return {memory.get(), size}; }
  std::size_t size;
  std::unique_ptr<std::uint8_t, void (*)(void*)> memory;
};

TEST(Matmul, layouts_packing_and_threads_change_no_byte) {
  for (Backend backend : test::product_backends()) {
    for (Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
      const std::int64_t m = 131, n = 270, k = 352;
      const BlockTensor a = test::random_blocks(format, m, k, Layout::row_major, 1);
      const BlockTensor a_tiled = test::random_blocks(format, m, k, Layout::tiled_128x4, 1);
      const BlockTensor b = test::random_blocks(format, n, k, Layout::row_major, 2);
      const BlockTensor b_tiled = test::random_blocks(format, n, k, Layout::tiled_128x4, 2);
      const Matrix first =
          test::product(a.view(), b.view(), m, n, {.backend = backend, .threads = 1});
      for (int threads : {2, 3, 5}) {
        const Context context{.backend = backend, .threads = threads};
        EXPECT_TRUE(same_bytes(first, test::product(a.view(), b.view(), m, n, context)));
        EXPECT_TRUE(
            same_bytes(first, test::product(a_tiled.view(), b_tiled.view(), m, n, context)));
        Packed memory(packed_weights_bytes(b.shape()));
        EXPECT_TRUE(same_bytes(
            first,
            test::product(a.view(), pack_weights(b_tiled.view(), memory.span()), m, n, context)));
      }
    }
  }
}

TEST(Matmul, a_batch_is_its_products_one_after_another) {
  const std::int64_t batch = 3, m = 5, n = 40, k = 96;
  for (Backend backend : test::product_backends()) {
    const Context context{.backend = backend, .threads = 2};
    for (Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
      std::vector<BlockTensor> a, b;
      const BlockShape a_shape{m, k, Format::nvfp4, BlockAxis::cols, layout},
          b_shape{n, k, Format::nvfp4, BlockAxis::cols, layout};
      std::vector<std::uint8_t> a_codes, a_scales, b_codes, b_scales;
      const auto append = [](std::vector<std::uint8_t>& to, std::span<const std::uint8_t> from) {
        to.insert(to.end(), from.begin(), from.end());
      };
      for (unsigned l = 0; l < batch; ++l) {
        a.push_back(test::random_blocks(Format::nvfp4, m, k, layout, 10 + l));
        b.push_back(test::random_blocks(Format::nvfp4, n, k, layout, 20 + l));
        append(a_codes, a[l].codes()), append(a_scales, a[l].scales());
        append(b_codes, b[l].codes()), append(b_scales, b[l].scales());
      }
      const BlockTensorView a_view{a_shape, a_codes, a_scales, a[0].global_scale},
          b_view{b_shape, b_codes, b_scales, b[0].global_scale};
      const Matrix all = test::product(a_view, b_view, m, n, context, DType::f16, 1.0f, {}, batch);
      Packed memory(packed_weights_bytes(b_shape, batch));
      const PackedWeights packed = pack_weights(b_view, memory.span(), batch);
      EXPECT_TRUE(same_bytes(
          all, test::product(a_view, packed, m, n, context, DType::f16, 1.0f, {}, batch)));
      for (std::size_t l = 0; l < batch; ++l) {
        const Matrix one = test::product(a[l].view(), b[l].view(), m, n, context, DType::f16);
        for (std::int64_t i = 0; i < m; ++i)
          for (std::int64_t j = 0; j < n; ++j)
            ASSERT_EQ(all.at(static_cast<std::int64_t>(l) * m + i, j), one.at(i, j));
      }
    }
  }
}

TEST(Matmul, nothing_outside_d_is_written) {
  const Side a(test::gaussian(DType::bf16, 7, 64));
  const Side b(test::random_blocks(Format::mxfp4, 67, 64));
  for (Backend backend : test::product_backends()) {
    for (DType type : dense_types) {
      Matrix d(type, 9, 75);
      std::fill(d.bytes.begin(), d.bytes.end(), std::uint8_t{0xA5});
      const Matrix before = d;
      MutableTensorView view{d.bytes.data() + (75 + 3) * size_of(type), type, 7, 67, 75};
      matmul({.a = a.input(), .b = b.blocks->view(), .d = view}, {.backend = backend});
      for (std::int64_t r = 0; r < 9; ++r)
        for (std::int64_t c = 0; c < 75; ++c) {
          const bool inside = r >= 1 && r < 8 && c >= 3 && c < 70;
          ASSERT_TRUE(inside || d.at(r, c) == before.at(r, c)) << r << ' ' << c;
        }
    }
  }
}

TEST(Matmul, empty_products) {
  const BlockTensor b = test::random_blocks(Format::mxfp4, 8, 64),
                    none(BlockShape{8, 0, Format::mxfp4}),
                    no_columns(BlockShape{0, 64, Format::mxfp4});
  const Matrix a = test::gaussian(DType::f32, 3, 64), nothing(DType::f32, 3, 0);
  const Matrix bias = test::gaussian(DType::f32, 1, 8);
  for (Backend backend : test::product_backends()) {
    const Context context{.backend = backend};
    TensorView no_rows = a.view();
    no_rows.rows = 0;
    test::product(no_rows, b.view(), 0, 8, context);
    test::product(a.view(), no_columns.view(), 3, 0, context);
    const Matrix d =
        test::product(nothing.view(), none.view(), 3, 8, context, DType::f32, 1.0f, bias.view());
    for (std::int64_t j = 0; j < 8; ++j) EXPECT_EQ(d.at(2, j), bias.at(0, j));
  }
}

}  // namespace
}  // namespace microscale
