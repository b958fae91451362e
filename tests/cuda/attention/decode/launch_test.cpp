// What decoding reads of a cache: whole records or parts, and whose flags are whose.
#include "cuda/attention/decode/plan.hpp"

#include <gtest/gtest.h>

#include <functional>

#include "attention/attention_calls.hpp"
#include "cuda/device/kernel_images.hpp"
#include "operations_support.hpp"

namespace microscale::cuda::attention::decode {
namespace {

using test::Wanted;

class DecodeCalls : public ::testing::Test {
 protected:
  AttentionMergedArgs args_of(const AttentionOptions& o) {
    return test::launches_of(device_, o).at(0).as<AttentionMergedArgs>();
  }
  void SetUp() override {
    if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }
  static inline test::FakeDevice device_{9, 0};
};

// A record that is read as parts is slower; parts that are read as a record are wrong.
TEST_F(DecodeCalls, take_records_of_short_pages_whole) {
  const auto record = [&](KvFormat format, std::int64_t page,
                          const std::function<void(KvCache&)>& change = {}) {
    AttentionOptions o = test::options_of({.cache = format, .batch = 2, .page = page});
    if (change) change(*o.cache);
    const int tokens = args_of(o).record;
    EXPECT_EQ(device_.launches[0].name.ends_with("_records"), tokens > 0);
    return tokens;
  };
  for (const int page : {16, 32}) {
    EXPECT_EQ(record(KvFormat::nvfp4, page), page);
    EXPECT_EQ(record(KvFormat::mxfp4, page), page);
    EXPECT_EQ(record(KvFormat::mxfp8, page), 0);
    EXPECT_EQ(record(KvFormat::fp8, page), 0);
    for (KvPart KvCache::*part :
         {&KvCache::k_codes, &KvCache::k_scales, &KvCache::v_codes, &KvCache::v_scales}) {
      EXPECT_EQ(record(KvFormat::nvfp4, page, [&](KvCache& c) { (c.*part).data += 1 << 30; }), 0);
      EXPECT_EQ(record(KvFormat::nvfp4, page, [&](KvCache& c) { (c.*part).head_stride += 16; }), 0);
      EXPECT_EQ(record(KvFormat::nvfp4, page, [&](KvCache& c) { (c.*part).page_stride += 16; }), 0);
    }
    EXPECT_EQ(record(KvFormat::nvfp4, page, [](KvCache& c) { c.k_codes.token_stride += 64; }), 0);
  }
  EXPECT_EQ(record(KvFormat::nvfp4, 64), 0);
}

TEST_F(DecodeCalls, of_a_plan_for_records_refuse_other_caches) {
  const Wanted wanted{.cache = KvFormat::nvfp4, .page = 16};
  AttentionOptions o = test::options_of(wanted);
  const attention::Plan plan = choose(DeviceFacts(device_), check_attention(o, true));
  o.cache->v_codes.data += 1 << 30;
  test::expect_error(ErrorCode::invalid_argument, "made for a cache of records",
                     [&] { attention::run(device_, plan, check_attention(o, true), {}, nullptr); });
}

TEST_F(DecodeCalls, have_flags_behind_their_parts_and_a_ticket_of_their_own) {
  const AttentionOptions o = test::options_of({.cache = KvFormat::nvfp4, .kv_len = 4096});
  const AttentionMergedArgs args = args_of(o), again = args_of(o);
  ASSERT_GT(args.splits, 1);
  EXPECT_EQ(reinterpret_cast<std::uint8_t*>(args.flags),
            reinterpret_cast<std::uint8_t*>(args.partial) +
                4 * decode_partial_floats(args.items, args.splits, 4, 128));
  EXPECT_NE(args.ticket, 0u);
  EXPECT_NE(args.ticket, again.ticket);
  EXPECT_EQ(args_of(test::options_of({.cache = KvFormat::nvfp4})).flags, nullptr);  // one part
}

}  // namespace
}  // namespace microscale::cuda::attention::decode
