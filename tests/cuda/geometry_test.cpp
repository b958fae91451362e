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

TEST(Geometry, general_kernels_have_a_thread_for_every_block) {
  const Launch launch = block_launch(129, 160, 32, false);
  EXPECT_GE(launch.grid_x * launch.threads, 129u * 5);
  const Launch columns = columns_block_launch(160, 129, 32, true);
  EXPECT_GE(columns.grid_x * columns.threads, 256u * 8);
}

}  // namespace
}  // namespace microscale::cuda
