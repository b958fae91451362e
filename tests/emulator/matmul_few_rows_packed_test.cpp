// Products of few rows of a with packed weights, as Hopper's kernel for few rows computes them, on
// the emulator: odd shapes, every size of a cluster, gates, experts, batches, against sums in FP64.
#include "cuda/matmul/few_rows/plan.hpp"

#include <gtest/gtest.h>

#include <limits>

#include "cuda/device/kernel_images.hpp"
#include "support/executed_kernels.hpp"
#include "support/masked_products.hpp"

namespace microscale::emulator {
namespace {

constexpr Format formats[] = {Format::mxfp4, Format::nvfp4};

/// What was computed, and how it was cut.
struct Computed {
  Matrix d;
  cuda::few_rows::PackedPlan plan;
};

Computed by_few_rows(const Product& p) {
  Buffers memory;
  MatmulInput a;
  if (p.a.dense) {
    std::vector<std::uint8_t> bytes(p.unaligned ? 2 : 0);
    bytes.insert(bytes.end(), p.a.dense->bytes.begin(), p.a.dense->bytes.end());
    a = TensorView{memory.put(bytes) + bytes.size() - p.a.dense->bytes.size(), p.a.dense->dtype,
                   p.m, p.k(), p.k()};
  } else {
    BlockTensorView view = p.a.blocks->view();
    const std::vector<std::uint8_t> tiled = p.tiled ? tiled_scales(p) : std::vector<std::uint8_t>{};
    if (p.tiled) view.shape.layout = Layout::tiled_128x4;
    view.codes = {memory.put(view.codes), view.codes.size()};
    view.scales = p.tiled
                      ? std::span<const std::uint8_t>(memory.put(tiled), tiled.size())
                      : std::span<const std::uint8_t>(memory.put(view.scales), view.scales.size());
    a = view;
  }
  const std::vector<std::uint8_t> tiles =
      test::packed_tiles(*p.b.blocks, p.matrices, p.up ? &*p.up->blocks : nullptr);
  PackedWeights weights;
  weights.shape = p.b.blocks->shape();
  weights.shape.rows = p.n();
  weights.bytes = {memory.put(tiles), tiles.size()};
  const MatmulWeights b = weights;
  Matrix d = untouched_rows(p);
  const MatmulOutput unused = MutableTensorView{};
  MatmulCall call{.a = a, .b = b, .d = unused};
  call.gated = p.up.has_value();
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
  return {std::move(d), std::get<cuda::few_rows::PackedPlan>(*plan)};
}

/// docs/matmul.md.
Product bounded(Product p) {
  p.roundings = 22 * std::ceil(static_cast<double>(p.k()) / 128) + 160;
  return p;
}
::testing::AssertionResult is_near(const Product& p) {
  return near_exact(bounded(p), by_few_rows(p).d);
}

class MatmulFewRowsPacked : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
  void TearDown() override { device().set(2); }
};

TEST_F(MatmulFewRowsPacked, takes_every_kind_of_rows) {
  for (const Format b : formats)
    for (const std::int64_t m : {1, 3, 8, 9, 16}) {
      const std::int64_t k = 32 * (m + 4);  // for odd m, the last chunk is half full
      SCOPED_TRACE(std::string(info(b).name) + ", " + std::to_string(m));
      const Side weights = blocks(b, 37, k, 5);
      if (m <= 8 || b == Format::mxfp4) {
        EXPECT_TRUE(is_near({.a = dense(DType::f16, m, k), .b = weights, .m = m}));
      }
      if (m > 8) continue;  // cuda/matmul/in_registers takes these
      EXPECT_TRUE(is_near({.a = dense(DType::bf16, m, k), .b = weights, .m = m}));
      for (const bool tiled : {false, true})
        EXPECT_TRUE(
            is_near({.a = blocks(Format::nvfp4, m, k, 3), .b = weights, .m = m, .tiled = tiled}));
    }
  EXPECT_TRUE(
      is_near({.a = blocks(Format::nvfp4, 5, 80, 3), .b = blocks(Format::nvfp4, 24, 80), .m = 5}));
  EXPECT_TRUE(executed_all(device(), "sm_90a",
                           {"matmul_few_rows_mxfp4_packed_", "matmul_few_rows_nvfp4_packed_"}));
}

// Blocks that share k, warps that share it, sums added up once and several times; rings go around.
TEST_F(MatmulFewRowsPacked, cuts_products_by_their_shape) {
  struct Shape {
    std::int64_t m, n, k;
    int multiprocessors, cluster, warps, rounds;
  };
  for (const Shape s : {Shape{1, 640, 192, 1, 1, 4, 4},
                        {9, 80, 2048, 1, 1, 8, 2},
                        {1, 80, 8224, 1, 1, 16, 4},
                        {1, 16, 992, 2, 2, 4, 4},
                        {12, 144, 8192, 2, 2, 8, 2},
                        {16, 272, 8192, 2, 2, 4, 1},
                        {16, 144, 8192, 4, 4, 4, 2},
                        {8, 16, 4096, 8, 8, 4, 4}}) {
    device().set(s.multiprocessors);
    for (const Format b : formats) {
      if (s.m > 8 && b != Format::mxfp4) continue;
      SCOPED_TRACE(std::string(info(b).name) + ", n " + std::to_string(s.n));
      const DType type = s.m > 8 ? DType::f16 : DType::bf16;
      const Product p{.a = dense(type, s.m, s.k), .b = blocks(b, s.n, s.k), .m = s.m};
      const Computed got = by_few_rows(p);
      EXPECT_EQ(1 << got.plan.cut.cluster_shift, s.cluster);
      EXPECT_EQ(1 << got.plan.cut.k_shift, s.warps);
      EXPECT_EQ(1 << got.plan.cut.rounds_shift, s.rounds);
      EXPECT_TRUE(near_exact(bounded(p), got.d));
    }
  }
}

// 3 chunks of k for 4 warps: one has none, whichever way a comes.
TEST_F(MatmulFewRowsPacked, has_warps_without_a_part_of_k) {
  device().set(4);
  for (Side a :
       {dense(DType::bf16, 3, 192), dense(DType::f16, 3, 192), blocks(Format::nvfp4, 3, 192)})
    for (const Format b : formats) {
      const Product p{.a = a, .b = blocks(b, 16, 192), .m = 3};
      const Computed got = by_few_rows(p);
      EXPECT_EQ(got.plan.cut.k_shift, 2);
      EXPECT_TRUE(near_exact(bounded(p), got.d));
    }
}

TEST_F(MatmulFewRowsPacked, multiplies_batches) {
  const auto product = [](Side a, std::int64_t m, bool tiled = false) {
    return Product{.a = std::move(a),
                   .b = blocks(Format::mxfp4, 3 * 33, 224),
                   .m = m,
                   .matrices = 3,
                   .tiled = tiled,
                   .d_type = DType::f16,
                   .alpha = 0x1p-4f};
  };
  for (const bool tiled : {false, true})
    EXPECT_TRUE(is_near(product(blocks(Format::nvfp4, 3 * 5, 224, 3), 5, tiled)));
  EXPECT_TRUE(is_near(product(dense(DType::bf16, 3 * 5, 224), 5)));
  for (const std::int64_t m : {5, 11, 35})  // the last in three turns
    EXPECT_TRUE(is_near(product(dense(DType::f16, 3 * m, 224), m))) << m;
}

// The sums of five matrices, one after the other, go to two buffers in turn.
TEST_F(MatmulFewRowsPacked, adds_up_the_sums_of_a_cluster_matrix_by_matrix) {
  device().set(2);
  const Product p{.a = dense(DType::f16, 5 * 16, 8192, 3),
                  .b = blocks(Format::mxfp4, 5 * 16, 8192),
                  .m = 16,
                  .matrices = 5};
  const Computed got = by_few_rows(p);
  EXPECT_EQ(got.plan.cut.cluster_shift, 1);
  EXPECT_TRUE(near_exact(bounded(p), got.d));
}

TEST_F(MatmulFewRowsPacked, gives_each_expert_its_rows) {
  const std::vector<std::int64_t> offsets{3, 3, 8, 8, 29, 30, 37, 37};
  for (const bool wide : {false, true})
    for (const int multiprocessors : {2, 8}) {
      device().set(multiprocessors);
      Product p{.a = blocks(Format::nvfp4, 41, 96, 3),
                .b = blocks(Format::nvfp4, 7 * 50, 96),
                .m = 41,
                .matrices = 7,
                .offsets = offsets,
                .wide_offsets = wide,
                .tiled = !wide,
                .d_type = DType::bf16,
                .alpha = 0.5f,
                .bias = test::gaussian(DType::f16, 7, 50, 4, 1.0f),
                .row_weights = std::vector<float>(41, 0.75f),
                .a_globals = {1, 2, 3, 4, 5, 6, 7},
                .b_globals = {7, 6, 5, 4, 3, 2, 1}};
      EXPECT_TRUE(is_near(p));
      p.a = dense(DType::bf16, 41, 96), p.b = blocks(Format::mxfp4, 7 * 50, 96);
      p.a_globals = p.b_globals = {}, p.tiled = false;
      EXPECT_TRUE(is_near(p));
    }
}

TEST_F(MatmulFewRowsPacked, gives_each_expert_as_many_rows_as_its_count) {
  for (const bool wide : {false, true}) {
    Product p{.a = blocks(Format::nvfp4, 5 * 7 + 2, 96, 3),
              .b = blocks(Format::nvfp4, 5 * 50, 96),
              .m = 5 * 7 + 2,
              .matrices = 5,
              .counts = {0, 7, 1, 0, 5},
              .capacity = 7,
              .wide_offsets = wide,
              .tiled = !wide,
              .d_type = DType::bf16,
              .bias = test::gaussian(DType::f16, 5, 50, 4, 1.0f),
              .a_globals = {1, 2, 3, 4, 5},
              .b_globals = {7, 6, 5, 4, 3}};
    for (int row = 0; row < 5 * 7 + 2; ++row)
      p.row_weights.push_back(0.25f + static_cast<float>(row));
    const auto compute = [](const Product& q) { return by_few_rows(bounded(q)).d; };
    EXPECT_TRUE(same_by_offsets(bounded(p), compute));
    p.a = dense(DType::bf16, 5 * 7 + 2, 96), p.tiled = false;
    for (const std::vector<std::int64_t>& counts :
         {std::vector<std::int64_t>{0, 0, 0, 0, 0}, {7, 7, 7, 7, 7}}) {
      p.counts = counts;
      EXPECT_TRUE(same_by_offsets(bounded(p), compute));
    }
  }
}

TEST_F(MatmulFewRowsPacked, takes_counts_beyond_the_capacity_for_it) {
  Product p{.a = blocks(Format::nvfp4, 3 * 7, 64, 3),
            .b = blocks(Format::nvfp4, 3 * 16, 64),
            .m = 3 * 7,
            .matrices = 3,
            .counts = {7, 0, 7},
            .capacity = 7};
  const Matrix wanted = by_few_rows(p).d;
  p.counts = {8, -1, 1 << 30};
  EXPECT_EQ(by_few_rows(p).d.bytes, wanted.bytes);
}

TEST_F(MatmulFewRowsPacked, stays_within_its_memory_when_offsets_decrease) {
  Product p{.a = blocks(Format::nvfp4, 320, 64, 3),
            .b = blocks(Format::nvfp4, 40 * 16, 64),
            .m = 320,
            .matrices = 40,
            .offsets = decreasing_offsets(320, 40),
            .scales_of = most_tiles_offsets(320, 40),
            .tiled = true};
  expect_within_memory(p, by_few_rows);
}

TEST_F(MatmulFewRowsPacked, finds_its_experts_among_many) {
  std::vector<std::int64_t> offsets{0};
  for (int expert = 0; expert < 70; ++expert)
    offsets.push_back(offsets.back() + (expert % 9 == 4 ? 3 : 0));
  EXPECT_TRUE(is_near({.a = blocks(Format::nvfp4, offsets.back(), 64, 3),
                       .b = blocks(Format::mxfp4, 70 * 16, 64),
                       .m = offsets.back(),
                       .matrices = 70,
                       .offsets = offsets,
                       .tiled = true}));
  EXPECT_TRUE(is_near({.a = dense(DType::bf16, 5, 64),
                       .b = blocks(Format::mxfp4, 3 * 16, 64),
                       .m = 5,
                       .matrices = 3,
                       .offsets = {2, 2, 2, 2}}));  // nobody has a row
}

TEST_F(MatmulFewRowsPacked, multiplies_by_a_gate) {
  for (const bool gelu : {false, true})
    EXPECT_TRUE(is_near({.a = dense(DType::bf16, 7, 352),
                         .b = blocks(Format::mxfp4, 77, 352, 5),
                         .m = 7,
                         .up = blocks(Format::mxfp4, 77, 352, 6),
                         .gelu = gelu,
                         .d_type = gelu ? DType::bf16 : DType::f32,
                         .alpha = 0.0625f,
                         .bias = test::gaussian(DType::bf16, 1, 77, 7, 1.0f),
                         .up_bias = test::gaussian(DType::f32, 1, 77, 8, 1.0f)}));
  EXPECT_TRUE(is_near({.a = dense(DType::f16, 13, 352),
                       .b = blocks(Format::mxfp4, 77, 352, 5),
                       .m = 13,
                       .up = blocks(Format::mxfp4, 77, 352, 6),
                       .alpha = 0.0625f}));
  EXPECT_TRUE(is_near({.a = blocks(Format::nvfp4, 2 * 8, 320, 2),
                       .b = blocks(Format::nvfp4, 2 * 36, 320, 5),
                       .m = 8,
                       .matrices = 2,
                       .up = blocks(Format::nvfp4, 2 * 36, 320, 6),
                       .d_type = DType::f16,
                       .a_globals = {0x1p-4f},
                       .b_globals = {0.001f},
                       .up_globals = {0.003f}}));
}

TEST_F(MatmulFewRowsPacked, reads_and_stores_rows_that_begin_anywhere) {
  for (const DType type : {DType::f32, DType::f16, DType::bf16})
    for (const DType a : {DType::f16, DType::bf16})
      EXPECT_TRUE(is_near({.a = dense(a, 6, 160),
                           .b = blocks(Format::nvfp4, 56, 160),
                           .m = 6,
                           .unaligned = true,
                           .d_type = type,
                           .d_more = 1}));
}

// Block scales at the ends of their range; a's keep the products finite. E8M0's 0 is 2^-127.
TEST_F(MatmulFewRowsPacked, is_exact_at_the_ends_of_the_scales) {
  struct Ends {
    Format format;
    int low, high;
    float a;
  };
  for (const Ends e : {Ends{Format::nvfp4, 0, 8, 1},
                       {Format::nvfp4, 0x78, 0x7E, 1},
                       {Format::mxfp4, 0, 2, 0x1p100f},
                       {Format::mxfp4, 240, 244, 0x1p-100f}})
    for (const std::int64_t m : {2, 8})
      EXPECT_TRUE(is_near(
          {.a = Side(test::gaussian(DType::bf16, m, 192, 2, e.a)),
           .b = Side(test::random_blocks(e.format, 20, 192, Layout::row_major, 9, e.low, e.high)),
           .m = m}))
          << info(e.format).name << e.low;
  EXPECT_TRUE(is_near(
      {.a = Side(test::random_blocks(Format::nvfp4, 3, 192, Layout::row_major, 4, 0x78, 0x7E)),
       .b = Side(test::random_blocks(Format::nvfp4, 20, 192, Layout::row_major, 9, 0, 8)),
       .m = 3}));
}

TEST_F(MatmulFewRowsPacked, passes_nan_and_infinity_on) {
  for (const Format format : formats)
    for (const std::int64_t m : {6, 12}) {
      if (m > 8 && format != Format::mxfp4) continue;
      BlockTensor b = test::random_blocks(format, 24, 192);
      b.scales()[static_cast<std::size_t>(5 * b.shape().blocks_per_line() + 1)] =
          info(format).e8m0_scale ? 255 : 127;
      Matrix a = test::gaussian(m > 8 ? DType::f16 : DType::bf16, m, 192, 2, 1.0f);
      a.set(3, 9, std::numeric_limits<float>::infinity());
      a.set(4, 9, std::numeric_limits<float>::quiet_NaN());
      Product p{.a = Side(std::move(a)), .b = Side(std::move(b)), .m = m};
      EXPECT_TRUE(is_near(p)) << info(format).name;
      if (m > 8) continue;
      BlockTensor scaled = test::random_blocks(Format::nvfp4, m, 192, Layout::row_major, 3);
      scaled.scales()[13] = 127;
      p.a = Side(std::move(scaled));
      EXPECT_TRUE(is_near(p)) << info(format).name;
    }
}

TEST_F(MatmulFewRowsPacked, gives_the_same_bytes_in_any_order_of_warps_and_copies) {
  for (const int multiprocessors : {1, 2, 4}) {
    device().set(multiprocessors);
    Product p{.a = dense(DType::bf16, 7, 1056),
              .b = blocks(Format::nvfp4, 200, 1056),
              .m = 7,
              .d_type = DType::bf16};
    const Computed first = by_few_rows(p);
    p.constant = true;
    EXPECT_EQ(by_few_rows(p).d.bytes, first.d.bytes) << "weights asked for early";
    const LaunchOptions before = device().options;
    for (const auto& [schedule, completion] : {std::pair{Schedule::reverse, Completion::eager},
                                               {Schedule::random, Completion::random}}) {
      device().options.schedule = schedule;
      device().options.completion = completion;
      EXPECT_EQ(by_few_rows(p).d.bytes, first.d.bytes) << multiprocessors;
    }
    device().options = before;
  }
}

}  // namespace
}  // namespace microscale::emulator
