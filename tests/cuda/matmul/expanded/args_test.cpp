// Shapes of the kernels for very many rows.
#include "cuda/matmul/expanded/args.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda::expanded {
namespace {

TEST(ExpandedPlan, fits_shared_memory_with_stages_to_spare) {
  for (const bool factors : {false, true}) {
    const TileShape shape = factors ? shape_8 : shape_16;
    const SharedLayout s = shared_layout(shape, factors);
    EXPECT_LE(s.bytes, most_shared_bytes);
    EXPECT_EQ(s.stages, 4);
    EXPECT_EQ(s.factors, (shape.rows + shape.columns) * 128);
    EXPECT_GE(s.stage_bytes, s.factors + (factors ? 4 * shape.rows : 0));
    EXPECT_EQ(s.stage_bytes % 1024, 0);  // of the swizzle
    EXPECT_EQ(s.sums % 16, 0);
    EXPECT_EQ(s.barriers % 8, 0);
  }
}

TEST(ExpandedPlan, counts_groups_of_a_gate_and_up_in_turn) {
  EXPECT_EQ(padded_weight_groups(16, false), 2);
  EXPECT_EQ(padded_weight_groups(17, false), 4);
  EXPECT_EQ(padded_weight_groups(8, true), 2);
  EXPECT_EQ(padded_weight_groups(9, true), 4);
}

}  // namespace
}  // namespace microscale::cuda::expanded
