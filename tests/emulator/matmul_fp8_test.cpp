// Products of MXFP4 in FP8 on the emulator: exact where sums fit 13 bits, within the bound where
// they do not, and in BF16 where scales do not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/in_registers/args.hpp"
#include "support/exact_products.hpp"
#include "support/executed_kernels.hpp"
#include "support/masked_products.hpp"

namespace microscale::emulator {
namespace {

class MatmulFp8 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

/// Block scales of [low, high].
Side blocks(std::int64_t rows, std::int64_t cols, unsigned seed, int low, int high) {
  return Side(test::random_blocks(Format::mxfp4, rows, cols, Layout::row_major, seed, low, high));
}

/// A product whose sums are exact, and of which each chunk of k shows in each element of d.
Product exact(std::int64_t rows, std::int64_t n, std::int64_t k, std::int64_t matrices = 1) {
  return {.a = Side(test::exact_rows(rows, k, 3)),
          .b = Side(test::exact_weights(matrices * n, k, 4)),
          .m = rows / matrices,
          .matrices = matrices,
          .fp8 = true,
          .expanded = true,
          .exact = true};
}

/// d of the same product with BF16.
Matrix in_bf16(Product p) {
  p.fp8 = false;
  return computed(p);
}

/// What the kernels left of Fp8Misfit: 64 bits, and the verdict, 1 where FP8 does not hold `p`.
std::array<std::uint32_t, 3> misfit_of(const Product& p) {
  Buffers memory;
  cuda::Product call = operands_of(p, memory);
  Matrix d = untouched_rows(p);
  call.output = output_of(p, memory, d);
  const std::uint8_t* workspace = run_expanded(call, memory);
  const std::int64_t bytes = cuda::expanded::plan_of(device().info(), call, false).workspace_bytes;
  std::array<std::uint32_t, 3> words;
  device().copy_to_host(words.data(), workspace + bytes - 256, sizeof words, nullptr);
  return words;
}

// One scale: multiples of 1/4 up to 128 * 36, which 13 bits behind the leading one hold... of sums
// below 2^11; the random ones are.
TEST_F(MatmulFp8, is_exact_where_sums_are_short) {
  for (const std::int64_t k : {128, 160, 224, 320, 1056}) {
    const Product p{.a = blocks(70, k, 3, 127, 127),
                    .b = blocks(150, k, 4, 120, 120),
                    .m = 70,
                    .fp8 = true,
                    .expanded = true};
    const Matrix d = computed(p);
    for (std::int64_t row = 0; row < 70; ++row)
      for (std::int64_t col = 0; col < 150; ++col)
        ASSERT_EQ(d.at(row, col), static_cast<float>(test::exact_at(p.a, p.b, row, col).value))
            << k << ": " << row << ", " << col;
  }
  EXPECT_TRUE(executed_all(device(), "sm_90a", {"matmul_ready_fp8", "matmul_expanded_fp8"},
                           {"matmul_expanded_fp8_to_"}));
}

TEST_F(MatmulFp8, keeps_the_bound_where_scales_spread) {
  EXPECT_TRUE(near_exact({.a = blocks(200, 416, 3, 117, 131),
                          .b = blocks(300, 416, 4, 105, 131),
                          .m = 200,
                          .tiled = true,
                          .fp8 = true,
                          .expanded = true,
                          .d_type = DType::bf16},
                         computed({.a = blocks(200, 416, 3, 117, 131),
                                   .b = blocks(300, 416, 4, 105, 131),
                                   .m = 200,
                                   .tiled = true,
                                   .fp8 = true,
                                   .expanded = true,
                                   .d_type = DType::bf16})));
}

// 128 elements of a share a power of two, a whole row of the weights does.
TEST_F(MatmulFp8, follows_scales_along_k) {
  BlockTensor a = test::random_blocks(Format::mxfp4, 20, 512, Layout::row_major, 3, 127, 127);
  for (std::size_t i = 0; i < a.scales().size(); ++i)
    a.scales()[i] = static_cast<std::uint8_t>(70 + i % 16 / 4 * 40);  // 70, 110, 150, 190
  const Product p{.a = Side(std::move(a)),
                  .b = blocks(40, 512, 4, 127, 127),
                  .m = 20,
                  .fp8 = true,
                  .expanded = true};
  EXPECT_TRUE(is_right(p));
  EXPECT_NE(computed(p).bytes, in_bf16(p).bytes) << "nothing was computed in FP8";
}

// Thread blocks share k, and a warp of theirs comes back for more of it.
TEST_F(MatmulFp8, takes_long_rows) {
  for (const std::int64_t k : {4160, 8448}) {
    const Product p{.a = blocks(20, k, 3, 115, 131),
                    .b = blocks(40, k, 4, 110, 131),
                    .m = 20,
                    .fp8 = true,
                    .expanded = true};
    EXPECT_TRUE(is_right(p)) << k;
    EXPECT_NE(computed(p).bytes, in_bf16(p).bytes) << "nothing was computed in FP8";
  }
}

// No chunk of k is lost, doubled or another one's: each would show in every element.
TEST_F(MatmulFp8, takes_every_chunk_of_long_rows) {
  for (const std::int64_t k : {96, 128, 320, 1056, 4160, 8448}) {
    Product p = exact(120, 190, k);
    const Matrix d = computed(p);
    EXPECT_TRUE(near_exact(p, d)) << k;
    EXPECT_EQ(misfit_of(p)[2], 0u) << k << ": left to BF16";
    std::fill_n(p.a.blocks->codes().begin(), k / 2, std::uint8_t{0});  // its first row
    EXPECT_FALSE(near_exact({.a = Side(*p.a.blocks), .b = p.b, .m = 120, .exact = true}, d)) << k;
  }
}

TEST_F(MatmulFp8, takes_every_chunk_of_large_tiles_experts_and_batches) {
  EXPECT_TRUE(is_right(exact(210, 300, 768)));
  EXPECT_TRUE(is_right(exact(2 * 150, 130, 1056, 2)));
  Product experts = exact(60, 40, 2112, 1);
  experts.b = Side(test::exact_weights(3 * 40, 2112, 4));
  experts.matrices = 3;
  experts.m = 60;
  experts.offsets = {0, 33, 33, 58};
  experts.tiled = true;
  EXPECT_TRUE(is_right(experts));
}

TEST_F(MatmulFp8, has_gates_experts_and_batches) {
  EXPECT_TRUE(is_right({.a = blocks(60, 192, 3, 120, 128),
                        .b = blocks(3 * 40, 192, 4, 115, 125),
                        .m = 60,
                        .matrices = 3,
                        .offsets = {0, 33, 33, 58},
                        .tiled = true,
                        .fp8 = true,
                        .expanded = true,
                        .up = blocks(3 * 40, 192, 5, 115, 125),
                        .d_type = DType::bf16,
                        .alpha = 0x1p-4f}));
  EXPECT_TRUE(is_right({.a = blocks(2 * 197, 128, 3, 120, 128),
                        .b = blocks(2 * 130, 128, 4, 115, 125),
                        .m = 197,
                        .matrices = 2,
                        .fp8 = true,
                        .expanded = true,
                        .bias = test::gaussian(DType::f32, 2, 130, 7, 1.0f)}));
}

TEST_F(MatmulFp8, gives_each_expert_as_many_rows_as_its_count) {
  EXPECT_TRUE(same_by_offsets({.a = blocks(3 * 35, 192, 3, 120, 128),
                               .b = blocks(3 * 40, 192, 4, 115, 125),
                               .m = 3 * 35,
                               .matrices = 3,
                               .counts = {33, 0, 35},
                               .capacity = 35,
                               .tiled = true,
                               .fp8 = true,
                               .expanded = true},
                              computed));
}

// Blocks of zeros fit whatever their scale; others that do not send the product to BF16, bit for
// bit.
TEST_F(MatmulFp8, leaves_what_does_not_fit_to_bf16) {
  const auto with = [](std::uint8_t a_scale, std::uint8_t b_scale, bool zeros) {
    BlockTensor a = test::random_blocks(Format::mxfp4, 20, 256, Layout::row_major, 3, 127, 127);
    BlockTensor b = test::random_blocks(Format::mxfp4, 40, 256, Layout::row_major, 4, 127, 127);
    a.scales()[3 * 8 + 2] = a_scale;
    b.scales()[39 * 8 + 7] = b_scale;
    if (zeros) {
      std::fill_n(a.codes().begin() + 3 * 128 + 32, 16, std::uint8_t{0x80});  // with a -0
      std::fill_n(b.codes().begin() + 39 * 128 + 112, 16, std::uint8_t{0});
    }
    return Product{
        .a = Side(std::move(a)), .b = Side(std::move(b)), .m = 20, .fp8 = true, .expanded = true};
  };
  EXPECT_TRUE(is_right(with(101, 153, false)));
  EXPECT_TRUE(is_right(with(0, 254, true)));
  for (const Product& p : {with(100, 127, false), with(127, 154, false), with(255, 127, false),
                           with(127, 255, true), with(100, 154, false)}) {
    Product exact = p;
    exact.fp8 = false;
    const Matrix d = computed(p);
    EXPECT_TRUE(near_exact(exact, d));
    EXPECT_EQ(d.bytes, computed(exact).bytes);
  }
}

// Zeros do not lift a row into the window either.
TEST_F(MatmulFp8, asks_only_scales_that_count) {
  BlockTensor b = test::random_blocks(Format::mxfp4, 16, 256, Layout::row_major, 4, 127, 127);
  std::fill_n(b.scales().begin() + 3 * 8, 8, std::uint8_t{50});
  b.scales()[3 * 8 + 5] = 70;
  std::fill_n(b.codes().begin() + 3 * 128 + 5 * 16, 16, std::uint8_t{0});
  const Product p{.a = blocks(20, 256, 3, 127, 127),
                  .b = Side(std::move(b)),
                  .m = 20,
                  .fp8 = true,
                  .expanded = true};
  EXPECT_EQ(computed(p).bytes, in_bf16(p).bytes);
}

// A graph runs again with the ticket that it was captured with.
TEST_F(MatmulFp8, forgets_what_did_not_fit) {
  for (const int low : {100, 101}) {
    const Product p{
        .a = blocks(20, 256, 3, 127, 127),
        .b = Side(test::random_blocks(Format::mxfp4, 40, 256, Layout::row_major, 4, 127, 127)),
        .m = 20,
        .fp8 = true,
        .expanded = true};
    Product own = p;
    own.a.blocks->scales()[5] = static_cast<std::uint8_t>(low);
    const auto words = misfit_of(own);
    EXPECT_EQ(words[2], low == 100 ? 1u : 0u);
    EXPECT_EQ(words[0] | words[1], 0u);
  }
}

TEST_F(MatmulFp8, gives_the_same_bytes_in_any_order_of_warps_and_copies) {
  expect_right_in_any_order({.a = blocks(210, 768, 3, 110, 131),
                             .b = blocks(300, 768, 4, 110, 131),
                             .m = 210,
                             .fp8 = true,
                             .expanded = true});
}

}  // namespace
}  // namespace microscale::emulator
