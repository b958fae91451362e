#include "cuda/line_geometry.hpp"

#include <gtest/gtest.h>

#include <set>

namespace microscale::cuda {
namespace {

TEST(LineGeometry, gives_every_block_its_row_tiles) {
  for (const std::uint32_t count : {1u, 7u, 448u, 2048u})
    for (const std::uint32_t parts : {1u, 3u, 132u}) {
      EXPECT_EQ(line_share(count, 0, parts), 0u);
      EXPECT_EQ(line_share(count, parts, parts), count);
      for (std::uint32_t i = 0; i < parts; ++i) {
        const std::uint32_t own = line_share(count, i + 1, parts) - line_share(count, i, parts);
        EXPECT_TRUE(own == count / parts || own == count / parts + 1);
      }
    }
}

TEST(LineGeometry, keeps_parts_of_shared_memory_apart_and_aligned) {
  for (const int block : {16, 32})
    for (const int matrices : {1, 2}) {
      const LineShared s = line_shared(block, 8, 5, matrices);
      EXPECT_EQ(s.units, 5 * line_stage_bytes(block));
      EXPECT_EQ(s.unit_scales - s.units, matrices * 8 * line_columns * 2);
      EXPECT_EQ(s.slots - s.unit_scales, matrices * 8 * line_columns / 16 * 4);
      EXPECT_GE(s.mailbox - s.slots, line_slots * line_warps * 32 * 2 * 4);
      EXPECT_GE(s.bias - s.mailbox, line_rows * 4);
      EXPECT_GE(s.barriers - s.bias, line_bias_tiles * line_rows * 4);
      EXPECT_GE(s.bytes - s.barriers, 2 * 8 * (5 + line_slots));
      for (const int at : {line_code_pitch, line_scale_pitch(block), line_stage_bytes(block),
                           s.units, s.unit_scales, s.slots, s.bias, s.barriers})
        EXPECT_EQ(at % 16, 0);
    }
}

// Lane 4 g + t reads 16 bytes of codes at g * pitch + 16 t, eight lanes at a time, and 2 bytes of
// scales (of blocks of 32: 1) at g * pitch + 2 t, all at once.
TEST(LineGeometry, keeps_lanes_in_banks_of_their_own) {
  for (int first = 0; first < 32; first += 8) {
    std::set<int> banks;
    for (int lane = first; lane < first + 8; ++lane)
      banks.insert((lane / 4 * line_code_pitch + 16 * (lane % 4)) % 128);
    EXPECT_EQ(banks.size(), 8u);
  }
  for (const int block : {16, 32}) {
    std::set<int> banks;
    for (int lane = 0; lane < 32; ++lane)
      banks.insert((lane / 4 * line_scale_pitch(block) + lane % 4 * 32 / block) % 128 / 4);
    EXPECT_EQ(banks.size(), block == 16 ? 16u : 8u);  // no two words of one bank
  }
}

}  // namespace
}  // namespace microscale::cuda
