// Products whose tiles are few: four thread blocks of a cluster share K out and add up, on consumer
// Blackwell as the emulator has it. The sums are those of four products of a part of K each, in
// order.
#include <gtest/gtest.h>

#include "cuda/device/kernels.hpp"
#include "cuda/matmul/block_scaled/args.hpp"
#include "emulator/device.hpp"
#include "formats/producers.hpp"
#include "support/block_scaled_products.hpp"
#include "support/executed_kernels.hpp"

namespace microscale::emulator {
namespace {

using test::Matrix, test::ProductCase, test::random_blocks;

EmulatorDevice& device() {
  static EmulatorDevice made(12, 0, {.instruction_budget = 1'000'000'000});
  return made;
}

struct Pair {
  Format a, b;
};

class SplitProducts : public ::testing::TestWithParam<Pair> {
 protected:
  void SetUp() override {
    if (cuda::kernel_names("sm_120f").empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
    device().options = {.instruction_budget = 1'000'000'000};
  }
  Pair pair() const { return GetParam(); }
  bool fp4() const { return info(pair().a).code_bits == 4; }
  /// Longer than 32 stages, and no multiple of a stage.
  std::int64_t k() const { return fp4() ? 128 * 33 + 96 : 64 * 33 + 32; }
  ProductCase random_case(std::int64_t rows, std::int64_t n, unsigned seed) const {
    ProductCase c{.a = random_blocks(pair().a, rows, k(), Layout::row_major, seed),
                  .b = random_blocks(pair().b, n, k(), Layout::row_major, seed + 1)};
    c.n = n;
    c.a.global_scale = c.b.global_scale = 1.0f;
    return c;
  }
};
std::string name_of_pair(const Pair& pair) {
  return std::string(info(pair.a).name) + "_" + std::string(info(pair.b).name);
}
INSTANTIATE_TEST_SUITE_P(Formats, SplitProducts,
                         ::testing::Values(Pair{Format::nvfp4, Format::nvfp4},
                                           Pair{Format::mxfp4, Format::mxfp4},
                                           Pair{Format::mxfp8_e4m3, Format::mxfp8_e4m3},
                                           Pair{Format::mxfp8_e4m3, Format::mxfp8_e5m2},
                                           Pair{Format::mxfp8_e5m2, Format::mxfp8_e4m3},
                                           Pair{Format::mxfp8_e5m2, Format::mxfp8_e5m2},
                                           Pair{Format::mxfp8_e4m3, Format::mxfp4}),
                         [](const auto& tested) { return name_of_pair(tested.param); });

/// Columns first to end - 1 of a row-major tensor, whole blocks.
BlockTensor columns_of(const BlockTensor& all, std::int64_t first, std::int64_t end) {
  BlockShape shape = all.shape();
  shape.cols = end - first;
  BlockTensor part(shape);
  const FormatInfo& facts = info(shape.format);
  const std::int64_t code_at = code_bytes(facts, first), scale_at = first / facts.block;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    std::copy_n(all.codes().begin() + row * all.shape().code_bytes_per_line() + code_at,
                shape.code_bytes_per_line(),
                part.codes().begin() + row * shape.code_bytes_per_line());
    std::copy_n(all.scales().begin() + row * all.shape().blocks_per_line() + scale_at,
                shape.blocks_per_line(), part.scales().begin() + row * shape.blocks_per_line());
  }
  return part;
}

TEST_P(SplitProducts, are_the_sums_of_their_parts_in_order) {
  const std::int64_t elements = fp4() ? 128 : 64;  // of a stage
  const int stages = static_cast<int>((k() + elements - 1) / elements);
  for (const Layout layout : {Layout::tiled_128x4, Layout::row_major}) {
    ProductCase c = random_case(135, 23, 3);
    c.a_layout = c.b_layout = layout;
    std::vector<float> sums;
    for (int part = 0; part < cuda::block_scaled::split_parts; ++part) {
      const auto edge = [&](int number) {
        const int stage =
            cuda::block_scaled::first_stage(stages, number, cuda::block_scaled::split_parts);
        return std::min(stage * elements, k());
      };
      const std::vector<float> of_part = test::model_sums(
          columns_of(c.a, edge(part), edge(part + 1)), columns_of(c.b, edge(part), edge(part + 1)));
      if (sums.empty()) {
        sums = of_part;
        continue;
      }
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += of_part[i];
    }
    for (const auto& [schedule, completion] : {std::pair{Schedule::round_robin, Completion::latest},
                                               {Schedule::random, Completion::random}}) {
      device().options.schedule = schedule;
      device().options.completion = completion;
      const Matrix d = test::run_block_scaled(device(), c);
      int differ = 0;
      for (std::int64_t i = 0; i < 135 * 23; ++i)
        differ += std::bit_cast<std::uint32_t>(load_dense(d.bytes.data(), DType::f32, i)) !=
                  std::bit_cast<std::uint32_t>(sums[static_cast<std::size_t>(i)]);
      EXPECT_EQ(differ, 0);
    }
  }
  const std::string name = "matmul_block_scaled_split_" + name_of_pair(pair());
  EXPECT_TRUE(executed_all(device(), "sm_120f", {name}));
}

TEST_P(SplitProducts, of_a_batch_with_a_gate_are_the_two_plain_ones_finished) {
  ProductCase c = random_case(2 * 19, 2 * 41, 5);
  c.matrices = 2;
  c.n = 41;
  c.up = random_blocks(pair().b, 2 * 41, k(), Layout::row_major, 8);
  c.up.global_scale = 1.0f;
  c.alpha = 0x1p-9f;
  c.b_layout = Layout::tiled_128x4;
  ProductCase gate = c, up = c;
  gate.up = up.up = {};
  up.b = c.up;
  const Matrix d = test::run_block_scaled(device(), c);
  const Matrix gates = test::run_block_scaled(device(), gate);
  const Matrix ups = test::run_block_scaled(device(), up);
  for (std::int64_t row = 0; row < c.rows(); ++row)
    for (std::int64_t col = 0; col < c.n; ++col)
      ASSERT_EQ(d.at(row, col),
                silu_mul(clamp_gate(gates.at(row, col)), 0.0f, ups.at(row, col), 0.0f).first)
          << row << ", " << col;
}

}  // namespace
}  // namespace microscale::emulator
