// The kernels that decode from a cache on emulated Blackwell GPUs: the bytes that Hopper gives.
#include <gtest/gtest.h>

#include "cuda/kernel_images.hpp"
#include "emulator/device.hpp"
#include "support/decode_calls.hpp"

namespace microscale::emulator {
namespace {

struct Case {
  std::int64_t d = 128, page = 16, heads = 8;
  CacheLayout layout = CacheLayout::records;
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
};

TEST_P(AttentionDecodeBlackwell, gives_the_bytes_of_hopper) {
  EmulatorDevice data_centre(10, 0, {.instruction_budget = 2'000'000'000}),
      consumer(12, 0, {.instruction_budget = 2'000'000'000});
  constexpr std::int64_t tokens = 230, kv_heads = 2;
  for (const Case& c :
       {Case{}, Case{.d = 64, .page = 32, .heads = 32}, Case{.d = 96, .page = 64, .splits = 3},
        Case{.d = 256, .layout = CacheLayout::hnd, .window = 100},
        Case{.layout = CacheLayout::contiguous, .first = 5, .recent = 37},
        Case{.d = 160, .heads = 16, .splits = 2, .softcap = 3.0f}}) {
    OwnedCache cache(GetParam(), c.layout, 1, kv_heads, c.d, c.page, tokens);
    if (c.first + c.recent > 0) cache.keep(c.first, c.recent);
    cache.append(test::random_heads(DType::f32, 1, tokens, kv_heads, c.d, 1),
                 test::random_heads(DType::f32, 1, tokens, kv_heads, c.d, 2), 0, tokens);
    const Heads q = test::random_heads(DType::bf16, 1, 2, c.heads, c.d, 3, 0.25f);
    const auto change = [&](AttentionOptions& o) {
      o.splits = c.splits, o.window = c.window, o.softcap = c.softcap;
    };
    const DecodeResult want = attend(cache, q, change);
    for (EmulatorDevice* gpu : {&data_centre, &consumer}) {
      if (gpu == &consumer && GetParam() == KvFormat::mxfp8 && c.d > 128) continue;  // no room
      const DecodeResult r = attend(cache, q, change, {}, *gpu);
      EXPECT_EQ(r.o.bytes, want.o.bytes) << c.d << " " << gpu->info().major;
      EXPECT_EQ(r.lse, want.lse) << c.d << " " << gpu->info().major;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, AttentionDecodeBlackwell, ::testing::ValuesIn(test::kv_formats),
                         kv_format_name);

}  // namespace
}  // namespace microscale::emulator
