// Every column of a matrix falls into exactly one thread block of the launch; rows may be strode
// over.
#include "cuda/geometry.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda {
namespace {

// What a launch covers: columns in elements, rows.
struct Covered {
  std::int64_t cols, rows;
};

Covered covered_by(const Launch& launch) {
  const std::int64_t wide = std::int64_t{1} << launch.column_shift;
  return {static_cast<std::int64_t>(launch.grid_x) * wide * chunk_elements,
          static_cast<std::int64_t>(launch.grid_y) * launch.grid_z *
              (launch.threads / wide * rows_per_thread)};
}

TEST(Geometry, covers_all_columns_and_no_more_than_one_tile_beyond) {
  for (std::int64_t rows : {1, 3, 127, 128, 129, 5000, 1 << 20}) {
    for (std::int64_t cols : {16, 32, 48, 96, 160, 2080, 16384}) {
      const Launch launch = quantize_launch(rows, cols, 16, false);
      const Covered covered = covered_by(launch);
      if (rows <= 5000 && cols < 16384) {
        EXPECT_GE(covered.rows, rows);  // small: no stride
      }
      EXPECT_GE(covered.cols, cols);
      EXPECT_LT(covered.cols - cols, std::int64_t{8} << launch.column_shift);
      EXPECT_LE(launch.grid_y, 65535u);
      EXPECT_LE(launch.grid_z, 65535u);
    }
  }
}

TEST(Geometry, tiled_scales_cover_their_padding) {
  const Covered covered = covered_by(quantize_launch(129, 160, 32, true));
  EXPECT_GE(covered.rows, 256);
  EXPECT_GE(covered.cols, 256);
}

TEST(Geometry, a_row_of_a_fused_kernel_has_a_lane_for_every_group_of_32) {
  for (std::int64_t cols : {16, 32, 48, 128, 1024, 7168, 14336, 16384, 16416, 100000}) {
    for (bool tiled : {false, true}) {
      const FusedLaunch lanes = lane_launch(1000, cols, 16, tiled, 2, 132);
      const std::int64_t padded = tiled ? ceil_div(cols, 64) * 64 : cols;
      EXPECT_GE(std::int64_t{lanes.row_threads} * lanes.column_pieces * 32, padded) << cols;
      EXPECT_EQ(32 % lanes.row_threads, 0);  // rows of a narrow matrix share a warp
      EXPECT_GE(lanes.row_threads, 4);       // four scale bytes leave at once
      const FusedLaunch row = row_launch(1000, cols, 16, tiled, 2, false, 132);
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

TEST(Geometry, general_kernels_have_a_thread_for_every_block) {
  const Launch launch = block_launch(129, 160, 32, false);
  EXPECT_GE(launch.grid_x * launch.threads, 129u * 5);
}

}  // namespace
}  // namespace microscale::cuda
