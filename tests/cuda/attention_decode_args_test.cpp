// How the kernels' rings and parts are laid out.
#include "cuda/attention_decode_args.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda {
namespace {

TEST(AttentionDecodeArgs, a_stage_holds_the_bytes_of_sixteen_tokens) {
  for (const int d : {64, 128, 256})
    for (const KvFormat format :
         {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8, KvFormat::fp8}) {
      const DecodeStage stage = decode_stage(format, d);
      const int codes = 16 * d * kv_page::code_bits(format) / 8,
                scales = format == KvFormat::fp8 ? 0 : 16 * d / kv_page::block(format);
      EXPECT_EQ(stage.bytes, 2 * (codes + scales));
      EXPECT_EQ(stage.v_codes, codes);
      EXPECT_EQ(stage.k_scales, 2 * codes);
      EXPECT_EQ(stage.v_scales - stage.k_scales, scales);
      EXPECT_EQ(stage.bytes % 16, 0);
      EXPECT_EQ(stage.v_scales % 16, 0);
    }
}

TEST(AttentionDecodeArgs, shared_memory_holds_the_rings_and_the_sums) {
  EXPECT_EQ(decode_shared_bytes(KvFormat::nvfp4, 128, 8), 4 * 4 * 2304);
  EXPECT_EQ(decode_shared_bytes(KvFormat::mxfp4, 128, 16), 4 * 4 * 2176);
  EXPECT_EQ(decode_shared_bytes(KvFormat::mxfp4, 64, 16), 4 * 4 * 1088);
  EXPECT_EQ(decode_shared_bytes(KvFormat::mxfp8, 128, 8), 4 * 4 * 4224);
  EXPECT_EQ(decode_shared_bytes(KvFormat::fp8, 256, 8), 4 * 3 * 8192);
  for (const int d : {64, 128, 256})
    for (const int rows : {8, 16}) {
      EXPECT_GE(decode_shared_bytes(KvFormat::mxfp4, d, rows), decode_warps * rows * (d + 2) * 4);
      EXPECT_LE(decode_all_shared_bytes(KvFormat::nvfp4, d, rows) * (d == 256 ? 2 : 4), 227 * 1024);
      EXPECT_LE(decode_all_shared_bytes(KvFormat::mxfp8, d, rows) * (d == 256   ? 2
                                                                     : d == 128 ? 3
                                                                                : 4),
                227 * 1024);
    }
}

TEST(AttentionDecodeArgs, parts_have_their_sums_and_two_numbers_a_row) {
  EXPECT_EQ(decode_partial_floats(3, 5, 8, 64), 3 * 5 * 8 * 66);
}

}  // namespace
}  // namespace microscale::cuda
