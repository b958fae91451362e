// How the kernels' rings and parts are laid out.
#include "cuda/attention/decode/args.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda::attention::decode {
namespace {

TEST(AttentionDecodeArgs, a_stage_holds_the_bytes_of_a_chunk_of_tokens) {
  for (const int d : {64, 128, 256})
    for (const KvFormat format :
         {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8, KvFormat::fp8}) {
      const DecodeStage stage = decode_stage(format, d);
      const int tokens = decode_chunk(format, d),
                codes = tokens * d * kv_page::code_bits(format) / 8,
                scales = format == KvFormat::fp8 ? 0 : tokens * d / kv_page::block(format);
      EXPECT_EQ(tokens % decode_piece, 0);
      EXPECT_EQ(stage.bytes, 2 * (codes + scales));
      EXPECT_EQ(stage.v_codes, codes);
      EXPECT_EQ(stage.k_scales, 2 * codes);
      EXPECT_EQ(stage.v_scales - stage.k_scales, scales);
      EXPECT_EQ(stage.bytes % 16, 0);
      EXPECT_EQ(stage.v_scales % 16, 0);
    }
}

TEST(AttentionDecodeArgs, places_are_those_of_records) {
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4})
    for (const int tokens : {16, 32}) {
      const int d = 128, row = static_cast<int>(kv_page::token_code_bytes(format, d)),
                scales = static_cast<int>(kv_page::token_scale_bytes(format, d));
      const kv_page::Record record = kv_page::record(format, tokens, d);
      const DecodePlaces places = decode_places(format, d, scales, tokens);
      EXPECT_EQ(places.v_codes, record.v_codes);
      EXPECT_EQ(places.k_scales, record.k_scales);
      EXPECT_EQ(places.v_scales, record.v_scales);
      EXPECT_EQ(places.piece_codes, 32 / tokens * record.bytes);
      EXPECT_EQ(places.piece_scales, places.piece_codes);
      EXPECT_EQ(places.sixteen_codes, tokens == 16 ? record.bytes : 16 * row);
      EXPECT_EQ(places.sixteen_scales, tokens == 16 ? record.bytes : 16 * scales);
      // Pages fill a stage.
      EXPECT_EQ(decode_chunk(format, d) / tokens * record.bytes, decode_stage(format, d).bytes);
    }
}

TEST(AttentionDecodeArgs, shared_memory_holds_the_rings_the_sums_and_the_barriers) {
  const auto blocks = [](KvFormat format, int d, int rows) {
    return 227 * 1024 / (decode_shared_bytes(format, d, rows) + 1024);
  };
  for (const int rows : {4, 8, 16})
    for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8}) {
      for (const int d : {64, 128, 256}) {
        EXPECT_GE(decode_row_terms(format, d, rows), decode_warps * rows * (d + 2) * 4);
        EXPECT_EQ(decode_barriers(format, d, rows) % 8, 0);
        EXPECT_EQ(decode_factors(format, d, rows) % 16, 0);
      }
      EXPECT_GE(blocks(format, 64, rows), 4);
      EXPECT_GE(blocks(format, 128, rows), 4);
      EXPECT_GE(blocks(format, 256, rows), 2);
    }
}

}  // namespace
}  // namespace microscale::cuda::attention::decode
