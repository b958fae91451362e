#include "checkpoint/scale_outliers.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace microscale {
namespace {

using Found = std::vector<std::pair<std::size_t, bool>>;

/// Of rows of `per_row` blocks in MXFP4; `empty`: blocks whose codes are all 0 or -0.
Found found_in(const std::vector<std::uint8_t>& scales, std::int64_t per_row,
               const std::vector<std::size_t>& empty = {}, std::int64_t first = 0) {
  const FormatInfo& format = info(Format::mxfp4);
  std::vector<std::uint8_t> codes(scales.size() * 16, 0x21);
  for (const std::size_t block : empty) {
    std::fill_n(codes.begin() + static_cast<std::ptrdiff_t>(block * 16), 16, 0x80);
  }
  Found found;
  find_scale_outliers(scales, codes, format, first, per_row,
                      [&](std::size_t i, bool larger) { found.emplace_back(i, larger); });
  return found;
}

TEST(ScaleOutliers, are_far_from_all_blocks_around_them) {
  EXPECT_EQ(found_in({120, 121, 119, 56, 120, 122}, 6), (Found{{3, false}}));
  EXPECT_EQ(found_in({120, 121, 119, 151, 120, 122}, 6), (Found{{3, true}}));
  EXPECT_EQ(found_in({120, 121, 101, 120}, 4), Found()) << "19 powers are told apart from 20";
  EXPECT_EQ(found_in({120, 121, 100, 120}, 4), (Found{{2, false}}));
  // At the edges, and in a grid: rows before and after count too.
  EXPECT_EQ(found_in({1, 120, 120, 120}, 2), (Found{{0, false}}));
  EXPECT_EQ(found_in({120, 120, 120, 1}, 2), (Found{{3, false}}));
  EXPECT_EQ(found_in({120, 1, 120}, 1), (Found{{1, false}})) << "one block a row";
}

TEST(ScaleOutliers, are_no_rows_or_columns_of_almost_nothing) {
  EXPECT_EQ(found_in({120, 120, 120, 3, 2, 4, 120, 120, 120}, 3), Found()) << "a row";
  EXPECT_EQ(found_in({120, 3, 120, 120, 2, 120, 120, 4, 120}, 3), Found()) << "a column";
  EXPECT_EQ(found_in({120, 60, 1, 60, 120}, 5), (Found{{2, false}})) << "falling to both sides";
  EXPECT_EQ(found_in({1, 60, 120}, 3), Found()) << "one neighbour is too few";
  EXPECT_EQ(found_in({1, 60, 120, 140}, 4), Found()) << "between smaller and larger ones";
}

TEST(ScaleOutliers, leave_out_blocks_without_values) {
  EXPECT_EQ(found_in({120, 120, 1, 120}, 4, {2}), Found()) << "its scale means nothing";
  EXPECT_EQ(found_in({120, 1, 120}, 3, {0}), Found()) << "one that counts beside it";
  EXPECT_EQ(found_in({1, 120, 1, 1, 120, 1}, 3, {0, 2, 3, 5}), Found());
  EXPECT_EQ(found_in({120, 0, 120}, 3), Found()) << "2^-127 has a rule of its own";
  EXPECT_EQ(found_in({120, 255, 120}, 3), Found()) << "and so has NaN";
}

TEST(ScaleOutliers, know_where_in_a_row_a_run_begins) {
  // The run begins with the last block of a row.
  EXPECT_EQ(found_in({120, 1, 120, 120}, 3, {}, 2), (Found{}))
      << "the first block is in another row, so one neighbour is left";
  EXPECT_EQ(found_in({120, 120, 1, 120}, 3, {}, 2), (Found{{2, false}}));
}

}  // namespace
}  // namespace microscale
