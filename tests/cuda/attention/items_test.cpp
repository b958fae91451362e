// Into how many parts keys are cut: what fills a device, and no more than pays.
#include "cuda/attention/items.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda::attention {
namespace {

constexpr SplitCosts costs{.block = 2, .merge = 4};

TEST(AttentionSplits, fill_the_device_once) {
  EXPECT_EQ(best_splits(8, 132, 512, 1, 128, costs), 16);  // 32 pieces each; 17 would be two rounds
  EXPECT_EQ(best_splits(1, 132, 512, 1, 128, costs), 128);
  EXPECT_EQ(best_splits(1, 132, 512, 1, 20, costs), 20);
}

TEST(AttentionSplits, are_one_where_merging_costs_more) {
  EXPECT_EQ(best_splits(132, 132, 512, 1, 128, costs), 1);
  EXPECT_EQ(best_splits(8, 132, 4, 1, 128, costs), 1);
  EXPECT_EQ(best_splits(8, 132, 0, 1, 128, costs), 1);
}

TEST(AttentionSplits, even_out_a_last_round) {
  // Two rounds of 100 pieces, or five of 34.
  EXPECT_EQ(best_splits(200, 132, 100, 1, 4, {.block = 0, .merge = 1}), 3);
}

TEST(AttentionSplits, count_what_warps_of_a_block_share) {
  EXPECT_EQ(best_splits(100, 132, 96, 3, 4, {.block = 1, .merge = 1}), 1);
  // Each part is then one piece of three warps.
  EXPECT_EQ(best_splits(1, 132, 12, 3, 100, {.block = 0, .merge = 0}), 4);
}

TEST(AttentionSplits, count_blocks_that_merge) {
  constexpr SplitCosts of_decode{.block = 3, .merge = 2.5, .part = .06, .merging_blocks = 4};
  // 18 pieces by three warps: 6 + 3 in one part; 1 + 3, and 2.5 + 6 * .06 for merging, in six.
  EXPECT_EQ(best_splits(8, 528, 18, 3, 6, of_decode), 6);
  // In three parts 2 + 3, and 128 * 7 / 528 * 2.5 + .18 for merging.
  EXPECT_EQ(best_splits(128, 528, 18, 3, 6, of_decode), 1);
  EXPECT_EQ(best_splits(8, 528, 4098, 3, 128, of_decode), 66);  // all places
  EXPECT_EQ(best_splits(8, 528, 18, 3, 6, {.block = 3, .merge = 1, .part = .5}), 3);
}

}  // namespace
}  // namespace microscale::cuda::attention
