// Which products are streamed, and what the device is told then, without a GPU.
#include "cuda/matmul/few_rows/stream_launch.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "cuda/matmul/fallback/launch.hpp"
#include "fake_device.hpp"

namespace microscale::cuda {
namespace {

/// Four rows of BF16 by packed NVFP4 weights, where nothing else is said.
struct Wanted {
  std::int64_t m = 4, n = 48, k = 192, matrices = 1;
  Format weights = Format::nvfp4;
  DType dense = DType::bf16;
  std::optional<Format> blocks{};
  bool experts = false, gated = false, plain = false;
};

class StreamedProducts : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }
  /// Calls take(call, rows).
  template <class Take>
  auto with_call(const Wanted& w, Take&& take) {
    std::uint8_t* bytes = memory_->bytes;
    MatmulInput a = TensorView{bytes, w.dense, w.m, w.k, w.k};
    if (w.blocks) {
      BlockTensorView view;
      view.shape = {w.m, w.k, *w.blocks};
      view.codes = {bytes, static_cast<std::size_t>(view.shape.code_bytes())};
      view.scales = {bytes, static_cast<std::size_t>(view.shape.scale_bytes())};
      a = view;
    }
    PackedWeights packed;
    BlockTensorView plain;
    packed.shape = plain.shape = {w.n, w.k, w.weights};
    packed.bytes = {bytes, 16};
    plain.codes = plain.scales = {bytes, 16};
    const MatmulWeights b = w.plain ? MatmulWeights(plain) : MatmulWeights(packed);
    const MatmulOutput d = MutableTensorView{bytes, DType::f32, w.m, w.n, w.n};
    MatmulCall call{.a = a, .b = b, .up = &plain, .d = d};
    call.gated = w.gated;
    const ProductRows rows{w.m, w.matrices, w.experts ? bytes : nullptr, 0};
    return take(call, rows);
  }
  std::optional<StreamPlan> plan(const Wanted& w) {
    return with_call(w, [&](const MatmulCall& call, const ProductRows& rows) {
      return stream_plan(device, call, rows, w.experts ? (w.m + w.matrices - 1) / w.matrices : w.m);
    });
  }
  test::FakeDevice::Seen launched(const Wanted& w) {
    device.launches.clear();
    with_call(w, [&](const MatmulCall& call, const ProductRows& rows) {
      matmul_rows(device, call, rows, ProductOutput{}, memory_->bytes, nullptr);
    });
    EXPECT_EQ(device.launches.size(), 1u);
    return device.launches.back();
  }
  test::FakeDevice device{9, 0};

 private:
  std::unique_ptr<test::Aligned> memory_ = std::make_unique<test::Aligned>();
};

TEST_F(StreamedProducts, are_one_launch) {
  const auto seen = launched({.m = 5});
  EXPECT_EQ(seen.name, "matmul_stream_nvfp4_bf16_8");
  EXPECT_EQ(seen.call.cluster, 1);
  EXPECT_EQ(seen.call.grid.x, 3u);
  EXPECT_EQ(seen.call.grid.y, 1u);
  EXPECT_EQ(seen.call.threads, 512);
  const auto args = seen.as<MatmulStreamArgs>();
  EXPECT_EQ(seen.call.shared_bytes, args.shared.bytes);
  EXPECT_EQ(args.cut.cluster_shift, 0);
  EXPECT_EQ(args.cut.k_shift, 2);
  EXPECT_EQ(args.cut.depth, 2);
  EXPECT_EQ(args.units_rows, 5);
  EXPECT_EQ(args.chunks, 3);
  EXPECT_EQ(args.row_tiles, 3u);
  EXPECT_EQ(args.parts_of_each, 1u);
  EXPECT_EQ(args.a.scales, nullptr);
  EXPECT_EQ(args.a.a_stride, 384);
  EXPECT_EQ(args.product.row_factors, nullptr);
  EXPECT_EQ(args.product.b_matrix, 3 * 3 * 576);
}

TEST_F(StreamedProducts, name_what_they_read) {
  for (const Format weights : {Format::mxfp4, Format::nvfp4})
    for (const std::int64_t m : {1, 8, 9, 16}) {
      const std::string first = "matmul_stream_" + std::string(info(weights).name),
                        last = m > 8 ? "_16" : "_8";
      const auto name = [&](const Wanted& w) {
        const auto seen = launched(w);
        const auto args = seen.as<MatmulStreamArgs>();
        EXPECT_EQ(args.units_rows, m);
        EXPECT_EQ(args.a.scales != nullptr, w.blocks.has_value());
        return seen.name;
      };
      if (m <= 8 || weights == Format::mxfp4) {
        EXPECT_EQ(name({.m = m, .weights = weights, .dense = DType::f16}), first + last);
      }
      if (m > 8) continue;
      EXPECT_EQ(name({.m = m, .weights = weights}), first + "_bf16" + last);
      EXPECT_EQ(name({.m = m, .weights = weights, .blocks = Format::nvfp4}),
                first + "_bf16" + last);
    }
}

TEST_F(StreamedProducts, count_matrices_turns_and_gates) {
  auto args =
      launched(
          {.m = 35, .matrices = 3, .weights = Format::mxfp4, .dense = DType::f16, .gated = true})
          .as<MatmulStreamArgs>();
  EXPECT_EQ(args.units_rows, 16);
  EXPECT_EQ(args.parts_of_each, 3u);
  EXPECT_EQ(args.row_tiles, 6u);  // eight rows of each
  args = launched({.m = 35, .matrices = 30, .experts = true}).as<MatmulStreamArgs>();
  EXPECT_EQ(args.units_rows, 8);
  EXPECT_EQ(args.batch_each, 0u);  // the kernel lists them
  EXPECT_GE(args.shared.barriers - args.shared.parts, 8 * stream_most_parts);
}

TEST_F(StreamedProducts, are_not_what_others_do) {
  EXPECT_TRUE(plan({}));
  EXPECT_FALSE(plan({.plain = true}));
  for (const Format format : {Format::mxfp8_e4m3, Format::mxfp8_e5m2, Format::mxfp4})
    EXPECT_FALSE(plan({.blocks = format})) << info(format).name;  // scales go with sums
  for (const Format format : {Format::mxfp8_e4m3, Format::mxfp8_e5m2})
    EXPECT_FALSE(plan({.weights = format})) << info(format).name;
  // Nine and more rows: others do but for FP16 by MXFP4.
  EXPECT_FALSE(plan({.m = 9}));
  EXPECT_FALSE(plan({.m = 9, .dense = DType::f16}));
  EXPECT_FALSE(plan({.m = 9, .weights = Format::mxfp4}));
  EXPECT_FALSE(plan({.m = 9, .blocks = Format::nvfp4}));
  EXPECT_FALSE(plan({.m = 18, .matrices = 2, .experts = true}));
  const Wanted many{.m = 16, .n = 4096, .weights = Format::mxfp4, .dense = DType::f16};
  const auto many_of = [&](std::int64_t k) {
    Wanted w = many;
    w.k = k;
    return plan(w);
  };
  EXPECT_TRUE(plan({.m = 2048, .matrices = 256, .experts = true}));
  EXPECT_FALSE(plan({.m = 6200, .matrices = 1000, .experts = true}));  // too many turns
  EXPECT_FALSE(plan({.m = 4, .matrices = 1 << 16, .experts = true}));
  // Sixteen rows of so many elements leave no room for rings, even among eight blocks.
  EXPECT_TRUE(many_of(16384));
  EXPECT_TRUE(many_of(32768));
  EXPECT_FALSE(many_of(65536));
  EXPECT_TRUE(plan({.m = 8, .n = 4096, .k = 12288}));
  for (const int major : {10, 12}) {
    test::FakeDevice blackwell(major, 0);
    EXPECT_FALSE(with_call({}, [&](const MatmulCall& call, const ProductRows& rows) {
      return stream_plan(blackwell, call, rows, rows.m);
    })) << major;
  }
}

// Few row tiles: blocks share k, so that more of them have work. 132 multiprocessors.
TEST_F(StreamedProducts, share_k_where_row_tiles_are_few) {
  struct Shape {
    std::int64_t n, k;
    int cluster, warps;
  };
  for (const Shape s : {Shape{57344, 8192, 1, 4},
                        {16 * 132, 4096, 1, 16},
                        {1024, 8192, 8, 4},
                        {512, 4096, 8, 4},
                        {256, 7168, 8, 4}}) {
    const auto p = plan({.m = 1, .n = s.n, .k = s.k});
    ASSERT_TRUE(p);
    EXPECT_EQ(1 << p->cut.cluster_shift, s.cluster) << s.n;
    EXPECT_EQ(1 << p->cut.k_shift, s.warps) << s.n;
    EXPECT_EQ(p->clusters, std::min<std::int64_t>(132 / s.cluster, s.n / 16));
  }
}

TEST_F(StreamedProducts, fit_shared_memory_whatever_their_shape) {
  int streamed = 0;
  for (const Format weights : {Format::mxfp4, Format::nvfp4})
    for (const std::int64_t m : {1, 7, 8, 9, 16})
      for (std::int64_t k = 64; k <= 65536; k += 992)
        for (const bool experts : {false, true})
          if (const auto p = plan({.m = m,
                                   .n = 4096,
                                   .k = k,
                                   .weights = weights,
                                   .dense = DType::f16,
                                   .experts = experts})) {
            ++streamed;
            EXPECT_LE(p->shared.bytes, stream_shared_bytes - 1024);
            EXPECT_GE(p->cut.depth, 2);
            EXPECT_LE(p->cut.depth, 8);
          }
  EXPECT_GT(streamed, 400);
}

}  // namespace
}  // namespace microscale::cuda
