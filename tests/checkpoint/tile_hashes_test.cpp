#include "checkpoint/tile_hashes.hpp"

#include <gtest/gtest.h>

namespace microscale {
namespace {

TEST(TileHashes, are_those_of_tiles_that_were_written_for_the_coding_asked_for) {
  ModelPlan plan;
  plan.shards.resize(2);
  QuantizedMatrix matrix;
  matrix.slice.rows = 3;
  matrix.slice.cols = tile_elements;
  plan.shards[1].matrices = {matrix, matrix};
  plan.shards[1].matrices[1].kept.emplace();
  TileHashes hashes(plan);
  const BlockCoding own{.format = Format::nvfp4, .multiplier = 0.5f},
      other{.format = Format::nvfp4};
  EXPECT_FALSE(hashes.of(1, 1, 0, own));
  hashes.set({Unit::Kind::quantize, 1, 1, 2}, own, 7);
  EXPECT_FALSE(hashes.of(1, 1, 2, own)) << "the first tile was written by another run";
  hashes.set({Unit::Kind::quantize, 1, 1, 0}, own, 5);
  EXPECT_EQ(hashes.of(1, 1, 0, own), 5u);
  EXPECT_EQ(hashes.of(1, 1, 2, own), 7u);
  EXPECT_FALSE(hashes.of(1, 1, 1, own));
  EXPECT_FALSE(hashes.of(1, 1, 2, other));
}

}  // namespace
}  // namespace microscale
