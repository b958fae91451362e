#include "cuda/matmul/few_rows/line_plan.hpp"

#include <gtest/gtest.h>

#include <set>

namespace microscale::cuda {
namespace {

TEST(LineGeometry, keeps_parts_of_shared_memory_apart_and_aligned) {
  for (const int block : {16, 32})
    for (const int matrices : {1, 2}) {
      const LineShared s = line_shared(block, 8, 5, matrices);
      EXPECT_EQ(s.units, 5 * line_stage_bytes(block));
      EXPECT_EQ(s.unit_scales - s.units, matrices * 8 * line_columns * 2);
      EXPECT_EQ(s.slots - s.unit_scales, matrices * 8 * line_columns / 16 * 4);
      EXPECT_GE(s.mailbox - s.slots, line_slots * line_warps * 32 * 2 * 4);
      EXPECT_GE(s.bias - s.mailbox, line_rows * 8);
      EXPECT_GE(s.barriers - s.bias, line_bias_tiles * line_rows * 4);
      EXPECT_GE(s.bytes - s.barriers, 2 * 8 * (5 + line_slots) + 8);
      for (const int swizzled : {line_stage_bytes(block), line_code_bytes})
        EXPECT_EQ(swizzled % 1024, 0);
      for (const int at : {s.units, s.unit_scales, s.slots, s.bias, s.barriers})
        EXPECT_EQ(at % 16, 0);
    }
}

// Lane 4 g + t reads the piece of 16 bytes t or 4 + t of its row's 128, eight lanes at a time,
// where the copy engine has put it.
TEST(LineGeometry, keeps_lanes_in_banks_of_their_own) {
  for (const int half : {0, 4})
    for (int first = 0; first < 32; first += 8) {
      std::set<int> banks;
      for (int lane = first; lane < first + 8; ++lane)
        banks.insert((half + lane % 4) ^ line_of_fragment(lane / 4));
      EXPECT_EQ(banks.size(), 8u);
    }
}

TEST(LineGeometry, gives_every_row_of_eight_once) {
  std::set<int> rows;
  for (int g = 0; g < 8; ++g) rows.insert(line_of_fragment(g));
  EXPECT_EQ(rows.size(), 8u);
  EXPECT_EQ(*rows.rbegin(), 7);
}

}  // namespace
}  // namespace microscale::cuda
