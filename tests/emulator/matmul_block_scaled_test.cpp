// Products of block-scaled operands as consumer Blackwell's kernels make them, executed by the
// emulator: against exact sums, against the model of the matrix instruction, and against each
// other.
#include <gtest/gtest.h>

#include "cuda/device/kernels.hpp"
#include "emulator/device.hpp"
#include "formats/producers.hpp"
#include "support/block_scaled_products.hpp"
#include "support/executed_kernels.hpp"

namespace microscale::emulator {
namespace {

using test::Matrix, test::ProductCase, test::expect_near_exact, test::is_fp4, test::random_blocks;

struct Pair {
  Format a, b;
};
constexpr Pair pairs[] = {
    {Format::nvfp4, Format::nvfp4},           {Format::mxfp4, Format::mxfp4},
    {Format::mxfp8_e4m3, Format::mxfp8_e4m3}, {Format::mxfp8_e4m3, Format::mxfp8_e5m2},
    {Format::mxfp8_e5m2, Format::mxfp8_e4m3}, {Format::mxfp8_e5m2, Format::mxfp8_e5m2},
    {Format::mxfp8_e4m3, Format::mxfp4}};

/// One for all tests: reading its kernels takes longer than running them.
EmulatorDevice& device() {
  static EmulatorDevice made(12, 0, {.instruction_budget = 1'000'000'000});
  return made;
}

class BlockScaledProducts : public ::testing::TestWithParam<Pair> {
 protected:
  void SetUp() override {
    if (cuda::kernel_names("sm_120f").empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
    device().options = {.instruction_budget = 1'000'000'000};
  }
  Pair pair() const { return GetParam(); }
  /// A case of random operands.
  ProductCase random_case(std::int64_t rows, std::int64_t n, std::int64_t k, unsigned seed = 1,
                          std::int64_t matrices = 1) const {
    return {.a = random_blocks(pair().a, rows, k, Layout::row_major, seed),
            .b = random_blocks(pair().b, n * matrices, k, Layout::row_major, seed + 1),
            .n = n};
  }
  /// k that neither 16-byte chunks nor a stage's 64 bytes divide.
  std::int64_t odd_k() const { return info(pair().a).block == 16 ? 16 * 21 : 32 * 7; }
};
std::string name_of_pair(const Pair& pair) {
  return std::string(info(pair.a).name) + "_" + std::string(info(pair.b).name);
}
INSTANTIATE_TEST_SUITE_P(Formats, BlockScaledProducts, ::testing::ValuesIn(pairs),
                         [](const auto& tested) { return name_of_pair(tested.param); });

TEST_P(BlockScaledProducts, are_near_the_exact_ones_in_every_layout_of_scales) {
  for (const Layout a_layout : {Layout::row_major, Layout::tiled_128x4})
    for (const Layout b_layout : {Layout::row_major, Layout::tiled_128x4}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(a_layout)) + " x " +
                   std::to_string(static_cast<int>(b_layout)));
      ProductCase c = random_case(37, 141, odd_k());
      c.a_layout = a_layout;
      c.b_layout = b_layout;
      c.alpha = 0.75f;
      expect_near_exact(test::run_block_scaled(device(), c), c);
    }
  EXPECT_TRUE(executed_all(device(), "sm_120f", {"matmul_block_scaled_" + name_of_pair(pair())}));
}

TEST(BlockScaledKernels, are_those_of_the_pairs_that_are_tested) {
  for (const std::string& name : cuda::kernel_names("sm_120f")) {
    if (!name.starts_with("matmul_block_scaled_")) continue;
    EXPECT_TRUE(std::ranges::any_of(pairs, [&](const Pair& pair) {
      return name == "matmul_block_scaled_" + name_of_pair(pair) ||
             name == "matmul_block_scaled_split_" + name_of_pair(pair);
    })) << name;
  }
}

TEST_P(BlockScaledProducts, are_those_of_the_instructions_model_bit_by_bit) {
  // More stages than are on their way, so that the loop of whole stages has its turn.
  const std::int64_t pairs_k = 6 * 5 * info(pair().a).block;  // an even number of blocks
  for (const std::int64_t k : {std::int64_t{1024}, pairs_k, odd_k()})
    for (const Layout layout : {Layout::tiled_128x4, Layout::row_major}) {
      ProductCase c = random_case(131, 34, k, 3);
      c.a.global_scale = c.b.global_scale = 1.0f;
      c.a_layout = c.b_layout = layout;
      const std::vector<float> sums = test::model_sums(c.a, c.b);
      const Matrix d = test::run_block_scaled(device(), c);
      int differ = 0;
      for (std::int64_t i = 0; i < 131 * 34; ++i) {
        const auto bits = std::bit_cast<std::uint32_t>(load_dense(d.bytes.data(), DType::f32, i));
        differ += bits != std::bit_cast<std::uint32_t>(sums[static_cast<std::size_t>(i)]);
      }
      EXPECT_EQ(differ, 0) << "k " << k;
      EXPECT_TRUE(device().last_report.findings.empty());
    }
}

TEST_P(BlockScaledProducts, of_a_batch_are_those_of_each_matrix) {
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
    ProductCase all = random_case(3 * 21, 70, 256, 5, 3);
    all.matrices = 3;
    all.a_layout = all.b_layout = layout;
    all.bias.resize(3 * 70);
    for (std::size_t i = 0; i < all.bias.size(); ++i)
      all.bias[i] = 0.01f * static_cast<float>(i % 31);
    const Matrix d = test::run_block_scaled(device(), all);
    expect_near_exact(d, all);
  }
}

TEST_P(BlockScaledProducts, of_groups_leave_out_what_is_nobodys) {
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4}) {
    ProductCase c = random_case(200, 40, 128, 7, 6);
    // Two rows of no expert, an expert of three, two empty ones, one of more than a tile, one row,
    // an empty one, rows of no expert.
    c.offsets = {2, 5, 5, 5, 140, 141, 141};
    c.a_layout = c.b_layout = layout;
    c.row_weights.resize(200);
    for (std::size_t i = 0; i < 200; ++i) c.row_weights[i] = 0.5f + 0.01f * static_cast<float>(i);
    c.d_type = DType::bf16;
    expect_near_exact(test::run_block_scaled(device(), c), c);
  }
}

TEST_P(BlockScaledProducts, with_a_gate_are_the_two_plain_ones_finished) {
  for (const Layout layout : {Layout::row_major, Layout::tiled_128x4})
    for (const bool gelu : {false, true}) {
      const std::int64_t n = 75;
      ProductCase c = random_case(20, n, 160, 9);
      c.a_layout = c.b_layout = layout;
      c.gelu = gelu;
      c.up = random_blocks(pair().b, n, 160, Layout::row_major, 11);
      c.up.global_scale *= 3;
      for (int i = 0; i < n; ++i) c.bias.push_back(0.1f * static_cast<float>(i % 7));
      for (int i = 0; i < n; ++i) c.up_bias.push_back(-0.2f * static_cast<float>(i % 5));
      ProductCase gate = c, up = c;
      gate.up = up.up = {};
      up.b = c.up;
      up.bias = c.up_bias;
      const Matrix d = test::run_block_scaled(device(), c);
      const Matrix gates = test::run_block_scaled(device(), gate);
      const Matrix ups = test::run_block_scaled(device(), up);
      int differ = 0;
      for (std::int64_t row = 0; row < 20; ++row)
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

TEST_P(BlockScaledProducts, in_16_bits_are_their_fp32_twins_rounded) {
  for (const std::int64_t n : {64, 27}) {  // four columns at a time, and one by one
    ProductCase c = random_case(9, n, 96, 13);
    const Matrix wide = test::run_block_scaled(device(), c);
    for (const DType type : {DType::f16, DType::bf16}) {
      c.d_type = type;
      c.d_stride = n + 5;
      const Matrix d = test::run_block_scaled(device(), c);
      Matrix rounded(type, 9, n);
      for (std::int64_t row = 0; row < 9; ++row)
        for (std::int64_t col = 0; col < n; ++col) rounded.set(row, col, wide.at(row, col));
      EXPECT_EQ(d.bytes, rounded.bytes);
    }
  }
}

TEST_P(BlockScaledProducts, have_nan_and_infinity_where_they_belong) {
  ProductCase c = random_case(16, 16, 128, 15);
  c.a.scales()[0] = info(pair().a).e8m0_scale ? 255 : 0x7F;  // row 0
  const auto stride = static_cast<std::size_t>(c.a.shape().code_bytes_per_line());
  if (pair().a == Format::mxfp8_e4m3) c.a.codes()[3 * stride] = 0x7F;  // NaN
  if (pair().a == Format::mxfp8_e5m2) c.a.codes()[3 * stride] = 0x7C;  // infinity
  const Matrix d = test::run_block_scaled(device(), c);
  for (std::int64_t row = 0; row < 16; ++row)
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

TEST_P(BlockScaledProducts, take_the_ends_of_the_scales) {
  ProductCase c = random_case(17, 18, 256, 17);
  const bool e8m0 = info(pair().a).e8m0_scale;
  // Small by large, so that sums stay in range: 2^-127 by up to 2^127; subnormal UE4M3 by 448.
  for (std::uint8_t& scale : c.a.scales())
    scale = e8m0 ? static_cast<std::uint8_t>(scale % 3) : static_cast<std::uint8_t>(scale % 9);
  for (std::uint8_t& scale : c.b.scales())
    scale = e8m0 ? static_cast<std::uint8_t>(252 - scale % 3)
                 : static_cast<std::uint8_t>(0x7E - scale % 9);
  c.a_layout = Layout::tiled_128x4;
  expect_near_exact(test::run_block_scaled(device(), c), c);
}

TEST_P(BlockScaledProducts, do_not_mind_what_padding_of_the_tiles_holds) {
  const std::int64_t k = 3 * info(pair().a).block * (is_fp4(pair().a) ? 2 : 1);
  ProductCase c = random_case(12, 20, k, 19);
  const Matrix rows = test::run_block_scaled(device(), c);
  c.a_layout = c.b_layout = Layout::tiled_128x4;
  c.padding = info(pair().a).e8m0_scale ? 0xFF : 0x7F;  // NaN
  EXPECT_EQ(test::run_block_scaled(device(), c).bytes, rows.bytes);
}

TEST_P(BlockScaledProducts, are_the_same_bytes_in_any_order_of_warps) {
  ProductCase c = random_case(140, 150, 640, 21);
  c.a_layout = c.b_layout = Layout::tiled_128x4;
  const Matrix first = test::run_block_scaled(device(), c);
  for (const auto& [schedule, completion] :
       {std::pair{Schedule::reverse, Completion::eager}, {Schedule::random, Completion::random}}) {
    device().options.schedule = schedule;
    device().options.completion = completion;
    device().options.seed = 5;
    EXPECT_EQ(test::run_block_scaled(device(), c).bytes, first.bytes);
  }
}

TEST_P(BlockScaledProducts, have_no_bank_conflicts_and_store_whole_sectors) {
  ProductCase c = random_case(128, 128, 1024, 23);
  c.a_layout = c.b_layout = Layout::tiled_128x4;
  device().options.statistics = true;
  test::run_block_scaled(device(), c);
  // FP4 for FP8's instruction lies in 8 bytes of every 16, so half of the banks: copying 8 bytes a
  // lane takes two passes, and so the counter has it for reading rows of 8 (the hardware reads 16).
  const bool spread = !is_fp4(pair().a) && is_fp4(pair().b);
  std::uint64_t products = 0;
  for (const InstructionCount& each : device().last_report.instructions) {
    products += each.opcode.starts_with("mma") ? each.warps : 0;
    const bool fills = each.opcode.starts_with("cp") || each.opcode.starts_with("ldmatrix");
    if (!spread || !fills) {
      EXPECT_EQ(each.bank_conflicts, 0u) << each.opcode << ", line " << each.ptx_line;
    }
    if (each.opcode.starts_with("st.global")) {
      EXPECT_EQ(each.sectors, each.ideal_sectors) << "line " << each.ptx_line;
    }
  }
  const std::int64_t k = is_fp4(pair().a) ? 64 : 32;
  EXPECT_EQ(products, static_cast<std::uint64_t>(8 * 16 * 1024 / k));
}

TEST_P(BlockScaledProducts, with_a_gate_cost_no_more_than_the_gate_itself) {
  // Against twice the columns without one: the same main loop, and so many instructions more for
  // each element of d, whatever k is.
  std::int64_t more[2] = {};
  for (const int i : {0, 1}) {
    const std::int64_t k = i == 0 ? 512 : 1024;
    ProductCase gated = random_case(128, 128, k, 25);
    gated.a_layout = gated.b_layout = Layout::tiled_128x4;
    gated.d_type = DType::bf16;
    ProductCase plain = gated;
    gated.up = random_blocks(pair().b, 128, k, Layout::row_major, 27);
    plain.b = random_blocks(pair().b, 256, k, Layout::row_major, 26);
    plain.n = 256;
    test::run_block_scaled(device(), gated);
    more[i] = static_cast<std::int64_t>(device().last_report.warp_instructions);
    RecordProperty("gated_" + std::to_string(k), std::to_string(more[i]));
    test::run_block_scaled(device(), plain);
    const auto without = static_cast<std::int64_t>(device().last_report.warp_instructions);
    RecordProperty("plain_" + std::to_string(k), std::to_string(without));
    more[i] -= without;
  }
  EXPECT_EQ(more[0], more[1]);
  const std::int64_t elements_a_lane = 128 * 128 / 32;
  EXPECT_LE(more[0], 27 * elements_a_lane);  // SiLU's own
  EXPECT_GT(more[0], 0);
}

}  // namespace
}  // namespace microscale::emulator
