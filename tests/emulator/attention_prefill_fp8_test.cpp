// Attention of many queries in FP8, all of MXFP4, on the emulator: against the reference in FP64
// with exact probabilities, within what docs/attention.md allows, and in cases whose result is
// known.
#include <gtest/gtest.h>

#include <cmath>

#include "cuda/device/kernel_images.hpp"
#include "gpu_attention_prefill.hpp"
#include "support/executed_kernels.hpp"
#include "support/prefill_calls.hpp"

namespace microscale::emulator {
namespace {

/// |do| <= 2^-4 times the sum of (p + 2^-14) |v|, of which FP8 products have what E4M3 leaves. With
/// scores of 0, o e^L is the sum of |v| over the keys that are seen.
::testing::AssertionResult near_in_fp8(PrefillCall c) {
  c.q = c.k = c.v = mxfp4;
  c.fp8 = true;
  PrefillRun attention(c);
  const PrefillResult got = attention.on_device(), want = attention.reference(false),
                      even = attention.reference(true, 0.0f);
  PrefillResult weighted = attention.reference(true);
  for (std::int64_t i = 0; i < std::ssize(weighted.o.bytes) / size_of(c.type); ++i) {
    const double sum = load_dense(even.o.bytes.data(), c.type, i) *
                       std::exp(even.lse[static_cast<std::size_t>(i / c.d)]);
    const double all = load_dense(weighted.o.bytes.data(), c.type, i) + 0x1p-14 * sum;
    store_dense(static_cast<float>(all), weighted.o.bytes.data(), c.type, i);
  }
  return near(got, want, weighted, 0x1p-4);
}

class AttentionPrefillFp8 : public ::testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

TEST_F(AttentionPrefillFp8, has_rows_of_every_width) {
  for (const std::int64_t d : {32, 64, 96, 128})
    for (const DType type : {DType::f32, DType::bf16})
      EXPECT_TRUE(near_in_fp8({.d = d, .q_len = 66, .kv_len = 300, .type = type})) << d;
}

TEST_F(AttentionPrefillFp8, has_tails_of_every_length) {
  for (std::int64_t length = 1; length <= 130; ++length)
    EXPECT_TRUE(near_in_fp8({.q_len = length, .kv_len = length, .q_heads = 1})) << length;
}

TEST_F(AttentionPrefillFp8, masks_caps_and_sinks) {
  for (const bool causal : {false, true})
    for (const auto& [q_len, kv_len] : {std::pair{140, 140}, {40, 300}, {150, 90}}) {
      PrefillCall c{.d = 128, .q_len = q_len, .kv_len = kv_len, .q_heads = 2, .causal = causal};
      EXPECT_TRUE(near_in_fp8(c)) << causal << q_len;
      c.window = 75;
      EXPECT_TRUE(near_in_fp8(c)) << causal << q_len;
      c.sinks = true;
      EXPECT_TRUE(near_in_fp8(c)) << causal << q_len;
      c.softcap = 2.5f;
      EXPECT_TRUE(near_in_fp8(c)) << causal << q_len;
      c.scale = -0.05f;
      EXPECT_TRUE(near_in_fp8(c)) << causal << q_len;
    }
  EXPECT_TRUE(executed_all(device(), "sm_90a", {"attention_prefill_fp8", "attention_expand_fp8"}));
}

TEST_F(AttentionPrefillFp8, has_packed_sequences) {
  EXPECT_TRUE(near_in_fp8({.q_len = 215,
                           .kv_len = 420,
                           .q_heads = 2,
                           .q_offsets = {0, 130, 130, 134, 204, 215},
                           .kv_offsets = {0, 130, 175, 175, 180, 420},
                           .max_q_len = 130,
                           .max_kv_len = 240}));
}

TEST_F(AttentionPrefillFp8, gives_one_for_uniform_scores) {
  const auto zero = [](std::int64_t, std::int64_t) { return 0.0f; };
  const auto one = [](std::int64_t, std::int64_t) { return 1.0f; };
  for (const std::int64_t length : {1, 100, 128, 333}) {
    const PrefillResult r = PrefillRun({.q = mxfp4,
                                        .k = mxfp4,
                                        .v = mxfp4,
                                        .q_len = 3,
                                        .kv_len = length,
                                        .causal = false,
                                        .fp8 = true,
                                        .q_value = zero,
                                        .v_value = one})
                                .on_device();
    for (std::int64_t i = 0; i < 3 * 2 * 64; ++i)
      ASSERT_EQ(load_dense(r.o.bytes.data(), DType::f32, i), 1.0f);
    for (const float lse : r.lse) ASSERT_NEAR(lse, std::log(static_cast<double>(length)), 2e-6);
  }
}

TEST_F(AttentionPrefillFp8, returns_rows_of_v_for_scores_of_one_key) {
  // Query i asks for key 5 i + 1, in binary; v names the key in digits of base 3.
  const auto bit = [](std::int64_t key, std::int64_t i) {
    return i < 32 ? (key >> (i % 8) & 1 ? 1.0f : -1.0f) : 0.0f;
  };
  const auto digit = [](std::int64_t t, std::int64_t i) {
    constexpr float values[3] = {0.5f, 1.0f, -3.0f};
    for (std::int64_t j = i % 6; j > 0; --j) t /= 3;
    return (i % 32 == 31 ? 6.0f : values[t % 3]);
  };
  const PrefillResult r =
      PrefillRun({.q = mxfp4,
                  .k = mxfp4,
                  .v = mxfp4,
                  .q_len = 50,
                  .kv_len = 251,
                  .causal = false,
                  .scale = 512.0f,
                  .fp8 = true,
                  .q_value = [&](std::int64_t t, std::int64_t i) { return bit(5 * t + 1, i); },
                  .k_value = bit,
                  .v_value = digit})
          .on_device();
  for (std::int64_t t = 0; t < 50; ++t)
    for (std::int64_t h = 0; h < 2; ++h)
      for (std::int64_t i = 0; i < 64; ++i)
        ASSERT_EQ(r.o.at(0, t, h, i), digit(5 * t + 1, i)) << t << " " << i;
}

TEST_F(AttentionPrefillFp8, rounds_small_probabilities_to_multiples_of_the_least) {
  // 127 keys at 2^-16.5 of the largest, whose v is 0: 1.41 times E4M3's least number, so 1 of it.
  PrefillCall c{.q_len = 1,
                .kv_len = 128,
                .causal = false,
                .scale = 16.5f / 6 * 0.6931471805599453f,
                .q_value = [](std::int64_t, std::int64_t i) { return i == 0 ? 1.0f : 0.0f; },
                .k_value = [](std::int64_t t, std::int64_t i) { return t + i == 0 ? 6.0f : 0.0f; },
                .v_value = [](std::int64_t t, std::int64_t) { return t == 0 ? 0.0f : 1.0f; }};
  EXPECT_TRUE(near_in_fp8(c));
  c.q = c.k = c.v = mxfp4;
  c.fp8 = true;
  const double sum = 1 + 127 * std::exp2(-16.5);
  EXPECT_NEAR(PrefillRun(c).on_device().o.at(0, 0, 0, 0) * sum, 127 * 0x1p-17, 1e-8);
}

TEST_F(AttentionPrefillFp8, is_within_the_bound_of_gpu_check) {
  // Row 63: the two largest probabilities meet zeros of V, the others are below 2^-14 of them.
  for (const std::int64_t length : {65, 128})
    EXPECT_LE(cuda::prefill_error(device(), {.name = "",
                                             .format = Format::mxfp4,
                                             .batch = 2,
                                             .length = length,
                                             .q_heads = 8,
                                             .kv_heads = 4,
                                             .d = 64,
                                             .fp8 = true}),
              1);
}

TEST_F(AttentionPrefillFp8, keeps_tiles_of_very_different_sizes_apart) {
  const auto size = [](std::int64_t t) {
    return std::ldexp(1.0f, static_cast<int>(t / 64 % 3) * 4 - static_cast<int>(t / 128) * 3);
  };
  EXPECT_TRUE(near_in_fp8(
      {.q_len = 20, .kv_len = 500, .scale = 0.01f, .v_value = [&](std::int64_t t, std::int64_t i) {
         return size(t) * std::cos(static_cast<float>(7 * t + i));
       }}));
}

}  // namespace
}  // namespace microscale::emulator
