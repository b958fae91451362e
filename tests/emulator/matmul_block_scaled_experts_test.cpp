// Groups of rows with weights of their own, through consumer Blackwell's products: whatever the
// groups are, an expert's rows are the bytes that a product of them alone has.
#include <gtest/gtest.h>

#include <random>

#include "cuda/device/kernels.hpp"
#include "emulator/device.hpp"
#include "support/block_scaled_products.hpp"

namespace microscale::emulator {
namespace {

using test::Matrix, test::ProductCase, test::random_blocks;

EmulatorDevice& device() {
  static EmulatorDevice made(12, 0, {.instruction_budget = 1'000'000'000});
  return made;
}

class BlockScaledExperts : public ::testing::TestWithParam<Format> {
 protected:
  void SetUp() override {
    if (cuda::kernel_names("sm_120f").empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, BlockScaledExperts,
                         ::testing::Values(Format::nvfp4, Format::mxfp8_e4m3),
                         [](const auto& tested) {
                           return std::string(microscale::info(tested.param).name);
                         });

BlockTensor rows_of(const BlockTensor& all, std::int64_t first, std::int64_t count) {
  BlockShape shape = all.shape();
  shape.rows = count;
  BlockTensor part(shape);
  part.global_scale = all.global_scale;
  std::copy_n(all.codes().begin() + first * shape.code_bytes_per_line(), part.codes().size(),
              part.codes().begin());
  std::copy_n(all.scales().begin() + first * shape.blocks_per_line(), part.scales().size(),
              part.scales().begin());
  return part;
}

/// Each expert's rows of `all` against a product of its own.
void expect_each_alone(const ProductCase& all) {
  const Matrix d = test::run_block_scaled(device(), all);
  const auto size = static_cast<std::size_t>(size_of(all.d_type));
  for (std::int64_t e = 0; e < all.count(); ++e) {
    const auto [first, count] = all.rows_of(e);
    if (count == 0) continue;
    ProductCase one{.a = rows_of(all.a, first, count), .b = rows_of(all.b, e * all.n, all.n)};
    if (all.gated()) one.up = rows_of(all.up, e * all.n, all.n);
    one.n = all.n;
    one.a_layout = all.a_layout;
    one.b_layout = all.b_layout;  // and up's
    one.d_type = all.d_type;
    const auto part = [&](const std::vector<float>& of_all, std::int64_t at, std::int64_t length) {
      return of_all.empty() ? of_all
                            : std::vector<float>(of_all.begin() + at, of_all.begin() + at + length);
    };
    one.bias = part(all.bias, e * all.n, all.n);
    one.up_bias = part(all.up_bias, e * all.n, all.n);
    one.row_weights = part(all.row_weights, first, count);
    const Matrix alone = test::run_block_scaled(device(), one);
    const auto begin = d.bytes.begin() + first * all.n * static_cast<std::int64_t>(size);
    EXPECT_TRUE(std::equal(alone.bytes.begin(), alone.bytes.end(), begin)) << "expert " << e;
  }
}

TEST_P(BlockScaledExperts, are_each_as_if_alone) {
  // More of them than a warp looks at in one go, most of them empty or of a few rows.
  std::mt19937 random(3);
  ProductCase all;
  all.offsets = {0};
  for (int e = 0; e < 70; ++e) {
    const int rows = e == 40 ? 130 : random() % 3 ? 0 : static_cast<int>(random() % 9);
    all.offsets.push_back(all.offsets.back() + rows);
  }
  const std::int64_t rows = all.offsets.back();
  all.n = 24;
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
    all.a = random_blocks(GetParam(), rows, 128, Layout::row_major, 1);
    all.b = random_blocks(GetParam(), 70 * all.n, 128, Layout::row_major, 2);
    all.a_layout = all.b_layout = layout;
    expect_each_alone(all);
  }
}

TEST_P(BlockScaledExperts, by_counts_are_each_as_if_alone_and_other_rows_untouched) {
  constexpr std::int64_t capacity = 150, experts = 4, n = 24;
  ProductCase all{.a = random_blocks(GetParam(), experts * capacity + 3, 128, Layout::row_major, 1),
                  .b = random_blocks(GetParam(), experts * n, 128, Layout::row_major, 2)};
  all.n = n;
  all.capacity = capacity;
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4})
    for (const std::vector<std::int32_t>& counts :
         {std::vector<std::int32_t>{0, 150, 1, 128}, {0, 0, 0, 0}, {150, 150, 150, 150}}) {
      all.a_layout = layout;
      all.wide_offsets = layout == Layout::tiled_128x4;
      all.counts = counts;
      expect_each_alone(all);
      const Matrix d = test::run_block_scaled(device(), all);
      for (std::size_t i = 0; i < d.bytes.size(); ++i)
        if (const auto row = static_cast<std::int64_t>(i) / (n * 4); all.matrix_of(row) < 0) {
          ASSERT_EQ(d.bytes[i], test::untouched) << "row " << row;
        }
    }
}

TEST_P(BlockScaledExperts, with_gates_biases_and_weights_are_each_as_if_alone) {
  ProductCase all{.a = random_blocks(GetParam(), 150, 192, Layout::row_major, 4),
                  .b = random_blocks(GetParam(), 4 * 70, 192, Layout::row_major, 5),
                  .up = random_blocks(GetParam(), 4 * 70, 192, Layout::row_major, 6)};
  all.n = 70;
  all.offsets = {0, 17, 17, 149, 150};
  all.d_type = DType::f16;
  all.a_layout = Layout::tiled_128x4;
  all.wide_offsets = true;
  for (int i = 0; i < 4 * 70; ++i) {
    all.bias.push_back(0.125f * static_cast<float>(i % 17));
    all.up_bias.push_back(0.25f * static_cast<float>(i % 13) - 1.0f);
  }
  for (int i = 0; i < 150; ++i) all.row_weights.push_back(1.0f / static_cast<float>(i + 1));
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
    all.b_layout = layout;
    all.up_layout = Layout::tiled_128x4;
    expect_each_alone(all);
  }
}

}  // namespace
}  // namespace microscale::emulator
