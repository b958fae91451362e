#include "layouts/grouped.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace microscale::grouped {
namespace {

// The most over all ways to share out, tried one by one.
std::int64_t most(std::int64_t rows, std::int64_t experts, std::int64_t height) {
  if (experts == 0) return 0;
  if (experts == 1) return tile_rows(rows, height);
  std::int64_t best = 0;
  for (std::int64_t first = 0; first <= rows; ++first)
    best = std::max(best, tile_rows(first, height) + most(rows - first, experts - 1, height));
  return best;
}

TEST(Grouped, bounds_the_tile_rows_of_every_distribution_exactly) {
  for (std::int64_t height : {1, 3, 4})
    for (std::int64_t experts : {0, 1, 2, 3, 4})
      for (std::int64_t rows = 0; rows < 20; ++rows)
        EXPECT_EQ(most_tile_rows(rows, experts, height), most(rows, experts, height))
            << rows << ' ' << experts << ' ' << height;
}

TEST(Grouped, keeps_rows_within_the_matrix_and_the_capacity) {
  const std::int32_t numbers[] = {-3, 4, 2, 11, 100};
  const ExpertTable offsets{numbers, false, no_capacity, 10};
  const std::int64_t by_offsets[][2] = {{0, 4}, {4, 0}, {2, 8}, {10, 0}};
  for (std::int64_t e = 0; e < 4; ++e) {
    EXPECT_EQ(rows_of_expert(offsets, e).first, by_offsets[e][0]) << e;
    EXPECT_EQ(rows_of_expert(offsets, e).count, by_offsets[e][1]) << e;
  }
  const ExpertTable counts{numbers, false, 5, 25};
  const std::int64_t by_counts[] = {0, 4, 2, 5, 5};
  for (std::int64_t e = 0; e < 5; ++e) {
    EXPECT_EQ(rows_of_expert(counts, e).first, 5 * e);
    EXPECT_EQ(rows_of_expert(counts, e).count, by_counts[e]) << e;
  }
}

TEST(Grouped, keeps_regions_within_the_most_there_can_be) {
  EXPECT_EQ(tile_rows_before(3, 129, 400, 6, 128), 3);
  EXPECT_EQ(tile_rows_before(7, 129, 400, 6, 128), most_tile_rows(400, 6, 128) - 2);
  for (std::int64_t experts : {1, 3, 7})  // regions of a capacity fit, whatever it is
    for (std::int64_t capacity = 0; capacity < 400; ++capacity)
      EXPECT_LE(experts * tile_rows(capacity, 128),
                most_tile_rows(experts * capacity, experts, 128));
}

}  // namespace
}  // namespace microscale::grouped
