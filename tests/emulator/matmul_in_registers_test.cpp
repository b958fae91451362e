// Products of many rows of a, as the kernels for Hopper compute them, on the emulator: every pair
// of formats, odd shapes, gates, experts, batches, every type of d, against sums in FP64.
#include "cuda/matmul/in_registers/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "cuda/device/kernel_images.hpp"
#include "cuda/matmul/matmul.hpp"
#include "support/executed_kernels.hpp"
#include "support/masked_products.hpp"

namespace microscale::emulator {
namespace {

constexpr Format formats[] = {Format::mxfp4, Format::nvfp4, Format::mxfp8_e4m3, Format::mxfp8_e5m2};

class MatmulInRegisters : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

TEST_F(MatmulInRegisters, takes_every_pair_of_block_formats_in_both_layouts_of_scales) {
  bool tiled = false;
  for (const Format a : formats)
    for (const Format b : formats) {
      SCOPED_TRACE(std::string(info(a).name) + " x " + std::string(info(b).name));
      tiled = !tiled;  // k: the last chunk is half full
      EXPECT_TRUE(
          is_right({.a = blocks(a, 21, 160, 3), .b = blocks(b, 41, 160), .m = 21, .tiled = tiled}));
    }
}

TEST_F(MatmulInRegisters, takes_dense_rows) {
  for (const Format b : formats)
    EXPECT_TRUE(is_right({.a = dense(DType::bf16, 18, 96), .b = blocks(b, 24, 96), .m = 18}))
        << info(b).name;
  const Product half{.a = dense(DType::f16, 18, 80), .b = blocks(Format::nvfp4, 24, 80), .m = 18};
  EXPECT_TRUE(is_right(half));
}

// Pairs of warps share the chunks of k; the last one may be alone, or half full.
TEST_F(MatmulInRegisters, gives_chunks_to_pairs_of_warps_where_rows_are_few) {
  for (const std::int64_t m : {9, 16})
    for (const std::int64_t k : {32, 64, 96, 160, 256, 320}) {
      const cuda::in_registers::Tiling plan =
          cuda::in_registers::tiling_of(300, k, false, m, 1, false, 576, false, 2);
      ASSERT_TRUE(plan.shape.by_warps());
      for (const Format b : formats)
        EXPECT_TRUE(is_right({.a = dense(DType::bf16, m, k), .b = blocks(b, 300, k), .m = m}))
            << m << ", " << k << ", " << info(b).name;
    }
}

// As they are, by 16-byte pieces, or in tiles first: the same bytes.
TEST_F(MatmulInRegisters, takes_dense_rows_that_begin_anywhere) {
  Product p{.a = dense(DType::bf16, 3 * 70, 736),
            .b = blocks(Format::mxfp8_e5m2, 3 * 140, 736),
            .m = 70,
            .matrices = 3,
            .d_type = DType::bf16};
  const Matrix d = computed(p);
  EXPECT_TRUE(near_exact(p, d));
  p.unaligned = true;
  EXPECT_EQ(computed(p).bytes, d.bytes);
  p.a = dense(DType::bf16, 200, 736), p.m = 200;
  p.offsets = {7, 60, 60, 199};
  EXPECT_TRUE(is_right(p));
  p.unaligned = false;
  EXPECT_TRUE(is_right(p));
}

// Every tile of in_registers::tile_shapes, several of them to a block, several chunks to the ring.
TEST_F(MatmulInRegisters, goes_from_tile_to_tile) {
  struct Shape {
    std::int64_t m, n, k, matrices;
    int rows, tokens;
  };
  for (const Shape s : {Shape{129, 1030, 448, 1, 128, 256},
                        {100, 1020, 448, 1, 256, 128},
                        {120, 123, 320, 5, 128, 128},
                        {60, 390, 1088, 3, 256, 64},
                        {60, 126, 1088, 5, 128, 64}}) {
    const cuda::in_registers::Tiling plan =
        cuda::in_registers::tiling_of(s.n, s.k, false, s.m, s.matrices, false, 544, false, 2);
    EXPECT_EQ(plan.shape.rows, s.rows) << s.m;
    EXPECT_EQ(plan.shape.tokens, s.tokens) << s.m;
    EXPECT_EQ(plan.cut.tiles, 0u) << s.m;
    EXPECT_TRUE(is_right({.a = dense(DType::bf16, s.m * s.matrices, s.k),
                          .b = blocks(Format::mxfp4, s.n * s.matrices, s.k),
                          .m = s.m,
                          .matrices = s.matrices,
                          .d_type = DType::bf16}))
        << s.m << " x " << s.n << " x " << s.k;
  }
}

TEST_F(MatmulInRegisters, multiplies_by_a_gate) {
  for (const bool gelu : {false, true})
    EXPECT_TRUE(is_right({.a = dense(DType::bf16, 70, 128),
                          .b = blocks(Format::mxfp8_e4m3, 77, 128, 5),
                          .m = 70,
                          .up = blocks(Format::mxfp8_e4m3, 77, 128, 6),
                          .gelu = gelu,
                          .d_type = gelu ? DType::bf16 : DType::f32,
                          .alpha = 0.0625f,
                          .bias = test::gaussian(DType::bf16, 1, 77, 7, 1.0f),
                          .up_bias = test::gaussian(DType::f32, 1, 77, 8, 1.0f)}));
  EXPECT_TRUE(is_right({.a = blocks(Format::nvfp4, 33, 64, 2),
                        .b = blocks(Format::nvfp4, 136, 64, 5),
                        .m = 33,
                        .up = blocks(Format::nvfp4, 136, 64, 6),
                        .d_type = DType::f16,
                        .a_globals = {0x1p-4f},
                        .b_globals = {0.001f},
                        .up_globals = {0.003f}}));
}

TEST_F(MatmulInRegisters, gives_each_expert_its_rows) {
  const std::vector<std::int64_t> offsets{3, 3, 8, 8, 138, 139, 156, 156};
  for (const bool wide : {false, true})
    EXPECT_TRUE(is_right({.a = blocks(Format::nvfp4, 160, 96, 3),
                          .b = blocks(Format::nvfp4, 7 * 50, 96),
                          .m = 160,
                          .matrices = 7,
                          .offsets = offsets,
                          .wide_offsets = wide,
                          .tiled = !wide,
                          .d_type = DType::bf16,
                          .alpha = 0.5f,
                          .bias = test::gaussian(DType::f16, 7, 50, 4, 1.0f),
                          .row_weights = std::vector<float>(160, 0.75f),
                          .a_globals = {1, 2, 3, 4, 5, 6, 7},
                          .b_globals = {7, 6, 5, 4, 3, 2, 1}}));
}

// Tiles of 256 x 32 and 256 x 64, whose four warpgroups have 64 rows of the weights each: the last
// tile has some for two of them alone.
TEST_F(MatmulInRegisters, gives_experts_of_few_rows_to_four_warpgroups) {
  for (const Format b : formats)
    for (const bool gated : {false, true}) {
      const bool few = gated == (b == Format::mxfp4);
      const std::vector<std::int64_t> offsets{0, 33, 33, 38, few ? 120 : 220, few ? 127 : 227};
      const std::int64_t m = offsets.back();
      const std::int64_t n = gated ? 171 : 342, k = 96;
      const int tile_bytes = b == Format::nvfp4 ? 576 : b == Format::mxfp4 ? 544 : 1056;
      const cuda::in_registers::Tiling plan =
          cuda::in_registers::tiling_of(n, k, gated, m, 5, true, tile_bytes, false, 2);
      EXPECT_EQ(plan.shape.rows, 256);
      EXPECT_EQ(plan.shape.tokens, few ? 32 : 64);
      Product p{.a = gated == (b == Format::nvfp4) ? blocks(b, m, k, 3) : dense(DType::bf16, m, k),
                .b = blocks(b, 5 * n, k),
                .m = m,
                .matrices = 5,
                .offsets = offsets,
                .d_type = DType::bf16,
                .bias = test::gaussian(DType::f32, 5, n, 4, 1.0f)};
      if (gated) p.up = blocks(b, 5 * n, k, 9);
      EXPECT_TRUE(is_right(p)) << info(b).name << gated;
    }
}

// 128 x 256: last tiles of 164, of 192 and of 193 rows of a, d in FP32, which goes the long way, or
// with no more than factors.
TEST_F(MatmulInRegisters, multiplies_no_more_than_a_last_tile_needs) {
  for (const Format b : formats)
    for (const std::int64_t m : {420, 448, 449}) {
      const int tile_bytes = b == Format::nvfp4 ? 576 : b == Format::mxfp4 ? 544 : 1056;
      const cuda::in_registers::Tiling plan =
          cuda::in_registers::tiling_of(300, 192, false, m, 2, false, tile_bytes, false, 2);
      EXPECT_EQ(plan.shape.rows, 128);
      EXPECT_EQ(plan.shape.tokens, 256);
      EXPECT_TRUE(is_right({.a = dense(DType::bf16, 2 * m, 192),
                            .b = blocks(b, 2 * 300, 192),
                            .m = m,
                            .matrices = 2,
                            .d_type = m == 420 ? DType::f32 : DType::bf16}))
          << info(b).name << ' ' << m;
    }
}

TEST_F(MatmulInRegisters, gives_each_expert_as_many_rows_as_its_count) {
  for (const bool wide : {false, true})
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{0, 45, 1, 0, 17}, {0, 0, 0, 0, 0}, {45, 45, 45, 45, 45}}) {
      Product p{.a = blocks(Format::nvfp4, 5 * 45 + 2, 96, 3),
                .b = blocks(Format::nvfp4, 5 * 50, 96),
                .m = 5 * 45 + 2,
                .matrices = 5,
                .counts = counts,
                .capacity = 45,
                .wide_offsets = wide,
                .tiled = !wide,
                .d_type = DType::bf16,
                .bias = test::gaussian(DType::f16, 5, 50, 4, 1.0f),
                .a_globals = {1, 2, 3, 4, 5},
                .b_globals = {7, 6, 5, 4, 3}};
      EXPECT_TRUE(same_by_offsets(p, computed));
      p.a = dense(DType::f16, 5 * 45 + 2, 96), p.tiled = false;  // read as it is
      EXPECT_TRUE(same_by_offsets(p, computed));
    }
}

// Tiles of one size, and of two, each of which is looked for by itself.
TEST_F(MatmulInRegisters, stays_within_its_memory_when_offsets_decrease) {
  struct Case {
    std::int64_t m, n;
    int sizes;
  };
  for (const auto& [m, n, sizes] : {Case{600, 16, 1}, {1200, 300, 2}}) {
    const cuda::in_registers::Tiling plan =
        cuda::in_registers::tiling_of(n, 64, false, m, 10, true, 576, false, 2);
    EXPECT_EQ(plan.shape.token_sizes(), sizes);
    expect_within_memory({.a = blocks(Format::nvfp4, m, 64, 3),
                          .b = blocks(Format::nvfp4, 10 * n, 64),
                          .m = m,
                          .matrices = 10,
                          .offsets = decreasing_offsets(m, 10),
                          .scales_of = most_tiles_offsets(m, 10),
                          .tiled = true},
                         computed);
  }
}

TEST_F(MatmulInRegisters, finds_its_experts_among_many) {
  std::vector<std::int64_t> offsets{0};
  for (int expert = 0; expert < 70; ++expert)
    offsets.push_back(offsets.back() + (expert % 9 == 4 ? 3 : 0));
  EXPECT_TRUE(is_right({.a = dense(DType::bf16, offsets.back(), 64),
                        .b = blocks(Format::mxfp4, 70 * 16, 64),
                        .m = offsets.back(),
                        .matrices = 70,
                        .offsets = offsets}));
  EXPECT_TRUE(is_right({.a = dense(DType::bf16, 5, 64),
                        .b = blocks(Format::mxfp4, 3 * 16, 64),
                        .m = 5,
                        .matrices = 3,
                        .offsets = {2, 2, 2, 2}}));  // nobody has a row
}

TEST_F(MatmulInRegisters, multiplies_batches) {
  for (const bool tiled : {false, true})
    EXPECT_TRUE(is_right({.a = blocks(Format::mxfp4, 3 * 19, 128, 3),
                          .b = blocks(Format::mxfp4, 3 * 33, 128),
                          .m = 19,
                          .matrices = 3,
                          .tiled = tiled,
                          .d_type = DType::f16,
                          .alpha = 0x1p-4f}));
}

TEST_F(MatmulInRegisters, stores_rows_that_begin_anywhere) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    EXPECT_TRUE(is_right({.a = dense(DType::bf16, 20, 64),
                          .b = blocks(Format::nvfp4, 56, 64),
                          .m = 20,
                          .d_type = type,
                          .d_more = 1}));
}

// Block scales at the ends of their range; a's keep the products finite.
TEST_F(MatmulInRegisters, is_exact_at_the_ends_of_the_scales) {
  for (const Format format : formats) {
    const bool e8m0 = info(format).e8m0_scale;
    for (const bool high : {false, true}) {
      const int low = !e8m0 ? (high ? 0x78 : 0) : high ? 240 : 10;
      const int end = !e8m0 ? (high ? 0x7E : 8) : high ? 244 : 16;
      Matrix a = test::gaussian(DType::bf16, 17, 64, 2, e8m0 ? (high ? 0x1p-100f : 0x1p100f) : 1);
      EXPECT_TRUE(
          is_right({.a = Side(std::move(a)),
                    .b = Side(test::random_blocks(format, 20, 64, Layout::row_major, 9, low, end)),
                    .m = 17}))
          << info(format).name << high;
    }
  }
  // Byte 0 is 2^-127, whose products with E2M1 are subnormals of BF16.
  EXPECT_TRUE(
      is_right({.a = Side(test::gaussian(DType::bf16, 17, 64, 2, 0x1p100f)),
                .b = Side(test::random_blocks(Format::mxfp4, 20, 64, Layout::row_major, 9, 0, 2)),
                .m = 17}));
}

// Up to which MXFP4 takes the short way, as long as none of a warp's is above.
TEST_F(MatmulInRegisters, is_exact_around_scales_of_one) {
  for (const int end : {127, 128, 130}) {
    BlockTensor b = test::random_blocks(Format::mxfp4, 300, 192, Layout::row_major, 9, 126, end);
    EXPECT_TRUE(is_right({.a = dense(DType::bf16, 17, 192), .b = Side(std::move(b)), .m = 17}));
  }
}

TEST_F(MatmulInRegisters, passes_nan_and_infinity_on) {
  for (const Format format : formats) {
    BlockTensor b = test::random_blocks(format, 24, 64);
    b.scales()[static_cast<std::size_t>(5 * b.shape().blocks_per_line() + 1)] =
        info(format).e8m0_scale ? 255 : 127;
    if (format == Format::mxfp8_e4m3) b.codes()[7 * 64 + 3] = 0xFF;
    if (format == Format::mxfp8_e5m2) b.codes()[7 * 64 + 3] = 0xFC;  // -infinity
    Matrix a = test::gaussian(DType::bf16, 20, 64, 2, 1.0f);
    a.set(3, 9, std::numeric_limits<float>::infinity());
    a.set(4, 9, std::numeric_limits<float>::quiet_NaN());
    Product p{.a = Side(std::move(a)), .b = Side(std::move(b)), .m = 20};
    EXPECT_TRUE(is_right(p)) << info(format).name;
    BlockTensor scaled = test::random_blocks(format, 20, 64, Layout::row_major, 3);
    scaled.scales()[0] = info(format).e8m0_scale ? 255 : 127;
    p.a = Side(std::move(scaled));
    EXPECT_TRUE(is_right(p)) << info(format).name;
  }
}

TEST_F(MatmulInRegisters, gives_the_same_bytes_in_any_order_of_warps_and_copies) {
  expect_right_in_any_order({.a = dense(DType::bf16, 140, 320),
                             .b = blocks(Format::nvfp4, 300, 320),
                             .m = 140,
                             .d_type = DType::bf16});
}

// A row is the same bytes in a tile of 128 rows of a and in one of 64.
TEST_F(MatmulInRegisters, gives_a_row_the_same_bytes_in_any_tile) {
  Product p{.a = dense(DType::bf16, 300, 192), .b = blocks(Format::mxfp4, 530, 192), .m = 300};
  const Matrix all = computed(p);
  Matrix first(DType::bf16, 17, 192);
  std::memcpy(first.bytes.data(), p.a.dense->bytes.data(), first.bytes.size());
  p.a = Side(std::move(first)), p.m = 17;
  const Matrix few = computed(p);
  EXPECT_EQ(std::memcmp(few.bytes.data(), all.bytes.data(), few.bytes.size()), 0);
}

// Whole tiles of every shape, one of them not full, by every kind of weights.
TEST_F(MatmulInRegisters, executes_every_kernel) {
  using enum Format;
  const std::int64_t k = 128;
  for (const auto shape : cuda::in_registers::tile_shapes) {
    const std::int64_t m = shape.tokens - 1, n = shape.rows - 3;
    std::vector<Product> all{{.a = dense(DType::f16, m, k), .b = blocks(nvfp4, n, k), .m = m}};
    for (const Format format : {mxfp4, mxfp8_e4m3, mxfp8_e5m2, nvfp4, nvfp4})
      all.push_back({.a = blocks(format, m, k, 3), .b = blocks(format, n, k), .m = m});
    all.back().unpacked = true;
    for (const Product& p : all) {
      Buffers memory;
      cuda::Product call = operands_of(p, memory);
      Matrix d = untouched_rows(p);
      call.output = output_of(p, memory, d);
      cuda::in_registers::Plan plan = cuda::in_registers::plan_of(device().info(), call);
      plan.cut = {.shape = shape,
                  .cut = {},
                  .cut_by_kernel = false,
                  .most_tiles = 1,
                  .blocks = 1,
                  .cycles = 0};
      auto* const workspace =
          static_cast<std::uint8_t*>(memory.raw(static_cast<std::size_t>(plan.token_bytes + 256)));
      cuda::in_registers::run(device(), plan, call, workspace, nullptr);
      device().copy_to_host(d.bytes.data(), call.output.d,
                            static_cast<std::int64_t>(d.bytes.size()), nullptr);
      EXPECT_TRUE(near_exact(p, d))
          << std::string_view(cuda::in_registers::kernel_of(plan, call).name);
    }
  }
  EXPECT_TRUE(executed_all(device(), "sm_90a", {"matmul_in_registers_"}));
}

}  // namespace
}  // namespace microscale::emulator
