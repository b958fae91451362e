// Attention of many queries as the kernels for Hopper compute it, on the emulator: against the
// reference in FP64, in every type, with every option, and in cases whose result is known.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "cuda/device/kernel_images.hpp"
#include "support/executed_kernels.hpp"
#include "support/prefill_calls.hpp"

namespace microscale::emulator {
namespace {

class AttentionPrefill : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

TEST_F(AttentionPrefill, takes_every_type) {
  for (const Kind& kind :
       {f32, f16, bf16, nvfp4, mxfp4, Kind{Format::mxfp8_e4m3}, Kind{Format::mxfp8_e5m2}})
    EXPECT_TRUE(near({.q = kind, .k = kind, .v = kind, .q_len = 70, .kv_len = 150}))
        << (kind.format ? info(*kind.format).name : to_string(kind.dtype));
  EXPECT_TRUE(near({.q = bf16, .k = mxfp4, .v = nvfp4, .type = DType::bf16}));
  EXPECT_TRUE(near({.q = mxfp4, .k = f16, .v = bf16, .type = DType::f16}));
}

// Small calls: what takes every kernel, and what is computed is right.
TEST_F(AttentionPrefill, executes_every_kernel) {
  for (const std::int64_t d : {64, 128, 256})
    for (const Kind& kind :
         {f32, f16, bf16, nvfp4, mxfp4, Kind{Format::mxfp8_e4m3}, Kind{Format::mxfp8_e5m2}})
      for (const float softcap : {0.0f, 5.0f}) {
        if (softcap > 0 && kind.format != Format::nvfp4) continue;
        EXPECT_TRUE(near({.q = kind,
                          .k = kind,
                          .v = kind,
                          .d = d,
                          .q_len = 20,
                          .kv_len = 70,
                          .softcap = softcap}))
            << d << (kind.format ? info(*kind.format).name : to_string(kind.dtype));
      }
  // Those of FP8 and of FP8 caches are in attention_prefill_fp8_test and _cache_test.
  EXPECT_TRUE(
      executed_all(device(), "sm_90a", {"attention_prefill_", "attention_expand_"},
                   {"attention_prefill_fp8", "attention_expand_fp8", "attention_expand_e4m3"}));
}

TEST_F(AttentionPrefill, has_rows_of_every_width) {
  for (const std::int64_t d : {32, 64, 96, 128, 160, 256})
    EXPECT_TRUE(near({.d = d, .q_len = 66, .kv_len = 141, .type = DType::bf16})) << d;
}

TEST_F(AttentionPrefill, takes_groups_of_any_size) {
  for (const auto& [q_heads, kv_heads] : {std::pair{2, 2}, {8, 2}, {3, 1}, {20, 1}})
    EXPECT_TRUE(
        near({.batch = 2, .q_len = 33, .kv_len = 70, .q_heads = q_heads, .kv_heads = kv_heads}))
        << q_heads << " " << kv_heads;
}

TEST_F(AttentionPrefill, masks_caps_and_sinks) {
  for (const bool causal : {false, true})
    for (const auto& [q_len, kv_len] : {std::pair{140, 140}, {40, 300}, {150, 90}}) {
      const PrefillCall plain{.q_len = q_len, .kv_len = kv_len, .q_heads = 1, .causal = causal};
      PrefillCall c = plain;
      EXPECT_TRUE(near(c)) << causal << q_len;
      c.window = 75;
      EXPECT_TRUE(near(c)) << causal << q_len;
      c.sinks = true;
      EXPECT_TRUE(near(c)) << causal << q_len;
      c.softcap = 2.5f;
      EXPECT_TRUE(near(c)) << causal << q_len;
      c = plain, c.softcap = 30, c.scale = -0.3f;
      EXPECT_TRUE(near(c)) << causal << q_len;
      c = plain, c.scale = 0.0f, c.q = bf16, c.k = bf16;
      EXPECT_TRUE(near(c)) << causal << q_len;
    }
}

TEST_F(AttentionPrefill, has_tails_of_every_length) {
  for (std::int64_t length = 1; length <= 130; ++length)
    EXPECT_TRUE(near({.q_len = length, .kv_len = length, .q_heads = 1})) << length;
}

TEST_F(AttentionPrefill, has_packed_sequences) {
  for (const bool causal : {false, true})
    EXPECT_TRUE(near({.q_len = 215,
                      .kv_len = 420,
                      .q_heads = 2,
                      .causal = causal,
                      .q_offsets = {0, 130, 130, 134, 204, 215},
                      .kv_offsets = {0, 130, 175, 175, 180, 420},
                      .max_q_len = 130,
                      .max_kv_len = 240}));
}

TEST_F(AttentionPrefill, gives_one_for_uniform_scores) {
  const auto zero = [](std::int64_t, std::int64_t) { return 0.0f; };
  const auto one = [](std::int64_t, std::int64_t) { return 1.0f; };
  for (const std::int64_t length : {1, 100, 128, 333}) {
    const PrefillResult r =
        PrefillRun({.q_len = 3, .kv_len = length, .causal = false, .q_value = zero, .v_value = one})
            .on_device();
    for (std::int64_t i = 0; i < 3 * 2 * 64; ++i)
      ASSERT_EQ(load_dense(r.o.bytes.data(), DType::f32, i), 1.0f);
    for (const float lse : r.lse) ASSERT_NEAR(lse, std::log(static_cast<double>(length)), 2e-6);
  }
}

TEST_F(AttentionPrefill, returns_rows_of_v_for_scores_of_one_key) {
  // Query i asks for key 5 i + 1 with 2^16 more than for the others, in binary.
  const auto bit = [](std::int64_t key, std::int64_t i) {
    return i < 32 ? (key >> (i % 8) & 1 ? 1.0f : -1.0f) : 0.0f;
  };
  const PrefillCall c{.q = f16,
                      .k = f16,
                      .v = f16,
                      .q_len = 50,
                      .kv_len = 251,
                      .causal = false,
                      .scale = 512.0f,
                      .q_value = [&](std::int64_t t, std::int64_t i) { return bit(5 * t + 1, i); },
                      .k_value = bit,
                      .v_value =
                          [](std::int64_t t, std::int64_t i) {
                            return static_cast<float>(t) + static_cast<float>(i) / 8.0f;
                          }};
  const PrefillResult r = PrefillRun(c).on_device();
  for (std::int64_t t = 0; t < 50; ++t)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < 64; ++i)
        ASSERT_EQ(r.o.at(0, t, h, i), c.v_value(5 * t + 1, i)) << t;
}

TEST_F(AttentionPrefill, keeps_tiles_of_very_different_sizes_apart) {
  // Exponents of tiles rise and fall along the keys, in K and in V.
  for (const Kind& kind : {bf16, mxfp4}) {
    const auto size = [](std::int64_t t) {
      return std::ldexp(1.0f, static_cast<int>(t / 64 % 3) * 9 - static_cast<int>(t / 128) * 5);
    };
    EXPECT_TRUE(near({.q = kind,
                      .k = kind,
                      .v = kind,
                      .q_len = 20,
                      .kv_len = 500,
                      .scale = 0.01f,
                      .v_value = [&](std::int64_t t, std::int64_t i) {
                        return size(t) * std::cos(static_cast<float>(7 * t + i));
                      }}));
    EXPECT_TRUE(near({.q = kind,
                      .k = kind,
                      .v = kind,
                      .q_len = 20,
                      .kv_len = 500,
                      .scale = 0.001f,
                      .k_value = [&](std::int64_t t, std::int64_t i) {
                        return size(t) * std::cos(static_cast<float>(7 * t + i));
                      }}));
  }
}

TEST_F(AttentionPrefill, passes_nan_on_to_the_rows_that_see_it) {
  for (const Kind& kind : {f16, bf16, f32}) {
    const auto value = [](std::int64_t t, std::int64_t) {
      return t == 140 ? std::numeric_limits<float>::quiet_NaN() : 0.25f;
    };
    const PrefillResult r = PrefillRun({.q = kind,
                                        .k = kind,
                                        .v = kind,
                                        .q_len = 150,
                                        .kv_len = 150,
                                        .q_heads = 1,
                                        .k_value = value})
                                .on_device();
    for (std::int64_t t = 0; t < 150; ++t) ASSERT_EQ(std::isnan(r.o.at(0, t, 0, 5)), t >= 140) << t;
  }
}

TEST_F(AttentionPrefill, gives_the_same_bytes_every_time) {
  const PrefillCall c{.q_len = 200, .kv_len = 200, .q_heads = 4, .kv_heads = 2};
  const PrefillResult first = PrefillRun(c).on_device();
  device().set(1);  // all items in one block
  EXPECT_EQ(PrefillRun(c).on_device().o.bytes, first.o.bytes);
  device().set(2);
}

}  // namespace
}  // namespace microscale::emulator
