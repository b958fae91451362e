// Shapes of the two kernels for few rows, and how they lay out shared memory.
#include "cuda/matmul/few_rows/args.hpp"

#include <gtest/gtest.h>

#include <set>

namespace microscale::cuda::few_rows {
namespace {

constexpr int tile_sizes[] = {544, 576};  // MXFP4, NVFP4

TEST(PackedGeometry, copies_four_whole_tiles_at_a_time) {
  for (const int bytes : tile_sizes)
    for (const int row_groups : {1, 2}) {
      const PackedShape shape = packed_shape(bytes, row_groups);
      EXPECT_EQ(shape.stage_chunks, 4);
      EXPECT_EQ(shape.stage_bytes, shape.stage_chunks * bytes);
      EXPECT_EQ(shape.stage_bytes % 16, 0);                  // of a bulk copy
      EXPECT_EQ(shape.units_bytes, 2 * shape.columns);       // FP16
      EXPECT_EQ(shape.slot_bytes, 16 * 8 * row_groups * 4);  // FP32 of each weight row and row of a
      EXPECT_EQ(shape.slot_sums() * 8, shape.slot_bytes);    // a thread adds two
      EXPECT_EQ(shape.slot_bytes << shape.most_rounds_shift,
                4 * 512);  // as many sums for 8 rows and for 16
    }
}

// Every part begins where the one before has room enough, aligned for how it is accessed.
TEST(PackedGeometry, parts_of_shared_memory_keep_apart) {
  for (const int row_groups : {1, 2})
    for (const int bytes : tile_sizes)
      for (const int k_shift : {2, 3, 4})
        for (const int rows : {1, 5, 8 * row_groups})
          for (const int chunks : {1, 3, 41})
            for (const int depth : {2, 8})
              for (const bool experts : {false, true}) {
                const PackedShape shape = packed_shape(bytes, row_groups);
                const PackedCut cut{rows == 5    ? 0
                                    : depth == 2 ? 1
                                                 : 3,
                                    k_shift, chunks == 3 ? 0 : shape.most_rounds_shift, depth};
                const PackedShared s = packed_shared(shape, cut, rows, chunks, experts);
                EXPECT_GE(s.units, packed_warps * depth * shape.stage_bytes);
                EXPECT_GE(s.pitch, chunks * shape.units_bytes);
                EXPECT_EQ(s.pitch % 128, 16);  // eight rows, 16 bytes of each
                EXPECT_GE(s.partial, s.units + rows * s.pitch);
                EXPECT_GE(s.sums,
                          s.partial + packed_warps * (shape.slot_bytes << cut.rounds_shift));
                const int row_tiles = packed_warps >> k_shift << cut.rounds_shift,
                          buffers = cut.cluster_shift > 0 ? 2 : 0;
                EXPECT_GE(s.parts, s.sums + buffers * row_tiles * shape.slot_sums() * 8);
                EXPECT_GE(s.barriers, s.parts + (experts ? most_parts * 8 : 0));
                EXPECT_GE(s.bytes, s.barriers + (packed_warps * depth + 3) * 8);
                for (const int part : {s.units, s.partial}) EXPECT_EQ(part % 16, 0);
                for (const int part : {s.sums, s.parts, s.barriers}) EXPECT_EQ(part % 8, 0);
              }
}

TEST(PackedGeometry, shares_are_all_there_is_and_alike) {
  for (const int count : {0, 1, 3, 16, 65, (1 << 20) - 1})
    for (int shift = 0; shift <= packed_warps_shift; ++shift) {
      EXPECT_EQ(share_of_k(count, 0, shift), 0);
      EXPECT_EQ(share_of_k(count, 1 << shift, shift), count);
      for (int i = 0; i < 1 << shift; ++i) {
        const int own = share_of_k(count, i + 1, shift) - share_of_k(count, i, shift);
        EXPECT_GE(own, count >> shift);
        EXPECT_LE(own, (count + (1 << shift) - 1) >> shift);
      }
    }
}

TEST(UnpackedGeometry, keeps_parts_of_shared_memory_apart_and_aligned) {
  for (const int block : {16, 32})
    for (const int matrices : {1, 2}) {
      const UnpackedShared s = unpacked_shared(block, 8, 5, matrices);
      EXPECT_EQ(s.units, 5 * unpacked_stage_bytes(block));
      EXPECT_EQ(s.unit_scales - s.units, matrices * 8 * stage_columns * 2);
      EXPECT_EQ(s.slots - s.unit_scales, matrices * 8 * stage_columns / 16 * 4);
      EXPECT_GE(s.mailbox - s.slots, sum_slots * unpacked_warps * 32 * 2 * 4);
      EXPECT_GE(s.bias - s.mailbox, tile_rows * 8);
      EXPECT_GE(s.barriers - s.bias, bias_tiles * tile_rows * 4);
      EXPECT_GE(s.bytes - s.barriers, 2 * 8 * (5 + sum_slots) + 8);
      for (const int swizzled : {unpacked_stage_bytes(block), stage_code_bytes})
        EXPECT_EQ(swizzled % 1024, 0);
      for (const int at : {s.units, s.unit_scales, s.slots, s.bias, s.barriers})
        EXPECT_EQ(at % 16, 0);
    }
}

// Lane 4 g + t reads the piece of 16 bytes t or 4 + t of its row's 128, eight lanes at a time,
// where the copy engine has put it.
TEST(UnpackedGeometry, keeps_lanes_in_banks_of_their_own) {
  for (const int half : {0, 4})
    for (int first = 0; first < 32; first += 8) {
      std::set<int> banks;
      for (int lane = first; lane < first + 8; ++lane)
        banks.insert((half + lane % 4) ^ row_of_fragment(lane / 4));
      EXPECT_EQ(banks.size(), 8u);
    }
}

TEST(UnpackedGeometry, gives_every_row_of_eight_once) {
  std::set<int> rows;
  for (int g = 0; g < 8; ++g) rows.insert(row_of_fragment(g));
  EXPECT_EQ(rows.size(), 8u);
  EXPECT_EQ(*rows.rbegin(), 7);
}

}  // namespace
}  // namespace microscale::cuda::few_rows
