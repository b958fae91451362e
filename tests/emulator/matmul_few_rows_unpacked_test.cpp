// Products of one row of a with 4-bit weights that are not packed, as Hopper's kernel for few rows
// computes them, on the emulator: odd shapes, batches, every kind of a, against sums in FP64.
#include "cuda/matmul/few_rows/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "cuda/device/kernel_images.hpp"
#include "support/executed_kernels.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {
namespace {

constexpr Format formats[] = {Format::mxfp4, Format::nvfp4};

/// What was computed, and how it was cut.
struct Computed {
  Matrix d;
  cuda::few_rows::UnpackedPlan plan;
};

/// Of the weights, those of each matrix by themselves.
std::vector<std::uint8_t> tiled_weight_scales(const Product& p) {
  return tiled_scales({.a = p.b, .b = p.b, .m = p.n(), .matrices = p.matrices});
}

Computed by_few_rows(const Product& p, bool tiled_b = false) {
  Buffers memory;
  MatmulInput a;
  if (p.a.dense) {
    a = TensorView{memory.put(p.a.dense->bytes), p.a.dense->dtype, p.m, p.k(), p.k()};
  } else {
    BlockTensorView view = p.a.blocks->view();
    view.shape.rows = p.m;
    const std::vector<std::uint8_t> tiled = p.tiled ? tiled_scales(p) : std::vector<std::uint8_t>{};
    if (p.tiled) view.shape.layout = Layout::tiled_128x4;
    view.codes = {memory.put(view.codes), view.codes.size()};
    view.scales = p.tiled
                      ? std::span<const std::uint8_t>(memory.put(tiled), tiled.size())
                      : std::span<const std::uint8_t>(memory.put(view.scales), view.scales.size());
    a = view;
  }
  BlockTensorView weights = p.b.blocks->view();
  weights.shape.rows = p.n();
  weights.codes = {memory.put(weights.codes), weights.codes.size()};
  const std::vector<std::uint8_t> tiles =
      tiled_b ? tiled_weight_scales(p) : std::vector<std::uint8_t>{};
  weights.scales =
      tiled_b ? std::span<const std::uint8_t>(memory.put(tiles), tiles.size())
              : std::span<const std::uint8_t>(memory.put(weights.scales), weights.scales.size());
  if (tiled_b) weights.shape.layout = Layout::tiled_128x4;
  const MatmulWeights b = weights;
  Matrix d = untouched_rows(p);
  const MatmulOutput unused = MutableTensorView{};
  MatmulCall call{.a = a, .b = b, .d = unused};
  call.matrices = p.matrices;
  call.constant_weights = p.constant;
  cuda::Product product = cuda::product_of(call);
  product.grouped = p.experts();
  product.rows = rows_of(p, memory);
  product.output = output_of(p, memory, d);
  const auto plan = cuda::few_rows::choose(cuda::DeviceFacts(device()), product);
  if (!plan) throw std::runtime_error("few_rows takes it not");
  cuda::few_rows::run(device(), *plan, product, nullptr);
  device().copy_to_host(d.bytes.data(), product.output.d, static_cast<std::int64_t>(d.bytes.size()),
                        nullptr);
  return {std::move(d), std::get<cuda::few_rows::UnpackedPlan>(*plan)};
}

/// docs/matmul.md.
Product bounded(Product p) {
  p.roundings = 17 * std::ceil(static_cast<double>(p.k()) / 128) + 160;
  return p;
}
::testing::AssertionResult is_near(const Product& p, bool tiled_b = false) {
  return near_exact(bounded(p), by_few_rows(p, tiled_b).d);
}

class MatmulFewRowsUnpacked : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
  void TearDown() override { device().set(2); }
};

TEST_F(MatmulFewRowsUnpacked, takes_every_kind_of_row) {
  for (const Format b : formats)
    for (const std::int64_t k : {512, 2560, 4608}) {  // the last stage is a quarter full
      SCOPED_TRACE(std::string(info(b).name) + ", k " + std::to_string(k));
      const Side weights = blocks(b, 37, k, 5);
      EXPECT_TRUE(is_near({.a = dense(DType::bf16, 1, k), .b = weights, .m = 1}));
      EXPECT_TRUE(is_near({.a = dense(DType::f16, 1, k), .b = weights, .m = 1}));
      for (const Format a : formats)
        for (const bool tiled : {false, true})
          EXPECT_TRUE(is_near({.a = blocks(a, 1, k, 3), .b = weights, .m = 1, .tiled = tiled}));
    }
  for (const std::int64_t k : {256, 2304})
    EXPECT_TRUE(
        is_near({.a = blocks(Format::nvfp4, 1, k, 3), .b = blocks(Format::nvfp4, 24, k), .m = 1}));
  EXPECT_TRUE(executed_all(device(), "sm_90a",
                           {"matmul_few_rows_mxfp4_unpacked_", "matmul_few_rows_nvfp4_unpacked_"}));
}

// Rings go around, blocks have several row tiles and parts of several matrices.
TEST_F(MatmulFewRowsUnpacked, multiplies_batches) {
  for (const int multiprocessors : {1, 3})
    for (const std::int64_t n : {7, 70}) {
      device().set(multiprocessors);
      Product p{.a = blocks(Format::nvfp4, 5, 1280, 3),
                .b = blocks(Format::nvfp4, 5 * n, 1280),
                .m = 1,
                .matrices = 5,
                .tiled = n == 7,
                .d_type = DType::bf16,
                .alpha = 0x1p-4f,
                .a_globals = {1, 2, 3, 4, 5},
                .b_globals = {5, 4, 3, 2, 1}};
      EXPECT_TRUE(is_near(p)) << n;
      p.a = dense(DType::bf16, 5, 1280), p.tiled = false, p.a_globals = {};
      EXPECT_TRUE(is_near(p)) << n;
    }
}

// Weights that nobody writes are asked for before the grid in front has ended; no byte differs.
TEST_F(MatmulFewRowsUnpacked, asks_early_for_constant_weights) {
  for (const std::int64_t k : {1280, 6400}) {  // by a block, by two
    Product p{.a = blocks(Format::nvfp4, 1, k, 3), .b = blocks(Format::nvfp4, 33, k), .m = 1};
    const Matrix d = by_few_rows(p).d;
    p.constant = true;
    EXPECT_EQ(by_few_rows(p).d.bytes, d.bytes);
    const LaunchOptions before = device().options;
    for (const auto& [schedule, completion] : {std::pair{Schedule::reverse, Completion::eager},
                                               {Schedule::random, Completion::random}}) {
      device().options.schedule = schedule;
      device().options.completion = completion;
      EXPECT_EQ(by_few_rows(p).d.bytes, d.bytes) << k;
    }
    device().options = before;
  }
}

TEST_F(MatmulFewRowsUnpacked, takes_scales_in_tiles) {
  for (const Format b : formats)
    for (const std::int64_t k : {512, 2560}) {
      Product p{.a = blocks(Format::nvfp4, 3, k, 3), .b = blocks(b, 3 * 128, k), .m = 1};
      p.matrices = 3;
      EXPECT_TRUE(is_near(p, true)) << info(b).name << ", " << k;
    }
}

TEST_F(MatmulFewRowsUnpacked, adds_a_bias_and_stores_every_type) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    EXPECT_TRUE(is_near({.a = blocks(Format::mxfp4, 2, 1024, 3),
                         .b = blocks(Format::mxfp4, 2 * 41, 1024),
                         .m = 1,
                         .matrices = 2,
                         .d_type = type,
                         .d_more = 3,
                         .alpha = 0.5f,
                         .bias = test::gaussian(DType::bf16, 2, 41, 4, 1.0f)}));
}

// More row tiles than have their bias in shared memory at once, in two matrices.
TEST_F(MatmulFewRowsUnpacked, adds_a_bias_to_many_row_tiles) {
  device().set(1);
  for (const DType type : {DType::f32, DType::f16})
    EXPECT_TRUE(is_near({.a = blocks(Format::nvfp4, 2, 256, 3),
                         .b = blocks(Format::nvfp4, 2 * 635, 256),
                         .m = 1,
                         .matrices = 2,
                         .bias = test::gaussian(type, 2, 635, 4, 100.0f)}));
}

// With two multiprocessors, the row tile in the middle is in two parts, where that saves a round.
TEST_F(MatmulFewRowsUnpacked, halves_row_tiles_along_k) {
  for (const std::int64_t n : {5, 33, 48, 64}) {
    Product p{.a = blocks(Format::nvfp4, 1, 6400, 3), .b = blocks(Format::nvfp4, n, 6400), .m = 1};
    const Computed got = by_few_rows(p);
    EXPECT_EQ(got.plan.cluster, n == 64 ? 1 : 2) << n;
    EXPECT_TRUE(near_exact(bounded(p), got.d)) << n;
    p.a = dense(DType::bf16, 1, 6400);
    EXPECT_TRUE(is_near(p)) << n;
  }
  device().set(4);
  EXPECT_TRUE(is_near({.a = dense(DType::bf16, 7, 5120),
                       .b = blocks(Format::mxfp4, 7 * 21, 5120),
                       .m = 1,
                       .matrices = 7,
                       .d_type = DType::bf16}));
}

// More stages than a warp finds elements of a for at once.
TEST_F(MatmulFewRowsUnpacked, takes_long_rows) {
  for (const bool codes : {false, true}) {
    const std::int64_t k = 18432;
    EXPECT_TRUE(is_near({.a = codes ? blocks(Format::nvfp4, 1, k, 3) : dense(DType::bf16, 1, k),
                         .b = blocks(Format::nvfp4, 20, k),
                         .m = 1}));
  }
}

// 448 by 448 as scales of both sides, 6 by 6 as codes; the smallest scales; NaN as a scale of
// either side, which reaches the elements that it is part of and no others.
TEST_F(MatmulFewRowsUnpacked, takes_scales_at_both_ends_and_nan) {
  const auto filled = [](Format format, std::int64_t rows, int code, int scale) {
    BlockTensor b(BlockShape{rows, 2560, format});
    std::fill(b.codes().begin(), b.codes().end(), static_cast<std::uint8_t>(code * 17));
    std::fill(b.scales().begin(), b.scales().end(), static_cast<std::uint8_t>(scale));
    return b;
  };
  for (const auto& [format, largest, smallest, nan] :
       {std::tuple{Format::nvfp4, 0x7E, 1, 0x7F}, {Format::mxfp4, 180, 70, 0xFF}})
    for (const int scale : {largest, smallest})
      for (const int code : {7, 15, 1}) {
        BlockTensor b = filled(format, 20, code, scale);
        EXPECT_TRUE(is_near({.a = Side(filled(format, 1, 7, scale)), .b = Side(b), .m = 1}));
        b.scales()[3 * static_cast<std::size_t>(b.shape().blocks_per_line()) + 77] =
            static_cast<std::uint8_t>(nan);
        BlockTensor a = filled(format, 1, 7, scale);
        const Product p{.a = Side(a), .b = Side(b), .m = 1};
        const Matrix d = by_few_rows(p).d;
        for (std::int64_t i = 0; i < 20; ++i) EXPECT_EQ(std::isnan(d.at(0, i)), i == 3) << i;
        a.scales()[5] = static_cast<std::uint8_t>(nan);
        EXPECT_TRUE(is_near({.a = Side(a), .b = Side(b), .m = 1}));
      }
  for (const DType type : {DType::bf16, DType::f16}) {
    Product p{.a = dense(type, 1, 512), .b = blocks(Format::nvfp4, 20, 512), .m = 1};
    Matrix a = *p.a.dense;
    a.set(0, 300, std::numeric_limits<float>::quiet_NaN());
    p.a = Side(a);
    EXPECT_TRUE(is_near(p));
  }
}

// BF16 further apart than FP16 reaches; a row of zeros.
TEST_F(MatmulFewRowsUnpacked, takes_wide_ranges_of_bf16) {
  for (const float scale : {0x1p-60f, 0x1p60f, 0.0f}) {
    Matrix a = test::gaussian(DType::bf16, 1, 2560, 3, scale == 0 ? 1.0f : scale);
    if (scale == 0)
      for (std::int64_t i = 0; i < a.cols; ++i) a.set(0, i, 0.0f);
    EXPECT_TRUE(is_near({.a = Side(a), .b = blocks(Format::mxfp4, 20, 2560), .m = 1})) << scale;
  }
}

}  // namespace
}  // namespace microscale::emulator
