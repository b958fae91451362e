// Fragment maps: formulas against layouts written as shape:stride; probe_test.cpp has the third
// way.
#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "emulator/tensor/mma_fragments.hpp"
#include "emulator/tensor/probe.hpp"
#include "support/cute_layout.hpp"
#include "support/mma_layouts.hpp"

namespace microscale::testing {
namespace {

using tensor::Probed;

/// A map's slots as (lane, number in the lane) against a layout; `lines` is the size of its first
/// mode.
void expect_layout(const std::vector<Probed>& map, const char* text, int items, int lines,
                   bool line_is_row) {
  const CuteLayout layout(text);
  ASSERT_EQ(static_cast<int>(map.size()), 32 * layout.size(1));
  for (const Probed& probed : map) {
    const int offset = layout({probed.slot.lane, probed.slot.reg * items + probed.slot.item});
    const int line = line_is_row ? probed.at.row : probed.at.column;
    const int other = line_is_row ? probed.at.column : probed.at.row;
    ASSERT_EQ(line + lines * other, offset) << "lane " << probed.slot.lane;
  }
}

TEST(MmaFragments, formulas_and_shape_stride_layouts_agree) {
  for (const MmaLayouts& each : mma_layouts()) {
    SCOPED_TRACE(spelling(each.shape));
    expect_layout(map_a(each.shape), each.a, 32 / container_bits(each.shape.kind, each.shape.a), 16,
                  true);
    expect_layout(map_b(each.shape), each.b, 32 / container_bits(each.shape.kind, each.shape.b), 8,
                  false);
    expect_layout(map_d(each.shape), each.d, 1, 16, true);
  }
}

TEST(MmaFragments, every_element_has_one_slot_and_the_inverse_finds_it) {
  for (const int bits : {4, 8, 16, 32}) {
    const int k = 256 / bits;
    std::set<std::tuple<int, int, int>> seen;
    for (int row = 0; row < 16; ++row)
      for (int at = 0; at < k; ++at) {
        const tensor::Slot slot = tensor::a_slot(bits, {row, at});
        EXPECT_EQ(tensor::a_coordinate(bits, slot), (tensor::Coordinate{row, at}));
        EXPECT_TRUE(seen.emplace(slot.lane, slot.reg, slot.item).second);
        if (row >= 8) continue;
        EXPECT_EQ(tensor::b_coordinate(bits, tensor::b_slot(bits, {at, row})),
                  (tensor::Coordinate{at, row}));
      }
    EXPECT_EQ(seen.size(), static_cast<std::size_t>(16 * k));
  }
}

}  // namespace
}  // namespace microscale::testing
