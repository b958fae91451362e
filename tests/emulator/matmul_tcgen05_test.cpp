// Products of block-scaled operands as datacenter Blackwell's kernels make them out of tensor
// memory, executed by the emulator: against the model of the instruction bit by bit, against exact
// sums, and against each other at every moment at which what is asynchronous may end.
#include <gtest/gtest.h>

#include "cuda/device/kernels.hpp"
#include "cuda/matmul/tcgen05/plan.hpp"
#include "emulator/device.hpp"
#include "formats/producers.hpp"
#include "support/block_scaled_products.hpp"
#include "support/executed_kernels.hpp"

namespace microscale::emulator {
namespace {

using cuda::tcgen05::TileShape;
using test::Matrix, test::ProductCase, test::expect_near_exact, test::is_fp4, test::random_blocks;

struct Pair {
  Format a, b;
};
constexpr Pair pairs[] = {
    {Format::nvfp4, Format::nvfp4},           {Format::mxfp4, Format::mxfp4},
    {Format::mxfp8_e4m3, Format::mxfp8_e4m3}, {Format::mxfp8_e4m3, Format::mxfp8_e5m2},
    {Format::mxfp8_e5m2, Format::mxfp8_e4m3}, {Format::mxfp8_e5m2, Format::mxfp8_e5m2}};
constexpr TileShape shapes[] = {cuda::tcgen05::narrow, cuda::tcgen05::wide, cuda::tcgen05::paired};

/// One for all tests: reading its kernels takes longer than running them.
EmulatorDevice& device() {
  static EmulatorDevice made(10, 0, {.instruction_budget = 1'000'000'000}, 2);
  return made;
}

/// By tiles of that shape.
test::BlockScaledOperation by(TileShape shape) {
  return [shape](cuda::Device& gpu, const cuda::Product& product) {
    if (product.empty()) return;
    const cuda::tcgen05::Plan plan = cuda::tcgen05::plan_of(gpu.info(), product, shape);
    void* const workspace = gpu.allocate(plan.workspace_bytes + 256);
    cuda::tcgen05::run(gpu, plan, product, static_cast<std::uint8_t*>(workspace), nullptr);
    gpu.release(workspace);
  };
}

std::string name_of_pair(const Pair& pair) {
  return std::string(info(pair.a).name) + "_" + std::string(info(pair.b).name);
}

class TensorProducts : public ::testing::TestWithParam<Pair> {
 protected:
  void SetUp() override {
    if (cuda::kernel_names("sm_100f").empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
    device().options = {.instruction_budget = 1'000'000'000};
  }
  Pair pair() const { return GetParam(); }
  /// Elements of k of an instruction, of a stage.
  std::int64_t step() const { return is_fp4(pair().a) ? 64 : 32; }
  std::int64_t stage() const { return 4 * step(); }
  ProductCase random_case(std::int64_t rows, std::int64_t n, std::int64_t k, unsigned seed = 1,
                          std::int64_t matrices = 1) const {
    ProductCase c{.a = random_blocks(pair().a, rows, k, Layout::row_major, seed),
                  .b = random_blocks(pair().b, n * matrices, k, Layout::row_major, seed + 1),
                  .n = n};
    c.a_layout = c.b_layout = Layout::tiled_128x4;
    return c;
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, TensorProducts, ::testing::ValuesIn(pairs),
                         [](const auto& tested) { return name_of_pair(tested.param); });

// Rows and columns that tiles are not full of, a last stage of one instruction, stages enough to
// use each of the ring's twice, and for each thread block tiles enough to take turns.
TEST_P(TensorProducts, are_those_of_the_instructions_model_bit_by_bit) {
  ProductCase c = random_case(140, 270, stage() + step(), 3);
  c.a.global_scale = c.b.global_scale = 1.0f;
  const std::vector<float> sums = test::model_sums(c.a, c.b);
  for (const TileShape shape : shapes) {
    const Matrix d = test::run_block_scaled(device(), c, by(shape));
    int differ = 0;
    for (std::int64_t i = 0; i < 140 * 270; ++i) {
      const auto bits = std::bit_cast<std::uint32_t>(load_dense(d.bytes.data(), DType::f32, i));
      differ += bits != std::bit_cast<std::uint32_t>(sums[static_cast<std::size_t>(i)]);
    }
    EXPECT_EQ(differ, 0) << shape.rows << "x" << shape.columns;
    EXPECT_TRUE(device().last_report.findings.empty());
  }
}

// The order of sums is that of the shape alone; what ends when changes nothing, and nothing is
// found.
TEST_P(TensorProducts, are_the_same_bytes_whenever_what_is_asynchronous_ends) {
  // Three tiles for each block and more, so that each set of sums is used twice; nine stages and
  // more, so that all are; of a pair the second block's last rows there are not.
  ProductCase c = random_case(140, 520, 3 * stage() - step(), 21);
  c.d_type = DType::bf16;
  std::vector<std::uint8_t> first;
  for (const TileShape shape : shapes)
    for (const auto& [schedule, completion] : {std::pair{Schedule::round_robin, Completion::eager},
                                               {Schedule::reverse, Completion::latest},
                                               {Schedule::random, Completion::random}}) {
      if (pair().b == Format::mxfp8_e5m2 && completion != Completion::latest) continue;
      device().options.schedule = schedule;
      device().options.completion = completion;
      device().options.seed = 5;
      const Matrix d = test::run_block_scaled(device(), c, by(shape));
      if (first.empty()) {
        expect_near_exact(d, c);
        first = d.bytes;
      }
      EXPECT_TRUE(d.bytes == first) << shape.rows << "x" << shape.columns;
      EXPECT_TRUE(device().last_report.findings.empty());
    }
}

TEST_P(TensorProducts, take_scales_in_rows_by_way_of_tiles) {
  ProductCase c = random_case(37, 141, step() * 5, 7);
  const Matrix tiles = test::run_block_scaled(device(), c, by(cuda::tcgen05::wide));
  c.a_layout = Layout::row_major;
  EXPECT_EQ(test::run_block_scaled(device(), c, by(cuda::tcgen05::wide)).bytes, tiles.bytes);
  c.b_layout = Layout::row_major;
  EXPECT_EQ(test::run_block_scaled(device(), c, by(cuda::tcgen05::paired)).bytes, tiles.bytes);
}

TEST_P(TensorProducts, of_a_batch_are_those_of_each_matrix) {
  for (const TileShape shape : shapes) {
    ProductCase all = random_case(3 * 150, 70, step() * 3, 5, 3);
    all.matrices = 3;
    all.alpha = 0.75f;
    all.d_stride = 70 + 7;  // no row begins at 32 bytes
    all.bias.resize(3 * 70);
    for (std::size_t i = 0; i < all.bias.size(); ++i)
      all.bias[i] = 0.01f * static_cast<float>(i % 31);
    if (shape == cuda::tcgen05::paired) all.a_layout = Layout::row_major;
    expect_near_exact(test::run_block_scaled(device(), all, by(shape)), all);
  }
}

TEST_P(TensorProducts, of_groups_leave_out_what_is_nobodys) {
  for (const TileShape shape : {cuda::tcgen05::narrow, cuda::tcgen05::wide}) {
    ProductCase c = random_case(200, 40, 128, 7, 6);
    // Two rows of no expert, an expert of three, two empty ones, one of more than a tile, one row,
    // an empty one, rows of no expert.
    c.offsets = {2, 5, 5, 5, 140, 141, 141};
    c.a_layout = shape == cuda::tcgen05::wide ? Layout::row_major : Layout::tiled_128x4;
    c.wide_offsets = shape == cuda::tcgen05::wide;
    c.row_weights.resize(200);
    for (std::size_t i = 0; i < 200; ++i) c.row_weights[i] = 0.5f + 0.01f * static_cast<float>(i);
    c.d_type = DType::bf16;
    expect_near_exact(test::run_block_scaled(device(), c, by(shape)), c);
  }
}

TEST_P(TensorProducts, of_groups_by_counts_leave_out_what_is_nobodys) {
  ProductCase c = random_case(4 * 150 + 3, 40, 128, 9, 4);
  c.counts = {0, 150, 1, 128};
  c.capacity = 150;
  expect_near_exact(test::run_block_scaled(device(), c, by(cuda::tcgen05::wide)), c);
  c.a_layout = c.b_layout = Layout::row_major;
  expect_near_exact(test::run_block_scaled(device(), c, by(cuda::tcgen05::narrow)), c);
}

TEST_P(TensorProducts, with_a_gate_are_the_two_plain_ones_finished) {
  for (const TileShape shape : {cuda::tcgen05::wide, cuda::tcgen05::paired})
    for (const bool gelu : {false, true}) {
      const std::int64_t n = 139, rows = 133;
      ProductCase c = random_case(rows, n, 2 * step(), 9);
      c.gelu = gelu;
      c.up = random_blocks(pair().b, n, 2 * step(), Layout::row_major, 11);
      c.up.global_scale *= 3;
      if (gelu) c.up_layout = Layout::row_major;
      for (int i = 0; i < n; ++i) c.bias.push_back(0.1f * static_cast<float>(i % 7));
      for (int i = 0; i < n; ++i) c.up_bias.push_back(-0.2f * static_cast<float>(i % 5));
      ProductCase gate = c, up = c;
      gate.up = up.up = {};
      up.b = c.up;
      up.bias = c.up_bias;
      const Matrix d = test::run_block_scaled(device(), c, by(shape));
      const Matrix gates = test::run_block_scaled(device(), gate, by(cuda::tcgen05::narrow));
      const Matrix ups = test::run_block_scaled(device(), up, by(cuda::tcgen05::narrow));
      int differ = 0;
      for (std::int64_t row = 0; row < rows; ++row)
        for (std::int64_t col = 0; col < n; ++col) {
          const float x = gates.at(row, col), y = ups.at(row, col);
          const float wanted =
              gelu ? gelu_tanh_mul(x, y) : silu_mul(clamp_gate(x), 0.0f, y, 0.0f).first;
          differ +=
              std::bit_cast<std::uint32_t>(d.at(row, col)) != std::bit_cast<std::uint32_t>(wanted);
        }
      EXPECT_EQ(differ, 0);
    }
}

TEST_P(TensorProducts, in_16_bits_are_their_fp32_twins_rounded) {
  for (const std::int64_t n : {64, 27}) {  // 32 bytes at a time, and one by one
    ProductCase c = random_case(19, n, step(), 13);
    const Matrix wide = test::run_block_scaled(device(), c, by(cuda::tcgen05::narrow));
    for (const DType type : {DType::f16, DType::bf16}) {
      c.d_type = type;
      c.d_stride = n == 64 ? 64 : n + 5;
      const Matrix d = test::run_block_scaled(device(), c, by(cuda::tcgen05::wide));
      Matrix rounded(type, 19, n);
      for (std::int64_t row = 0; row < 19; ++row)
        for (std::int64_t col = 0; col < n; ++col) rounded.set(row, col, wide.at(row, col));
      EXPECT_EQ(d.bytes, rounded.bytes);
    }
  }
}

TEST_P(TensorProducts, have_nan_and_infinity_where_they_belong) {
  ProductCase c = random_case(20, 16, 128, 15);
  c.a.scales()[0] = info(pair().a).e8m0_scale ? 255 : 0x7F;  // row 0
  const auto stride = static_cast<std::size_t>(c.a.shape().code_bytes_per_line());
  if (pair().a == Format::mxfp8_e4m3) c.a.codes()[3 * stride] = 0x7F;  // NaN
  if (pair().a == Format::mxfp8_e5m2) c.a.codes()[3 * stride] = 0x7C;  // infinity
  const Matrix d = test::run_block_scaled(device(), c, by(cuda::tcgen05::paired));
  for (std::int64_t row = 0; row < 20; ++row)
    for (std::int64_t col = 0; col < 16; ++col) {
      const float got = d.at(row, col);
      if (row == 0 || (row == 3 && pair().a == Format::mxfp8_e4m3))
        EXPECT_TRUE(std::isnan(got)) << row << ", " << col;
      else if (row == 3 && pair().a == Format::mxfp8_e5m2)
        EXPECT_FALSE(std::isfinite(got)) << row << ", " << col;
      else
        EXPECT_TRUE(std::isfinite(got)) << row << ", " << col;
    }
}

TEST_P(TensorProducts, take_the_ends_of_the_scales) {
  ProductCase c = random_case(17, 18, 256, 17);
  const bool e8m0 = info(pair().a).e8m0_scale;
  // Small by large, so that sums stay in range: 2^-127 by up to 2^127; subnormal UE4M3 by 448.
  for (std::uint8_t& scale : c.a.scales())
    scale = e8m0 ? static_cast<std::uint8_t>(scale % 3) : static_cast<std::uint8_t>(scale % 9);
  for (std::uint8_t& scale : c.b.scales())
    scale = e8m0 ? static_cast<std::uint8_t>(252 - scale % 3)
                 : static_cast<std::uint8_t>(0x7E - scale % 9);
  expect_near_exact(test::run_block_scaled(device(), c, by(cuda::tcgen05::narrow)), c);
}

TEST_P(TensorProducts, do_not_mind_what_padding_of_the_tiles_holds) {
  ProductCase c = random_case(12, 150, 3 * step(), 19);
  const Matrix zeros = test::run_block_scaled(device(), c, by(cuda::tcgen05::wide));
  c.padding = info(pair().a).e8m0_scale ? 0xFF : 0x7F;  // NaN
  EXPECT_EQ(test::run_block_scaled(device(), c, by(cuda::tcgen05::wide)).bytes, zeros.bytes);
  EXPECT_EQ(test::run_block_scaled(device(), c, by(cuda::tcgen05::paired)).bytes, zeros.bytes);
}

TEST_P(TensorProducts, read_and_store_whole_sectors) {
  ProductCase c = random_case(128, 256, stage(), 23);
  c.d_type = DType::bf16;
  for (const TileShape shape : shapes) {
    device().options.statistics = true;
    test::run_block_scaled(device(), c, by(shape));
    for (const InstructionCount& each : device().last_report.instructions) {
      EXPECT_EQ(each.bank_conflicts, 0u) << each.opcode << ", line " << each.ptx_line;
      if (each.opcode.starts_with("st.global")) {
        EXPECT_EQ(each.sectors, each.ideal_sectors) << "line " << each.ptx_line;
      }
    }
  }
}

// The model of docs/performance/blackwell.md: instructions of warps that a stage more costs, and a
// tile beside its stages, of which nearly all are those of four warps that store.
TEST(TensorProductKernels, execute_as_many_instructions_as_the_model_has) {
  if (cuda::kernel_names("sm_100f").empty()) GTEST_SKIP() << "built without nvcc";
  struct Budget {
    TileShape shape;
    bool gated;
    std::int64_t stage, tile;  // of a thread block, at most
  };
  for (const Budget& budget : {Budget{cuda::tcgen05::narrow, false, 160, 5000},
                               {cuda::tcgen05::wide, false, 175, 12000},
                               {cuda::tcgen05::wide, true, 175, 26000},
                               {cuda::tcgen05::paired, false, 130, 12000},
                               {cuda::tcgen05::paired, true, 130, 26000}}) {
    std::int64_t executed[2];
    for (const int i : {0, 1}) {
      const std::int64_t k = 256 * (2 + i), n = budget.shape.columns / (budget.gated ? 2 : 1);
      ProductCase c{.a = random_blocks(Format::nvfp4, budget.shape.rows, k, Layout::row_major, 1),
                    .b = random_blocks(Format::nvfp4, n, k, Layout::row_major, 2),
                    .n = n};
      if (budget.gated) c.up = random_blocks(Format::nvfp4, n, k, Layout::row_major, 3);
      c.a_layout = c.b_layout = Layout::tiled_128x4;
      c.d_type = DType::bf16;
      device().options = {.completion = Completion::eager, .instruction_budget = 1'000'000'000};
      test::run_block_scaled(device(), c, by(budget.shape));
      executed[i] =
          static_cast<std::int64_t>(device().last_report.warp_instructions) / budget.shape.blocks();
    }
    const std::int64_t stage = executed[1] - executed[0], tile = executed[0] - 2 * stage;
    const std::string name = std::to_string(budget.shape.rows) + "x" +
                             std::to_string(budget.shape.columns) + (budget.gated ? "_gated" : "");
    RecordProperty(name + "_stage", std::to_string(stage));
    RecordProperty(name + "_tile", std::to_string(tile));
    EXPECT_LE(stage, budget.stage) << name;
    EXPECT_GT(stage, budget.stage / 2) << name << ": too few to be true";
    EXPECT_LE(tile, budget.tile) << name;
    EXPECT_GT(tile, budget.tile / 2) << name << ": too few to be true";
  }
}

TEST(TensorProductKernels, are_all_executed) {
  if (cuda::kernel_names("sm_100f").empty()) GTEST_SKIP() << "built without nvcc";
  device().options = {.instruction_budget = 1'000'000'000};
  for (const Pair& pair : pairs) {
    ProductCase c{.a = random_blocks(pair.a, 20, 64, Layout::row_major, 1),
                  .b = random_blocks(pair.b, 20, 64, Layout::row_major, 2),
                  .n = 20};
    for (const TileShape shape : shapes) test::run_block_scaled(device(), c, by(shape));
  }
  EXPECT_TRUE(executed_all(device(), "sm_100f", {"matmul_tcgen05_", "matmul_scale_tiles"}));
}

}  // namespace
}  // namespace microscale::emulator
