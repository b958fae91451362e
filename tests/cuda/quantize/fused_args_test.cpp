// Every group of 32 elements of a row falls to a lane of a fused kernel, every row to a turn.
#include "cuda/quantize/fused_args.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda {
namespace {

TEST(FusedGeometry, a_row_of_a_fused_kernel_has_a_lane_for_every_group_of_32) {
  for (std::int64_t cols : {16, 32, 48, 128, 1024, 7168, 14336, 16384, 16416, 100000}) {
    for (bool tiled : {false, true}) {
      const FusedLaunch lanes = lane_launch(1000, cols, 16, tiled, 2, 132);
      const std::int64_t padded = tiled ? ceil_div(cols, 64) * 64 : cols;
      EXPECT_GE(std::int64_t{lanes.row_threads} * lanes.column_pieces * 32, padded) << cols;
      EXPECT_EQ(32 % lanes.row_threads, 0);  // rows of a narrow matrix share a warp
      EXPECT_GE(lanes.row_threads, 4);       // four scale bytes leave at once
      const FusedLaunch row = row_launch(1000, cols, 16, tiled, 4, 2, false, 132);
      if (cols <= 16384) {
        EXPECT_GE(std::int64_t{row.row_threads} * 32, padded) << cols;
      }
      EXPECT_LE(row.launch.threads, 512u);
      EXPECT_EQ(row.launch.threads % static_cast<unsigned>(row.row_threads), 0u);
      EXPECT_TRUE(row.row_threads > 32 ? row.row_threads % 32 == 0 : 32 % row.row_threads == 0);
      const std::int64_t rows_here = row.launch.threads / static_cast<unsigned>(row.row_threads);
      EXPECT_EQ(row.launch.grid_x * rows_here, row.row_step);
      EXPECT_GE(row.turns * row.row_step, tiled ? 1024 : 1000);
      EXPECT_LT((row.turns - 1) * row.row_step, tiled ? 1024 : 1000);
      EXPECT_GE(lanes.turns * lanes.row_step, tiled ? 1024 : 1000);
      EXPECT_GE(std::int64_t{lanes.launch.grid_x} * 8 * (32 / lanes.row_threads),
                lanes.row_step * lanes.column_pieces);
    }
  }
}

TEST(FusedGeometry, whole_rows_are_those_without_a_lane_or_a_row_beyond_the_matrix) {
  const auto row_is_whole = [](std::int64_t rows, std::int64_t cols, bool tiled) {
    return row_launch(rows, cols, 16, tiled, 4, 2, false, 132).whole;
  };
  EXPECT_TRUE(row_is_whole(5, 7168, false));
  EXPECT_FALSE(row_is_whole(5, 7168, true));  // padding rows
  EXPECT_TRUE(row_is_whole(128, 7168, true));
  EXPECT_FALSE(row_is_whole(128, 7200, false));
  EXPECT_FALSE(row_is_whole(128, 1024, false));   // four rows to a thread block
  EXPECT_FALSE(row_is_whole(128, 32768, false));  // read twice
  EXPECT_TRUE(lane_launch(5, 1024, 16, false, 2, 132).whole);
  EXPECT_FALSE(lane_launch(5, 512, 16, false, 2, 132).whole);
}

}  // namespace
}  // namespace microscale::cuda
