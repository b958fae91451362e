// How the kernels' rings are laid out, and whose tiles are whose.
#include "cuda/attention/prefill/args.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace microscale::cuda::attention::prefill {
namespace {

TEST(AttentionPrefillArgs, parts_of_shared_memory_follow_each_other_and_fit) {
  for (const int width : {64, 128, 256}) {
    const PrefillShared s = prefill_shared(width);
    const int tile = prefill_tile_bytes(width);
    EXPECT_EQ(s.v, s.query_stages * prefill_rows * width * 2);
    EXPECT_EQ(s.k, s.v + s.stages * tile);
    EXPECT_GE(s.items, s.k + s.stages * (tile + prefill_tile_info));
    for (const int part : {s.v, s.k, tile}) EXPECT_EQ(part % 1024, 0) << width;
    EXPECT_EQ(s.barriers % 8, 0);
    EXPECT_LE(s.bytes, 227 * 1024) << width;
  }
}

TEST(AttentionPrefillArgs, every_width_goes_to_the_next_there_is) {
  EXPECT_EQ(prefill_width(32), 64);
  EXPECT_EQ(prefill_width(64), 64);
  EXPECT_EQ(prefill_width(96), 128);
  EXPECT_EQ(prefill_width(160), 256);
}

TEST(AttentionPrefillArgs, no_tile_belongs_to_two_sequences) {
  const std::vector<std::int32_t> offsets{0, 1, 1, 129, 385, 384 + 130, 700, 1000};
  PrefillKeys keys{};
  keys.offsets = offsets.data();
  keys.tokens = 1000;
  keys.width = 128;
  std::int64_t free = 0;
  for (int s = 0; s < 7; ++s) {
    const std::int64_t first = prefill_first_tile(keys, s, offsets[static_cast<std::size_t>(s)]);
    EXPECT_GE(first, free) << s;
    free = first +
           (offsets[static_cast<std::size_t>(s) + 1] - offsets[static_cast<std::size_t>(s)] + 127) /
               128;
  }
  EXPECT_LE(free, 1000 / 128 + 7);
  keys.offsets = nullptr;
  keys.tiles_each = 5;
  EXPECT_EQ(prefill_first_tile(keys, 3, 0), 15);
}

}  // namespace
}  // namespace microscale::cuda::attention::prefill
