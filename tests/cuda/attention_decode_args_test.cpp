// How the kernels' rings and parts are laid out.
#include "cuda/attention_decode_args.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda {
namespace {

TEST(AttentionDecodeArgs, a_stage_holds_the_bytes_of_sixteen_tokens) {
  for (const int d : {64, 128, 256})
    for (const int block : {16, 32}) {
      const DecodeStage stage = decode_stage(d, block);
      EXPECT_EQ(stage.bytes, 2 * (16 * d / 2 + 16 * d / block));
      EXPECT_EQ(stage.v_codes, 16 * d / 2);
      EXPECT_EQ(stage.k_scales, 16 * d);
      EXPECT_EQ(stage.v_scales - stage.k_scales, 16 * d / block);
      EXPECT_EQ(stage.bytes % 16, 0);
      EXPECT_EQ(stage.v_scales % 16, 0);
    }
}

TEST(AttentionDecodeArgs, shared_memory_holds_the_rings_and_the_sums) {
  EXPECT_EQ(decode_shared_bytes(128, 16, 8), 4 * 4 * 2304);
  EXPECT_EQ(decode_shared_bytes(128, 32, 16), 4 * 4 * 2176);
  EXPECT_EQ(decode_shared_bytes(64, 32, 16), 4 * 4 * 1088);
  for (const int d : {64, 128, 256})
    for (const int rows : {8, 16}) {
      EXPECT_GE(decode_shared_bytes(d, 32, rows), decode_warps * rows * (d + 2) * 4);
      EXPECT_LE(decode_shared_bytes(d, 16, rows) * (d == 256 ? 2 : 4), 227 * 1024);
    }
}

TEST(AttentionDecodeArgs, parts_have_their_sums_and_two_numbers_a_row) {
  EXPECT_EQ(decode_partial_floats(3, 5, 8, 64), 3 * 5 * 8 * 66);
}

}  // namespace
}  // namespace microscale::cuda
