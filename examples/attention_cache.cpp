// A paged NVFP4 cache of keys and values: a prompt of 100 tokens is appended, then one token after
// another, each attending to all before it. `build/example_attention_cache` prints the last one's
// first outputs, and what they are over the keys and values as they were.
#include <cmath>
#include <cstdio>
#include <vector>

#include "microscale/attention.hpp"

using namespace microscale;

int main() {
  constexpr std::int64_t q_heads = 8, kv_heads = 2, d = 128, prompt = 100, steps = 20;
  std::vector<float> q(q_heads * d), k((prompt + steps) * kv_heads * d), v(k.size()), o(q.size());
  for (std::size_t i = 0; i < q.size(); ++i) q[i] = 2 * std::sin(static_cast<float>(i * i % 997));
  for (std::size_t i = 0; i < k.size(); ++i) k[i] = std::sin(static_cast<float>(i * i % 4099));
  for (std::size_t i = 0; i < v.size(); ++i) v[i] = std::cos(static_cast<float>(i % 1031) * 0.01f);
  const auto tokens = [&](const std::vector<float>& rows, std::int64_t first, std::int64_t count) {
    return HeadsView{rows.data() + first * kv_heads * d, DType::f32, 1, count, kv_heads, d};
  };
  alignas(16) static std::uint8_t memory[4 * 9216];  // four pages: 2 heads x 32 tokens x 144 bytes
  KvCache cache = kv_cache_of_records({KvFormat::nvfp4, kv_heads, d, 32}, memory);
  const std::vector<std::int32_t> page_table{2, 0, 3, 1};  // in any order
  std::int32_t length = prompt;                            // read by every call
  cache.batch = 1;
  cache.page_table = page_table.data();
  cache.max_pages = 4;
  cache.lengths = &length;
  cache.k_global_scale = cache.v_global_scale = 1.0f / 2688;  // magnitudes up to 1

  append_kv({.cache = cache, .k = tokens(k, 0, prompt), .v = tokens(v, 0, prompt)});
  const HeadsView query{q.data(), DType::f32, 1, 1, q_heads, d};
  const MutableHeadsView output{o.data(), DType::f32, 1, 1, q_heads, d};
  while (length < prompt + steps) {
    const std::int64_t position = length++;
    append_kv({.cache = cache, .k = tokens(k, position, 1), .v = tokens(v, position, 1)});
    attention({.q = query, .cache = cache, .output = output, .causal = true});
  }
  std::printf("%.4f %.4f %.4f %.4f, ", o[0], o[1], o[2], o[3]);
  attention({.q = query, .k = tokens(k, 0, length), .v = tokens(v, 0, length), .output = output});
  std::printf("in FP32 %.4f %.4f %.4f %.4f\n", o[0], o[1], o[2], o[3]);
}
