#include "ops/staging.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "support/matrices.hpp"

namespace microscale {
namespace {

TEST(WorkGrid, covers_every_line_and_block_once) {
  using Shape = std::pair<std::int64_t, std::int64_t>;
  for (const BlockAxis axis : {BlockAxis::cols, BlockAxis::rows})
    for (auto [lines, blocks] : {Shape{1, 1}, {7, 3}, {3, 20000}, {70000, 2}}) {
      const WorkGrid grid(lines, blocks, 32, axis);
      std::int64_t covered = 0;
      std::vector<char> seen(static_cast<std::size_t>(lines * blocks));
      for (std::int64_t i = 0; i < grid.count(); ++i) {
        const WorkItem item = grid.item(i);
        for (std::int64_t l = item.line; l < item.line + item.lines; ++l)
          for (std::int64_t b = item.block; b < item.block + item.blocks; ++b, ++covered)
            ASSERT_EQ(seen[static_cast<std::size_t>(l * blocks + b)]++, 0);
      }
      EXPECT_EQ(covered, lines * blocks);
    }
  EXPECT_EQ(WorkGrid(0, 5, 32, BlockAxis::cols).count(), 0);
  EXPECT_EQ(WorkGrid(5, 0, 32, BlockAxis::rows).count(), 0);
}

TEST(GatherLines, transposes_pads_with_zeros_and_scatters_back) {
  const test::Matrix m = test::gaussian(DType::bf16, 50, 9);
  for (BlockAxis axis : {BlockAxis::cols, BlockAxis::rows}) {
    const std::int64_t lines = axis == BlockAxis::cols ? 50 : 9;
    const std::int64_t length = axis == BlockAxis::cols ? 9 : 50;
    const WorkItem item{2, lines - 3, 0, (length + 15) / 16};
    const std::int64_t width = item.blocks * 16;
    std::vector<std::uint16_t> rows(static_cast<std::size_t>(item.lines * width), 0xAAAA);
    gather_lines(m.view(), axis, item, 16, rows.data());
    for (std::int64_t l = 0; l < item.lines; ++l)
      for (std::int64_t i = 0; i < width; ++i) {
        const float expected = i >= length               ? 0.0f
                               : axis == BlockAxis::cols ? m.at(2 + l, i)
                                                         : m.at(i, 2 + l);
        ASSERT_EQ(bf16_to_float(rows[static_cast<std::size_t>(l * width + i)]), expected);
      }
    test::Matrix back(DType::bf16, 50, 9);
    scatter_lines(rows.data(), axis, item, 16, back.mutable_view());
    for (std::int64_t l = 0; l < lines; ++l)
      for (std::int64_t i = 0; i < length; ++i) {
        const bool inside = l >= 2 && l < lines - 1;
        const float got = axis == BlockAxis::cols ? back.at(l, i) : back.at(i, l);
        const float original = axis == BlockAxis::cols ? m.at(l, i) : m.at(i, l);
        ASSERT_EQ(got, inside ? original : 0.0f);
      }
  }
}

}  // namespace
}  // namespace microscale
