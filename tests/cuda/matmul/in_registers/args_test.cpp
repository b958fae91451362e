// Ranges of k that begin anywhere: who has which, and what the ways of cutting cost.
#include "cuda/matmul/in_registers/args.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

namespace microscale::cuda::in_registers {
namespace {

constexpr TileCosts costs{.chunk = 1000, .tile = 1500, .cut = 5000, .sums = 1100};

struct Range {
  std::uint32_t block, first, end;
};
/// Of each tile, in the order of blocks.
std::map<std::uint32_t, std::vector<Range>> ranges_of(const TileCut& cut) {
  std::map<std::uint32_t, std::vector<Range>> ranges;
  for (std::uint32_t block = 0; block < cut.blocks; ++block) {
    const std::uint32_t begin = cut.begin(block);
    for (std::uint32_t end = cut.begin(block + 1); begin < end;) {
      const TilePiece piece = cut.piece(begin, end);
      EXPECT_LT(piece.from, end);
      EXPECT_GE(piece.from, begin);
      end = piece.from;
      if (piece.first < piece.end) ranges[piece.tile].push_back({block, piece.first, piece.end});
    }
  }
  return ranges;
}

// Every chunk of every tile that is cut belongs to one range, ranges follow each other from block
// to block, and each finds its number, of no more than there may be. A block puts the sums of one
// range at most, before it waits for those of others.
void expect_whole(const TileCut& cut, std::uint32_t chunks) {
  const auto ranges = ranges_of(cut);
  ASSERT_EQ(ranges.size(), cut.tiles);
  std::set<std::uint32_t> put;  // blocks that have
  for (const auto& [tile, own] : ranges) {
    const std::uint32_t first_block = cut.first_block(tile);
    ASSERT_EQ(cut.last_block(tile) - first_block + 1, own.size()) << tile;
    ASSERT_LE(own.size(), static_cast<std::size_t>(most_ranges)) << tile;
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; i < own.size(); ++i) {
      ASSERT_EQ(own[i].block, first_block + i) << tile;
      ASSERT_EQ(own[i].first, at) << tile;
      at = own[i].end;
      if (own.size() == 1) continue;
      if (i + 1 < own.size()) {
        ASSERT_TRUE(put.insert(own[i].block).second) << tile;
      }
    }
    ASSERT_EQ(at, chunks) << tile;
  }
  for (std::uint32_t block = 0; block < cut.blocks; ++block) {  // in the order it takes them
    const std::uint32_t begin = cut.begin(block);
    bool waited = false;
    for (std::uint32_t end = cut.begin(block + 1); begin < end;) {
      const TilePiece piece = cut.piece(begin, end);
      end = piece.from;
      if (piece.first == piece.end) continue;
      const bool puts = cut.last_block(piece.tile) > block;
      ASSERT_FALSE(puts && waited) << block;
      waited |= !puts && cut.first_block(piece.tile) < block;
    }
  }
}

TEST(TileCut, gives_every_chunk_to_one_block) {
  int cuts = 0, uncut = 0;
  for (const std::uint32_t blocks : {1u, 2u, 3u, 5u, 8u, 13u, 132u})
    for (std::uint32_t tiles = 0; tiles <= 4 * blocks + 1; tiles += blocks > 100 ? 7 : 1)
      for (const std::uint32_t chunks : {1u, 2u, 7u, 8u, 9u, 12u, 33u, 64u, 127u, 256u})
        for (int way = 1; way < cut_ways; ++way) {
          const CutChoice choice = cut_choice(costs, tiles, chunks, blocks, way);
          if (choice.cycles < 0) continue;
          ++cuts;
          const bool better = choice.cycles < cut_choice(costs, tiles, chunks, blocks, 0).cycles;
          EXPECT_TRUE(!better || may_cut(costs, tiles, chunks, blocks));
          uncut += !may_cut(costs, tiles, chunks, blocks);
          SCOPED_TRACE(::testing::Message() << tiles << " tiles of " << chunks << " chunks, "
                                            << blocks << " blocks, way " << way);
          EXPECT_LE(choice.cut.blocks, blocks);
          EXPECT_EQ((tiles - choice.cut.tiles) % blocks, 0u) << "the others are whole rounds";
          expect_whole(choice.cut, chunks);
          if (::testing::Test::HasFatalFailure()) return;
        }
  EXPECT_GT(cuts, 1000);
  EXPECT_GT(uncut, 100);
}

TEST(TileCut, gives_nobody_more_than_its_share) {
  const CutChoice choice = cut_choice(costs, 112, 128, 132, 1);
  ASSERT_EQ(choice.cut.blocks, 132u);
  ASSERT_EQ(choice.cut.tiles, 112u);
  std::vector<std::uint32_t> chunks(132), ranges(132);
  for (const auto& [tile, own] : ranges_of(choice.cut))
    for (const Range& range : own)
      chunks[range.block] += range.end - range.first, ++ranges[range.block];
  const std::uint32_t share = (112 * choice.cut.positions + 131) / 132;
  for (std::uint32_t block = 0; block < 132; ++block) {
    EXPECT_LE(chunks[block], share) << block;
    EXPECT_LE(chunks[block] + (ranges[block] - 1) * choice.cut.passing, share) << block;
  }
}

TEST(TileCut, takes_whole_rounds_behind_one_or_two_tiles_a_block) {
  EXPECT_EQ(cut_choice(costs, 20, 64, 8, 1).cut.tiles, 12u);
  EXPECT_EQ(cut_choice(costs, 15, 64, 8, 1).cut.tiles, 15u);
  EXPECT_EQ(cut_choice(costs, 7, 64, 8, 1).cut.tiles, 7u);
  EXPECT_LT(cut_choice(costs, 16, 64, 8, 1).cycles, 0) << "nothing to share";
  EXPECT_LT(cut_choice(costs, 33, 64, 8, 1).cycles, 0) << "many rounds";
}

TEST(TileCut, pairs_an_even_number_of_equal_ranges) {
  TileCosts paired = costs;
  paired.pair = 2000;
  for (int way = 0; way < cut_ways; ++way) {
    const CutChoice own = cut_choice(paired, 16, 64, 132, way),
                    other = cut_choice(costs, 16, 64, 132, way);
    EXPECT_EQ(own.cut.paired, way > 0 && way % 2 == 0) << way;
    EXPECT_FALSE(other.cut.paired);
    if (!own.cut.paired) {
      EXPECT_EQ(own.cycles, other.cycles) << way;
      continue;
    }
    expect_whole(own.cut, 64);
  }
}

TEST(TileCut, refuses_ways_that_cannot_be) {
  EXPECT_LT(cut_choice(costs, 2, 64, 8, 5).cycles, 0) << "more ranges than blocks";
  EXPECT_LT(cut_choice(costs, 1, 31, 8, 8).cycles, 0) << "ranges of three chunks";
  EXPECT_LT(cut_choice(costs, 1, 256, 132, 1).cycles, 0) << "more than eight ranges";
  EXPECT_LT(cut_choice(costs, 200, 1u << 20, 132, 1).cycles, 0) << "more than 32 bits";
}

}  // namespace
}  // namespace microscale::cuda::in_registers
