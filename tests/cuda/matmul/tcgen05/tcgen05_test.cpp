// Which products the kernels of tensor memory take, how they are cut, and what memory a tile has.
#include <gtest/gtest.h>

#include "cuda/device/facts.hpp"
#include "cuda/device/kernels.hpp"
#include "cuda/matmul/tcgen05/plan.hpp"
#include "matmul/product_calls.hpp"

namespace microscale::cuda::tcgen05 {
namespace {

using test::ProductCall, test::Wanted;

TEST(Tcgen05, takes_the_formats_that_have_a_kernel) {
  if (kernel_names("sm_100f").empty()) GTEST_SKIP() << "built without nvcc";
  int taken = 0;
  for (const FormatInfo& a : all_formats())
    for (const FormatInfo& b : all_formats()) {
      for (const TileShape shape : {narrow, wide, paired}) {
        const bool has = has_kernel("sm_100f", kernel_of(a.format, b.format, shape).name);
        EXPECT_EQ(takes_formats(a.format, b.format), has) << a.name << " x " << b.name;
        taken += has;
      }
    }
  EXPECT_EQ(taken, 3 * 6);
}

TEST(Tcgen05, takes_k_in_whole_instructions_and_rows_enough) {
  const auto takes = [](Wanted wanted) { return tcgen05::takes(ProductCall(wanted).product()); };
  using enum Format;
  EXPECT_TRUE(takes({.a = nvfp4, .b = nvfp4, .m = 17, .k = 64}));
  EXPECT_FALSE(takes({.a = nvfp4, .b = nvfp4, .m = 16, .k = 64}));
  EXPECT_FALSE(takes({.a = nvfp4, .b = nvfp4, .m = 17, .k = 96}));
  EXPECT_FALSE(takes({.a = mxfp4, .b = mxfp4, .m = 17, .k = 32}));
  EXPECT_TRUE(takes({.a = mxfp8_e5m2, .b = mxfp8_e4m3, .m = 17, .k = 32}));
  EXPECT_FALSE(takes({.a = nvfp4, .b = nvfp4, .m = 64, .k = 64, .packed = true}));
  EXPECT_FALSE(takes({.a = nvfp4, .b = mxfp4, .m = 64, .k = 64}));
  EXPECT_FALSE(takes({.b = nvfp4, .m = 64, .k = 64}));
}

TEST(Tcgen05, cuts_so_that_multiprocessors_are_through_together) {
  const auto shape_of = [](Wanted wanted) {
    wanted.a = wanted.b = Format::nvfp4;
    return plan_of(described_gpu("b200"), ProductCall(wanted).product()).shape;
  };
  EXPECT_EQ(shape_of({.m = 128, .n = 7168, .k = 256}), narrow);  // 56 tiles in place of 28
  EXPECT_EQ(shape_of({.m = 8192, .n = 8192, .k = 256}), paired);
  EXPECT_EQ(shape_of({.m = 128, .n = 4096, .k = 256, .gated = true}), wide);
  EXPECT_EQ(shape_of({.m = 8192, .n = 8192, .k = 256, .matrices = 4, .experts = true}), wide);
}

// Sums of two tiles and scales of two stages fit the 512 columns, and scales never lie in sums.
TEST(Tcgen05, lays_tensor_memory_out_without_gaps_that_it_does_not_have) {
  for (const int columns : {128, 256})
    for (const int scale_tiles : {1, 2, 4}) {
      const TensorLayout t = tensor_layout(columns, scale_tiles);
      EXPECT_LE(t.second + columns, t.scales);
      EXPECT_EQ(t.scales + 2 * t.scale_columns, tensor_columns);
      EXPECT_EQ(t.second, columns - t.overlap);
      EXPECT_EQ(t.overlap % 32, 0);
      EXPECT_LE(t.overlap, columns / 2);  // gated: it is up's columns alone, or the gate's
      EXPECT_EQ(t.overlap == 0, columns == 128);
      EXPECT_LE(shared_layout({128, columns}, scale_tiles).bytes, most_shared_bytes);
    }
}

}  // namespace
}  // namespace microscale::cuda::tcgen05
