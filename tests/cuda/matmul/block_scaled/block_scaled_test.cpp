// Which formats the block-scaled kernels take, and how they share k out.
#include <gtest/gtest.h>

#include "cuda/device/kernels.hpp"
#include "cuda/matmul/block_scaled/plan.hpp"

namespace microscale::cuda::block_scaled {
namespace {

TEST(BlockScaled, takes_the_formats_that_have_a_kernel) {
  if (kernel_names("sm_120f").empty()) GTEST_SKIP() << "built without nvcc";
  int taken = 0;
  for (const FormatInfo& a : all_formats())
    for (const FormatInfo& b : all_formats()) {
      const bool has = has_kernel("sm_120f", kernel_of(a.format, b.format).name);
      EXPECT_EQ(takes_formats(a.format, b.format), has) << a.name << " x " << b.name;
      EXPECT_EQ(has_kernel("sm_120f", kernel_of(a.format, b.format, true).name), has);
      taken += has;
    }
  EXPECT_EQ(taken, 7);
}

TEST(BlockScaled, gives_each_part_of_k_whole_stages) {
  for (const int all : {1, 3, 4, 33, 63, 1 << 26}) {
    EXPECT_EQ(first_stage(all, 0, 4), 0);
    EXPECT_EQ(first_stage(all, 4, 4), all);
    for (int part = 0; part < 4; ++part) {
      const int stages = first_stage(all, part + 1, 4) - first_stage(all, part, 4);
      EXPECT_GE(stages, all / 4) << all;
      EXPECT_LE(stages, (all + 3) / 4) << all;
    }
  }
}

}  // namespace
}  // namespace microscale::cuda::block_scaled
