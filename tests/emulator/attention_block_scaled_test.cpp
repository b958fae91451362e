// Attention by block-scaled matrix instructions, as the kernels for consumer Blackwell compute it,
// on the emulator: against the FP64 model of the mode, to within what FP32 leaves open.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "cuda/attention.hpp"
#include "cuda/kernels.hpp"
#include "device_bytes.hpp"
#include "emulator/device.hpp"
#include "microscale/error.hpp"
#include "support/attention_modes.hpp"
#include "support/block_attention.hpp"

namespace microscale::emulator {
namespace {

using test::BlockAttention;
using test::BlockAttentionCase;

/// One for all tests: reading its kernels takes longer than running them.
EmulatorDevice& device() {
  static EmulatorDevice made(12, 0, {.instruction_budget = 2'000'000'000});
  return made;
}

class AttentionBlockScaled : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_names("sm_120f").empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

::testing::AssertionResult near(const BlockAttentionCase& c) {
  BlockAttention attention(c);
  return attention.compare(attention.run(device()));
}

/// What the second product may be: V's blocks along the tokens, or along d with codes of
/// probabilities, or with FP16.
struct Second {
  bool along_tokens;
  ProbabilityRule rule;
};
constexpr Second seconds[] = {{true, ProbabilityRule::two_level},
                              {false, ProbabilityRule::two_level},
                              {false, ProbabilityRule::exact}};
constexpr AttentionAccuracy accuracies[] = {AttentionAccuracy::one_term,
                                            AttentionAccuracy::two_term};

BlockAttentionCase with(const Second& second, AttentionAccuracy accuracy,
                        BlockAttentionCase c = {}) {
  c.along_tokens = second.along_tokens;
  c.rule = second.rule;
  c.accuracy = accuracy;
  return c;
}

TEST_F(AttentionBlockScaled, is_the_model_of_its_mode_at_every_width) {
  for (const Second& second : seconds)
    for (const AttentionAccuracy accuracy : accuracies)
      for (const std::int64_t d : {64, 128, 256}) {
        if (second.rule == ProbabilityRule::two_level && !second.along_tokens && d == 256 &&
            accuracy == AttentionAccuracy::two_term)
          continue;  // refused
        EXPECT_TRUE(near(with(second, accuracy, {.kv_len = 150, .q_len = 20, .d = d})))
            << second.along_tokens << " rule " << static_cast<int>(second.rule) << " accuracy "
            << static_cast<int>(accuracy) << " d " << d;
      }
}

TEST_F(AttentionBlockScaled, masks_caps_and_sinks) {
  for (const Second& second : seconds) {
    const BlockAttentionCase plain =
        with(second, AttentionAccuracy::one_term,
             {.kv_len = 190, .q_len = 70, .q_heads = 2, .kv_heads = 1, .causal = true});
    BlockAttentionCase c = plain;
    EXPECT_TRUE(near(c));
    c.window = 75;
    EXPECT_TRUE(near(c));
    c.sinks = true;
    EXPECT_TRUE(near(c));
    c.causal = false;
    EXPECT_TRUE(near(c));
    c = plain, c.softcap = 2.5f, c.type = DType::bf16;
    EXPECT_TRUE(near(c));
    c = plain, c.scale = -0.11f, c.type = DType::f16, c.q_type = DType::bf16;
    EXPECT_TRUE(near(c));
    c = plain, c.scale = 0.0f, c.kv_type = DType::f16;
    EXPECT_TRUE(near(c));
  }
}

TEST_F(AttentionBlockScaled, takes_groups_of_any_size) {
  for (const Second& second : seconds)
    for (const auto& [q_heads, kv_heads] : {std::pair{2, 2}, {8, 2}, {5, 1}})
      EXPECT_TRUE(near(with(second, AttentionAccuracy::one_term,
                            {.kv_len = 90,
                             .q_len = 17,
                             .q_heads = q_heads,
                             .kv_heads = kv_heads,
                             .d = 64,
                             .batch = 2,
                             .causal = true})))
          << q_heads << " " << kv_heads;
}

TEST_F(AttentionBlockScaled, packs_sequences_of_every_length) {
  std::vector<std::int32_t> kv, q;
  for (const int length :
       {1, 0, 2, 15, 16, 17, 31, 33, 47, 63, 64, 65, 79, 97, 127, 128, 129, 130}) {
    kv.push_back(length);
    q.push_back(1 + length % 3);  // some have more queries than keys
  }
  q[3] = 0;
  for (const Second& second : seconds)
    for (const bool causal : {false, true})
      EXPECT_TRUE(near(with(second, AttentionAccuracy::one_term,
                            {.d = 64, .causal = causal, .q_lengths = q, .kv_lengths = kv})));
}

TEST_F(AttentionBlockScaled, takes_operands_that_are_codes_already) {
  for (const ProbabilityRule rule : {ProbabilityRule::two_level, ProbabilityRule::exact})
    EXPECT_TRUE(near({.kv_len = 130,
                      .rule = rule,
                      .along_tokens = false,
                      .q_format = Format::nvfp4,
                      .k_format = Format::nvfp4,
                      .v_format = Format::nvfp4,
                      .causal = true}));
  EXPECT_TRUE(near({.kv_len = 130,
                    .accuracy = AttentionAccuracy::storage,
                    .along_tokens = false,
                    .q_format = Format::nvfp4,
                    .k_format = Format::nvfp4,
                    .v_format = Format::nvfp4}));
  // Two terms of probabilities beside one of q; a dense q beside codes of k.
  EXPECT_TRUE(near({.kv_len = 130,
                    .accuracy = AttentionAccuracy::two_term,
                    .q_format = Format::nvfp4,
                    .k_format = Format::nvfp4}));
  EXPECT_TRUE(near({.kv_len = 130,
                    .accuracy = AttentionAccuracy::two_term,
                    .along_tokens = false,
                    .k_format = Format::nvfp4,
                    .v_format = Format::nvfp4}));
}

TEST_F(AttentionBlockScaled, takes_keys_in_mxfp4) {
  for (const Second& second : seconds)
    for (const Format q : {Format::mxfp4, Format::mxfp8_e4m3})
      for (const std::int64_t d : {64, 128})
        EXPECT_TRUE(near(with(second, AttentionAccuracy::one_term,
                              {.kv_len = 150,
                               .q_len = 20,
                               .d = d,
                               .q_format = q,
                               .k_format = Format::mxfp4,
                               .causal = true})))
            << d << " " << info(q).name;
}

TEST_F(AttentionBlockScaled, leaves_its_operands_alone_and_runs_clean_in_any_order) {
  for (const Second& second : seconds) {
    BlockAttention attention(
        with(second, AttentionAccuracy::two_term, {.kv_len = 200, .causal = true}));
    const auto first = attention.run(device());
    EXPECT_TRUE(attention.unchanged);
    EXPECT_TRUE(device().last_report.findings.empty());
    for (const auto& [schedule, completion] : {std::pair{Schedule::reverse, Completion::eager},
                                               {Schedule::random, Completion::random}}) {
      device().options.schedule = schedule;
      device().options.completion = completion;
      device().options.seed = 5;
      const auto again = attention.run(device());
      EXPECT_EQ(again.o.bytes, first.o.bytes);
      EXPECT_EQ(again.lse, first.lse);
    }
    device().options = {.instruction_budget = 2'000'000'000};
  }
}

}  // namespace
}  // namespace microscale::emulator
