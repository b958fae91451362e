// How the kernels' rings and parts are laid out.
#include "cuda/attention/decode/plan.hpp"

#include <gtest/gtest.h>

namespace microscale::cuda {
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

TEST(AttentionDecodeArgs, places_are_those_of_a_stage_or_of_records) {
  // 64 tokens of 64 bytes and 8 scales: codes are 4096 bytes, scales 512.
  const DecodePlaces stage = decode_places(KvFormat::nvfp4, 128, 8, 0);
  EXPECT_EQ(stage.v_codes, 4096);
  EXPECT_EQ(stage.k_scales, 8192);
  EXPECT_EQ(stage.v_scales, 8704);
  EXPECT_EQ(stage.piece_codes, 2048);
  EXPECT_EQ(stage.piece_scales, 256);
  EXPECT_EQ(stage.sixteen_codes, 1024);
  EXPECT_EQ(stage.sixteen_scales, 128);
  EXPECT_EQ(decode_places(KvFormat::nvfp4, 128, 6, 0).sixteen_scales, 96);
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
  EXPECT_EQ(decode_row_terms(KvFormat::nvfp4, 128, 8), 3 * 2 * 9216);
  EXPECT_EQ(decode_row_terms(KvFormat::mxfp4, 128, 16), 3 * 2 * 8704);
  EXPECT_EQ(decode_row_terms(KvFormat::mxfp4, 64, 16), 3 * 3 * 4352);
  EXPECT_EQ(decode_row_terms(KvFormat::mxfp8, 128, 8), 3 * 2 * 8448);
  EXPECT_EQ(decode_row_terms(KvFormat::fp8, 256, 8), 3 * 2 * 16384);
  EXPECT_EQ(decode_shared_bytes(KvFormat::nvfp4, 128, 8),
            3 * 2 * 9216 + 3 * 8 * 8 + 3 * 2 * 20 + 4 * 8 + 8);
  EXPECT_EQ(decode_shared_bytes(KvFormat::nvfp4, 128, 4),
            3 * 2 * 9216 + 3 * 4 * 8 + 3 * 2 * 20 + 4 * 8 + 8 + 3 * 512);
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

TEST(AttentionDecodeArgs, probabilities_take_the_scales_of_values_where_columns_suffice) {
  EXPECT_TRUE(decode_turns(KvFormat::mxfp4, 16));
  EXPECT_TRUE(decode_turns(KvFormat::nvfp4, 4));
  EXPECT_FALSE(decode_turns(KvFormat::nvfp4, 8));
  EXPECT_FALSE(decode_turns(KvFormat::mxfp8, 4));
  EXPECT_FALSE(decode_turns(KvFormat::fp8, 4));
  EXPECT_EQ(decode_factor_bytes(KvFormat::mxfp4, 128, 8), 32 * 4 * 2);
  EXPECT_EQ(decode_factor_bytes(KvFormat::nvfp4, 128, 4), 32 * 8 * 2);
  EXPECT_EQ(decode_factor_bytes(KvFormat::nvfp4, 128, 8), 0);
}

TEST(AttentionDecodeArgs, parts_have_their_sums_and_two_numbers_a_row) {
  EXPECT_EQ(decode_sums_floats(3, 5, 8, 64), 3 * 5 * 8 * 64);
  EXPECT_EQ(decode_partial_floats(3, 5, 8, 64), 3 * 5 * 8 * 66);
  EXPECT_EQ(decode_flags(3, 5, 4), 3 * 5 * 4);
}

}  // namespace
}  // namespace microscale::cuda
