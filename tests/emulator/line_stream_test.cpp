// Products of one row of a with plain 4-bit weights, as the kernels for Hopper stream them, on the
// emulator: odd shapes, batches, every kind of a, against sums in FP64.
#include "cuda/line_stream.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "cuda/kernel_images.hpp"
#include "cuda/matmul_rows.hpp"
#include "support/wide_products.hpp"

namespace microscale::emulator {
namespace {

Side blocks(Format format, std::int64_t rows, std::int64_t cols, unsigned seed = 1) {
  return Side(test::random_blocks(format, rows, cols, Layout::row_major, seed));
}
Side dense(DType type, std::int64_t rows, std::int64_t cols, unsigned seed = 1) {
  return Side(test::gaussian(type, rows, cols, seed, 1.0f));
}
constexpr Format formats[] = {Format::mxfp4, Format::nvfp4};

/// What was computed, and how it was cut; no plan: not by these kernels.
struct Computed {
  Matrix d;
  std::optional<cuda::LinePlan> plan;
};

/// By the library's own way from few rows to these kernels, without a workspace; or just the plan.
Computed computed_lines(const Product& p, bool run = true) {
  Buffers memory;
  MatmulInput a;
  if (p.a.dense) {
    std::vector<std::uint8_t> bytes(p.unaligned ? 2 : 0);
    bytes.insert(bytes.end(), p.a.dense->bytes.begin(), p.a.dense->bytes.end());
    a = TensorView{memory.put(bytes) + bytes.size() - p.a.dense->bytes.size(), p.a.dense->dtype,
                   p.m, p.k(), p.k()};
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
  weights.scales = {memory.put(weights.scales), weights.scales.size()};
  const MatmulWeights b = weights;
  Matrix d = untouched_rows(p);
  const MatmulOutput unused = MutableTensorView{};
  MatmulCall call{.a = a, .b = b, .d = unused};
  call.matrices = p.matrices;
  call.gated = p.up.has_value();
  const cuda::ProductRows rows = rows_of(p, memory);
  const auto plan = cuda::line_plan(device(), call, rows);
  if (!plan || !run) return {std::move(d), plan};
  const cuda::ProductOutput output = output_of(p, memory, d);
  cuda::matmul_rows(device(), call, rows, output, nullptr, nullptr);
  device().copy_to_host(d.bytes.data(), output.d, static_cast<std::int64_t>(d.bytes.size()),
                        nullptr);
  return {std::move(d), plan};
}

/// docs/matmul.md.
Product bounded(Product p) {
  p.roundings = 17 * std::ceil(static_cast<double>(p.k()) / 128) + 160;
  return p;
}
::testing::AssertionResult is_near(const Product& p) {
  const Computed got = computed_lines(p);
  if (!got.plan) return ::testing::AssertionFailure() << "not streamed";
  return near_exact(bounded(p), got.d);
}

class LineStream : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
  void TearDown() override { device().set(2); }
};

TEST_F(LineStream, takes_every_kind_of_row) {
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
}

// Rings go around, blocks have several row tiles and parts of several matrices.
TEST_F(LineStream, multiplies_batches) {
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

TEST_F(LineStream, adds_a_bias_and_stores_every_type) {
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

// With two multiprocessors, the row tile in the middle is in two parts, where that saves a round.
TEST_F(LineStream, halves_row_tiles_along_k) {
  for (const std::int64_t n : {5, 33, 48, 64}) {
    Product p{.a = blocks(Format::nvfp4, 1, 6400, 3), .b = blocks(Format::nvfp4, n, 6400), .m = 1};
    const Computed got = computed_lines(p);
    ASSERT_TRUE(got.plan);
    EXPECT_EQ(got.plan->cluster, n == 64 ? 1 : 2) << n;
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
TEST_F(LineStream, takes_long_rows) {
  for (const bool codes : {false, true}) {
    const std::int64_t k = 18432;
    EXPECT_TRUE(is_near({.a = codes ? blocks(Format::nvfp4, 1, k, 3) : dense(DType::bf16, 1, k),
                         .b = blocks(Format::nvfp4, 20, k),
                         .m = 1}));
  }
}

TEST_F(LineStream, leaves_other_products_to_others) {
  const auto streamed = [](const Product& p) { return computed_lines(p, false).plan.has_value(); };
  Product p{.a = dense(DType::bf16, 1, 512), .b = blocks(Format::mxfp4, 16, 512), .m = 1};
  EXPECT_TRUE(streamed(p));
  p.unaligned = true;
  EXPECT_FALSE(streamed(p));
  p.unaligned = false, p.up = p.b;
  EXPECT_FALSE(streamed(p));
  EXPECT_FALSE(
      streamed({.a = dense(DType::bf16, 1, 256), .b = blocks(Format::mxfp4, 16, 256), .m = 1}));
  EXPECT_FALSE(
      streamed({.a = dense(DType::bf16, 1, 272), .b = blocks(Format::nvfp4, 16, 272), .m = 1}));
  EXPECT_FALSE(
      streamed({.a = dense(DType::bf16, 2, 512), .b = blocks(Format::mxfp4, 16, 512), .m = 2}));
  EXPECT_FALSE(streamed(
      {.a = dense(DType::bf16, 1, 512), .b = blocks(Format::mxfp8_e4m3, 16, 512), .m = 1}));
  EXPECT_FALSE(streamed(
      {.a = blocks(Format::mxfp8_e4m3, 1, 512), .b = blocks(Format::mxfp4, 16, 512), .m = 1}));
}

}  // namespace
}  // namespace microscale::emulator
