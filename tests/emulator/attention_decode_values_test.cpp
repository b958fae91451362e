// The kernels that decode from a cache on numbers whose result is known without computing it.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>

#include "cuda/attention/decode/args.hpp"
#include "cuda/device/kernel_images.hpp"
#include "ops/attention_check.hpp"
#include "support/decode_calls.hpp"

namespace microscale::emulator {
namespace {

constexpr std::int64_t d = 64;

Heads filled(std::int64_t batch, std::int64_t tokens, std::int64_t heads, float value) {
  Heads h(DType::bf16, batch, tokens, heads, d);
  for (std::int64_t i = 0; i < batch * tokens * heads * d; ++i)
    store_dense(value, h.bytes.data(), h.dtype, i);
  return h;
}

class AttentionDecodeValues : public ::testing::TestWithParam<KvFormat> {
 protected:
  void SetUp() override {
    if (cuda::kernel_images().empty())
      GTEST_SKIP() << "this build carries no kernels: it was made without nvcc";
  }
};

TEST_P(AttentionDecodeValues, are_the_mean_of_equal_values_and_the_logarithm_of_how_many) {
  constexpr std::int64_t most = 130;
  OwnedCache cache(GetParam(), CacheLayout::records, most, 1, d, 16, most);
  const Heads k = test::random_heads(DType::bf16, most, most, 1, d, 1),
              v = filled(most, most, 1, 1.5f);  // exact in every format
  cache.append(k, v, 0, most);
  for (std::int64_t s = 0; s < most; ++s)
    cache.lengths[static_cast<std::size_t>(s)] = static_cast<std::int32_t>(s + 1);
  for (const int splits : {1, 3}) {
    const DecodeResult r =
        attend(cache, filled(most, 1, 4, 0.0f), [&](AttentionOptions& o) { o.splits = splits; });
    for (std::int64_t s = 0; s < most; ++s) {
      EXPECT_NEAR(r.sum(s, 0, 3), std::log(static_cast<double>(s + 1)), 2e-6) << s + 1;
      for (std::int64_t i = 0; i < d; ++i) EXPECT_NEAR(r.at(s, 0, 3, i), 1.5f, 1e-6) << s + 1;
    }
  }
}

TEST_P(AttentionDecodeValues, are_the_value_whose_key_is_looked_for) {
  OwnedCache cache(GetParam(), CacheLayout::hnd, 1, 1, d, 32, d);
  Heads k(DType::bf16, 1, d, 1, d), q(DType::bf16, 1, 1, d, d);
  const Heads v = test::random_heads(DType::bf16, 1, d, 1, d, 2);
  for (std::int64_t t = 0; t < d; ++t) k.set(0, t, 0, (t * 37 + 5) % d, 6.0f);
  for (std::int64_t h = 0; h < d; ++h) q.set(0, 0, h, (h * 37 + 5) % d, 40.0f);
  cache.append(k, v, 0, d);
  const DecodeResult r = attend(cache, q);
  // What a host reads of each token's value, alone.
  for (std::int64_t t = 0; t < d; ++t) {
    Heads one = filled(1, 1, 1, 0.0f);
    one.set(0, 0, 0, (t * 37 + 5) % d, 40.0f);
    const Heads want = on_a_host(cache, one);
    for (std::int64_t i = 0; i < d; ++i)
      EXPECT_NEAR(r.at(0, 0, t, i), want.at(0, 0, 0, i), 1e-3) << t << " " << i;
    EXPECT_NEAR(r.sum(0, 0, t), 240.0, 1e-3);
  }
}

// However many rows there are, and wherever their scales are multiplied in.
TEST_P(AttentionDecodeValues, are_small_ones_beside_large_ones) {
  constexpr std::int64_t tokens = 40;
  const float small =
      GetParam() == KvFormat::mxfp4 || GetParam() == KvFormat::mxfp8 ? 0x1p-19f : 0x1p-12f;
  OwnedCache cache(GetParam(), CacheLayout::hnd, 1, 1, d, 32, tokens);
  Heads k(DType::bf16, 1, tokens, 1, d), v = test::random_heads(DType::bf16, 1, tokens, 1, d, 2);
  for (std::int64_t t = 0; t < tokens; ++t) {
    k.set(0, t, 0, t, 6.0f);
    for (std::int64_t i = 0; i < d; ++i)
      v.set(0, t, 0, i, v.at(0, t, 0, i) * 64.0f * (t % 3 == 1 ? small : 1.0f));
  }
  cache.append(k, v, 0, tokens);
  for (const std::int64_t heads : {2, 4, 7, 16}) {
    Heads q(DType::bf16, 1, 1, heads, d);
    for (std::int64_t h = 0; h < heads; ++h) q.set(0, 0, h, 3 * h / 2 % 13 * 3 + 1, 40.0f);
    const DecodeResult r = attend(cache, q);
    const Heads want = on_a_host(cache, q);
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t i = 0; i < d; ++i) {
        const float w = want.at(0, 0, h, i);
        EXPECT_NEAR(r.at(0, 0, h, i), w, std::fabs(w) * 0x1p-9) << heads << " " << h << " " << i;
      }
  }
}

TEST_P(AttentionDecodeValues, are_nan_where_a_key_or_a_value_that_is_seen_is) {
  const auto made = [&](bool key) {
    auto cache = std::make_unique<OwnedCache>(GetParam(), CacheLayout::records, 2, 2, d, 16, 50);
    Heads k = test::random_heads(DType::bf16, 2, 50, 2, d, 1), v = k;
    (key ? k : v).set(0, 20, 1, 40, NAN);  // of the first sequence's second head
    cache->append(k, v, 0, 50);
    return cache;
  };
  const Heads q = test::random_heads(DType::bf16, 2, 1, 4, d, 3);
  for (const bool key : {true, false}) {
    const auto cache = made(key);
    const DecodeResult r = attend(*cache, q);
    for (std::int64_t b = 0; b < 2; ++b)
      for (std::int64_t h = 0; h < 4; ++h) {
        const bool hit = b == 0 && h >= 2;
        EXPECT_EQ(std::isnan(r.at(b, 0, h, 40)), hit) << b << " " << h;
        EXPECT_EQ(std::isnan(r.sum(b, 0, h)), hit && key) << b << " " << h;
        EXPECT_EQ(std::isnan(r.at(b, 0, h, 0)), hit && key) << b << " " << h;
      }
    // Behind the window it has no influence.
    const DecodeResult unseen = attend(*cache, q, [](AttentionOptions& o) { o.window = 29; });
    for (const float x : unseen.lse) EXPECT_TRUE(std::isfinite(x));
    for (std::int64_t i = 0; i < 2 * 4 * d; ++i)
      EXPECT_TRUE(std::isfinite(load_dense(unseen.o.bytes.data(), DType::f32, i)));
  }
}

TEST_P(AttentionDecodeValues, are_nan_for_a_query_that_is_not_finite) {
  OwnedCache cache(GetParam(), CacheLayout::records, 1, 1, d, 16, 20);
  const Heads k = test::random_heads(DType::bf16, 1, 20, 1, d, 1);
  cache.append(k, k, 0, 20);
  for (const float bad : {NAN, INFINITY}) {
    Heads q = test::random_heads(DType::bf16, 1, 1, 3, d, 2);
    q.set(0, 0, 1, 9, bad);
    const DecodeResult r = attend(cache, q);
    EXPECT_TRUE(std::isnan(r.sum(0, 0, 1)));
    EXPECT_TRUE(std::isnan(r.at(0, 0, 1, 5)));
    EXPECT_TRUE(std::isfinite(r.sum(0, 0, 0)) && std::isfinite(r.sum(0, 0, 2)));
    EXPECT_TRUE(std::isfinite(r.at(0, 0, 0, 5)) && std::isfinite(r.at(0, 0, 2, 5)));
  }
}

// A graph runs again with the ticket that it was captured with.
TEST_P(AttentionDecodeValues, forget_that_their_parts_were_there) {
  constexpr int splits = 3, kv_heads = 2, merged = 4;      // of two tokens and two heads
  const int rows = GetParam() == KvFormat::nvfp4 ? 4 : 8;  // of a part
  OwnedCache cache(GetParam(), CacheLayout::records, 2, kv_heads, d, 16, 300);
  const Heads k = test::random_heads(DType::bf16, 2, 300, kv_heads, d, 1),
              q = test::random_heads(DType::bf16, 1, 3, 4, d, 2);
  cache.append(k, k, 0, 300);
  cuda::Device& gpu = device();
  const test::DeviceCache there(gpu, cache);
  const std::vector<std::int32_t> firsts{0, 1, 3};  // the first sequence has half of the rows
  const DeviceBytes query(gpu, q.bytes), output(gpu, 3 * 4 * d * 4),
      offsets(gpu, test::device_bytes(firsts));
  HeadsView view = q.view();
  view.data = query.data();
  AttentionOptions o{.q = view};
  o.cache = there.view();
  o.output = {output.data(), DType::f32, 1, 3, 4, d};
  o.q_offsets = reinterpret_cast<const std::int32_t*>(offsets.data());
  o.sequences = 2, o.max_q_len = 2, o.splits = splits;
  const AttentionCall call = check_attention(o, true);
  const std::int64_t bytes = cuda::attention::workspace_bytes(gpu, call),
                     flags_at =
                         cuda::attention::decode_partial_floats(2 * kv_heads, splits, rows, d) * 4;
  ASSERT_EQ(bytes, flags_at + cuda::attention::decode_flags(2 * kv_heads, splits, merged) * 8);
  std::vector<std::uint8_t> results;
  for (const Schedule schedule : {LaunchOptions{}.schedule, Schedule::random}) {
    const DeviceBytes workspace(gpu,
                                std::vector<std::uint8_t>(static_cast<std::size_t>(bytes), 0xFF));
    emulator::device().options.schedule = schedule;
    cuda::attention::attend(gpu, call, {workspace.data(), static_cast<std::size_t>(bytes)},
                            nullptr);
    emulator::device().options.schedule = LaunchOptions{}.schedule;
    const std::vector<std::uint8_t> after = workspace.to_host();
    for (int item = 0; item < 2 * kv_heads; ++item)
      for (int flag = 0; flag < merged * splits; ++flag) {
        std::uint64_t value = 1;
        std::memcpy(&value, after.data() + flags_at + (item * merged * splits + flag) * 8, 8);
        EXPECT_EQ(value, item >= kv_heads || flag < 2 * splits ? 0 : ~std::uint64_t{0})
            << item << " " << flag;
      }
    if (results.empty()) results = output.to_host();
    EXPECT_EQ(output.to_host(), results);
  }
}

TEST_P(AttentionDecodeValues, are_zero_where_nothing_is_seen) {
  OwnedCache cache(GetParam(), CacheLayout::records, 2, 1, d, 16, 16);
  const Heads k = test::random_heads(DType::bf16, 2, 3, 1, d, 1);
  cache.append(k, k, 0, 3);
  cache.lengths[1] = 0;
  const Heads q = test::random_heads(DType::bf16, 2, 5, 2, d, 2);
  const DeviceBytes sinks(device(), test::device_bytes(std::vector<float>{0.5f, -2.0f}));
  for (const bool with_sinks : {false, true})
    for (const int splits : {1, 2}) {
      const DecodeResult r = attend(cache, q, [&](AttentionOptions& o) {
        o.splits = splits;
        if (with_sinks) o.sinks = reinterpret_cast<const float*>(sinks.data());
      });
      for (std::int64_t b = 0; b < 2; ++b)
        for (std::int64_t t = 0; t < 5; ++t)
          for (std::int64_t h = 0; h < 2; ++h) {
            if (b == 0 && t >= 2) {
              EXPECT_TRUE(std::isfinite(r.sum(b, t, h)));
              continue;
            }
            const float sink = h == 0 ? 0.5f : -2.0f;
            if (with_sinks) {
              EXPECT_NEAR(r.sum(b, t, h), sink, 1e-6);
            } else {
              EXPECT_EQ(r.sum(b, t, h), -INFINITY);
            }
            for (std::int64_t i = 0; i < d; ++i) EXPECT_EQ(r.at(b, t, h, i), 0.0f);
          }
    }
}

TEST_P(AttentionDecodeValues, are_those_of_copies_of_any_magnitude) {
  constexpr std::int64_t tokens = 60;
  struct Magnitude {
    int key, value;  // powers of two
  };
  for (const Magnitude m : {Magnitude{0, 0}, {90, 100}, {125, -100}, {-90, 20}}) {
    OwnedCache cache(GetParam(), CacheLayout::records, 1, 2, d, 16, tokens);
    cache.keep(10, 50);
    const auto random = [&](int power, std::int64_t many, std::int64_t heads, unsigned seed) {
      Heads h = test::random_heads(DType::bf16, 1, many, heads, d, seed);
      for (std::int64_t i = 0; i < many * heads * d; ++i)
        store_dense(std::ldexp(load_dense(h.bytes.data(), h.dtype, i), power), h.bytes.data(),
                    h.dtype, i);
      return h;
    };
    cache.append(random(m.key, tokens, 2, 1), random(m.value, tokens, 2, 2), 0, tokens);
    const Heads q = random(-3 - m.key, 1, 8, 3);
    Heads want(DType::f32, 1, 1, 8, d);
    std::vector<float> lse(8);
    AttentionOptions o{.q = q.view()};
    o.cache = cache.view;
    o.output = want.mutable_view();
    o.log_sum_exp = lse.data();
    o.scale = 1.0f;
    attention(o, {.backend = Backend::reference});
    for (const int splits : {1, 2}) {
      const DecodeResult r = attend(cache, q, [&](AttentionOptions& a) { a.splits = splits; });
      for (std::int64_t h = 0; h < 8; ++h) {
        EXPECT_NEAR(r.sum(0, 0, h), lse[static_cast<std::size_t>(h)], 2e-3) << m.key;
        for (std::int64_t i = 0; i < d; ++i)
          EXPECT_NEAR(std::ldexp(r.at(0, 0, h, i), -m.value),
                      std::ldexp(want.at(0, 0, h, i), -m.value), 4e-3)
              << m.value << " " << h << " " << i;
      }
    }
  }
}

TEST_P(AttentionDecodeValues, lose_no_bit_of_queries_and_probabilities_to_copies) {
  OwnedCache cache(GetParam(), CacheLayout::records, 2, 1, d, 16, 48);
  cache.keep(4, 44);
  Heads k = test::random_heads(DType::bf16, 2, 48, 1, d, 1), q(DType::f16, 2, 1, 4, d);
  for (std::int64_t i = 0; i < d; ++i) k.set(1, 0, 0, i, i == 7 ? 1.0f : 0.0f);
  const Heads random = test::random_heads(DType::f16, 2, 1, 4, d, 2);
  for (std::int64_t h = 0; h < 4; ++h) {
    for (std::int64_t i = 0; i < d; ++i) q.set(0, 0, h, i, random.at(0, 0, h, i) / 4);
    q.set(1, 0, h, 7, 1 + 0x1p-10f * static_cast<float>(h + 1));  // more bits than BF16 has
  }
  cache.append(k, filled(2, 48, 1, 1.5f), 0, 48);
  cache.lengths[1] = 1;
  const DecodeResult r = attend(cache, q);
  for (std::int64_t h = 0; h < 4; ++h) {
    EXPECT_FLOAT_EQ(r.sum(1, 0, h), 1 + 0x1p-10f * static_cast<float>(h + 1));
    for (std::int64_t i = 0; i < d; ++i) {
      EXPECT_NEAR(r.at(0, 0, h, i), 1.5f, 1e-6);  // products and weights have the same p
      EXPECT_EQ(r.at(1, 0, h, i), 1.5f);
    }
  }
}

TEST_P(AttentionDecodeValues, heed_copies_that_are_seen_alone) {
  constexpr std::int64_t tokens = 60, first = 10, recent = 30;
  constexpr std::uint16_t nan = 0x7FC0, infinity = 0xFF80;
  const Heads k = test::random_heads(DType::bf16, 1, tokens, 1, d, 1),
              q = test::random_heads(DType::bf16, 1, 4, 16, d, 2);  // four items, of a query each
  for (const std::uint16_t bad : {nan, infinity})
    for (const bool key : {true, false})
      for (const int splits : {1, 3}) {
        OwnedCache cache(GetParam(), CacheLayout::records, 1, 1, d, 16, tokens);
        cache.keep(first, recent);
        cache.append(k, k, 0, tokens);
        const auto spoil = [&](std::vector<std::uint16_t>& copies, std::int64_t at) {
          copies[static_cast<std::size_t>(at * d + 13)] = bad;
        };
        // Behind every query's window, and seen by the last query alone.
        for (std::int64_t n = 0; n < first; ++n) spoil(key ? cache.first_k : cache.first_v, n);
        spoil(key ? cache.recent_k : cache.recent_v, (tokens - 1) % recent);
        const DecodeResult r =
            attend(cache, q, [&](AttentionOptions& o) { o.window = 45, o.splits = splits; });
        for (std::int64_t t = 0; t < 4; ++t)
          for (std::int64_t h = 0; h < 16; ++h) {
            // An infinite key may as well be one of weight 0.
            if (key && bad == infinity && t == 3) continue;
            for (std::int64_t i = 0; i < d; ++i)
              EXPECT_EQ(std::isfinite(r.at(0, t, h, i)), t < 3 || (!key && i != 13))
                  << t << " " << h << " " << i;
            EXPECT_EQ(std::isfinite(r.sum(0, t, h)), t < 3 || !key) << t << " " << h;
          }
      }
}

INSTANTIATE_TEST_SUITE_P(Formats, AttentionDecodeValues, ::testing::ValuesIn(test::kv_formats),
                         kv_format_name);

}  // namespace
}  // namespace microscale::emulator
