// Attention of many queries over caches in every format and layout, on the emulator.
#include <gtest/gtest.h>

#include <algorithm>

#include "cuda/kernel_images.hpp"
#include "support/caches.hpp"
#include "support/prefill_calls.hpp"

namespace microscale::emulator {
namespace {

using test::CacheLayout;
using test::OwnedCache;

/// A cache of random tokens, and one with magnitudes in place of its values.
::testing::AssertionResult reads_cache(KvFormat format, CacheLayout layout, std::int64_t page,
                                       const std::vector<std::int32_t>& lengths, std::int64_t q_len,
                                       bool absent) {
  constexpr std::int64_t d = 64, kv_heads = 2, q_heads = 4;
  const auto batch = static_cast<std::int64_t>(lengths.size());
  const std::int64_t most = std::max(16, *std::max_element(lengths.begin(), lengths.end()));
  OwnedCache cache(format, layout, batch, kv_heads, d, page, most),
      magnitudes(format, layout, batch, kv_heads, d, page, most);
  const Heads q = test::random_heads(DType::bf16, batch, q_len, q_heads, d, 1),
              k = test::random_heads(DType::f32, batch, most, kv_heads, d, 2),
              v = test::random_heads(DType::f32, batch, most, kv_heads, d, 3);
  Heads positive = v;
  for (std::int64_t i = 0; i < batch * most * kv_heads * d; ++i)
    store_dense(std::fabs(load_dense(v.bytes.data(), DType::f32, i)), positive.bytes.data(),
                DType::f32, i);
  const auto fill = [&](OwnedCache& to, const Heads& values) {
    if (format == KvFormat::nvfp4) to.view.k_global_scale = 0.2f, to.view.v_global_scale = 0.3f;
    if (format == KvFormat::fp8) to.view.k_global_scale = 0.02f, to.view.v_global_scale = 0.01f;
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
    o.causal = true;
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
  if (absent)  // behind what the lengths reach
    for (std::int64_t s = 0; s < batch; ++s)
      for (std::int64_t e = kv_page::entries(lengths[static_cast<std::size_t>(s)], page);
           e < cache.view.max_pages; ++e)
        table[static_cast<std::size_t>(s * cache.view.max_pages + e)] = e % 2 ? -7 : 1 << 30;
  const DeviceBytes memory(gpu, bytes_of(cache.memory)), k_codes(gpu, bytes_of(cache.k_codes)),
      k_scales(gpu, bytes_of(cache.k_scales)), v_codes(gpu, bytes_of(cache.v_codes)),
      v_scales(gpu, bytes_of(cache.v_scales)), tables(gpu, bytes_of(table)),
      there(gpu, bytes_of(cache.lengths)), query(gpu, q.bytes), output(gpu, got.o.bytes),
      lse(gpu, bytes_of(got.lse)),
      globals(gpu,
              bytes_of(std::vector<float>{cache.view.k_global_scale, cache.view.v_global_scale}));
  KvCache view = cache.view;
  const auto move = [&](KvPart& part) {
    const std::pair<const std::vector<std::uint8_t>*, const DeviceBytes*> homes[] = {
        {&cache.memory, &memory},
        {&cache.k_codes, &k_codes},
        {&cache.k_scales, &k_scales},
        {&cache.v_codes, &v_codes},
        {&cache.v_scales, &v_scales}};
    for (const auto& [host, home] : homes)
      if (!host->empty() && part.data >= host->data() && part.data < host->data() + host->size()) {
        part.data = home->data() + (part.data - host->data());
        return;
      }
  };
  move(view.k_codes), move(view.k_scales), move(view.v_codes), move(view.v_scales);
  if (view.page_table) view.page_table = reinterpret_cast<const std::int32_t*>(tables.data());
  view.lengths = reinterpret_cast<const std::int32_t*>(there.data());
  view.device_global_scales = reinterpret_cast<const float*>(globals.data());
  AttentionOptions o = options(view, got);
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
  for (const KvFormat format : {KvFormat::nvfp4, KvFormat::mxfp4, KvFormat::mxfp8, KvFormat::fp8}) {
    EXPECT_TRUE(reads_cache(format, CacheLayout::contiguous, 0, {150, 0, 31}, 40, false));
    EXPECT_TRUE(reads_cache(format, CacheLayout::records, 32, {150, 129}, 70, true));
  }
  EXPECT_TRUE(reads_cache(KvFormat::nvfp4, CacheLayout::nhd, 16, {140, 77}, 65, true));
  EXPECT_TRUE(reads_cache(KvFormat::nvfp4, CacheLayout::hnd, 64, {140, 77}, 65, true));
}

}  // namespace
}  // namespace microscale::emulator
