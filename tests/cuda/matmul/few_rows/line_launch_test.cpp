// Which products of one row are streamed, and what the device is told then, without a GPU.
#include "cuda/matmul/few_rows/line_launch.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "cuda/matmul/few_rows/line_args.hpp"
#include "cuda/matmul/fallback/launch.hpp"
#include "fake_device.hpp"

namespace microscale::cuda {
namespace {

/// A row of BF16 by plain NVFP4 weights, where nothing else is said.
struct Wanted {
  std::int64_t m = 1, n = 48, k = 2304, matrices = 1;
  Format weights = Format::nvfp4;
  DType dense = DType::bf16;
  std::optional<Format> blocks{};
  Layout layout = Layout::row_major;
  bool experts = false, gated = false, packed = false;
  int off = 0;  // bytes that a begins behind a multiple of 16
};

class StreamedLines : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }
  /// Calls take(call, rows).
  template <class Take>
  auto with_call(const Wanted& w, Take&& take) {
    std::uint8_t* bytes = memory_->bytes;
    MatmulInput a = TensorView{bytes + w.off, w.dense, w.m, w.k, w.k};
    if (w.blocks) {
      BlockTensorView view;
      view.shape = {w.m, w.k, *w.blocks};
      view.codes = {bytes + w.off, static_cast<std::size_t>(view.shape.code_bytes())};
      view.scales = {bytes, static_cast<std::size_t>(view.shape.scale_bytes())};
      a = view;
    }
    PackedWeights packed;
    BlockTensorView plain;
    packed.shape = plain.shape = {w.n, w.k, w.weights};
    plain.shape.layout = w.layout;
    packed.bytes = {bytes, 16};
    plain.codes = plain.scales = {bytes, 16};
    const MatmulWeights b = w.packed ? MatmulWeights(packed) : MatmulWeights(plain);
    const MatmulOutput d = MutableTensorView{bytes, DType::f32, w.m, w.n, w.n};
    MatmulCall call{.a = a, .b = b, .up = &plain, .d = d};
    call.matrices = w.matrices;
    call.gated = w.gated;
    const ProductRows rows{w.m, w.matrices, w.experts ? bytes : nullptr, 0};
    return take(call, rows);
  }
  std::optional<LinePlan> plan(const Wanted& w) {
    return with_call(w, [&](const MatmulCall& call, const ProductRows& rows) {
      return line_plan(device, call, rows);
    });
  }
  test::FakeDevice device{9, 0};

 private:
  std::unique_ptr<test::Aligned> memory_ = std::make_unique<test::Aligned>();
};

TEST_F(StreamedLines, are_one_launch) {
  with_call({.matrices = 3}, [&](const MatmulCall& call, const ProductRows& rows) {
    matmul_rows(device, call, rows, ProductOutput{}, nullptr, nullptr);
  });
  ASSERT_EQ(device.launches.size(), 1u);
  const auto seen = device.launches.back();
  EXPECT_EQ(seen.name, "matmul_line_nvfp4_dense");
  EXPECT_EQ(seen.call.threads, line_threads);
  const auto args = seen.as<LineStreamArgs>();
  EXPECT_EQ(seen.call.shared_bytes, args.shared.bytes);
  EXPECT_LE(args.shared.bytes, 232448);
  EXPECT_EQ(args.row_tiles, 3u);
  EXPECT_EQ(args.each * seen.call.grid.x / args.cluster + args.more, 9u);
  EXPECT_EQ(args.stages, 2);
  EXPECT_EQ(args.buffers, 2);
  EXPECT_EQ(args.a_matrix, 2 * 2304);
  EXPECT_EQ(args.a_kind, static_cast<std::int32_t>(LineInput::bf16));
  EXPECT_EQ(static_cast<int>(args.cluster), seen.call.cluster);
}

TEST_F(StreamedLines, serve_rows_that_bulk_copies_can_read) {
  EXPECT_TRUE(plan({}));
  EXPECT_TRUE(plan({.dense = DType::f16}));
  for (const Format a : {Format::nvfp4, Format::mxfp4}) EXPECT_TRUE(plan({.blocks = a}));
  EXPECT_TRUE(plan({.k = 2560, .weights = Format::mxfp4}));
  EXPECT_FALSE(plan({.k = 2304, .weights = Format::mxfp4}));  // 72 bytes of scales
  EXPECT_FALSE(plan({.k = 2320}));
  EXPECT_FALSE(plan({.off = 2}));
  EXPECT_FALSE(plan({.blocks = Format::nvfp4, .off = 8}));
  EXPECT_FALSE(plan({.layout = Layout::tiled_128x4}));
  EXPECT_TRUE(plan({.n = 256, .layout = Layout::tiled_128x4}));
  EXPECT_FALSE(plan({.k = 1 << 17}));  // a's row leaves no room for weights
}

TEST_F(StreamedLines, leave_other_products_to_others) {
  EXPECT_FALSE(plan({.m = 2}));
  EXPECT_FALSE(plan({.experts = true}));
  EXPECT_FALSE(plan({.gated = true}));
  EXPECT_FALSE(plan({.packed = true}));
  EXPECT_FALSE(plan({.weights = Format::mxfp8_e4m3}));
  EXPECT_FALSE(plan({.blocks = Format::mxfp8_e4m3}));
  test::FakeDevice other(12, 0);
  with_call({}, [&](const MatmulCall& call, const ProductRows& rows) {
    EXPECT_FALSE(line_plan(other, call, rows));
  });
}

}  // namespace
}  // namespace microscale::cuda
