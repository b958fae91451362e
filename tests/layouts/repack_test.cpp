#include "layouts/repack.hpp"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "layouts/row_major.hpp"
#include "layouts/tiled_128x4.hpp"

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

// The layout written out as NVIDIA's documentation draws it: a tile is 32 rows of 16 bytes, row r holding
// lines r, r + 32, r + 64, r + 96 in turn, four blocks each; tiles follow along the line first.
TEST(Tiled128x4, equals_the_layout_as_documented) {
  const std::int64_t blocks = 11;
  std::int64_t expected = 0;
  for (std::int64_t tile_line = 0; tile_line < 2; ++tile_line)
    for (std::int64_t tile_block = 0; tile_block < 3; ++tile_block)
      for (std::int64_t r = 0; r < 32; ++r)
        for (std::int64_t quarter = 0; quarter < 4; ++quarter)
          for (std::int64_t b = 0; b < 4; ++b, ++expected) {
            const std::int64_t line = tile_line * 128 + quarter * 32 + r, block = tile_block * 4 + b;
            if (block < blocks) {
              ASSERT_EQ(tiled_128x4::offset(line, block, blocks), expected);
            }
          }
}

TEST(RepackScales, there_and_back_keeps_every_byte_and_zeroes_the_padding) {
  BlockShape shape{.rows = 131, .cols = 7 * 16, .format = Format::nvfp4};
  std::vector<std::uint8_t> rows(static_cast<std::size_t>(shape.scale_bytes()));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint8_t>(1 + i % 255);
  BlockShape tiled = shape;
  tiled.layout = Layout::tiled_128x4;
  std::vector<std::uint8_t> packed(static_cast<std::size_t>(tiled.scale_bytes()), 0xEE);
  repack_scale_bytes(shape, rows, Layout::tiled_128x4, packed);
  EXPECT_EQ(packed.size(), 2u * 2 * 512);
  std::size_t zeros = 0;
  for (std::uint8_t byte : packed) zeros += byte == 0;
  EXPECT_EQ(zeros, packed.size() - rows.size());
  std::vector<std::uint8_t> back(rows.size());
  repack_scale_bytes(tiled, packed, Layout::row_major, back);
  EXPECT_EQ(back, rows);
}

TEST(BlockShape, counts_bytes_of_both_axes) {
  const BlockShape across{.rows = 3, .cols = 64, .format = Format::mxfp4};
  EXPECT_EQ(across.code_bytes(), 96);
  EXPECT_EQ(across.scale_bytes(), 6);
  const BlockShape down{.rows = 64, .cols = 3, .format = Format::mxfp8_e4m3, .axis = BlockAxis::rows};
  EXPECT_EQ(down.lines(), 3);
  EXPECT_EQ(down.code_bytes(), 192);
  EXPECT_EQ(down.scale_bytes(), 6);
}

}  // namespace
}  // namespace microscale
