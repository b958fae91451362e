#include "checkpoint/tile.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "report/error_metrics.hpp"
#include "support.hpp"

namespace microscale {
namespace {

using testing::succeeds;
using testing::TemporaryFolder;
using testing::write_file;

TEST(TileGrid, covers_every_element_once_in_order) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes{
      {1, 16},       {3, 4096},         {5000, 384}, {257, 4112}, {2, 3 * tile_elements + 48},
      {1 << 20, 16}, {7, tile_elements}};
  for (const auto& [rows, cols] : shapes) {
    const TileGrid grid(rows, cols);
    std::int64_t next = 0;  // element, row by row
    for (std::int64_t i = 0; i < grid.count(); ++i) {
      const Tile tile = grid.tile(i);
      EXPECT_EQ(tile.row * cols + tile.col, next);
      EXPECT_TRUE(tile.cols == cols || tile.rows == 1);
      EXPECT_LE(tile.elements(), tile_elements);
      EXPECT_GT(tile.elements(), 0);
      EXPECT_EQ(tile.col % 32, 0);
      next += tile.elements();
    }
    EXPECT_EQ(next, rows * cols) << rows << " x " << cols;
  }
}

TEST(TileGrid, begins_tiles_at_runs_of_the_error_sums) {
  const TileGrid grid(5000, 384);
  ASSERT_GT(grid.count(), 1);
  for (std::int64_t i = 0; i < grid.count(); ++i)
    EXPECT_EQ(grid.tile(i).row * 384 % error_run_elements, 0);
}

TEST(TileGrid, has_no_tiles_without_elements) {
  EXPECT_EQ(TileGrid(0, 16).count(), 0);
  EXPECT_EQ(TileGrid(16, 0).count(), 0);
}

class ReadTile : public ::testing::Test {
 protected:
  // A file of numbers 0, 1, 2, ... of 2 or 4 bytes behind 24 others.
  void make(std::int64_t count, std::int64_t size) {
    std::string bytes(24, 'x');
    for (std::int64_t i = 0; i < count; ++i) {
      const auto number = static_cast<std::uint32_t>(i);
      bytes.append(reinterpret_cast<const char*>(&number), static_cast<std::size_t>(size));
    }
    write_file(folder / "data", bytes);
  }

  void expect_slice(const MatrixSlice& slice, const Tile& tile, std::int64_t size) {
    const InputFile file = take(InputFile::open(folder / "data"));
    std::vector<std::uint8_t> out(static_cast<std::size_t>(tile.elements() * size));
    std::vector<std::uint8_t> scratch(static_cast<std::size_t>(tile_scratch_bytes));
    ASSERT_TRUE(succeeds(read_tile(file, 24, slice, tile, size, out, scratch)));
    for (std::int64_t row = 0; row < tile.rows; ++row) {
      for (std::int64_t col = 0; col < tile.cols; ++col) {
        std::uint32_t number = 0;
        std::memcpy(&number, out.data() + (row * tile.cols + col) * size,
                    static_cast<std::size_t>(size));
        const auto wanted =
            static_cast<std::uint32_t>(slice.element(tile.row + row, tile.col + col));
        ASSERT_EQ(number, size == 2 ? wanted & 0xFFFF : wanted) << row << ", " << col;
      }
    }
    const ByteRange range = tile_range(24, slice, tile, size);
    EXPECT_EQ(range.begin,
              24 + static_cast<std::uint64_t>(slice.element(tile.row, tile.col) * size));
    EXPECT_GE(range.length, out.size());
  }

  TemporaryFolder folder;
};

TEST_F(ReadTile, reads_whole_rows_and_pieces_of_a_row) {
  make(12 * 32, 4);
  MatrixSlice slice{"m", 12, 32, 0, 32, 1, 0, 1};
  expect_slice(slice, {0, 12, 0, 32}, 4);
  expect_slice(slice, {3, 5, 0, 32}, 4);
  expect_slice(slice, {11, 1, 16, 16}, 4);
}

TEST_F(ReadTile, reads_interleaved_rows) {
  make(2 * 20 * 32, 2);
  expect_slice({"m", 10, 32, 640 + 32, 64, 1, 0, 1}, {2, 7, 0, 32}, 2);
}

TEST_F(ReadTile, reads_transposed_matrices_plain_and_interleaved) {
  make(2 * 24 * 40, 4);
  expect_slice({"m", 40, 24, 960, 1, 40, 0, 1}, {5, 30, 0, 24}, 4);
  expect_slice({"m", 20, 24, 961, 2, 40, 0, 2}, {3, 17, 0, 24}, 4);
  make(2 * 24 * 40, 2);
  expect_slice({"m", 20, 24, 961, 2, 40, 0, 2}, {0, 20, 8, 16}, 2);
}

TEST_F(ReadTile, reads_transposed_runs_longer_than_the_scratch) {
  const std::int64_t rows = tile_scratch_bytes / 4 + 1000;
  make(rows * 3, 4);
  expect_slice({"m", rows, 3, 0, 1, rows, 0, 1}, {10, rows - 10, 0, 3}, 4);
}

TEST_F(ReadTile, reads_a_vector_of_every_other_element) {
  make(100, 4);
  expect_slice({"m", 20, 1, 41, 2, 0, 0, 1}, {0, 20, 0, 1}, 4);
}

TEST_F(ReadTile, fails_where_the_file_ends) {
  make(100, 4);
  const InputFile file = take(InputFile::open(folder / "data"));
  std::vector<std::uint8_t> out(4 * 64), scratch;
  EXPECT_FALSE(read_tile(file, 24, {"m", 4, 16, 48, 16, 1, 0, 1}, {0, 4, 0, 16}, 4, out, scratch));
}

}  // namespace
}  // namespace microscale
