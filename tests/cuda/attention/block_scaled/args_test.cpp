// How V's tiles and shared memory are laid out for attention by block-scaled instructions.
#include "cuda/attention/block_scaled/args.hpp"

#include <gtest/gtest.h>

#include <set>

namespace microscale::cuda::attention::block_scaled {
namespace {

TEST(BlockAttentionArgs, a_tile_of_values_has_a_place_for_every_code_and_scale) {
  for (const int d : {64, 128, 256}) {
    std::set<int> halves, words;
    for (int i = 0; i < d; ++i) {
      for (const int half : {0, 1}) {
        EXPECT_TRUE(halves.insert(ValueTile::code(i, half)).second);
        EXPECT_EQ(ValueTile::code(i, half) % 16, 0);
        EXPECT_LE(ValueTile::code(i, half) + 16, d * 32);
      }
      EXPECT_TRUE(words.insert(ValueTile::scale(d, i)).second);
      EXPECT_GE(ValueTile::scale(d, i), d * 32);
      EXPECT_LE(ValueTile::scale(d, i) + 4, ValueTile::bytes(d));
    }
    // Eight neighbouring rows, the same half: all banks.
    for (int i = 0; i < d; i += 8) {
      std::set<int> banks;
      for (int r = i; r < i + 8; ++r) banks.insert(ValueTile::code(r, 0) / 16 % 8);
      EXPECT_EQ(banks.size(), 8u);
    }
  }
}

TEST(BlockAttentionArgs, sequences_share_no_tile) {
  std::int64_t first = 0, free = 0, sequence = 0;
  for (const std::int64_t length : {1, 0, 64, 63, 65, 200, 0, 128}) {
    EXPECT_GE(first_value_tile(first, sequence), free);
    free = first_value_tile(first, sequence) + (length + tile_keys - 1) / tile_keys;
    first += length, ++sequence;
  }
  EXPECT_LE(free, first_value_tile(first, sequence));  // what a head has
}

TEST(BlockAttentionArgs, shared_memory_is_within_a_block_s_and_mostly_within_half) {
  for (const int d : {64, 128, 256})
    for (const int terms : {1, 2})
      for (const bool along_tokens : {false, true}) {
        const Shared s = shared_of(d, d / 2, d / 64, terms, along_tokens);
        EXPECT_LE(s.bytes(), 99 * 1024);
        EXPECT_GE(s.stages, 2);
        if (d < 256) {
          EXPECT_LE(s.bytes(), 49 * 1024) << d << terms << along_tokens;
        }
        EXPECT_EQ((s.query_bytes + s.seen_bytes) % 256, 0);  // stages' rows are aligned to theirs
        EXPECT_EQ(s.stage() % 256, 0);
      }
}

}  // namespace
}  // namespace microscale::cuda::attention::block_scaled
