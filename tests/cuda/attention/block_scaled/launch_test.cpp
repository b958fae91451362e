// Attention on consumer Blackwell: which kernels a call takes, and what is refused.
#include "cuda/attention/block_scaled/launch.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "cuda/attention/attention.hpp"
#include "cuda/attention/block_scaled/plan.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"
#include "ops/attention_check.hpp"

namespace microscale::cuda {
namespace {

using block_attention::Args;

class BlackwellAttention : public ::testing::Test {
 protected:
  static constexpr std::int64_t heads = 2, tokens = 100;

  BlockHeadsView blocks(Format format, std::int64_t d = 128) const {
    const BlockShape shape{tokens * heads, d, format};
    BlockTensorView view{.shape = shape, .codes = {}, .scales = {}};
    view.codes = {memory_, static_cast<std::size_t>(shape.code_bytes())};
    view.scales = {memory_, static_cast<std::size_t>(shape.scale_bytes())};
    view.device_global_scale = reinterpret_cast<const float*>(memory_);
    return {view, 1, tokens, heads};
  }
  AttentionOptions options(std::int64_t d = 128) const {
    const HeadsView dense{memory_, DType::bf16, 1, tokens, heads, d};
    AttentionOptions o{.q = dense, .k = dense, .v = dense};
    o.output = {reinterpret_cast<void*>(std::uintptr_t{1} << 44), DType::bf16, 1, tokens, heads, d};
    o.numerics.accuracy = AttentionAccuracy::one_term;
    o.numerics.v_along_tokens = true;
    return o;
  }
  std::vector<std::string> kernels(const AttentionOptions& o) {
    const AttentionCall call = check_attention(o, true);
    const std::int64_t bytes = attention_workspace_bytes(device_, call);
    device_.launches.clear();
    attention(device_, call, {work_, static_cast<std::size_t>(bytes)}, nullptr);
    std::vector<std::string> names;
    for (const auto& launch : device_.launches) names.push_back(launch.name);
    return names;
  }
  void refused(const std::function<void(AttentionOptions&)>& spoil, const std::string& words) {
    AttentionOptions o = options();
    spoil(o);
    test::expect_error(ErrorCode::unsupported, words,
                       [&] { attention_workspace_bytes(device_, check_attention(o, true)); });
  }
  void SetUp() override {
    if (kernel_names("sm_120f").empty()) GTEST_SKIP() << "built without nvcc";
  }

  alignas(256) static inline std::uint8_t memory_[1 << 20];
  std::uint8_t* const work_ = reinterpret_cast<std::uint8_t*>(std::uintptr_t{1} << 45);
  // One for all tests: kernels that were found are remembered by the device's address.
  static inline test::FakeDevice device_{12, 0};
};

using Names = std::vector<std::string>;

TEST_F(BlackwellAttention, quantizes_what_is_dense_and_takes_the_kernel_of_its_mode) {
  AttentionOptions o = options();
  EXPECT_EQ(kernels(o),
            (Names{"attention_prepare_rows_nvfp4", "attention_prepare_rows_nvfp4",
                   "attention_prepare_values_nvfp4", "attention_block_scaled_tokens_nvfp4_128_1"}));
  EXPECT_EQ(device_.launches.back().call.grid.x, 2u * 2);  // heads, runs of 64 queries
  o.numerics.accuracy = AttentionAccuracy::two_term;
  o.numerics.v_along_tokens = false;
  EXPECT_EQ(kernels(o).back(), "attention_block_scaled_two_level_nvfp4_128_2");
  o.numerics.probabilities = ProbabilityRule::exact;
  EXPECT_EQ(kernels(o).back(), "attention_block_scaled_exact_nvfp4_128_2");
  o.k = blocks(Format::mxfp4), o.v = blocks(Format::nvfp4);
  o.numerics.accuracy = AttentionAccuracy::one_term;
  EXPECT_EQ(kernels(o), (Names{"attention_prepare_rows_mxfp4",
                               "attention_block_scaled_exact_mxfp4_mxfp4_128_1"}));
  o.q = blocks(Format::mxfp8_e4m3);
  o.numerics = {};
  EXPECT_EQ(kernels(o), (Names{"attention_block_scaled_exact_mxfp8_e4m3_mxfp4_128_1"}));
  EXPECT_EQ(blackwell_attention_workspace_bytes(device_, check_attention(o, true)), 0);
}

TEST_F(BlackwellAttention, needs_the_workspace_that_it_says) {
  const AttentionOptions o = options();
  const AttentionCall call = check_attention(o, true);
  const std::int64_t bytes = attention_workspace_bytes(device_, call);
  // q and k: codes and scales of 200 rows, and q's factors; V: (100 / 64 + 1) tiles for each head.
  EXPECT_EQ(bytes, 2 * (12800 + 1792) + 1024 + 2 * 2 * 128 * 36);
  test::expect_error(ErrorCode::invalid_argument, "allocate attention_workspace_bytes", [&] {
    attention(device_, call, {work_, static_cast<std::size_t>(bytes - 1)}, nullptr);
  });
}

TEST_F(BlackwellAttention, refuses_more_blocks_than_a_launch_has) {
  static constexpr std::int32_t offsets[2] = {};
  const HeadsView dense{memory_, DType::bf16, 1, 9000 * 512, 8, 128};
  AttentionOptions o{.q = dense, .k = dense, .v = dense};
  o.output = {
      reinterpret_cast<void*>(std::uintptr_t{1} << 44), DType::bf16, 1, dense.tokens, 8, 128};
  o.numerics.accuracy = AttentionAccuracy::one_term;
  o.numerics.v_along_tokens = true;
  o.q_offsets = o.kv_offsets = offsets;
  o.sequences = 9000;
  o.max_q_len = 512;
  device_.launches.clear();
  test::expect_error(ErrorCode::unsupported, "pass max_kv_len", [&] { kernels(o); });
  EXPECT_TRUE(device_.launches.empty());
  o.max_kv_len = 512;
  EXPECT_EQ(kernels(o).back(), "attention_block_scaled_tokens_nvfp4_128_1");
}

// This device says that a multiprocessor holds one block, of 132.
TEST_F(BlackwellAttention, fills_the_device_with_parts_of_the_keys_and_merges_them) {
  const auto decoded = [&](std::int64_t keys, int splits) {
    const KvPageShape shape{KvFormat::nvfp4, heads, 128, 64};
    KvCache cache =
        kv_cache_of_records(shape, {memory_, static_cast<std::size_t>(shape.page_bytes())});
    cache.batch = 1;
    cache.max_pages = keys / 64;
    cache.page_table = cache.lengths = reinterpret_cast<const std::int32_t*>(memory_);
    cache.device_global_scales = reinterpret_cast<const float*>(memory_);
    AttentionOptions o = options();
    o.k = o.v = HeadsView{};
    o.cache = cache;
    o.splits = splits;
    std::get<HeadsView>(o.q).tokens = o.output.tokens = 1;
    return o;
  };
  AttentionOptions o = decoded(4096, 0);  // 64 tiles for each of two heads
  EXPECT_EQ(kernels(o), (Names{"attention_prepare_rows_nvfp4",
                               "attention_block_scaled_two_level_paged_nvfp4_128_1",
                               "attention_merge_128_64"}));
  EXPECT_EQ(device_.launches[1].as<Args>().splits, 16);
  EXPECT_EQ(device_.launches[1].call.grid.x, 2u * 16);
  EXPECT_EQ(device_.launches[2].as<Args>().merged_rows, 1);
  EXPECT_EQ(device_.launches[2].call.grid.x, 2u);  // a row each
  const auto bytes_of = [&](const AttentionOptions& of) {
    return attention_workspace_bytes(device_, check_attention(of, true));
  };
  EXPECT_EQ(bytes_of(o) - bytes_of(decoded(4096, 1)), 2 * 16 * 64 * 130 * 4);
  EXPECT_EQ(kernels(decoded(4096, 1)).size(), 2u);
  EXPECT_EQ(kernels(decoded(448, 0)).size(), 2u);  // seven tiles
  EXPECT_EQ(kernels(decoded(448, 5)).size(), 3u);
  EXPECT_EQ(device_.launches[1].as<Args>().splits, 5);
}

TEST_F(BlackwellAttention, refuses_what_has_no_kernel) {
  refused([](auto& o) { o.numerics = {}; }, "must be block-scaled");
  refused([](auto& o) { o.numerics.probabilities = ProbabilityRule::fp8; }, "in FP8");
  refused([](auto& o) { o.numerics.probabilities = ProbabilityRule::exact; }, "along the tokens");
  refused([](auto& o) { o.numerics.format = Format::mxfp4; }, "v in mxfp4");
  refused([&](auto& o) { o.k = blocks(Format::mxfp8_e4m3), o.v = blocks(Format::nvfp4); },
          "k in mxfp8_e4m3");
  refused(
      [&](auto& o) {
        o.k = blocks(Format::mxfp4), o.v = blocks(Format::nvfp4);
        o.numerics.accuracy = AttentionAccuracy::two_term;
      },
      "one term of q");
  refused([&](auto& o) { o = options(96); }, "d = 64, 128 and 256, not 96");
  refused(
      [&](auto& o) {
        o = options(256);
        o.numerics.accuracy = AttentionAccuracy::two_term;
        o.numerics.v_along_tokens = false;
      },
      "no room in its registers");
}

TEST_F(BlackwellAttention, wants_codes_and_scales_at_multiples_of_16) {
  AttentionOptions o = options();
  BlockHeadsView k = blocks(Format::nvfp4);
  k.rows.scales = {k.rows.scales.data() + 4, k.rows.scales.size()};
  o.k = k, o.v = blocks(Format::nvfp4);
  test::expect_error(ErrorCode::invalid_argument, "scales of k must be at multiples of 16",
                     [&] { attention_workspace_bytes(device_, check_attention(o, true)); });
}

TEST_F(BlackwellAttention, refuses_what_it_does_not_read_of_a_cache) {
  const auto cached = [&](KvFormat format) {
    const KvPageShape shape{format, heads, 128, 112};
    KvCache cache =
        kv_cache_of_records(shape, {memory_, static_cast<std::size_t>(shape.page_bytes())});
    cache.batch = 1;
    cache.lengths = reinterpret_cast<const std::int32_t*>(memory_);
    cache.device_global_scales = reinterpret_cast<const float*>(memory_);
    return cache;
  };
  const auto with = [&](const std::function<void(KvCache&)>& spoil,
                        KvFormat format = KvFormat::nvfp4) {
    return [=](AttentionOptions& o) {
      o.k = o.v = HeadsView{};
      o.cache = cached(format);
      spoil(*o.cache);
    };
  };
  AttentionOptions o = options();
  with([](auto&) {})(o);
  EXPECT_EQ(kernels(o).back(), "attention_block_scaled_two_level_nvfp4_128_1");
  o.cache->page_table = reinterpret_cast<const std::int32_t*>(memory_);
  o.cache->max_pages = 1;
  o.cache->page_size = 64;
  EXPECT_EQ(kernels(o).back(), "attention_block_scaled_two_level_paged_nvfp4_128_1");
  refused(with([](auto&) {}, KvFormat::mxfp4), "caches in NVFP4 alone");
  refused(with([](auto& c) { c.k_mean = reinterpret_cast<const float*>(memory_); }), "with a mean");
  refused(with([](auto& c) { c.hadamard = 16; }), "Hadamard");
  refused(with([](auto& c) {
            c.first = {4, reinterpret_cast<std::uint16_t*>(memory_),
                       reinterpret_cast<std::uint16_t*>(memory_)};
          }),
          "reads BF16 copies");
  refused(with([](auto& c) { c.k_scales.data += 2; }), "multiples of 4 bytes");
}

}  // namespace
}  // namespace microscale::cuda
