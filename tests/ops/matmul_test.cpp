// matmul on every backend of this machine against exact sums, and the things that must not change
// a byte: layouts, packing, batches, threads. matmul_range_test.cpp has the ends of the range.
#include "microscale/matmul.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

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

// Few rows and many go different ways.
TEST(Matmul, every_pair_of_formats_is_within_the_bound) {
  for (Backend backend : test::host_backends())
    for (const std::int64_t m : {5, 37})
      for (const Side& a : all_inputs(m, 224, 3))
        for (const FormatInfo& format : all_formats()) {
          const Side b(test::random_blocks(format.format, 37, 224, Layout::row_major, 7));
          const Context context = context_for(backend, a, b);
          const Matrix d = test::product(a.input(), b.blocks->view(), m, 37, context);
          EXPECT_TRUE(test::near_exact(d, a, b, backend))
              << m << " of "
              << (a.dense ? to_string(a.dense->dtype) : info(a.blocks->shape().format).name)
              << " x " << format.name;
        }
}

// Codes as integers: every width of the last group of rows, both blocks, tails of steps and chunks.
TEST(Matmul, fp4_by_fp4_of_many_rows_is_within_the_bound) {
  for (Backend backend : test::host_backends())
    for (const Format a_format : {Format::nvfp4, Format::mxfp4})
      for (const Format b_format : {Format::nvfp4, Format::mxfp4})
        for (const std::int64_t m : {16, 17, 33, 40, 67})
          for (const std::int64_t n : {1, 7, 67, 132})
            for (const std::int64_t k : {32, 96, 160, 544, 1184}) {
              if (m * n * k > (1 << 22) || (k > 544 && n > 7)) continue;
              const Side a(test::random_blocks(a_format, m, k, Layout::row_major, 5));
              const Side b(test::random_blocks(b_format, n, k, Layout::tiled_128x4, 9));
              const Matrix d = test::product(a.blocks->view(), b.blocks->view(), m, n,
                                             {.backend = backend, .threads = 1});
              ASSERT_TRUE(test::near_exact(d, a, b, backend))
                  << info(a_format).name << " x " << info(b_format).name << ' ' << m << " x " << n
                  << " x " << k;
            }
}

TEST(Matmul, every_shape_is_within_the_bound) {
  for (Backend backend : test::host_backends()) {
    for (Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3}) {
      const std::int64_t step = info(format).block;
      for (std::int64_t m : {1, 2, 3, 4, 7, 15, 16, 33, 56})
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

TEST(Matmul, more_rows_and_columns_than_a_tile_has) {
  for (Backend backend : test::host_backends()) {
    for (Format format : {Format::nvfp4, Format::mxfp8_e5m2}) {
      const Side a(test::gaussian(DType::bf16, 531, 32, 5, 1.0f));
      const Side b(test::random_blocks(format, 333, 32, Layout::tiled_128x4, 6));
      for (int threads : {1, 3}) {
        const Matrix d = test::product(a.input(), b.blocks->view(), 531, 333,
                                       {.backend = backend, .threads = threads});
        EXPECT_TRUE(test::near_exact(d, a, b, backend)) << info(format).name;
      }
    }
  }
}

TEST(Matmul, dense_outputs_are_the_rounded_fp32_result) {
  const Side a(test::gaussian(DType::bf16, 19, 128, 1, 1.0f));
  const Side b(test::random_blocks(Format::nvfp4, 77, 128));
  const Matrix bias = test::gaussian(DType::f16, 1, 77, 3, 4.0f);
  for (Backend backend : test::host_backends()) {
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
  for (Backend backend : test::host_backends()) {
    const Context context{.backend = backend};
    const Matrix f32 = test::product(a.input(), b.blocks->view(), 135, 160, context);
    for (Format format : {Format::nvfp4, Format::mxfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2})
      for (Layout layout : {Layout::row_major, Layout::tiled_128x4})
        for (Rounding rounding : {Rounding::nearest_even, Rounding::stochastic}) {
          QuantizeOptions options{.input = f32.view(), .format = format, .layout = layout};
          options.numerics.rounding = rounding;
          if (format == Format::nvfp4) options.global_scale = 0.05f;
          const BlockTensor wanted = quantize(options);
          BlockTensor got(wanted.shape());
          for (std::uint8_t& scale : got.scales()) scale = 0xEE;
          QuantizedOutput output{.format = format, .layout = layout};
          output.numerics.rounding = rounding;
          if (format == Format::nvfp4) output.global_scale = 0.05f;
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
  for (Backend backend : test::host_backends()) {
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
        Packed memory(packed_weights_bytes({.b = b.view()}));
        EXPECT_TRUE(same_bytes(
            first, test::product(a.view(), pack_weights({.b = b_tiled.view()}, memory.span()), m, n,
                                 context)));
      }
    }
  }
}

TEST(Matmul, a_batch_is_its_products_one_after_another) {
  const std::int64_t batch = 3, m = 5, n = 40, k = 96;
  for (Backend backend : test::host_backends()) {
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
      Packed memory(packed_weights_bytes({.b = b_view, .matrices = batch}));
      const PackedWeights packed = pack_weights({.b = b_view, .matrices = batch}, memory.span());
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
  for (Backend backend : test::host_backends()) {
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
  for (Backend backend : test::host_backends()) {
    const Context context{.backend = backend};
    TensorView no_rows = a.view();
    no_rows.rows = 0;
    test::product(no_rows, b.view(), 0, 8, context);
    test::product(a.view(), no_columns.view(), 3, 0, context);
    const Matrix d =
        test::product(nothing.view(), none.view(), 3, 8, context, DType::f32, 1.0f, bias.view());
    for (std::int64_t j = 0; j < 8; ++j) EXPECT_EQ(d.at(2, j), bias.at(0, j));
    // Experts whose rows different kernels take.
    const Matrix many(DType::f32, 22, 0);
    const std::int64_t offsets[] = {0, 20, 22};
    Matrix sums(DType::f32, 22, 8);
    GroupedMatmulOptions options{.a = many.view(), .b = none.view(), .d = sums.mutable_view()};
    options.groups = {offsets, OffsetType::i64, 2};
    grouped_matmul(options, context);
    for (std::int64_t j = 0; j < 8; ++j) EXPECT_EQ(sums.at(21, j), 0.0f);
  }
}

}  // namespace
}  // namespace microscale
