// Every column of a matrix falls into exactly one thread block of the launch, every row into at least
// one.
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
          static_cast<std::int64_t>(launch.grid_y) * launch.grid_z * launch.row_tiles_each *
              (launch.threads / wide * rows_per_thread)};
}

TEST(Geometry, covers_all_columns_and_no_more_than_one_tile_beyond) {
  for (std::int64_t rows : {1, 3, 127, 128, 129, 5000, 1 << 20}) {
    for (std::int64_t cols : {16, 32, 48, 96, 160, 2080, 16384}) {
      const Launch launch = quantize_launch(rows, cols, 16, false, 4);
      const Covered covered = covered_by(launch);
      EXPECT_GE(covered.rows, rows);
      EXPECT_GE(covered.cols, cols);
      EXPECT_LT(covered.cols - cols, std::int64_t{8} << launch.column_shift);
      EXPECT_LE(launch.grid_y, 65535u);
      EXPECT_LE(launch.grid_z, 65535u);
    }
  }
}

TEST(Geometry, tiled_scales_cover_their_padding) {
  const Covered covered = covered_by(quantize_launch(129, 160, 32, true, 4));
  EXPECT_GE(covered.rows, 256);
  EXPECT_GE(covered.cols, 256);
}

TEST(Geometry, a_thread_block_stays_within_32_rows_of_a_scale_tile) {
  for (std::int64_t cols : {128, 256, 1024, 16384}) {
    const Launch launch = quantize_launch(1 << 20, cols, 32, true, 4);
    const int side_by_side = threads_per_block >> launch.column_shift;
    EXPECT_EQ(32 % (side_by_side * launch.row_tiles_each), 0) << cols;
  }
}

TEST(Geometry, general_kernels_have_a_thread_for_every_block) {
  const Launch launch = block_launch(129, 160, 32, false);
  EXPECT_GE(launch.grid_x * launch.threads, 129u * 5);
}

}  // namespace
}  // namespace microscale::cuda
