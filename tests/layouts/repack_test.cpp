#include "layouts/repack.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace microscale {
namespace {

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

}  // namespace
}  // namespace microscale
