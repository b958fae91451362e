// Products of many rows of a whose tiles are cut into ranges of k
// (cuda/matmul/in_registers/args.hpp), on the emulator, against sums in FP64.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/in_registers/plan.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {
namespace {

/// Of a tile.
int most_ranges(const cuda::in_registers::TileCut& cut) {
  std::uint32_t most = 0;
  for (std::uint32_t tile = 0; tile < cut.tiles; ++tile)
    most = std::max(most, cut.last_block(tile) - cut.first_block(tile) + 1);
  return static_cast<int>(most);
}

class MatmulInRegistersCut : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

// Where whole tiles would leave multiprocessors idle: ranges of k go to blocks of their own, or
// begin anywhere, whoever adds them up.
TEST_F(MatmulInRegistersCut, cuts_k_where_tiles_are_few) {
  struct Shape {
    std::int64_t m, n, k;
    int multiprocessors, rows, tokens;
    std::uint32_t tiles, blocks;
    int ranges;  // of a tile, at most
    bool equal;
  };
  for (const Shape s : {Shape{20, 100, 3232, 6, 128, 64, 1, 6, 6, true},
                        {65, 130, 5120, 6, 128, 128, 2, 6, 3, true},
                        {20, 390, 1984, 7, 256, 32, 2, 7, 4, false},
                        {50, 390, 2496, 3, 256, 64, 2, 3, 2, false},
                        {20, 1030, 2816, 3, 256, 32, 5, 3, 2, false},      // a tile inside a share
                        {70, 1540, 2112, 3, 256, 128, 4, 3, 2, false}}) {  // three more tiles whole
    SCOPED_TRACE(::testing::Message() << s.m << " x " << s.n << " x " << s.k);
    device().set(s.multiprocessors);
    const cuda::in_registers::Tiling plan = cuda::in_registers::tiling_of(
        s.n, s.k, false, s.m, 1, false, 544, false, s.multiprocessors);
    EXPECT_EQ(plan.shape.rows, s.rows);
    EXPECT_EQ(plan.shape.tokens, s.tokens);
    EXPECT_EQ(plan.cut.tiles, s.tiles);
    EXPECT_EQ(plan.cut.blocks, s.blocks);
    EXPECT_EQ(plan.cut.passing == 0, s.equal);
    EXPECT_EQ(most_ranges(plan.cut), s.ranges);
    Product p{.a = dense(DType::bf16, s.m, s.k),
              .b = blocks(Format::mxfp4, s.n, s.k),
              .m = s.m,
              .bias = test::gaussian(DType::f32, 1, s.n, 7, 1.0f)};
    const Matrix d = computed(p);
    EXPECT_TRUE(near_exact(p, d));
    p.constant = true;
    EXPECT_EQ(computed(p).bytes, d.bytes) << "weights asked for early";
    device().options.schedule = Schedule::random;
    EXPECT_EQ(computed(p).bytes, d.bytes) << "in another order";
    device().options.schedule = LaunchOptions{}.schedule;
  }
  device().set(2);
}

// Two ranges of a tile, of a cluster, exchange halves of their sums; of four or six, halves of
// pairs are added up by memory, too. Rows of a end in either half.
TEST_F(MatmulInRegistersCut, exchanges_sums_in_pairs) {
  struct Shape {
    std::int64_t m, n, k;
    int multiprocessors, ranges, rows, tokens;
    DType d_type = DType::f32;  // in 16 bits rounded in registers
    bool gated = false;
  };
  for (const Shape s : {Shape{100, 130, 1280, 4, 2, 128, 128},
                        {100, 130, 3840, 12, 6, 128, 128},
                        {40, 130, 3456, 2, 2, 256, 64},  // an odd chunk each
                        {64, 192, 3328, 2, 2, 256, 64, DType::bf16},
                        {41, 130, 3328, 4, 2, 256, 64, DType::f32, true},
                        {64, 130, 6656, 4, 4, 256, 64, DType::f16}}) {
    SCOPED_TRACE(::testing::Message() << s.m << " x " << s.n << " x " << s.k);
    device().set(s.multiprocessors);
    const cuda::in_registers::Tiling plan = cuda::in_registers::tiling_of(
        s.n, s.k, s.gated, s.m, 1, false, 544, false, s.multiprocessors);
    EXPECT_EQ(plan.shape.rows, s.rows);
    EXPECT_EQ(plan.shape.tokens, s.tokens);
    EXPECT_TRUE(plan.cut.paired);
    EXPECT_EQ(most_ranges(plan.cut), s.ranges);
    Product p{.a = dense(DType::bf16, s.m, s.k),
              .b = blocks(Format::mxfp4, s.n, s.k),
              .m = s.m,
              .constant = s.ranges == 2,
              .d_type = s.d_type};
    if (s.gated) p.up = blocks(Format::mxfp4, s.n, s.k);
    expect_right_in_any_order(p);
  }
  device().set(2);
}

// A graph runs again with the ticket that it was captured with.
TEST_F(MatmulInRegistersCut, forgets_whose_sums_were_there) {
  device().set(7);
  const Product p{
      .a = dense(DType::bf16, 20, 1984), .b = blocks(Format::mxfp4, 390, 1984), .m = 20};
  const cuda::in_registers::Tiling plan =
      cuda::in_registers::tiling_of(390, 1984, false, 20, 1, false, 544, false, 7);
  Buffers memory;
  cuda::Product call = operands_of(p, memory);
  Matrix d = untouched_rows(p);
  call.output = output_of(p, memory, d);
  const std::uint8_t* workspace = run_in_registers(call, memory);
  std::vector<std::uint64_t> flags(static_cast<std::size_t>(plan.flag_bytes() / 8));
  device().copy_to_host(flags.data(), workspace + plan.sums_bytes(), plan.flag_bytes(), nullptr);
  std::size_t used = 0;
  for (std::uint32_t tile = 0; tile < plan.cut.tiles; ++tile)
    used += plan.cut.last_block(tile) - plan.cut.first_block(tile);
  EXPECT_GT(used, 0u);
  const auto count = [&](std::uint64_t value) {
    return static_cast<std::size_t>(std::count(flags.begin(), flags.end(), value));
  };
  EXPECT_EQ(count(0), used * static_cast<std::size_t>(plan.shape.warpgroups));
  EXPECT_EQ(count(0) + count(~std::uint64_t{0}), flags.size()) << "the others are as they were";
  device().set(2);
}

// The kernel itself finds out how many tiles there are to share.
TEST_F(MatmulInRegistersCut, cuts_tiles_of_experts) {
  struct Case {
    std::int64_t n, k;
    std::vector<std::int64_t> offsets;
    int multiprocessors;
    std::uint32_t tiles, blocks;  // as the kernel finds
  };
  for (const Case& c : {Case{40, 2048, {0, 33, 33, 58}, 8, 2, 8},   // four equal ranges each
                        Case{40, 3072, {0, 20, 40, 58}, 8, 3, 8},   // anywhere
                        Case{200, 2048, {2, 22, 40, 40}, 3, 4, 3},  // more tiles than blocks
                        Case{40, 2048, {0, 33, 33, 58}, 2, 0, 0},   // whole
                        Case{40, 2048, {7, 7, 7, 7}, 8, 0, 0}}) {   // nobody has a row
    SCOPED_TRACE(::testing::Message() << c.n << " x " << c.k << " on " << c.multiprocessors);
    device().set(c.multiprocessors);
    const cuda::in_registers::Tiling plan =
        cuda::in_registers::tiling_of(c.n, c.k, true, 60, 3, true, 576, false, c.multiprocessors);
    EXPECT_TRUE(plan.cut_by_kernel);
    std::int64_t tiles = 0;
    for (std::size_t i = 0; i < 3; ++i)
      tiles += cuda::in_registers::column_tiles_of(plan.shape, c.n, true) *
               cuda::in_registers::tiles_down_of(plan.shape, c.offsets[i + 1] - c.offsets[i]);
    const cuda::in_registers::TileCut cut =
        cuda::in_registers::best_cut(cuda::in_registers::tile_costs(plan.shape, 576, false), tiles,
                                     c.k / 64, c.multiprocessors)
            .cut;
    EXPECT_EQ(cut.tiles, c.tiles);
    EXPECT_EQ(cut.blocks, c.blocks);
    Product p{.a = blocks(Format::nvfp4, 60, c.k, 3),
              .b = blocks(Format::nvfp4, 3 * c.n, c.k),
              .m = 60,
              .matrices = 3,
              .offsets = c.offsets,
              .up = blocks(Format::nvfp4, 3 * c.n, c.k, 8),
              .d_type = DType::bf16,
              .alpha = 0.001f};
    const Matrix d = computed(p);
    EXPECT_TRUE(near_exact(p, d));
    device().options.schedule = Schedule::random;
    EXPECT_EQ(computed(p).bytes, d.bytes) << "in another order";
    device().options.schedule = LaunchOptions{}.schedule;
    p.a = dense(DType::f16, 60, c.k);  // read as it is
    EXPECT_TRUE(is_right(p));
  }
  device().set(2);
}

// 256 x 128, whose tiles have two sizes: large ones are cut and the others whole, or small ones are
// cut, too.
TEST_F(MatmulInRegistersCut, cuts_tiles_of_two_sizes) {
  struct Case {
    std::int64_t n, k;
    std::vector<std::int64_t> offsets;
    int multiprocessors;
    std::uint32_t all, cut;
  };
  for (const Case& c : {Case{700, 1536, {0, 64, 180, 300}, 4, 9, 5},
                        Case{500, 2048, {0, 40, 140, 200, 280}, 5, 8, 8}}) {
    const std::int64_t m = c.offsets.back(),
                       experts = static_cast<std::int64_t>(c.offsets.size()) - 1;
    device().set(c.multiprocessors);
    const cuda::in_registers::Tiling plan = cuda::in_registers::tiling_of(
        c.n, c.k, false, m, experts, true, 576, false, c.multiprocessors);
    EXPECT_TRUE(plan.cut_by_kernel);
    EXPECT_EQ(plan.shape.token_sizes(), 2);
    const cuda::in_registers::TileCut cut =
        cuda::in_registers::best_cut(cuda::in_registers::tile_costs(plan.shape, 576, false), c.all,
                                     c.k / 64, c.multiprocessors)
            .cut;
    EXPECT_EQ(cut.tiles, c.cut);
    EXPECT_TRUE(is_right({.a = dense(DType::bf16, m, c.k),
                          .b = blocks(Format::nvfp4, experts * c.n, c.k),
                          .m = m,
                          .matrices = experts,
                          .offsets = c.offsets,
                          .d_type = DType::bf16}));
  }
  device().set(2);
}

// Who looks for a tile asks 32 experts at a time, and shares are taken from their end.
TEST_F(MatmulInRegistersCut, cuts_tiles_of_more_experts_than_a_warp_has_lanes) {
  constexpr std::int64_t experts = 36, rows = 9, n = 24, k = 2048;
  device().set(29);
  const cuda::in_registers::Tiling plan =
      cuda::in_registers::tiling_of(n, k, false, experts * rows, experts, true, 576, false, 29);
  ASSERT_TRUE(plan.cut_by_kernel);
  const cuda::in_registers::TileCut cut =
      cuda::in_registers::best_cut(cuda::in_registers::tile_costs(plan.shape, 576, false), experts,
                                   k / 64, 29)
          .cut;
  ASSERT_EQ(cut.tiles, 36u);
  bool crosses = false;  // from a tile of experts 32 to 35 back to one before
  for (std::uint32_t block = 0; block < cut.blocks; ++block)
    crosses |= cut.begin(block) < 32 * cut.positions && cut.begin(block + 1) > 32 * cut.positions;
  ASSERT_TRUE(crosses);
  Product p{.a = dense(DType::bf16, experts * rows, k),
            .b = blocks(Format::nvfp4, experts * n, k),
            .m = experts * rows,
            .matrices = experts};
  for (std::int64_t i = 0; i <= experts; ++i) p.offsets.push_back(i * rows);
  EXPECT_TRUE(is_right(p));
  device().set(2);
}

}  // namespace
}  // namespace microscale::emulator
