// Products of many rows of NVFP4 with NVFP4 weights that nobody has packed, as the kernels for
// Hopper compute them, on the emulator: every tile, both layouts of scales, gates, experts,
// batches, ranges of k, against sums in FP64.
#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/in_registers/plan.hpp"
#include "support/executed_kernels.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {
namespace {

Side blocks(std::int64_t rows, std::int64_t cols, unsigned seed = 1) {
  return Side(test::random_blocks(Format::nvfp4, rows, cols, Layout::row_major, seed));
}

class MatmulInRegistersUnpacked : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
  void TearDown() override { device().set(2); }
};

// Several tiles to a block, several chunks to the ring, rows of weights and of a left over.
TEST_F(MatmulInRegistersUnpacked, goes_from_tile_to_tile) {
  struct Shape {
    std::int64_t m, n, k, matrices;
    int rows, tokens;
  };
  bool tiled = false;
  for (const Shape s : {Shape{129, 1030, 448, 1, 128, 256},
                        {100, 1020, 448, 1, 256, 128},
                        {120, 123, 320, 5, 128, 128},
                        {60, 390, 1088, 3, 256, 64},
                        {60, 126, 1088, 5, 128, 64},
                        {30, 390, 640, 3, 256, 32}}) {
    const cuda::in_registers::Tiling plan =
        cuda::in_registers::tiling_of(s.n, s.k, false, s.m, s.matrices, false, 576, true, 2);
    EXPECT_EQ(plan.shape.rows, s.rows) << s.m;
    EXPECT_EQ(plan.shape.tokens, s.tokens) << s.m;
    tiled = !tiled;
    EXPECT_TRUE(is_right({.a = blocks(s.m * s.matrices, s.k, 3),
                          .b = blocks(s.n * s.matrices, s.k),
                          .m = s.m,
                          .matrices = s.matrices,
                          .tiled = !tiled,
                          .unpacked = true,
                          .unpacked_tiled = tiled,
                          .d_type = DType::bf16}))
        << s.m << " x " << s.n << " x " << s.k;
  }
}

// Tiles of 256 and of 128 rows of a: last ones of every size, some full to the last row.
TEST_F(MatmulInRegistersUnpacked, multiplies_no_more_than_an_expert_needs) {
  struct Shape {
    std::vector<std::int64_t> offsets;
    int rows, tokens;
  };
  for (const Shape& s : {Shape{{0, 257, 320, 320, 448, 577, 769, 962}, 128, 256},
                         {{0, 140, 204, 269, 330}, 256, 128}}) {
    const std::int64_t m = s.offsets.back(),
                       experts = static_cast<std::int64_t>(s.offsets.size()) - 1;
    const cuda::in_registers::Tiling plan =
        cuda::in_registers::tiling_of(520, 192, false, m, experts, true, 576, true, 2);
    EXPECT_EQ(plan.shape.rows, s.rows);
    EXPECT_EQ(plan.shape.tokens, s.tokens);
    EXPECT_TRUE(is_right({.a = blocks(m, 192, 3),
                          .b = blocks(experts * 520, 192),
                          .m = m,
                          .matrices = experts,
                          .offsets = s.offsets,
                          .unpacked = true,
                          .d_type = DType::bf16}));
  }
}

// Four sizes, of which those of the last experts come first: each is looked for from the front, 32
// experts at a time.
TEST_F(MatmulInRegistersUnpacked, finds_tiles_of_every_size_among_many_experts) {
  std::vector<std::int64_t> offsets{0};
  for (int expert = 0; expert < 40; ++expert)
    offsets.push_back(offsets.back() +
                      (expert < 32 ? 40 + expert % 3 * 60 : 300 + expert % 2 * 80));
  const std::int64_t m = offsets.back();
  for (const int multiprocessors : {2, 7}) {
    device().set(multiprocessors);
    const cuda::in_registers::Tiling plan =
        cuda::in_registers::tiling_of(120, 64, false, m, 40, true, 576, true, multiprocessors);
    EXPECT_EQ(plan.shape.tokens, 256);
    EXPECT_TRUE(is_right({.a = blocks(m, 64, 3),
                          .b = blocks(40 * 120, 64),
                          .m = m,
                          .matrices = 40,
                          .offsets = offsets,
                          .unpacked = true,
                          .d_type = DType::bf16}));
  }
}

// Rows of a are prepared by many blocks on two multiprocessors, by few on 32.
TEST_F(MatmulInRegistersUnpacked, multiplies_by_a_gate) {
  for (const bool tiled : {false, true})
    for (const std::int64_t m : {33, 120}) {
      device().set(tiled ? 32 : 2);
      EXPECT_TRUE(is_right({.a = blocks(2 * m, 192, 2),
                            .b = blocks(2 * 137, 192, 5),
                            .m = m,
                            .matrices = 2,
                            .unpacked = true,
                            .unpacked_tiled = tiled,
                            .up = blocks(2 * 137, 192, 6),
                            .d_type = DType::f16,
                            .a_globals = {0x1p-4f},
                            .b_globals = {0.001f},
                            .up_globals = {0.003f}}))
          << m;
    }
}

// By few blocks, of which the second has less than half its elements of k.
TEST_F(MatmulInRegistersUnpacked, prepares_few_rows_in_the_order_of_weights) {
  device().set(32);
  for (const bool tiled : {false, true})
    EXPECT_TRUE(is_right({.a = blocks(2 * 61, 1472, 2),
                          .b = blocks(2 * 70, 1472),
                          .m = 61,
                          .matrices = 2,
                          .tiled = tiled,
                          .unpacked = true,
                          .unpacked_tiled = !tiled,
                          .d_type = DType::bf16}))
        << tiled;
  EXPECT_TRUE(executed_all(device(), "sm_90a", {"matmul_prepare_blocks_"}));
}

TEST_F(MatmulInRegistersUnpacked, gives_each_expert_its_rows) {
  for (const bool tiled : {false, true}) {
    device().set(tiled ? 32 : 2);
    EXPECT_TRUE(is_right({.a = blocks(160, 128, 3),
                          .b = blocks(7 * 50, 128),
                          .m = 160,
                          .matrices = 7,
                          .offsets = {3, 3, 8, 8, 138, 139, 156, 156},
                          .tiled = !tiled,
                          .unpacked = true,
                          .unpacked_tiled = tiled,
                          .d_type = DType::bf16,
                          .alpha = 0.5f,
                          .row_weights = std::vector<float>(160, 0.75f),
                          .a_globals = {1, 2, 3, 4, 5, 6, 7},
                          .b_globals = {7, 6, 5, 4, 3, 2, 1}}));
  }
}

TEST_F(MatmulInRegistersUnpacked, cuts_k_where_tiles_are_few) {
  struct Shape {
    std::int64_t n, k;
    int multiprocessors;
    std::uint32_t tiles;
    bool equal;
  };
  for (const Shape s :
       {Shape{100, 3200, 6, 1, true}, {390, 2112, 9, 2, false}, {1540, 1472, 3, 4, false}}) {
    device().set(s.multiprocessors);
    const cuda::in_registers::Tiling plan =
        cuda::in_registers::tiling_of(s.n, s.k, false, 20, 1, false, 576, true, s.multiprocessors);
    EXPECT_EQ(plan.cut.tiles, s.tiles);
    EXPECT_EQ(plan.cut.passing == 0, s.equal);
    const Product p{.a = blocks(20, s.k, 2), .b = blocks(s.n, s.k), .m = 20, .unpacked = true};
    expect_right_in_any_order(p);
  }
}

// Two ranges of a tile, of a cluster, exchange halves of their sums; four or more add up pairs'
// sums by memory, too. Rows of a may end in the first half.
TEST_F(MatmulInRegistersUnpacked, exchanges_sums_in_pairs) {
  struct Shape {
    std::int64_t m, n, k;
    int multiprocessors, ranges;
    bool gated = false;
    DType d_type = DType::f32;  // in 16 bits rounded in registers
    std::int64_t matrices = 1;
  };
  for (const Shape s : {Shape{100, 250, 2048, 4, 2},
                        {128, 190, 2560, 8, 4},
                        {70, 120, 1984, 4, 2, true},
                        {65, 60, 4096, 6, 6, true},
                        {150, 128, 2048, 4, 2, false, DType::bf16},  // 22 rows of the second tile
                        {128, 128, 2560, 4, 4, false, DType::bf16},
                        {100, 128, 2048, 4, 2, false, DType::bf16, 2}}) {
    SCOPED_TRACE(::testing::Message() << s.m << " x " << s.n << " x " << s.k);
    device().set(s.multiprocessors);
    const cuda::in_registers::Tiling plan = cuda::in_registers::tiling_of(
        s.n, s.k, s.gated, s.m, s.matrices, false, 576, true, s.multiprocessors);
    EXPECT_EQ(plan.shape.rows, 128);
    EXPECT_EQ(plan.shape.tokens, 128);
    EXPECT_TRUE(plan.cut.paired);
    EXPECT_EQ(plan.cut.blocks, plan.cut.tiles * s.ranges);
    Product p{.a = blocks(s.matrices * s.m, s.k, 2),
              .b = blocks(s.matrices * s.n, s.k),
              .m = s.m,
              .matrices = s.matrices,
              .unpacked = true,
              .d_type = s.d_type};
    if (s.gated) p.up = blocks(s.n, s.k, 6), p.constant = true;
    expect_right_in_any_order(p);
  }
}

TEST_F(MatmulInRegistersUnpacked, is_exact_at_the_ends_of_the_scales_and_passes_nan_on) {
  for (const bool high : {false, true}) {
    BlockTensor b = test::random_blocks(Format::nvfp4, 24, 64, Layout::row_major, 9,
                                        high ? 0x78 : 0, high ? 0x7E : 8);
    Product p{.a = blocks(17, 64, 2), .b = Side(b), .m = 17, .unpacked = true};
    EXPECT_TRUE(is_right(p)) << high;
    b.scales()[5 * 4 + 1] = 127;
    p.b = Side(b);
    EXPECT_TRUE(is_right(p)) << high;
    BlockTensor a = test::random_blocks(Format::nvfp4, 17, 64, Layout::row_major, 3);
    a.scales()[4 * 4 + 2] = 127;
    p.a = Side(a);
    EXPECT_TRUE(is_right(p)) << high;
  }
}

// The whole way: a product whose weights were not packed needs no room for packed ones.
TEST_F(MatmulInRegistersUnpacked, is_taken_where_k_is_a_multiple_of_64) {
  for (const std::int64_t k : {128, 160}) {
    cuda::Product call;
    call.a.format = call.b.format = Format::nvfp4;
    call.n = 64, call.k = k;
    call.rows = {32, 1, nullptr, 0};
    EXPECT_EQ(cuda::in_registers::takes_unpacked(call), k == 128);
    call.a.format = Format::mxfp4;
    EXPECT_FALSE(cuda::in_registers::takes_unpacked(call));
    call.a.format = Format::nvfp4;
    call.b.scales = reinterpret_cast<const std::uint8_t*>(2);
    EXPECT_FALSE(cuda::in_registers::takes_unpacked(call)) << "scales at an even address";
  }
}

}  // namespace
}  // namespace microscale::emulator
