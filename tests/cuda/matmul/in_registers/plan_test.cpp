// Shapes of the kernels for many rows.
#include "cuda/matmul/in_registers/plan.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace microscale::cuda::in_registers {
namespace {

TEST(InRegistersPlan, fits_shared_memory_with_stages_to_spare) {
  for (const TileShape shape : tile_shapes)
    for (const int tile_bytes : {544, 576, 1056}) {
      const SharedLayout s = shared_layout(shape, tile_bytes);
      EXPECT_LE(s.bytes, most_shared_bytes);
      const int chunks = shape.stage_chunks(), weights = shape.rows / 16 * chunks * tile_bytes;
      EXPECT_GE(s.stages * chunks, 4) << shape.rows << "x" << shape.tokens << " " << tile_bytes;
      EXPECT_GE(s.stages, 3);
      EXPECT_EQ(s.stage_bytes, chunks * shape.tokens * 128);
      EXPECT_EQ(s.stage_bytes % 1024, 0);  // of the swizzle
      EXPECT_EQ(s.weights, s.stages * s.stage_bytes);
      EXPECT_GE(s.sums, s.weights + s.stages * weights);
      EXPECT_EQ(s.weights % 128, 0);  // of what the copy engine writes
      EXPECT_EQ(weights % 128, 0);
      EXPECT_EQ(s.places % 16, 0);
      EXPECT_EQ(s.barriers % 8, 0);
    }
}

// 64 rows of the weights have an accumulator each; registers of a block, as its warps take them.
TEST(InRegistersPlan, shares_rows_and_registers_out) {
  for (const TileShape shape : tile_shapes) {
    const TileShape same = tile_shape(shape.rows, shape.tokens);
    EXPECT_EQ(same.warpgroups, shape.warpgroups);
    EXPECT_EQ(64 * shape.parts() * shape.warpgroups, shape.rows);
    const int started = 65536 / shape.threads() / 8 * 8;
    EXPECT_LE(shape.warpgroups * shape.multiplying_registers() + shape.copying_registers(),
              started * (shape.warpgroups + 1));
    EXPECT_EQ(shape.tokens % shape.staged_tokens(), 0);
  }
}

TEST(InRegistersPlan, counts_tiles) {
  constexpr TileShape shape{256, 128};
  EXPECT_EQ(column_tiles_of(shape, 257, false), 2);
  EXPECT_EQ(column_tiles_of(shape, 129, true), 2);  // twice the rows
  EXPECT_EQ(column_tiles_of(shape, 128, true), 1);
  EXPECT_EQ(most_tiles_of(shape, 256, false, 129, 3, false), 6);
  EXPECT_EQ(most_tiles_of(shape, 256, false, 129, 3, true), 4);
}

// However rows are shared out among experts, there are no more tiles than that.
TEST(InRegistersPlan, most_tiles_are_enough) {
  constexpr TileShape shape{128, 64};
  for (std::int64_t first = 0; first <= 200; ++first)
    for (std::int64_t second = first; second <= 200; ++second)
      EXPECT_LE(tiles_down_of(shape, first) + tiles_down_of(shape, second - first) +
                    tiles_down_of(shape, 200 - second),
                most_tiles_of(shape, 1, false, 200, 3, true));
}

TEST(InRegistersPlan, multiplies_as_many_tokens_as_there_are) {
  constexpr TileShape long_tiles{128, 256}, wide_tiles{256, 128}, small{256, 64, 4};
  EXPECT_EQ(long_tiles.token_sizes(), 4);
  EXPECT_EQ(long_tiles.multiplied_tokens(1), 64);
  EXPECT_EQ(long_tiles.multiplied_tokens(128), 128);
  EXPECT_EQ(long_tiles.multiplied_tokens(129), 192);
  EXPECT_EQ(wide_tiles.token_sizes(), 2);
  EXPECT_EQ(wide_tiles.multiplied_tokens(64), 64);
  EXPECT_EQ(small.token_sizes(), 1);
  EXPECT_EQ(small.multiplied_tokens(1), 64);
}

}  // namespace
}  // namespace microscale::cuda::in_registers
