// Every column of a matrix falls into exactly one thread block of the launch, every row into at
// least one.
#include "cuda/geometry.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda {
namespace {

constexpr int resident = 660;

TiledLaunch launch_of(std::int64_t rows, std::int64_t cols, int block, bool tiled, int each) {
  return quantize_launch(rows, cols, block, tiled, true, each, resident);
}

std::int64_t rows_of_tile(const RowTiles& tiles) {
  return (threads_per_block >> tiles.column_shift) * rows_per_thread;
}

TEST(Geometry, covers_all_rows_and_columns_with_less_than_a_tile_beyond) {
  for (std::int64_t rows : {1, 3, 127, 128, 129, 5000, 1 << 20}) {
    for (std::int64_t cols : {16, 32, 48, 96, 160, 2080, 16384}) {
      for (int each : {1, 4}) {
        const auto [grid, tiles] = launch_of(rows, cols, 16, false, each);
        const std::int64_t wide = std::int64_t{8} << tiles.column_shift;
        EXPECT_GE(grid.grid_x * wide, cols);
        EXPECT_LT(grid.grid_x * wide - cols, wide);
        EXPECT_EQ(tiles.count, ceil_div(rows, rows_of_tile(tiles)));
        EXPECT_GE(std::int64_t{grid.grid_y} * grid.grid_z * tiles.each, tiles.count);
        EXPECT_LE(grid.grid_y, 65535u);
        EXPECT_LE(grid.grid_z, 65535u);
      }
    }
  }
}

TEST(Geometry, whole_tiles_are_those_inside_the_matrix) {
  const RowTiles tiles = launch_of(130, 4064, 32, false, 1).tiles;  // 4 rows x 2048 columns
  EXPECT_EQ(tiles.whole_rows, 32);
  EXPECT_EQ(tiles.whole_columns, 1);
  const RowTiles padded = launch_of(130, 4064, 32, true, 1).tiles;  // 32 rows x 256 columns
  EXPECT_EQ(padded.count, 8);
  EXPECT_EQ(padded.whole_rows, 4);
}

TEST(Geometry, few_threads_lie_beyond_the_columns) {
  for (std::int64_t cols : {1024, 2880, 4096, 5120, 7168, 16384}) {
    const auto [grid, tiles] = launch_of(1 << 14, cols, 32, false, 1);
    const std::int64_t covered = grid.grid_x * (std::int64_t{8} << tiles.column_shift);
    EXPECT_LE(covered - cols, cols / 8) << cols;
  }
}

TEST(Geometry, steps_between_row_tiles_are_whole_scale_tiles) {
  for (std::int64_t cols : {128, 256, 1024, 16384}) {
    const auto [grid, tiles] = launch_of(1 << 20, cols, 32, true, 4);
    EXPECT_EQ(grid.grid_y % (1u << (tiles.column_shift - 3)), 0u) << cols;
  }
}

TEST(Geometry, scale_bytes_leave_as_words_where_rows_have_whole_words) {
  EXPECT_TRUE(launch_of(4, 512, 32, false, 1).tiles.scale_words);
  EXPECT_FALSE(launch_of(4, 480, 32, false, 1).tiles.scale_words);
  EXPECT_FALSE(quantize_launch(4, 512, 32, false, false, 1, resident).tiles.scale_words);
  EXPECT_TRUE(launch_of(4, 480, 32, true, 1).tiles.scale_words);
}

TEST(Geometry, tiles_along_columns_cover_the_matrix_and_the_padding_of_its_scales) {
  for (std::int64_t rows : {std::int64_t{16}, std::int64_t{160}, std::int64_t{1} << 34}) {
    for (std::int64_t cols : {std::int64_t{1}, std::int64_t{65}, std::int64_t{16384}}) {
      for (std::int64_t element : {2, 4}) {
        const Launch launch = columns_launch(rows, cols, element, true);
        const std::int64_t wide = std::int64_t{1} << launch.column_shift;
        EXPECT_EQ(launch.grid_x % wide, 0);
        EXPECT_EQ(launch.grid_x / wide, ceil_div(rows, transpose_tile_rows));
        EXPECT_GE(launch.grid_y * wide * (transpose_tile_row_bytes / element),
                  ceil_div(cols, 128) * 128);
        EXPECT_LE(launch.grid_y, 65535u);
        EXPECT_LT(launch.grid_x, 1u << 31);
      }
    }
  }
  const Launch widest = columns_launch(16, std::int64_t{1} << 34, 2, false);
  EXPECT_LE(widest.grid_y, 65535u);
  EXPECT_GE((static_cast<std::int64_t>(widest.grid_y) << widest.column_shift) * 128,
            std::int64_t{1} << 34);
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
  const Launch columns = columns_block_launch(160, 129, 32, true);
  EXPECT_GE(columns.grid_x * columns.threads, 256u * 8);
}

}  // namespace
}  // namespace microscale::cuda
