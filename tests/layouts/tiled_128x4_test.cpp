#include "layouts/tiled_128x4.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace microscale {
namespace {

TEST(Tiled128x4, offsets_are_distinct_and_inside) {
  for (auto [lines, blocks] : {std::pair{1, 1}, {128, 4}, {129, 5}, {300, 7}}) {
    std::set<std::int64_t> seen;
    for (std::int64_t l = 0; l < lines; ++l)
      for (std::int64_t b = 0; b < blocks; ++b) {
        const std::int64_t offset = tiled_128x4::offset(l, b, blocks);
        EXPECT_GE(offset, 0);
        EXPECT_LT(offset, tiled_128x4::bytes(lines, blocks));
        EXPECT_TRUE(seen.insert(offset).second) << l << ' ' << b;
      }
  }
}

// The layout written out as NVIDIA's documentation draws it: a tile is 32 rows of 16 bytes, row r
// holding lines r, r + 32, r + 64, r + 96 in turn, four blocks each; tiles follow along the line
// first.
TEST(Tiled128x4, equals_the_layout_as_documented) {
  const std::int64_t blocks = 11;
  std::int64_t expected = 0;
  for (std::int64_t tile_line = 0; tile_line < 2; ++tile_line)
    for (std::int64_t tile_block = 0; tile_block < 3; ++tile_block)
      for (std::int64_t r = 0; r < 32; ++r)
        for (std::int64_t quarter = 0; quarter < 4; ++quarter)
          for (std::int64_t b = 0; b < 4; ++b, ++expected) {
            const std::int64_t line = tile_line * 128 + quarter * 32 + r,
                               block = tile_block * 4 + b;
            if (block < blocks) {
              ASSERT_EQ(tiled_128x4::offset(line, block, blocks), expected);
            }
          }
}

}  // namespace
}  // namespace microscale
