// Products of very many rows of a, weights expanded first, on the emulated Hopper GPU: every pair
// of formats, odd shapes, gates, experts, batches, every type of d, against sums in FP64.
#include "cuda/matmul/expanded/plan.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "cuda/matmul/expanded/args.hpp"
#include "cuda/device/kernel_images.hpp"
#include "support/executed_kernels.hpp"
#include "support/masked_products.hpp"

namespace microscale::emulator {
namespace {

constexpr Format formats[] = {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2};

class MatmulExpanded : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

TEST_F(MatmulExpanded, takes_every_pair_of_block_formats) {
  for (const Format a : formats)
    for (const Format b : formats) {
      SCOPED_TRACE(std::string(info(a).name) + " x " + std::string(info(b).name));
      EXPECT_TRUE(is_right(
          {.a = blocks(a, 21, 160, 3), .b = blocks(b, 41, 160), .m = 21, .expanded = true}));
    }
  EXPECT_TRUE(executed_all(
      device(), "sm_90a", {"matmul_expand", "matmul_prepare_tiles_"},
      {"matmul_expanded_bf16_to_", "matmul_expanded_f16_to_",  // matmul_expanded_quantized_test.cpp
       "matmul_expanded_fp8",
       "matmul_prepare_tiles_dense"}));  // matmul_fp8_test.cpp; the next test
}

TEST_F(MatmulExpanded, takes_dense_rows) {
  for (const Format b : formats)
    EXPECT_TRUE(is_right(
        {.a = dense(DType::bf16, 18, 96), .b = blocks(b, 24, 96), .m = 18, .expanded = true}))
        << info(b).name;
  EXPECT_TRUE(is_right({.a = dense(DType::f16, 18, 80),
                        .b = blocks(Format::nvfp4, 24, 80),
                        .m = 18,
                        .expanded = true}));
  EXPECT_TRUE(executed_all(device(), "sm_90a", {"matmul_prepare_tiles_dense"}));
}

// Several tiles to a cluster, whole ones and the rests of them, several chunks to the ring.
TEST_F(MatmulExpanded, goes_from_tile_to_tile) {
  EXPECT_TRUE(is_right({.a = dense(DType::bf16, 300, 448),
                        .b = blocks(Format::mxfp4, 530, 448),
                        .m = 300,
                        .expanded = true,
                        .d_type = DType::bf16}));
  EXPECT_TRUE(is_right({.a = dense(DType::bf16, 256, 64),
                        .b = blocks(Format::mxfp4, 512, 64),
                        .m = 256,
                        .expanded = true}));
}

// What FP32 sums in the order of k give, whichever kernel adds them.
TEST_F(MatmulExpanded, gives_the_bytes_of_the_kernels_for_fewer_rows) {
  Product p{.a = dense(DType::bf16, 140, 192), .b = blocks(Format::mxfp4, 270, 192), .m = 140};
  const Matrix d = computed(p);
  p.expanded = true;
  EXPECT_EQ(computed(p).bytes, d.bytes);
}

TEST_F(MatmulExpanded, multiplies_by_a_gate) {
  for (const bool gelu : {false, true})
    EXPECT_TRUE(is_right({.a = dense(DType::bf16, 70, 128),
                          .b = blocks(Format::mxfp8_e4m3, 77, 128, 5),
                          .m = 70,
                          .expanded = true,
                          .up = blocks(Format::mxfp8_e4m3, 77, 128, 6),
                          .gelu = gelu,
                          .d_type = gelu ? DType::bf16 : DType::f32,
                          .alpha = 0.0625f,
                          .bias = test::gaussian(DType::bf16, 1, 77, 7, 1.0f),
                          .up_bias = test::gaussian(DType::f32, 1, 77, 8, 1.0f)}));
  EXPECT_TRUE(is_right({.a = blocks(Format::nvfp4, 33, 64, 2),
                        .b = blocks(Format::nvfp4, 136, 64, 5),
                        .m = 33,
                        .expanded = true,
                        .up = blocks(Format::nvfp4, 136, 64, 6),
                        .d_type = DType::f16,
                        .a_globals = {0x1p-4f},
                        .b_globals = {0.001f},
                        .up_globals = {0.003f}}));
}

// Plain weights are made ready as rows of a are: the same bytes.
TEST_F(MatmulExpanded, takes_weights_that_are_not_packed) {
  for (const Format b : formats)
    for (const bool gated : {false, true}) {
      Product p{.a = blocks(Format::nvfp4, 2 * 21, 160, 3),
                .b = blocks(b, 2 * 37, 160),  // the last group of eight has no neighbour
                .m = 21,
                .matrices = 2,
                .expanded = true,
                .alpha = 0.125f};
      if (gated) p.up = blocks(b, 2 * 37, 160, 9);
      const Matrix packed = computed(p);
      p.unpacked = true;
      const Matrix plain = computed(p);
      EXPECT_TRUE(near_exact(p, plain)) << info(b).name << gated;
      EXPECT_EQ(plain.bytes, packed.bytes) << info(b).name << gated;
    }
}

TEST_F(MatmulExpanded, gives_each_expert_its_rows) {
  const std::vector<std::int64_t> offsets{3, 3, 8, 8, 138, 139, 156, 156};
  for (const bool wide : {false, true})
    EXPECT_TRUE(is_right({.a = blocks(Format::nvfp4, 160, 96, 3),
                          .b = blocks(Format::nvfp4, 7 * 50, 96),
                          .m = 160,
                          .matrices = 7,
                          .offsets = offsets,
                          .wide_offsets = wide,
                          .tiled = !wide,
                          .expanded = true,
                          .d_type = DType::bf16,
                          .alpha = 0.5f,
                          .bias = test::gaussian(DType::f16, 7, 50, 4, 1.0f),
                          .row_weights = std::vector<float>(160, 0.75f),
                          .a_globals = {1, 2, 3, 4, 5, 6, 7},
                          .b_globals = {7, 6, 5, 4, 3, 2, 1}}));
  EXPECT_TRUE(is_right({.a = dense(DType::bf16, 5, 64),
                        .b = blocks(Format::mxfp4, 3 * 16, 64),
                        .m = 5,
                        .matrices = 3,
                        .offsets = {2, 2, 2, 2},
                        .expanded = true}));  // nobody has a row
}

TEST_F(MatmulExpanded, gives_each_expert_as_many_rows_as_its_count) {
  for (const std::vector<std::int64_t>& counts :
       {std::vector<std::int64_t>{0, 145, 1}, {0, 0, 0}, {145, 145, 145}})
    EXPECT_TRUE(same_by_offsets({.a = blocks(Format::nvfp4, 3 * 145 + 2, 96, 3),
                                 .b = blocks(Format::nvfp4, 3 * 50, 96),
                                 .m = 3 * 145 + 2,
                                 .matrices = 3,
                                 .counts = counts,
                                 .capacity = 145,
                                 .tiled = true,
                                 .expanded = true,
                                 .d_type = DType::bf16,
                                 .a_globals = {1, 2, 3},
                                 .b_globals = {7, 6, 5}},
                                computed));
}

TEST_F(MatmulExpanded, multiplies_batches) {
  EXPECT_TRUE(is_right({.a = blocks(Format::mxfp4, 3 * 19, 128, 3),
                        .b = blocks(Format::mxfp4, 3 * 33, 128),
                        .m = 19,
                        .matrices = 3,
                        .tiled = true,
                        .expanded = true,
                        .d_type = DType::f16,
                        .alpha = 0x1p-4f}));
}

// Whole tiles of 16-bit elements leave in another way: the same bits.
TEST_F(MatmulExpanded, stores_whole_tiles_as_it_does_parts_of_them) {
  for (const bool fp8 : {false, true})
    for (const DType type : {DType::f16, DType::bf16}) {
      Product p{.a = blocks(Format::mxfp4, 140, 128, 3),
                .b = blocks(Format::mxfp4, 528, 128),
                .m = 140,
                .fp8 = fp8,
                .expanded = true,
                .d_type = type,
                .alpha = 0x1p-9f};
      const Matrix whole = computed(p);
      EXPECT_TRUE(near_exact(p, whole));
      p.d_more = 1;
      const Matrix parts = computed(p);
      for (std::int64_t row = 0; row < 140; ++row)
        for (std::int64_t col = 0; col < 528; ++col)
          ASSERT_EQ(whole.at(row, col), parts.at(row, col)) << row << ", " << col;
    }
}

TEST_F(MatmulExpanded, stores_rows_that_begin_anywhere) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    EXPECT_TRUE(is_right({.a = dense(DType::bf16, 20, 64),
                          .b = blocks(Format::nvfp4, 56, 64),
                          .m = 20,
                          .expanded = true,
                          .d_type = type,
                          .d_more = 1}));
}

TEST_F(MatmulExpanded, is_exact_at_the_ends_of_the_scales) {
  for (const Format format : formats) {
    const bool e8m0 = info(format).e8m0_scale;
    for (const bool high : {false, true}) {
      const int low = !e8m0 ? (high ? 0x78 : 0) : high ? 240 : 10;
      const int end = !e8m0 ? (high ? 0x7E : 8) : high ? 244 : 16;
      Matrix a = test::gaussian(DType::bf16, 17, 64, 2, e8m0 ? (high ? 0x1p-100f : 0x1p100f) : 1);
      EXPECT_TRUE(
          is_right({.a = Side(std::move(a)),
                    .b = Side(test::random_blocks(format, 20, 64, Layout::row_major, 9, low, end)),
                    .m = 17,
                    .expanded = true}))
          << info(format).name << high;
    }
  }
  EXPECT_TRUE(
      is_right({.a = blocks(Format::nvfp4, 17, 64, 2),
                .b = Side(test::random_blocks(Format::nvfp4, 20, 64, Layout::row_major, 9, 0, 8)),
                .m = 17,
                .expanded = true}));  // in FP16
}

TEST_F(MatmulExpanded, passes_nan_and_infinity_on) {
  for (const Format format : formats) {
    BlockTensor b = test::random_blocks(format, 24, 64);
    b.scales()[static_cast<std::size_t>(5 * b.shape().blocks_per_line() + 1)] =
        info(format).e8m0_scale ? 255 : 127;
    Matrix a = test::gaussian(DType::bf16, 20, 64, 2, 1.0f);
    a.set(3, 9, std::numeric_limits<float>::infinity());
    a.set(4, 9, std::numeric_limits<float>::quiet_NaN());
    EXPECT_TRUE(
        is_right({.a = Side(std::move(a)), .b = Side(std::move(b)), .m = 20, .expanded = true}))
        << info(format).name;
  }
}

TEST_F(MatmulExpanded, gives_the_same_bytes_in_any_order_of_warps_and_copies) {
  expect_right_in_any_order({.a = dense(DType::bf16, 270, 448),
                             .b = blocks(Format::nvfp4, 300, 448),
                             .m = 270,
                             .expanded = true,
                             .d_type = DType::bf16});
}

TEST_F(MatmulExpanded, makes_the_bytes_of_weights_decoded_in_registers) {
  Product p{.a = dense(DType::bf16, cuda::expanded::least_rows, 64),
            .b = blocks(Format::mxfp4, 16, 64),
            .m = cuda::expanded::least_rows};
  const Matrix d = computed(p);
  EXPECT_TRUE(near_exact(p, d));
  p.expanded = true;
  EXPECT_EQ(computed(p).bytes, d.bytes);
}

}  // namespace
}  // namespace microscale::emulator
