// A call of attention over a cache on an emulated GPU, with a scale of 1, and on the
// reference.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "seam/kv_cache_view.hpp"
#include "cuda/attention/attention.hpp"
#include "ops/attention_check.hpp"
#include "support/device_caches.hpp"
#include "support/hopper_products.hpp"

namespace microscale::emulator {

using cuda::DeviceBytes;
using test::CacheLayout;
using test::Heads;
using test::OwnedCache;

struct DecodeResult {
  Heads o{DType::f32, 0, 0, 0, 0};
  std::vector<float> lse;
  float at(std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t i) const {
    return o.at(b, t, h, i);
  }
  float sum(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return lse[static_cast<std::size_t>((b * o.tokens + t) * o.heads + h)];
  }
};

/// The call on that GPU, in a workspace of its size.
inline void attend_on(cuda::Device& gpu, const AttentionOptions& options) {
  const AttentionCall call = check_attention(options, true);
  const std::int64_t bytes = cuda::attention::workspace_bytes(gpu, call);
  const DeviceBytes workspace(gpu, std::max<std::int64_t>(bytes, 1));
  cuda::attention::attend(gpu, call, {workspace.data(), static_cast<std::size_t>(bytes)}, nullptr);
}

/// `change` the options before the call; `table` in place of the cache's own.
inline DecodeResult attend(const OwnedCache& cache, const Heads& q,
                           const std::function<void(AttentionOptions&)>& change = {},
                           const std::vector<std::int32_t>& table = {},
                           cuda::Device& gpu = device()) {
  DecodeResult r{Heads(DType::f32, q.batch, q.tokens, q.heads, q.d),
                 std::vector<float>(static_cast<std::size_t>(q.batch * q.tokens * q.heads))};
  const test::DeviceCache there(gpu, cache, table);
  const DeviceBytes query(gpu, q.bytes), output(gpu, r.o.bytes),
      lse(gpu, test::device_bytes(r.lse));
  AttentionOptions o;
  HeadsView view = q.view();
  view.data = query.data();
  o.q = view;
  o.cache = there.view();
  o.output = r.o.mutable_view();
  o.output.data = output.data();
  o.log_sum_exp = reinterpret_cast<float*>(lse.data());
  o.scale = 1.0f;
  o.causal = true;
  if (change) change(o);
  attend_on(gpu, o);
  r.o.bytes = output.to_host();
  gpu.copy_to_host(r.lse.data(), lse.data(), lse.size(), nullptr);
  return r;
}

/// The result of the reference.
inline Heads on_a_host(const OwnedCache& cache, const Heads& q) {
  Heads result(DType::f32, q.batch, q.tokens, q.heads, q.d);
  AttentionOptions o{.q = q.view()};
  o.cache = cache.view;
  o.output = result.mutable_view();
  o.scale = 1.0f;
  attention(o, {.backend = Backend::reference});
  return result;
}

inline std::string kv_format_name(const ::testing::TestParamInfo<KvFormat>& format) {
  return name_of(format.param);
}

}  // namespace microscale::emulator
