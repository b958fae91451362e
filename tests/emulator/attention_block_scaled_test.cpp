// Attention by block-scaled matrix instructions, as the kernels for consumer Blackwell compute it,
// on the emulator: against the FP64 model of the mode, to within what FP32 leaves open.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "cuda/attention/attention.hpp"
#include "cuda/attention/block_scaled/args.hpp"
#include "cuda/device/kernels.hpp"
#include "device_bytes.hpp"
#include "emulator/device.hpp"
#include "microscale/error.hpp"
#include "support/attention_modes.hpp"
#include "support/block_attention_calls.hpp"

namespace microscale::emulator {
namespace {

using test::BlockAttention;
using test::BlockAttentionCase;
using test::Heads;

class AttentionBlockScaled : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_names("sm_120f").empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

TEST_F(AttentionBlockScaled, is_the_model_of_its_mode_at_every_width) {
  for (const Second& second : seconds)
    for (const AttentionAccuracy accuracy : accuracies)
      for (const std::int64_t d : {64, 128, 256}) {
        if (second.rule == ProbabilityRule::two_level && !second.along_tokens && d == 256 &&
            accuracy == AttentionAccuracy::two_term)
          continue;  // refused
        EXPECT_TRUE(near_model(with(second, accuracy, {.kv_len = 150, .q_len = 20, .d = d})))
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
    EXPECT_TRUE(near_model(c));
    c.window = 75;
    EXPECT_TRUE(near_model(c));
    c.sinks = true;
    EXPECT_TRUE(near_model(c));
    c.causal = false;
    EXPECT_TRUE(near_model(c));
    c = plain, c.softcap = 2.5f, c.type = DType::bf16;
    EXPECT_TRUE(near_model(c));
    c = plain, c.scale = -0.11f, c.type = DType::f16, c.q_type = DType::bf16;
    EXPECT_TRUE(near_model(c));
    c = plain, c.scale = 0.0f, c.kv_type = DType::f16;
    EXPECT_TRUE(near_model(c));
  }
}

TEST_F(AttentionBlockScaled, merges_parts_of_the_keys) {
  for (const Second& second : seconds)
    for (const int splits : {2, 3, 7}) {
      const BlockAttentionCase plain = with(second, AttentionAccuracy::one_term,
                                            {.kv_len = 450,
                                             .q_len = 5,
                                             .q_heads = 4,
                                             .kv_heads = 2,
                                             .causal = true,
                                             .splits = splits});
      BlockAttentionCase c = plain;
      EXPECT_TRUE(near_model(c)) << splits;
      c.window = 170, c.sinks = true, c.type = DType::bf16;
      EXPECT_TRUE(near_model(c)) << splits;
      c.window = 0, c.softcap = 3.0f, c.causal = false, c.d = 64;
      EXPECT_TRUE(near_model(c)) << splits;
      c = plain, c.d = 256, c.type = DType::f16;
      EXPECT_TRUE(near_model(c)) << splits;
      c = plain, c.batch = 1, c.causal = false;  // some have fewer tiles than there are parts
      c.q_lengths = {1, 2, 0, 3, 4}, c.kv_lengths = {0, 64, 10, 65, 300};
      EXPECT_TRUE(near_model(c)) << splits;
      c.accuracy = AttentionAccuracy::two_term;
      EXPECT_TRUE(near_model(c)) << splits;
    }
}

// All scores are far below 0, where the reference of a part without keys must not be.
TEST_F(AttentionBlockScaled, leaves_out_parts_that_have_no_keys) {
  for (const Second& second : seconds) {
    BlockAttention attention(
        with(second, AttentionAccuracy::one_term, {.kv_len = 100, .q_len = 3, .splits = 7}));
    for (Heads* x : {&attention.q, &attention.k})
      for (std::int64_t t = 0; t < x->tokens; ++t)
        for (std::int64_t h = 0; h < x->heads; ++h)
          for (std::int64_t i = 0; i < x->d; ++i)
            x->set(0, t, h, i, x == &attention.q ? 4.0f : t == 60 ? -4.0f : -6.0f);
    EXPECT_TRUE(attention.compare(attention.run(consumer_blackwell())));
  }
}

TEST_F(AttentionBlockScaled, takes_groups_of_any_size) {
  for (const Second& second : seconds)
    for (const auto& [q_heads, kv_heads] : {std::pair{2, 2}, {8, 2}, {5, 1}})
      EXPECT_TRUE(near_model(with(second, AttentionAccuracy::one_term,
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
  for (int length = 0; length <= 130; ++length) {
    kv.push_back(length);
    q.push_back(1 + length % 3);  // some have more queries than keys
  }
  q[3] = 0;
  for (const Second& second : seconds)
    for (const bool causal : {false, true})
      EXPECT_TRUE(near_model(with(second, AttentionAccuracy::one_term,
                                  {.d = 64, .causal = causal, .q_lengths = q, .kv_lengths = kv})));
}

TEST_F(AttentionBlockScaled, takes_operands_that_are_codes_already) {
  for (const ProbabilityRule rule : {ProbabilityRule::two_level, ProbabilityRule::exact})
    EXPECT_TRUE(near_model({.kv_len = 130,
                            .rule = rule,
                            .along_tokens = false,
                            .q_format = Format::nvfp4,
                            .k_format = Format::nvfp4,
                            .v_format = Format::nvfp4,
                            .causal = true}));
  EXPECT_TRUE(near_model({.kv_len = 130,
                          .accuracy = AttentionAccuracy::storage,
                          .along_tokens = false,
                          .q_format = Format::nvfp4,
                          .k_format = Format::nvfp4,
                          .v_format = Format::nvfp4}));
  // Two terms of probabilities beside one of q; a dense q beside codes of k.
  EXPECT_TRUE(near_model({.kv_len = 130,
                          .accuracy = AttentionAccuracy::two_term,
                          .q_format = Format::nvfp4,
                          .k_format = Format::nvfp4}));
  EXPECT_TRUE(near_model({.kv_len = 130,
                          .accuracy = AttentionAccuracy::two_term,
                          .along_tokens = false,
                          .k_format = Format::nvfp4,
                          .v_format = Format::nvfp4}));
}

TEST_F(AttentionBlockScaled, takes_keys_in_mxfp4) {
  for (const Second& second : seconds)
    for (const Format q : {Format::mxfp4, Format::mxfp8_e4m3})
      for (const std::int64_t d : {64, 128})
        EXPECT_TRUE(near_model(with(second, AttentionAccuracy::one_term,
                                    {.kv_len = 150,
                                     .q_len = 20,
                                     .d = d,
                                     .q_format = q,
                                     .k_format = Format::mxfp4,
                                     .causal = true})))
            << d << " " << info(q).name;
  // A dense q in the format of k, or in MXFP8 where that is asked for.
  for (const Format format : {Format::mxfp4, Format::mxfp8_e4m3})
    EXPECT_TRUE(near_model(with(seconds[1], AttentionAccuracy::one_term,
                                {.kv_len = 150,
                                 .q_len = 20,
                                 .k_format = Format::mxfp4,
                                 .v_format = Format::nvfp4,
                                 .format = format,
                                 .causal = true})))
        << info(format).name;
}

TEST_F(AttentionBlockScaled, leaves_its_operands_alone_and_runs_clean_in_any_order) {
  for (const Second& second : seconds) {
    BlockAttention attention(
        with(second, AttentionAccuracy::two_term, {.kv_len = 200, .causal = true}));
    const auto first = attention.run(consumer_blackwell());
    EXPECT_TRUE(attention.unchanged);
    EXPECT_TRUE(consumer_blackwell().last_report.findings.empty());
    for (const auto& [schedule, completion] : {std::pair{Schedule::reverse, Completion::eager},
                                               {Schedule::random, Completion::random}}) {
      consumer_blackwell().options.schedule = schedule;
      consumer_blackwell().options.completion = completion;
      consumer_blackwell().options.seed = 5;
      const auto again = attention.run(consumer_blackwell());
      EXPECT_EQ(again.o.bytes, first.o.bytes);
      EXPECT_EQ(again.lse, first.lse);
    }
    consumer_blackwell().options = {.instruction_budget = 2'000'000'000};
  }
}

TEST_F(AttentionBlockScaled, has_no_bank_conflicts_and_multiplies_each_tile_once) {
  for (const Second& second : seconds)
    for (const std::int64_t d : {64, 128, 256}) {
      consumer_blackwell().options.statistics = true;
      BlockAttention attention(with(second, AttentionAccuracy::one_term,
                                    {.kv_len = 256, .q_len = 64, .q_heads = 1, .d = d}));
      attention.run(consumer_blackwell());
      std::uint64_t products = 0;
      for (const InstructionCount& each : consumer_blackwell().last_report.instructions) {
        products += each.opcode == "mma" ? each.warps : 0;
        if (each.opcode.starts_with("cp") || each.opcode.starts_with("ldmatrix") ||
            each.opcode.find(".shared") != each.opcode.npos) {
          EXPECT_EQ(each.bank_conflicts, 0u)
              << each.opcode << ", line " << each.ptx_line << ", d " << d;
        }
      }
      // 4 tiles, and sixteens of rows: of 64 there are, or with four warps those of a block, since
      // there warps without rows of their own multiply, too.
      const int width = static_cast<int>(d);
      const std::uint64_t sixteens =
          cuda::attention::block_scaled::warps_of(width, second.along_tokens) == 8             ? 4
          : cuda::attention::block_scaled::block_rows_of(width, 1, second.along_tokens) == 128 ? 8
                                                                                               : 4;
      const auto steps = static_cast<std::uint64_t>(d / 64);
      EXPECT_EQ(products, sixteens * 4 * steps * (second.along_tokens ? 8 + 8 : 8 + 32)) << d;
    }
  consumer_blackwell().options = {.instruction_budget = 2'000'000'000};
}

// Defects that other kernels had.

/// Sets every element of a tensor: fn(batch, token, head, i).
template <class Function>
void fill(test::Heads& h, Function&& fn) {
  for (std::int64_t b = 0; b < h.batch; ++b)
    for (std::int64_t t = 0; t < h.tokens; ++t)
      for (std::int64_t head = 0; head < h.heads; ++head)
        for (std::int64_t i = 0; i < h.d; ++i) h.set(b, t, head, i, fn(b, t, head, i));
}

TEST_F(AttentionBlockScaled, gives_the_value_and_ln_n_for_equal_scores_and_values) {
  for (const Second& second : seconds)
    for (const std::int64_t n : {1, 7, 64, 100, 129}) {
      BlockAttention attention(
          with(second, AttentionAccuracy::one_term, {.kv_len = n, .q_len = 5, .d = 64}));
      fill(attention.q, [](auto...) { return 0.0f; });
      fill(attention.v, [](auto...) { return 6.0f; });  // what FP4 holds exactly
      const auto got = attention.run(consumer_blackwell());
      for (const float lse : got.lse) EXPECT_NEAR(lse, std::log(static_cast<double>(n)), 1e-6);
      for (std::int64_t i = 0; i < 5 * 2 * 64; ++i)
        EXPECT_NEAR(load_dense(got.o.bytes.data(), DType::f32, i), 6.0, 1e-5) << n;
    }
}

TEST_F(AttentionBlockScaled, returns_rows_of_v_for_one_hot_scores) {
  // Key t answers to query t alone: both have the same random signs.
  for (const Second& second : seconds) {
    BlockAttention attention(with(second, AttentionAccuracy::one_term,
                                  {.kv_len = 130, .q_len = 130, .q_heads = 1, .d = 128}));
    fill(attention.q,
         [&](auto, auto t, auto, auto i) { return attention.k.at(0, t, 0, i) < 0 ? -6.0f : 6.0f; });
    fill(attention.k, [&](auto, auto t, auto, auto i) { return attention.q.at(0, t, 0, i); });
    fill(attention.v, [&](auto, auto t, auto, auto i) {
      return static_cast<float>((t * 5 + i * 3) % 7 - 3) * (t % 3 ? 1.0f : 0.25f);
    });
    const auto got = attention.run(consumer_blackwell());
    EXPECT_TRUE(attention.compare(got));
    const auto values = attention.values();
    for (std::int64_t t = 0; t < 130; ++t)
      for (std::int64_t i = 0; i < 128; ++i)
        ASSERT_NEAR(got.o.at(0, t, 0, i),
                    values[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)], 1e-4)
            << t << " " << i;
  }
}

TEST_F(AttentionBlockScaled, neither_doubles_nor_halves_results) {
  // alpha = <o, want> / <want, want>; cosines do not see what is folded into a row's sum.
  for (const Second& second : seconds)
    for (const bool causal : {false, true}) {
      BlockAttention attention(with(second, AttentionAccuracy::one_term,
                                    {.kv_len = 256, .q_len = 128, .q_heads = 1, .causal = causal}));
      const auto got = attention.run(consumer_blackwell());
      const std::vector<double> want = attention.exact_result();
      double both = 0, own = 0, off = 0;
      for (std::size_t i = 0; i < want.size(); ++i) {
        const double g = load_dense(got.o.bytes.data(), DType::f32, static_cast<std::int64_t>(i));
        both += g * want[i], own += want[i] * want[i], off += (g - want[i]) * (g - want[i]);
      }
      EXPECT_NEAR(both / own, 1.0, 0.03);
      EXPECT_LT(std::sqrt(off / own), 0.25) << causal;
      EXPECT_GT(std::sqrt(off / own), 0.02) << causal;  // it is FP4
    }
}

TEST_F(AttentionBlockScaled, keeps_what_is_beside_a_sink) {
  // Token 0 is 7 above the other logits, and its value small.
  for (const Second& second : seconds) {
    BlockAttention attention(
        with(second, AttentionAccuracy::one_term, {.kv_len = 600, .q_len = 16, .q_heads = 1}));
    fill(attention.q, [](auto, auto, auto, auto i) {
      return i == 0 ? 8.0f : i % 2 ? 0.5f : -0.5f;
    });
    fill(attention.k, [&](auto, auto t, auto, auto i) {
      return i > 0 ? 0.05f * attention.k.at(0, t, 0, i) : t == 0 ? 9.9f : 0.0f;
    });
    fill(attention.v, [&](auto, auto t, auto, auto i) {
      return t == 0 ? 0.01f : 0.7f + 0.5f * attention.v.at(0, t, 0, i);
    });
    const auto got = attention.run(consumer_blackwell());
    const std::vector<double> want = attention.exact_result();
    double both = 0, own = 0, mine = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      const double g = load_dense(got.o.bytes.data(), DType::f32, static_cast<std::int64_t>(i));
      both += g * want[i], own += want[i] * want[i], mine += g * g;
    }
    EXPECT_GT(both / std::sqrt(own * mine), second.along_tokens ? 0.998 : 0.999);
  }
}

TEST_F(AttentionBlockScaled, does_not_mind_what_lies_behind_a_sequence) {
  // Keys that no query sees are NaN and infinity; blocks along tokens begin with a sequence.
  for (const Second& second : seconds) {
    if (second.along_tokens) continue;  // they share scales with those that are seen
    BlockAttentionCase c = with(second, AttentionAccuracy::one_term,
                                {.kv_len = 120, .q_len = 3, .d = 64, .causal = true, .window = 20});
    BlockAttention attention(c);
    const auto first = attention.run(consumer_blackwell());
    fill(attention.k, [&](auto, auto t, auto, auto i) {
      return t < 90 ? std::nanf("") : attention.k.at(0, t, 0, i);
    });
    fill(attention.v, [&](auto, auto t, auto, auto i) {
      return t < 90 ? -INFINITY : attention.v.at(0, t, 0, i);
    });
    EXPECT_EQ(attention.run(consumer_blackwell()).o.bytes, first.o.bytes);
  }
}

TEST_F(AttentionBlockScaled, makes_rows_with_nan_nan_and_no_others) {
  for (const Second& second : seconds) {
    BlockAttention attention(with(second, AttentionAccuracy::one_term,
                                  {.kv_len = 70, .q_len = 20, .q_heads = 1, .d = 64}));
    attention.q.set(0, 3, 0, 5, std::nanf(""));
    const auto got = attention.run(consumer_blackwell());
    for (std::int64_t t = 0; t < 20; ++t)
      for (std::int64_t i = 0; i < 64; ++i)
        ASSERT_EQ(std::isnan(got.o.at(0, t, 0, i)), t == 3) << t;
    EXPECT_TRUE(std::isnan(got.lse[3]));
  }
}

}  // namespace
}  // namespace microscale::emulator
