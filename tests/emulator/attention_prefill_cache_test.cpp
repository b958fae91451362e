// Attention of many queries over caches in every format and layout, on the emulator.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/device/kernel_images.hpp"
#include "support/device_caches.hpp"
#include "support/executed_kernels.hpp"
#include "support/prefill_calls.hpp"

namespace microscale::emulator {
namespace {

using test::CacheLayout;
using test::OwnedCache;

struct CacheCall {
  KvFormat format = KvFormat::nvfp4;
  CacheLayout layout = CacheLayout::records;
  std::int64_t page = 32;
  std::vector<std::int32_t> lengths{150, 129};
  std::int64_t q_len = 70, d = 64;
  bool absent = true;  // pages behind what the lengths reach
  bool causal = true, sinks = false;
  std::int64_t window = 0;
  float softcap = 0;
};

/// A cache of random tokens, and one with magnitudes in place of its values.
::testing::AssertionResult reads_cache(const CacheCall& c) {
  constexpr std::int64_t kv_heads = 2, q_heads = 4;
  const std::vector<std::int32_t>& lengths = c.lengths;
  const std::int64_t page = c.page, q_len = c.q_len, d = c.d;
  const std::vector<float> sinks{0.5f, -1.0f, 2.0f, 0.0f};
  const auto batch = static_cast<std::int64_t>(lengths.size());
  const std::int64_t most = std::max(16, *std::max_element(lengths.begin(), lengths.end()));
  OwnedCache cache(c.format, c.layout, batch, kv_heads, d, page, most),
      magnitudes(c.format, c.layout, batch, kv_heads, d, page, most);
  const Heads q = test::random_heads(DType::bf16, batch, q_len, q_heads, d, 1),
              k = test::random_heads(DType::f32, batch, most, kv_heads, d, 2),
              v = test::random_heads(DType::f32, batch, most, kv_heads, d, 3);
  Heads positive = v;
  for (std::int64_t i = 0; i < batch * most * kv_heads * d; ++i)
    store_dense(std::fabs(load_dense(v.bytes.data(), DType::f32, i)), positive.bytes.data(),
                DType::f32, i);
  const auto fill = [&](OwnedCache& to, const Heads& values) {
    if (c.format == KvFormat::nvfp4) to.view.k_global_scale = 0.2f, to.view.v_global_scale = 0.3f;
    if (c.format == KvFormat::fp8) to.view.k_global_scale = 0.02f, to.view.v_global_scale = 0.01f;
    to.append(k, values, 0, most);
    to.lengths.assign(lengths.begin(), lengths.end());
  };
  fill(cache, v);
  fill(magnitudes, positive);
  const auto options = [&](const KvCache& view, PrefillResult& r) {
    AttentionOptions o{.q = q.view()};
    o.cache = view;
    o.output = r.o.mutable_view();
    o.log_sum_exp = r.lse.data();
    o.causal = c.causal;
    o.window = c.window;
    o.softcap = c.softcap;
    if (c.sinks) o.sinks = sinks.data();
    return o;
  };
  const auto empty = [&] {
    return PrefillResult{Heads(DType::f32, batch, q_len, q_heads, d),
                         std::vector<float>(static_cast<std::size_t>(batch * q_len * q_heads))};
  };
  PrefillResult want = empty(), weighted = empty(), got = empty();
  attention(options(cache.view, want), {.backend = Backend::reference});
  attention(options(magnitudes.view, weighted), {.backend = Backend::reference});
  cuda::Device& gpu = device();
  std::vector<std::int32_t> table = cache.table;
  if (c.absent)  // behind what the lengths reach
    for (std::int64_t s = 0; s < batch; ++s)
      for (std::int64_t e = kv_page::entries(lengths[static_cast<std::size_t>(s)], page);
           e < cache.view.max_pages; ++e)
        table[static_cast<std::size_t>(s * cache.view.max_pages + e)] = e % 2 ? -7 : 1 << 30;
  const test::DeviceCache there(gpu, cache, table);
  const DeviceBytes query(gpu, q.bytes), output(gpu, got.o.bytes), lse(gpu, bytes_of(got.lse)),
      logits(gpu, bytes_of(sinks));
  AttentionOptions o = options(there.view(), got);
  if (o.sinks) o.sinks = reinterpret_cast<const float*>(logits.data());
  HeadsView on_device = q.view();
  on_device.data = query.data();
  o.q = on_device;
  o.output.data = output.data();
  o.log_sum_exp = reinterpret_cast<float*>(lse.data());
  PrefillRun::run(gpu, o);
  got.o.bytes = output.to_host();
  gpu.copy_to_host(got.lse.data(), lse.data(), lse.size(), nullptr);
  return near(got, want, weighted, 0x1p-9);
}

TEST(AttentionPrefillCache, reads_every_format_and_layout) {
  if (cuda::kernel_images().empty())
    GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  for (const KvFormat format : test::kv_formats) {
    EXPECT_TRUE(reads_cache({.format = format,
                             .layout = CacheLayout::contiguous,
                             .page = 0,
                             .lengths = {150, 0, 31},
                             .q_len = 40,
                             .absent = false}));
    EXPECT_TRUE(reads_cache({.format = format}));
    for (const std::int64_t d : {96, 128, 160, 256})
      EXPECT_TRUE(reads_cache({.format = format, .lengths = {40, 67}, .q_len = 20, .d = d})) << d;
  }
  for (const auto& [layout, page] : {std::pair{CacheLayout::nhd, 16}, {CacheLayout::hnd, 64}})
    EXPECT_TRUE(reads_cache({.layout = layout, .page = page, .lengths = {140, 77}, .q_len = 65}));
  EXPECT_TRUE(executed_all(device(), "sm_90a", {"attention_expand_e4m3_"}));
}

TEST(AttentionPrefillCache, masks_caps_and_sinks) {
  if (cuda::kernel_images().empty())
    GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  for (const bool causal : {false, true})
    for (const std::int64_t window : {0, 50, 129})
      for (const float softcap : {0.0f, 4.0f})
        EXPECT_TRUE(reads_cache(
            {.causal = causal, .sinks = softcap > 0, .window = window, .softcap = softcap}))
            << causal << window;
}

}  // namespace
}  // namespace microscale::emulator
