// Every column of a matrix falls into exactly one thread block of the launch, every row into at
// least one.
#include "cuda/quantize/args.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda {
namespace {

constexpr int resident = 660;

TiledLaunch launch_of(std::int64_t rows, std::int64_t cols, int block, bool tiled, int each) {
  return quantize_launch(rows, cols, block, tiled, true, each, resident);
}

std::int64_t rows_of_tile(const Slabs& tiles) {
  return (threads_per_block >> tiles.column_shift) * (tiles.runs ? 1 : rows_per_thread);
}

std::int64_t columns_of_tile(const Slabs& tiles) {
  return tiles.runs ? run_elements : std::int64_t{chunk_elements} << tiles.column_shift;
}

TEST(Geometry, covers_all_rows_and_columns_with_less_than_a_tile_beyond) {
  for (std::int64_t rows : {1, 3, 127, 128, 129, 5000, 1 << 20}) {
    for (std::int64_t cols : {16, 32, 48, 96, 160, 2080, 16384}) {
      for (int each : {1, 4}) {
        const auto [grid, tiles] = launch_of(rows, cols, 16, false, each);
        const std::int64_t wide = columns_of_tile(tiles);
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
  const Slabs tiles = launch_of(130, 4064, 32, false, 1).tiles;  // 8 rows x 1024 columns
  EXPECT_TRUE(tiles.runs);
  EXPECT_EQ(tiles.whole_rows, 16);
  EXPECT_EQ(tiles.whole_columns, 3);
  const Slabs padded = launch_of(130, 4064, 32, true, 1).tiles;  // the same, of 128 rows
  EXPECT_TRUE(padded.runs);
  EXPECT_EQ(padded.count, 32);
  EXPECT_EQ(padded.whole_rows, 16);
  const Slabs narrow = launch_of(130, 512, 32, false, 1).tiles;  // 16 rows x 512 columns
  EXPECT_FALSE(narrow.runs);
  EXPECT_EQ(narrow.whole_rows, 8);
  EXPECT_EQ(narrow.whole_columns, 1);
  const Slabs narrow_padded = launch_of(130, 512, 32, true, 1).tiles;  // 64 rows x 128 columns
  EXPECT_EQ(narrow_padded.count, 4);
  EXPECT_EQ(narrow_padded.whole_rows, 2);
  EXPECT_EQ(narrow_padded.whole_columns, 4);
}

TEST(Geometry, rows_are_cut_into_runs_where_few_lanes_lie_beyond_their_end) {
  for (std::int64_t cols : {1024, 2880, 4096, 7168, 16384}) EXPECT_TRUE(has_runs(cols)) << cols;
  for (std::int64_t cols : {16, 512, 896, 1056, 2080}) EXPECT_FALSE(has_runs(cols)) << cols;
}

TEST(Geometry, what_is_small_grows_with_the_gpu) {
  EXPECT_EQ(small_elements(32, 132), 8 << 20);
  EXPECT_EQ(small_elements(16, 132), 2 << 20);
  EXPECT_EQ(small_elements(32, 66), 4 << 20);
  EXPECT_EQ(small_elements(16, 1), 15887);
}

TEST(Geometry, a_small_matrix_has_a_lane_for_every_chunk) {
  for (std::int64_t rows : {1, 7, 1024}) {
    for (std::int64_t cols : {16, 96, 1024, 2080}) {
      const auto [grid, tiles] = small_launch(rows, cols, 32, true);
      EXPECT_GE(std::int64_t{grid.grid_x} << tiles.column_shift, ceil_div(cols, chunk_elements));
      EXPECT_GE(std::int64_t{grid.grid_y} * grid.grid_z * (threads_per_block >> tiles.column_shift),
                rows);
    }
  }
}

TEST(Geometry, few_threads_lie_beyond_the_columns) {
  for (std::int64_t cols : {1024, 2880, 4096, 5120, 7168, 16384}) {
    const auto [grid, tiles] = launch_of(1 << 14, cols, 32, false, 1);
    const std::int64_t covered = grid.grid_x * columns_of_tile(tiles);
    EXPECT_LE(covered - cols, cols / 8) << cols;
  }
}

TEST(Geometry, steps_between_row_tiles_are_whole_scale_tiles) {
  for (std::int64_t cols : {128, 256, 1024, 16384}) {
    const auto [grid, tiles] = launch_of(1 << 20, cols, 32, true, 4);
    EXPECT_EQ(grid.grid_y % static_cast<unsigned>(128 / rows_of_tile(tiles)), 0u) << cols;
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
        EXPECT_EQ(launch.grid_x / wide, ceil_div(rows, columns_tile_rows));
        EXPECT_GE(launch.grid_y * wide * (columns_tile_row_bytes / element),
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

TEST(Geometry, general_kernels_have_a_thread_for_every_block) {
  const Launch launch = block_launch(129, 160, 32, false);
  EXPECT_GE(launch.grid_x * launch.threads, 129u * 5);
  const Launch columns = columns_block_launch(160, 129, 32, true);
  EXPECT_GE(columns.grid_x * columns.threads, 256u * 8);
}

}  // namespace
}  // namespace microscale::cuda
