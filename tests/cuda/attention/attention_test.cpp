// Attention on the device: how calls are cut, and what is refused.
#include "cuda/attention/attention.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "cuda/attention/decode/plan.hpp"
#include "fake_device.hpp"
#include "operations_support.hpp"
#include "ops/attention_check.hpp"

namespace microscale::cuda {
namespace {

class AttentionCalls : public ::testing::Test {
 protected:
  AttentionOptions options(std::int64_t batch, std::int64_t tokens, std::int64_t q_heads = 32,
                           std::int64_t d = 128) {
    AttentionOptions o{.q = HeadsView{memory_, DType::bf16, batch, 1, q_heads, d}};
    o.output = {
        reinterpret_cast<void*>(std::uintptr_t{1} << 44), DType::bf16, batch, 1, q_heads, d};
    // Addresses alone count: nothing is read.
    const KvPageShape shape{KvFormat::nvfp4, 8, d, tokens};
    KvCache cache =
        kv_cache_of_records(shape, {reinterpret_cast<std::uint8_t*>(std::uintptr_t{1} << 40),
                                    static_cast<std::size_t>(batch * shape.page_bytes())});
    cache.batch = batch;
    cache.lengths = reinterpret_cast<const std::int32_t*>(memory_);
    cache.device_global_scales = reinterpret_cast<const float*>(memory_);
    o.cache = cache;
    return o;
  }
  AttentionMergedArgs run(const AttentionOptions& o) {
    const AttentionCall call = check_attention(o, true);
    const std::int64_t bytes = attention_workspace_bytes(device_, call);
    device_.launches.clear();
    attention(device_, call, {work_, static_cast<std::size_t>(bytes)}, nullptr);
    return device_.launches.front().as<AttentionMergedArgs>();
  }
  void refused(const std::function<void(AttentionOptions&)>& spoil, const std::string& words) {
    AttentionOptions o = options(2, 64);
    spoil(o);
    test::expect_error(ErrorCode::unsupported, words,
                       [&] { attention_workspace_bytes(device_, check_attention(o, true)); });
  }
  void SetUp() override {
    if (kernel_names("sm_90a").empty()) GTEST_SKIP() << "built without nvcc";
  }

  alignas(256) static inline std::uint8_t memory_[1 << 16];
  std::uint8_t* const work_ = reinterpret_cast<std::uint8_t*>(std::uintptr_t{1} << 45);
  test::FakeDevice device_{9, 0};
};

TEST_F(AttentionCalls, fill_the_device_with_parts_of_enough_keys) {
  // This device says that a multiprocessor holds one block, of 132; rounds have 96 keys.
  EXPECT_EQ(run(options(64, 8192)).splits, 1);
  EXPECT_EQ(device_.launches.size(), 1u);
  EXPECT_EQ(device_.launches.front().call.grid.x, 64u * 8);
  EXPECT_EQ(device_.launches.front().name, "attention_decode_nvfp4_128_4");
  EXPECT_EQ(run(options(1, 32768)).splits, 16);
  EXPECT_EQ(device_.launches.size(), 1u);
  EXPECT_EQ(device_.launches.back().call.grid.x, 8u * (16 + 4));  // four rows are merged
  EXPECT_EQ(run(options(1, 131072)).splits, 16);
  EXPECT_EQ(run(options(1, 4096)).splits, 15);  // three rounds each, as with 16
  EXPECT_EQ(run(options(9, 8192)).splits, 5);   // three waves of eighteen rounds
  EXPECT_EQ(run(options(1, 192)).splits, 1);
  EXPECT_EQ(device_.launches.size(), 1u);
}

TEST_F(AttentionCalls, take_eight_or_sixteen_rows_at_a_time) {
  EXPECT_EQ(run(options(1, 64, 64)).passes, 1);
  EXPECT_EQ(device_.launches.front().name, "attention_decode_nvfp4_128_8");
  EXPECT_EQ(run(options(1, 64, 128)).passes, 1);
  EXPECT_EQ(device_.launches.front().name, "attention_decode_nvfp4_128_16");
  EXPECT_EQ(run(options(1, 64, 8 * 40)).passes, 3);
}

TEST_F(AttentionCalls, fill_up_other_widths) {
  EXPECT_EQ(run(options(1, 64, 32, 96)).d, 96);
  EXPECT_EQ(device_.launches.front().name, "attention_decode_nvfp4_128_4_part");
  run(options(1, 64, 32, 32));
  EXPECT_EQ(device_.launches.front().name, "attention_decode_nvfp4_64_4_part");
  run(options(1, 64, 128, 160));
  EXPECT_EQ(device_.launches.front().name, "attention_decode_nvfp4_256_8_part");
}

TEST_F(AttentionCalls, take_records_of_short_pages_whole) {
  const auto kernel = [&](KvFormat format, std::int64_t page,
                          const std::function<void(KvCache&)>& change = {}) {
    AttentionOptions o = options(2, page);
    const KvPageShape shape{format, 8, 128, page};
    KvCache cache = kv_cache_of_records(
        shape, {o.cache->k_codes.data, static_cast<std::size_t>(2 * shape.page_bytes())});
    cache.batch = 2, cache.lengths = o.cache->lengths;
    cache.device_global_scales = o.cache->device_global_scales;
    if (change) change(cache);
    o.cache = cache;
    const int record = run(o).record;
    const std::string name = device_.launches.front().name;
    EXPECT_EQ(record, name.ends_with("_records") ? page : 0) << name;
    return name;
  };
  for (const std::int64_t page : {16, 32}) {
    EXPECT_EQ(kernel(KvFormat::nvfp4, page), "attention_decode_nvfp4_128_4_records");
    EXPECT_EQ(kernel(KvFormat::mxfp4, page), "attention_decode_mxfp4_128_8_records");
    EXPECT_EQ(kernel(KvFormat::mxfp8, page), "attention_decode_mxfp8_128_8");
    EXPECT_EQ(kernel(KvFormat::fp8, page), "attention_decode_fp8_128_8");
    const std::string plain = "attention_decode_nvfp4_128_4";
    for (KvPart KvCache::*part :
         {&KvCache::k_codes, &KvCache::k_scales, &KvCache::v_codes, &KvCache::v_scales}) {
      EXPECT_EQ(kernel(KvFormat::nvfp4, page, [&](KvCache& c) { (c.*part).data += 1 << 30; }),
                plain);
      EXPECT_EQ(kernel(KvFormat::nvfp4, page, [&](KvCache& c) { (c.*part).head_stride += 16; }),
                plain);
      EXPECT_EQ(kernel(KvFormat::nvfp4, page, [&](KvCache& c) { (c.*part).page_stride += 16; }),
                plain);
    }
    EXPECT_EQ(kernel(KvFormat::nvfp4, page, [](KvCache& c) { c.k_codes.token_stride += 64; }),
              plain);
  }
  for (const std::int64_t page : {48, 64})
    EXPECT_EQ(kernel(KvFormat::nvfp4, page), "attention_decode_nvfp4_128_4");
}

TEST_F(AttentionCalls, take_copied_tokens_in_the_same_launch) {
  AttentionOptions o = options(64, 8192);
  o.cache->recent = {4, reinterpret_cast<std::uint16_t*>(memory_),
                     reinterpret_cast<std::uint16_t*>(memory_)};
  EXPECT_EQ(attention_workspace_bytes(device_, check_attention(o, true)), 0);
  const AttentionMergedArgs args = run(o);
  ASSERT_EQ(device_.launches.size(), 1u);
  EXPECT_EQ(device_.launches.front().name, "attention_decode_nvfp4_128_4");
  EXPECT_EQ(device_.launches.front().call.grid.x, 64u * 8);
  EXPECT_EQ(args.splits, 1);
  EXPECT_EQ(args.recent_count, 4);
}

TEST_F(AttentionCalls, leave_many_queries_to_the_kernels_for_them) {
  const auto kernel = [&](std::int64_t queries, std::int64_t keys, int splits = 0) {
    AttentionOptions o = options(1, keys);
    std::get<HeadsView>(o.q).tokens = o.output.tokens = queries;
    o.splits = splits;
    run(o);
    return device_.launches.back().name;
  };
  EXPECT_EQ(kernel(4096, 4096), "attention_prefill_128");
  EXPECT_EQ(kernel(512, 131072), "attention_prefill_128");
  EXPECT_EQ(kernel(16, 131072), "attention_decode_nvfp4_128_16");
  EXPECT_EQ(kernel(4096, 4096, 2), "attention_decode_nvfp4_128_16");  // parts it has alone
}

// What lies otherwise is expanded first.
TEST_F(AttentionCalls, decode_from_scales_that_lie_in_sixteens) {
  for (KvPart KvCache::*part : {&KvCache::k_scales, &KvCache::v_scales}) {
    AttentionOptions o = options(1, 4096);
    (*o.cache.*part).data += 1;
    run(o);
    EXPECT_EQ(device_.launches.back().name, "attention_prefill_128");
    o = options(1, 4096);
    (*o.cache.*part).token_stride += 8;
    run(o);
    EXPECT_EQ(device_.launches.back().name, "attention_prefill_128");
  }
}

TEST_F(AttentionCalls, decode_where_the_other_kernels_have_too_many_tiles) {
  AttentionOptions o = options(1, 64);
  std::get<HeadsView>(o.q).batch = o.output.batch = o.cache->batch = 2000;
  o.cache->page_table = reinterpret_cast<const std::int32_t*>(memory_);
  o.cache->max_pages = 10000000 / 64;
  run(o);
  EXPECT_EQ(device_.launches.back().name, "attention_decode_nvfp4_128_4");
}

TEST_F(AttentionCalls, refuse_memory_of_the_host_and_workspaces_in_use) {
  AttentionOptions o = options(1, 4096);
  static std::int32_t lengths[1];
  o.cache->lengths = lengths;
  device_.host_only = lengths;
  test::expect_error(ErrorCode::invalid_argument, "does not have the memory of the cache's lengths",
                     [&] { run(o); });
  device_.host_only = work_;
  test::expect_error(ErrorCode::invalid_argument, "does not have the memory of the workspace",
                     [&] { run(options(1, 4096)); });
  device_.host_only = nullptr;
  o = options(1, 4096);
  o.output.data = work_;
  test::expect_error(ErrorCode::invalid_argument, "the workspace overlaps the output",
                     [&] { run(o); });
}

TEST_F(AttentionCalls, need_the_workspace_that_they_say) {
  const AttentionOptions o = options(1, 4096);
  const AttentionCall call = check_attention(o, true);
  const std::int64_t bytes = attention_workspace_bytes(device_, call);
  EXPECT_EQ(bytes, 8 * 15 * (4 * 130 * 4 + 4 * 8));
  test::expect_error(ErrorCode::invalid_argument, "allocate attention_workspace_bytes", [&] {
    attention(device_, call, {work_, static_cast<std::size_t>(bytes - 1)}, nullptr);
  });
}

TEST_F(AttentionCalls, have_flags_behind_their_parts_and_a_ticket_of_their_own) {
  const AttentionMergedArgs args = run(options(1, 4096)), again = run(options(1, 4096));
  EXPECT_EQ(reinterpret_cast<std::uint8_t*>(args.flags) - work_, 8 * 15 * 4 * 130 * 4);
  EXPECT_EQ(args.merged_rows, 4);
  EXPECT_NE(args.ticket, 0u);
  EXPECT_NE(args.ticket, again.ticket);
  EXPECT_EQ(run(options(1, 64)).flags, nullptr);  // one part
}

TEST_F(AttentionCalls, refuse_what_has_no_kernel) {
  refused([](auto& o) { o.numerics.accuracy = AttentionAccuracy::two_term; },
          "has accuracy `storage`");
  refused([](auto& o) { o.splits = 2, o.cache->k_scales.token_stride = 16; }, "8 bytes apart");
  refused([](auto& o) { o.splits = 2, o.cache->v_scales.data += 1; },
          "scales must be at multiples of 16");
  test::FakeDevice other(8, 0);
  const AttentionOptions o = options(1, 64);
  test::expect_error(ErrorCode::unsupported, "compute capability 9.0, 10.x and 12.x",
                     [&] { attention_workspace_bytes(other, check_attention(o, true)); });
}

// The kernels that read a cache as it is are every architecture's.
TEST_F(AttentionCalls, decode_on_blackwell_too) {
  for (const int major : {10, 12}) {
    test::FakeDevice blackwell(major, 0);
    const auto kernel = [&](const AttentionOptions& o) {
      const AttentionCall call = check_attention(o, true);
      const auto bytes = static_cast<std::size_t>(attention_workspace_bytes(blackwell, call));
      attention(blackwell, call, {work_, bytes}, nullptr);
      return blackwell.launches.back().name;
    };
    AttentionOptions o = options(1, 4096);
    EXPECT_EQ(kernel(o), "attention_decode_nvfp4_128_4");
    o.output.tokens = std::get<HeadsView>(o.q).tokens = 4096;
    EXPECT_EQ(kernel(o), "attention_decode_nvfp4_128_16");
    o = options(1, 64, 32, 256);
    EXPECT_EQ(kernel(o), "attention_decode_nvfp4_256_4");
  }
  test::FakeDevice consumer(12, 0), data_centre(10, 0);
  AttentionOptions o = options(1, 64, 32, 256);
  const KvPageShape shape{KvFormat::mxfp8, 8, 256, 64};
  KvCache cache = kv_cache_of_records(
      shape, {o.cache->k_codes.data, static_cast<std::size_t>(shape.page_bytes())});
  cache.batch = 1, cache.lengths = o.cache->lengths;
  o.cache = cache;
  test::expect_error(ErrorCode::unsupported, "no room for mxfp8 tokens of d = 256",
                     [&] { attention_workspace_bytes(consumer, check_attention(o, true)); });
  EXPECT_GT(attention_workspace_bytes(data_centre, check_attention(options(1, 4096), true)), 0);
  o = options(1, 64);
  const HeadsView k{memory_, DType::bf16, 1, 64, 8, 128};
  o.cache.reset(), o.k = o.v = k;
  test::expect_error(ErrorCode::unsupported, "to keys and values in a cache",
                     [&] { attention_workspace_bytes(data_centre, check_attention(o, true)); });
}

}  // namespace
}  // namespace microscale::cuda
