// Scales of V as other engines keep them: where each goes, there and back, in every layout of the
// cache, and attention over a cache that was turned.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "microscale/attention.hpp"
#include "microscale/error.hpp"
#include "support/attention.hpp"
#include "support/caches.hpp"

namespace microscale {
namespace {

using test::CacheLayout;
using test::Heads;
using test::OwnedCache;

OwnedCache& filled(OwnedCache& cache, std::int64_t d) {
  cache.append(test::random_heads(DType::bf16, 1, 32, 2, d, 1),
               test::random_heads(DType::bf16, 1, 32, 2, d, 2), 0, 32);
  return cache;
}

// What the engines' own tests say of single places: (token, block) of rows of n to the same.
TEST(KvScales, go_where_the_other_engines_have_them) {
  struct Case {
    std::int64_t d, token, block, to_token, to_block;
  };
  for (const Case& c : {Case{128, 3, 7, 3, 7}, {128, 1, 4, 2, 1}, {256, 5, 7, 5, 13}}) {
    OwnedCache cache(KvFormat::nvfp4, CacheLayout::contiguous, 1, 1, c.d, 16, 16);
    for (std::int64_t t = 0; t < 16; ++t)
      for (std::int64_t s = 0; s < c.d / 16; ++s)
        cache.view.v_scales.data[t * cache.view.v_scales.token_stride + s] = 0;
    cache.view.v_scales.data[c.token * cache.view.v_scales.token_stride + c.block] = 0x5A;
    repack_v_scales(cache.view, KvScaleLayout::linear, KvScaleLayout::trtllm);
    EXPECT_EQ(cache.view.v_scales.data[c.to_token * cache.view.v_scales.token_stride + c.to_block],
              0x5A)
        << c.d;
  }
}

TEST(KvScales, come_back_and_nothing_else_changes) {
  for (const CacheLayout layout : {CacheLayout::records, CacheLayout::contiguous, CacheLayout::nhd,
                                   CacheLayout::hnd, CacheLayout::joined})
    for (const std::int64_t d : {64, 128, 192, 256}) {
      OwnedCache cache(KvFormat::nvfp4, layout, 1, 2, d, 16, 32);
      filled(cache, d);
      const auto all = [&] {
        std::vector<std::vector<std::uint8_t>> bytes{cache.memory, cache.k_codes, cache.k_scales,
                                                     cache.v_codes, cache.v_scales};
        return bytes;
      };
      const Heads q = test::random_heads(DType::bf16, 1, 1, 4, d, 3);
      const auto attend = [&] {
        std::vector<float> o(static_cast<std::size_t>(4 * d));
        attention(
            {.q = q.view(), .cache = cache.view, .output = {o.data(), DType::f32, 1, 1, 4, d}});
        return o;
      };
      const auto before = all();
      const std::vector<float> want = attend();
      repack_v_scales(cache.view, KvScaleLayout::linear, KvScaleLayout::trtllm);
      EXPECT_NE(all(), before) << d;
      EXPECT_NE(attend(), want) << d;  // it is another cache, until it is turned back
      repack_v_scales(cache.view, KvScaleLayout::trtllm, KvScaleLayout::linear);
      EXPECT_EQ(all(), before) << d;
      EXPECT_EQ(attend(), want) << d;
      repack_v_scales(cache.view, KvScaleLayout::linear, KvScaleLayout::linear);
      EXPECT_EQ(all(), before) << d;
    }
}

TEST(KvScales, are_refused_where_there_are_none_or_no_host_memory) {
  const auto refused = [](const std::function<void(KvCache&, Context&)>& spoil,
                          const std::string& words, ErrorCode code) {
    OwnedCache cache(KvFormat::nvfp4, CacheLayout::records, 1, 2, 128, 16, 32);
    KvCache view = cache.view;
    Context context;
    spoil(view, context);
    try {
      repack_v_scales(view, KvScaleLayout::linear, KvScaleLayout::trtllm, context);
      ADD_FAILURE() << "accepted; expected: " << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), code);
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
    }
  };
  refused([](auto& c, auto&) { c.format = KvFormat::mxfp4; }, "NVFP4 caches",
          ErrorCode::invalid_argument);
  refused([](auto& c, auto&) { c.d = 96; }, "multiple of 64", ErrorCode::invalid_argument);
  refused([](auto& c, auto&) { c.v_scales.data = nullptr; }, "V scales are null",
          ErrorCode::invalid_argument);
  refused([](auto& c, auto&) { c.v_scales.token_stride = 1; }, "strides",
          ErrorCode::invalid_argument);
  refused([](auto&, auto& context) { context.backend = Backend::cuda; }, "no such operation",
          ErrorCode::unsupported);
}

}  // namespace
}  // namespace microscale
