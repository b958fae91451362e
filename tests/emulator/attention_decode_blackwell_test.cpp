// The kernels that decode from a cache on emulated Blackwell GPUs: the bytes that Hopper gives.
#include <gtest/gtest.h>

#include "cuda/device/kernel_images.hpp"
#include "cuda/device/kernels.hpp"
#include "support/decode_calls.hpp"
#include "support/executed_kernels.hpp"

namespace microscale::emulator {
namespace {

struct Case {
  std::int64_t d = 128, heads = 8;
  CacheLayout layout = CacheLayout::hnd;
  std::int64_t first = 0, recent = 0;
  int splits = 1;
  std::int64_t window = 0;
  float softcap = 0;
};

class AttentionDecodeBlackwell : public ::testing::TestWithParam<KvFormat> {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
  /// Every width, rows of less, pages as they are; 4, 8 and 16 rows, splits, and what scores go
  /// through.
  static std::vector<Case> cases() {
    std::vector<Case> all;
    for (const std::int64_t d : {64, 128, 256, 32, 96, 160})
      for (const std::int64_t heads : {4, 16, 32}) {
        all.push_back({.d = d, .heads = heads});
        all.push_back({.d = d, .heads = heads, .layout = CacheLayout::records});
      }
    all.push_back({.splits = 3});
    all.push_back({.window = 50, .softcap = 3.0f});
    all.push_back({.layout = CacheLayout::contiguous, .first = 5, .recent = 37});
    return all;
  }
};

TEST_P(AttentionDecodeBlackwell, gives_the_bytes_of_hopper_by_every_kernel) {
  constexpr std::int64_t tokens = 85, kv_heads = 2;
  const LaunchOptions options{.schedule = Schedule::random,
                              .completion = Completion::random,
                              .seed = 1,
                              .instruction_budget = 2'000'000'000};
  const std::string family = std::string("attention_decode_") + name_of(GetParam()) + "_";
  for (const int major : {10, 12}) {
    EmulatorDevice blackwell(major, 0, options, 4);
    for (const Case& c : cases()) {
      if (major == 12 && GetParam() == KvFormat::mxfp8 && c.d > 128) continue;  // no room
      OwnedCache cache(GetParam(), c.layout, 1, kv_heads, c.d, 16, tokens);
      if (c.first + c.recent > 0) cache.keep(c.first, c.recent);
      cache.append(test::random_heads(DType::f32, 1, tokens, kv_heads, c.d, 1),
                   test::random_heads(DType::f32, 1, tokens, kv_heads, c.d, 2), 0, tokens);
      const Heads q = test::random_heads(DType::bf16, 1, 1, c.heads, c.d, 3, 0.25f);
      const auto change = [&](AttentionOptions& o) {
        o.splits = c.splits, o.window = c.window, o.softcap = c.softcap;
      };
      const DecodeResult want = attend(cache, q, change),
                         r = attend(cache, q, change, {}, blackwell);
      EXPECT_EQ(r.o.bytes, want.o.bytes) << c.d << " " << c.heads << " " << major;
      EXPECT_EQ(r.lse, want.lse) << c.d << " " << c.heads << " " << major;
    }
    if (major == 10)
      EXPECT_TRUE(executed_all(blackwell, "sm_100f", {family}));
    else
      EXPECT_TRUE(executed_all(blackwell, "sm_120f", {family}, {"attention_decode_mxfp8_256"}));
  }
  EXPECT_TRUE(executed_all(device(), "sm_90a", {family}));
}

INSTANTIATE_TEST_SUITE_P(Formats, AttentionDecodeBlackwell, ::testing::ValuesIn(test::kv_formats),
                         kv_format_name);

}  // namespace
}  // namespace microscale::emulator
