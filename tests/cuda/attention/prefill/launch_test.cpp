// Attention of many queries on the device: how calls are cut, and what is refused.
#include "cuda/attention/prefill/launch.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "cuda/attention/prefill/plan.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"
#include "ops/attention_check.hpp"

namespace microscale::cuda {
namespace {

// Addresses alone count: nothing is read.
std::uint8_t* there(int place) {
  return reinterpret_cast<std::uint8_t*>(std::uintptr_t(place + 1) << 40);
}

class PrefillCalls : public ::testing::Test {
 protected:
  static AttentionInput side(std::optional<Format> format, int place, std::int64_t batch,
                             std::int64_t tokens, std::int64_t heads, std::int64_t d) {
    if (!format) return HeadsView{there(place), DType::bf16, batch, tokens, heads, d};
    BlockTensorView rows{.shape = {.rows = batch * tokens * heads, .cols = d, .format = *format},
                         .codes = {},
                         .scales = {}};
    rows.codes = {there(place), static_cast<std::size_t>(rows.shape.code_bytes())};
    rows.scales = {there(place + 1), static_cast<std::size_t>(rows.shape.scale_bytes())};
    rows.device_global_scale = reinterpret_cast<const float*>(there(place + 2));
    return BlockHeadsView{rows, batch, tokens, heads};
  }
  static AttentionOptions options(std::int64_t q_len, std::int64_t kv_len,
                                  std::optional<Format> format = Format::nvfp4,
                                  std::int64_t batch = 1, std::int64_t q_heads = 32,
                                  std::int64_t kv_heads = 32, std::int64_t d = 128) {
    AttentionOptions o{.q = side(format, 0, batch, q_len, q_heads, d),
                       .k = side(format, 3, batch, kv_len, kv_heads, d),
                       .v = side(format, 6, batch, kv_len, kv_heads, d)};
    o.output = {there(9), DType::bf16, batch, q_len, q_heads, d};
    o.causal = true;
    return o;
  }
  AttentionPrefillArgs run(const AttentionOptions& o) {
    const AttentionCall call = check_attention(o, true);
    const std::int64_t bytes = attention_prefill_workspace_bytes(device_, call);
    device_.launches.clear();
    attention_prefill(device_, call, {there(10), static_cast<std::size_t>(bytes)}, nullptr);
    return device_.launches.back().as<AttentionPrefillArgs>();
  }
  void refused(const std::function<void(AttentionOptions&)>& spoil, const std::string& words) {
    AttentionOptions o = options(512, 512);
    spoil(o);
    test::expect_error(ErrorCode::unsupported, words, [&] {
      attention_prefill_workspace_bytes(device_, check_attention(o, true));
    });
  }
  void SetUp() override {
    if (kernel_names("sm_90a").empty()) GTEST_SKIP() << "built without nvcc";
  }

  test::FakeDevice device_{9, 0};
};

TEST_F(PrefillCalls, expand_keys_and_values_and_fill_the_device) {
  const AttentionPrefillArgs args = run(options(4096, 4096));
  ASSERT_EQ(device_.launches.size(), 2u);
  EXPECT_EQ(device_.launches[0].name, "attention_expand_nvfp4_128");
  EXPECT_EQ(device_.launches[0].call.grid.x, 2u * 32 * 32);
  EXPECT_EQ(device_.launches[1].name, "attention_prefill_128");
  EXPECT_EQ(device_.launches[1].call.grid.x, 132u);
  EXPECT_EQ(args.items, 32 * 32);
  EXPECT_EQ(args.section, 11);  // 15 heads of 2 MB are half of 60 MiB: three sections
  EXPECT_EQ(run(options(64, 64, Format::nvfp4, 1, 4, 4)).items, 4);
  EXPECT_EQ(device_.launches[1].call.grid.x, 4u);
}

TEST_F(PrefillCalls, take_queries_of_a_group_together) {
  const AttentionPrefillArgs args = run(options(100, 300, Format::mxfp4, 3, 8, 2));
  EXPECT_EQ(device_.launches[0].name, "attention_expand_mxfp4_128");
  EXPECT_EQ(args.group, 4);
  EXPECT_EQ(args.passes, 4);  // 400 rows
  EXPECT_EQ(args.items, 3 * 2 * 4);
}

TEST_F(PrefillCalls, choose_kernels_by_type_width_and_softcap) {
  AttentionOptions o = options(512, 512, std::nullopt, 1, 2, 2, 192);
  o.k = side(Format::mxfp8_e4m3, 3, 1, 512, 2, 192);
  o.softcap = 30;
  o.scale = -0.5f;
  const AttentionPrefillArgs args = run(o);
  ASSERT_EQ(device_.launches.size(), 3u);
  EXPECT_EQ(device_.launches[0].name, "attention_expand_mxfp8_e4m3_256");
  EXPECT_EQ(device_.launches[1].name, "attention_expand_bf16_256");
  EXPECT_EQ(device_.launches[1].as<AttentionExpandArgs>().counter, nullptr);
  EXPECT_EQ(device_.launches[2].name, "attention_prefill_256_softcap");
  EXPECT_EQ(args.sign, -1.0f);
  EXPECT_GT(args.scale_log2, 0.0f);
}

TEST_F(PrefillCalls, multiply_mxfp4_in_fp8_where_probabilities_may_be_rounded_so) {
  AttentionOptions o = options(512, 512, Format::mxfp4, 1, 2, 2, 64);
  o.numerics.accuracy = AttentionAccuracy::one_term;
  o.numerics.probabilities = ProbabilityRule::fp8;
  EXPECT_EQ(run(o).keys.width, 128);
  ASSERT_EQ(device_.launches.size(), 2u);
  EXPECT_EQ(device_.launches[0].name, "attention_expand_fp8");
  EXPECT_EQ(device_.launches[1].name, "attention_prefill_fp8");
  o.softcap = 30;
  run(o);
  EXPECT_EQ(device_.launches[1].name, "attention_prefill_fp8_softcap");
}

TEST_F(PrefillCalls, keep_packed_sequences_in_tiles_of_their_own) {
  AttentionOptions o = options(300, 1000);
  o.q_offsets = o.kv_offsets = reinterpret_cast<const std::int32_t*>(there(12));
  o.sequences = 7;
  o.max_q_len = 128;
  o.max_kv_len = 400;
  const AttentionPrefillArgs args = run(o);
  EXPECT_EQ(args.keys.all_tiles, 1000 / 128 + 7);
  EXPECT_EQ(args.keys.tiles_each, 4);
  EXPECT_EQ(args.items, 7 * 32);
}

TEST_F(PrefillCalls, need_the_workspace_that_they_say) {
  const AttentionOptions o = options(512, 512);
  const AttentionCall call = check_attention(o, true);
  const std::int64_t bytes = attention_prefill_workspace_bytes(device_, call);
  EXPECT_EQ(bytes, 256 + 32 * 4 * (2 * 32768 + 128));
  test::expect_error(ErrorCode::invalid_argument, "allocate attention_workspace_bytes", [&] {
    attention_prefill(device_, call, {there(10), static_cast<std::size_t>(bytes - 1)}, nullptr);
  });
}

TEST_F(PrefillCalls, refuse_what_has_no_kernel) {
  refused([](auto& o) { o.numerics.accuracy = AttentionAccuracy::two_term; },
          "`storage`, and `one_term` with fp8");
  const AttentionNumerics fp8{.accuracy = AttentionAccuracy::one_term,
                              .probabilities = ProbabilityRule::fp8};
  refused([&](auto& o) { o.numerics = fp8; }, "of q, k and v in MXFP4");
  refused(
      [&](auto& o) {
        o = options(512, 512, Format::mxfp4);
        o.numerics = fp8;
        o.scale = 0.0f;
      },
      "no scale of 0");
  refused([](auto& o) { o.splits = 2; }, "in one part, not in 2");
  refused([](auto& o) { o.k = side(Format::mxint8, 3, 1, 512, 32, 128); }, "k in NVFP4, MXFP4");
  refused(
      [](auto& o) {
        auto& codes = std::get<BlockHeadsView>(o.v).rows.codes;
        codes = {codes.data() + 8, codes.size()};
      },
      "codes of v at multiples of 16");
}

}  // namespace
}  // namespace microscale::cuda
