// The rules that every plan of attention keeps, whatever the cost models say of which is fastest:
// what plans there are is the table of docs/attention.md (tests/tools/attention_plans_test.cpp).
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "attention/attention_calls.hpp"
#include "cuda/device/kernel_images.hpp"
#include "cuda/device/kernel_types.hpp"
#include "operations_support.hpp"

namespace microscale::cuda::attention {
namespace {

using test::memory, test::Wanted;

class ChooseAttention : public ::testing::Test {
 protected:
  static constexpr int calls = 3000;
  static inline test::FakeDevice hopper{9, 0}, datacenter{10, 0}, consumer{12, 0};
  test::FakeDevice* const all[3] = {&hopper, &datacenter, &consumer};

  void refused(test::FakeDevice& device, const std::string& words, const Wanted& w,
               const std::function<void(AttentionOptions&)>& spoil = {},
               ErrorCode code = ErrorCode::unsupported) {
    AttentionOptions o = test::options_of(w);
    if (spoil) spoil(o);
    test::expect_error(code, words, [&] { choose(DeviceFacts(device), check_attention(o, true)); });
  }
  void SetUp() override {
    if (kernel_images().empty()) GTEST_SKIP() << "built without nvcc";
  }
};

// Every launch that a plan stands for names a kernel that the architecture has (load_kernel refuses
// others), and the workspace that a plan asks for is enough: what it passes on begins within.
TEST_F(ChooseAttention, plans_name_kernels_there_are_and_reach_every_family) {
  std::map<std::string, int> reached;
  std::mt19937 random(1);
  for (int i = 0; i < calls; ++i) {
    const AttentionOptions o = test::options_of(test::any_call(random));
    const AttentionCall call = check_attention(o, true);
    test::FakeDevice& device = *all[i % 3];
    attention::Plan plan;
    try {
      plan = choose(DeviceFacts(device), call);
    } catch (const Error& refusal) {
      ASSERT_EQ(refusal.code(), ErrorCode::unsupported) << refusal.what();
      ++reached["refused"];
      continue;
    }
    ++reached[std::to_string(device.info().major) + " " + std::to_string(plan.family.index())];
    const auto bytes = static_cast<std::size_t>(plan.workspace_bytes());
    device.launches.clear();
    attention::run(device, plan, call, {memory(test::workspace_memory), bytes}, nullptr);
    EXPECT_FALSE(device.launches.empty());
    for (const auto& seen : device.launches) {
      EXPECT_LE(seen.call.shared_bytes, most_shared_bytes) << seen.name;
      for (const std::uint64_t pointer : test::pointers_of(seen))
        if (pointer >> 40 == test::workspace_memory) {
          EXPECT_LE(pointer & ((std::uint64_t{1} << 40) - 1), bytes) << seen.name;
        }
    }
    EXPECT_EQ(device.waits, 0);
  }
  for (const char* family : {"9 0", "9 1", "10 0", "12 0", "12 2"})
    EXPECT_GT(reached[family], 20) << family;
  EXPECT_EQ(reached.size(), 6u);
  EXPECT_LT(reached["refused"], calls * 3 / 4);
}

// What lies otherwise than decoding reads it is expanded first.
TEST_F(ChooseAttention, decodes_from_scales_that_lie_in_sixteens_alone) {
  const auto family = [&](const AttentionOptions& o) {
    return choose(DeviceFacts(hopper), check_attention(o, true)).family.index();
  };
  const Wanted w{.cache = KvFormat::nvfp4, .kv_len = 4096};
  EXPECT_EQ(family(test::options_of(w)), 0u);
  for (KvPart KvCache::*part : {&KvCache::k_scales, &KvCache::v_scales}) {
    AttentionOptions o = test::options_of(w);
    (*o.cache.*part).data += 1;
    EXPECT_EQ(family(o), 1u);
    o = test::options_of(w);
    (*o.cache.*part).token_stride += 8;
    EXPECT_EQ(family(o), 1u);
  }
}

TEST_F(ChooseAttention, decodes_where_prefilling_has_too_many_tiles) {
  const AttentionOptions o =
      test::options_of({.cache = KvFormat::nvfp4, .batch = 2000, .kv_len = 10000000 / 64 * 64});
  EXPECT_EQ(choose(DeviceFacts(hopper), check_attention(o, true)).family.index(), 0u);
}

TEST_F(ChooseAttention, refuses_what_has_no_kernel) {
  test::FakeDevice other(8, 0);
  const Wanted cached{.cache = KvFormat::nvfp4};
  Wanted two_term = cached;
  two_term.numerics.accuracy = AttentionAccuracy::two_term;
  refused(other, "compute capability 9.0, 10.x and 12.x", cached);
  refused(datacenter, "has accuracy `storage`", two_term);
  refused(datacenter, "to keys and values in a cache", {.kv_len = 64});
  refused(consumer, "no room for mxfp8 tokens of d = 256", {.cache = KvFormat::mxfp8, .d = 256});
  Wanted split = cached;
  split.splits = 2;
  refused(hopper, "8 bytes apart", split, [](auto& o) { o.cache->k_scales.token_stride = 16; });
  refused(hopper, "scales must be at multiples of 16", split,
          [](auto& o) { o.cache->v_scales.data += 1; });
}

TEST_F(ChooseAttention, refuses_on_hopper_what_is_not_expanded) {
  using enum Format;
  const Wanted dense{.q_len = 512, .kv_len = 512};
  Wanted w = dense;
  w.numerics.accuracy = AttentionAccuracy::two_term;
  refused(hopper, "`storage`, and `one_term` with fp8", w);
  w.numerics = {.accuracy = AttentionAccuracy::one_term, .probabilities = ProbabilityRule::fp8};
  w.q = w.k = w.v = nvfp4;
  refused(hopper, "of q, k and v in MXFP4", w);
  w.q = w.k = w.v = mxfp4;
  refused(hopper, "no scale of 0", w, [](auto& o) { o.scale = 0.0f; });
  w = dense;
  w.splits = 2;
  refused(hopper, "in one part, not in 2", w);
  w = dense;
  w.k = mxint8, w.v = nvfp4;
  refused(hopper, "k in NVFP4, MXFP4", w);
  w.k = nvfp4;
  refused(hopper, "codes of v at multiples of 16", w, [](auto& o) {
    auto& codes = std::get<BlockHeadsView>(o.v).rows.codes;
    codes = {codes.data() + 8, codes.size()};
  });
}

TEST_F(ChooseAttention, refuses_on_consumer_blackwell_what_is_not_multiplied_in_codes) {
  using enum Format;
  const Wanted along{.q_len = 100,
                     .kv_len = 100,
                     .q_heads = 8,
                     .numerics = {.accuracy = AttentionAccuracy::one_term, .v_along_tokens = true}};
  const auto changed = [&](auto&& change) {
    Wanted w = along;
    change(w);
    return w;
  };
  const auto no = [&](const char* words, auto&& change) {
    refused(consumer, words, changed(change));
  };
  no("must be block-scaled", [](Wanted& w) { w.numerics = {}; });
  no("in FP8", [](Wanted& w) { w.numerics.probabilities = ProbabilityRule::fp8; });
  no("along the tokens", [](Wanted& w) { w.numerics.probabilities = ProbabilityRule::exact; });
  no("v in mxfp4", [](Wanted& w) { w.numerics.format = mxfp4; });
  no("k in mxfp8_e4m3", [](Wanted& w) { w.k = mxfp8_e4m3, w.v = nvfp4; });
  no("one term of q", [](Wanted& w) {
    w.k = mxfp4, w.v = nvfp4;
    w.numerics.accuracy = AttentionAccuracy::two_term;
  });
  no("d = 64, 128 and 256, not 96", [](Wanted& w) { w.d = 96; });
  no("no room in its registers", [](Wanted& w) {
    w.d = 256;
    w.numerics = {.accuracy = AttentionAccuracy::two_term};
  });
  const auto cached = [](auto&& change) {
    return [change](Wanted& w) {
      w.cache = KvFormat::nvfp4, w.kv_len = 128;
      change(w);
    };
  };
  no("caches in NVFP4 alone", cached([](Wanted& w) { w.cache = KvFormat::mxfp4; }));
  no("with a mean", cached([](Wanted& w) { w.mean = true; }));
  no("Hadamard", cached([](Wanted& w) { w.hadamard = 16; }));
  no("reads BF16 copies", cached([](Wanted& w) { w.copies = true; }));
  refused(consumer, "multiples of 4 bytes", changed(cached([](Wanted&) {})),
          [](auto& o) { o.cache->k_scales.data += 2; });
  refused(
      consumer, "scales of k must be at multiples of 16",
      changed([](Wanted& w) { w.k = w.v = nvfp4; }),
      [](auto& o) {
        auto& scales = std::get<BlockHeadsView>(o.k).rows.scales;
        scales = {scales.data() + 4, scales.size()};
      },
      ErrorCode::invalid_argument);
  refused(consumer, "pass max_kv_len", changed([](Wanted& w) {
            w.offsets = true, w.batch = 9000, w.q_len = w.kv_len = 512, w.kv_heads = 8;
          }),
          [](auto& o) { o.max_q_len = 512; });
}

}  // namespace
}  // namespace microscale::cuda::attention
