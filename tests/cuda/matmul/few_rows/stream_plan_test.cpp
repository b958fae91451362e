// Shapes of the kernels that stream packed weights.
#include "cuda/matmul/few_rows/stream_plan.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda {
namespace {

constexpr int tile_sizes[] = {544, 576};  // MXFP4, NVFP4

TEST(StreamGeometry, copies_four_whole_tiles_at_a_time) {
  for (const int bytes : tile_sizes)
    for (const int token_tiles : {1, 2}) {
      const StreamKind kind = stream_packed(bytes, token_tiles);
      EXPECT_EQ(kind.stage_chunks, 4);
      EXPECT_EQ(kind.stage_bytes, kind.stage_chunks * bytes);
      EXPECT_EQ(kind.stage_bytes % 16, 0);                   // of a bulk copy
      EXPECT_EQ(kind.units_bytes, 2 * kind.columns);         // FP16
      EXPECT_EQ(kind.slot_bytes, 16 * 8 * token_tiles * 4);  // FP32 of each weight row and row of a
      EXPECT_EQ(kind.slot_sums() * 8, kind.slot_bytes);      // a thread adds two
      EXPECT_EQ(kind.slot_bytes << kind.most_rounds_shift,
                4 * 512);  // as many sums for 8 rows and for 16
    }
}

// Every part begins where the one before has room enough, aligned for how it is accessed.
TEST(StreamGeometry, parts_of_shared_memory_keep_apart) {
  for (const int token_tiles : {1, 2})
    for (const int bytes : tile_sizes)
      for (const int k_shift : {2, 3, 4})
        for (const int rows : {1, 5, 8 * token_tiles})
          for (const int chunks : {1, 3, 41})
            for (const int depth : {2, 8})
              for (const bool experts : {false, true}) {
                const StreamKind kind = stream_packed(bytes, token_tiles);
                const StreamCut cut{rows == 5    ? 0
                                    : depth == 2 ? 1
                                                 : 3,
                                    k_shift, chunks == 3 ? 0 : kind.most_rounds_shift, depth};
                const StreamShared s = stream_shared(kind, cut, rows, chunks, experts);
                EXPECT_GE(s.units, stream_warps * depth * kind.stage_bytes);
                EXPECT_GE(s.pitch, chunks * kind.units_bytes);
                EXPECT_EQ(s.pitch % 128, 16);  // eight rows, 16 bytes of each
                EXPECT_GE(s.partial, s.units + rows * s.pitch);
                EXPECT_GE(s.sums, s.partial + stream_warps * (kind.slot_bytes << cut.rounds_shift));
                const int row_tiles = stream_warps >> k_shift << cut.rounds_shift,
                          buffers = cut.cluster_shift > 0 ? 2 : 0;
                EXPECT_GE(s.parts, s.sums + buffers * row_tiles * kind.slot_sums() * 8);
                EXPECT_GE(s.barriers, s.parts + (experts ? stream_most_parts * 8 : 0));
                EXPECT_GE(s.bytes, s.barriers + (stream_warps * depth + 3) * 8);
                for (const int part : {s.units, s.partial}) EXPECT_EQ(part % 16, 0);
                for (const int part : {s.sums, s.parts, s.barriers}) EXPECT_EQ(part % 8, 0);
              }
}

TEST(StreamGeometry, shares_are_all_there_is_and_alike) {
  for (const int count : {0, 1, 3, 16, 65, (1 << 20) - 1})
    for (int shift = 0; shift <= stream_warps_shift; ++shift) {
      EXPECT_EQ(stream_share(count, 0, shift), 0);
      EXPECT_EQ(stream_share(count, 1 << shift, shift), count);
      for (int i = 0; i < 1 << shift; ++i) {
        const int own = stream_share(count, i + 1, shift) - stream_share(count, i, shift);
        EXPECT_GE(own, count >> shift);
        EXPECT_LE(own, (count + (1 << shift) - 1) >> shift);
      }
    }
}

}  // namespace
}  // namespace microscale::cuda
