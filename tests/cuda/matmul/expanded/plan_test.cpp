// Shapes of the kernels for very many rows.
#include "cuda/matmul/expanded/plan.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda {
namespace {

TEST(DenseGeometry, fits_shared_memory_with_stages_to_spare) {
  for (const bool factors : {false, true}) {
    const DenseShape shape = factors ? dense_8_shape : dense_16_shape;
    const DenseShared s = dense_shared(shape, factors);
    EXPECT_LE(s.bytes, wide_shared_bytes);
    EXPECT_EQ(s.stages, 4);
    EXPECT_EQ(s.factors, (shape.rows + shape.columns) * 128);
    EXPECT_GE(s.stage_bytes, s.factors + (factors ? 4 * shape.rows : 0));
    EXPECT_EQ(s.stage_bytes % 1024, 0);  // of the swizzle
    EXPECT_EQ(s.sums % 16, 0);
    EXPECT_EQ(s.places - s.sums, 8 * dense_sum_bytes);
    EXPECT_EQ(s.barriers - s.places, 32 * s.stages);
    EXPECT_EQ(s.barriers % 8, 0);
  }
}

TEST(DenseGeometry, counts_groups_of_a_gate_and_up_in_turn) {
  EXPECT_EQ(dense_weight_groups(16, false), 2);
  EXPECT_EQ(dense_weight_groups(17, false), 4);
  EXPECT_EQ(dense_weight_groups(8, true), 2);
  EXPECT_EQ(dense_weight_groups(9, true), 4);
}

TEST(DenseGeometry, a_cluster_has_neighbours_down_the_rows) {
  EXPECT_EQ(dense_16_shape.cluster().rows, 256);
  EXPECT_EQ(dense_16_shape.cluster().tokens, 256);
}

TEST(DenseGeometry, predicts_rounds_of_clusters_and_expanding) {
  const auto cycles = [](std::int64_t m, std::int64_t matrices, bool experts) {
    return dense_cycles(dense_16_shape, 64, 256, 640, false, m, matrices, experts, 132);
  };
  constexpr std::int64_t round = 10 * 1152 + 1500, expanding = 256 * 640 / 132 * 5 / 42;
  EXPECT_EQ(cycles(66 * 256, 1, false), round + expanding);
  EXPECT_EQ(cycles(66 * 256 + 1, 1, false), 2 * round + expanding);
  EXPECT_EQ(cycles(257, 2, true), round + 2 * 256 * 640 / 132 * 5 / 42);
}

}  // namespace
}  // namespace microscale::cuda
