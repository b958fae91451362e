// Every kernel for attention by block-scaled matrix instructions, executed in small calls by the
// emulator, against the FP64 model of its mode.
#include <gtest/gtest.h>

#include "cuda/device/kernels.hpp"
#include "support/block_attention_calls.hpp"
#include "support/executed_kernels.hpp"

namespace microscale::emulator {
namespace {

TEST(AttentionBlockScaledKernels, are_executed_all_and_right) {
  if (cuda::kernel_names("sm_120f").empty())
    GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  for (const Second& second : seconds)
    for (const std::int64_t d : {64, 128, 256})
      for (const AttentionAccuracy accuracy : accuracies) {
        const bool two = accuracy == AttentionAccuracy::two_term;
        if (d == 256 && two && second.rule == ProbabilityRule::two_level && !second.along_tokens)
          continue;  // refused
        EXPECT_TRUE(near_model(with(second, accuracy, {.q_len = 3, .d = d}))) << d;
        if (d == 256 || two) continue;
        for (const Format q : {Format::mxfp4, Format::mxfp8_e4m3}) {
          BlockAttentionCase c{.q_len = 3, .d = d, .k_format = Format::mxfp4, .format = q};
          if (!second.along_tokens) c.v_format = Format::nvfp4;
          if (second.along_tokens) c.q_format = q, c.format = Format::nvfp4;
          EXPECT_TRUE(near_model(with(second, accuracy, c))) << d << " " << info(q).name;
        }
      }
  for (const Second& second : seconds)  // parts that are merged
    for (const std::int64_t d : {64, 128, 256})
      EXPECT_TRUE(near_model(with(second, AttentionAccuracy::one_term,
                                  {.kv_len = 300, .q_len = 3, .d = d, .splits = 2})))
          << d;
  // Pages are read in attention_block_scaled_cache_test.
  EXPECT_TRUE(executed_all(
      consumer_blackwell(), "sm_120f",
      {"attention_block_scaled_", "attention_prepare_", "attention_merge_"},
      {"attention_block_scaled_exact_paged_", "attention_block_scaled_two_level_paged_"}));
}

}  // namespace
}  // namespace microscale::emulator
