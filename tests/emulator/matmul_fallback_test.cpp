// Products of few rows of experts with plain weights, on the emulator: by counts, and by offsets
// that break their contract.
#include "cuda/matmul/fallback/plan.hpp"

#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
#include "support/masked_products.hpp"

namespace microscale::emulator {
namespace {

std::size_t workspace_bytes(const Product& p) {
  cuda::Product shape;
  shape.a.format = p.a.blocks->shape().format;
  shape.b.format = p.b.blocks->shape().format;
  shape.n = p.n(), shape.k = p.k();
  shape.grouped = p.experts();
  shape.rows = {p.rows(), p.matrices, nullptr, 0};
  return static_cast<std::size_t>(cuda::fallback::plan_of(shape).workspace_bytes);
}

Matrix by_rows(const Product& p) {
  Buffers memory;
  BlockTensorView a = p.a.blocks->view(), b = p.b.blocks->view();
  const std::vector<std::uint8_t> tiled = p.tiled ? tiled_scales(p) : std::vector<std::uint8_t>{};
  if (p.tiled) a.shape.layout = Layout::tiled_128x4, a.scales = tiled;
  b.shape.rows = p.n();
  Matrix d = untouched_rows(p);
  const cuda::ProductOutput output = output_of(p, memory, d);
  const cuda::ProductRows rows = rows_of(p, memory);
  auto* const workspace = static_cast<std::uint8_t*>(memory.raw(workspace_bytes(p)));
  for (BlockTensorView* view : {&b, &a}) {  // last the scales of a: nothing is behind them
    view->codes = {memory.put(view->codes), view->codes.size()};
    view->scales = {memory.put(view->scales), view->scales.size()};
  }
  const MatmulInput input = a;
  const MatmulWeights weights = b;
  const MatmulOutput unused = MutableTensorView{};
  cuda::Product product = cuda::product_of({.a = input, .b = weights, .d = unused});
  product.grouped = p.experts();
  product.rows = rows;
  product.output = output;
  const cuda::fallback::Plan plan = cuda::fallback::plan_of(product);
  cuda::fallback::run(device(), plan, product, workspace, nullptr);
  device().copy_to_host(d.bytes.data(), output.d, static_cast<std::int64_t>(d.bytes.size()),
                        nullptr);
  return d;
}

class MatmulFallback : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

TEST_F(MatmulFallback, gives_each_expert_as_many_rows_as_its_count) {
  for (const Format format : {Format::mxfp4, Format::nvfp4, Format::mxfp8_e5m2})
    for (const bool tiled : {false, true})
      for (const std::vector<std::int64_t>& counts :
           {std::vector<std::int64_t>{0, 13, 1, 0, 9}, {0, 0, 0, 0, 0}, {13, 13, 13, 13, 13}}) {
        Product p{.a = blocks(format, 5 * 13 + 2, 96, 3),
                  .b = blocks(format, 5 * 20, 96),
                  .m = 5 * 13 + 2,
                  .matrices = 5,
                  .counts = counts,
                  .capacity = 13,
                  .wide_offsets = tiled,
                  .tiled = tiled,
                  .roundings = 400};
        EXPECT_TRUE(same_by_offsets(p, by_rows)) << info(format).name << tiled;
      }
}

TEST_F(MatmulFallback, stay_within_their_memory_when_offsets_decrease) {
  Product p{.a = blocks(Format::nvfp4, 600, 64, 3),
            .b = blocks(Format::nvfp4, 40 * 16, 64),
            .m = 600,
            .matrices = 40,
            .offsets = decreasing_offsets(600, 40),
            .scales_of = most_tiles_offsets(600, 40),
            .tiled = true};
  expect_within_memory(p, by_rows);
}

}  // namespace
}  // namespace microscale::emulator
