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

}  // namespace
}  // namespace microscale::grouped
